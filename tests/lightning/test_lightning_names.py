"""Lightning's two import names: whatever works with `pytorch_lightning` works with `import lightning as L`."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from typer.testing import CliRunner

import dppipe
from dppipe.cli.app import app
from dppipe.data.synthetic import Synthetic
from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.lightning.module import SpecModule
from dppipe.lightning.names.namespaces import every_name, loaded_names
from dppipe.lightning.objectives import Objective
from dppipe.noise import Constant
from dppipe.optim import Sgd
from dppipe.privacy.accountants.rdp import Rdp
from dppipe.runs.record import RunRecord
from dppipe.sampling import Poisson

L = pytest.importorskip(
    "lightning", reason="the package `lightning` isn't installed: pip install dppipe[dev]"
)
import pytorch_lightning as pl  # noqa: E402

MODULES = {"lightning": L, "pytorch_lightning": pl}

NETS = '''
import {library} as L
import torch
from torch import nn
from torch.nn import functional as F


class Net(L.LightningModule):
    """Its training step flips the labels, so a run that doesn't call it learns something else."""

    def __init__(self, outputs):
        super().__init__()
        self.layer = nn.Linear(8, outputs)

    def forward(self, x):
        return self.layer(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        return F.cross_entropy(self(x), 2 - y)

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.log("val_accuracy", (self(x).argmax(1) == 2 - y).float().mean())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.5)


class Lazy(Net):
    def __init__(self):
        super().__init__(3)
        self.layer = nn.Sequential(nn.LazyLinear(4), nn.Linear(4, 3))


class Duck(nn.Linear):
    """Not a LightningModule, though it has a training step."""

    def __init__(self):
        super().__init__(8, 3)

    def training_step(self, batch, batch_idx):
        raise RuntimeError("never called")
'''


@pytest.fixture
def nets(run, tmp_path, monkeypatch):
    """The small spec without its optimizer block, and modules of both names, in files that it can name."""
    for name in MODULES:
        (tmp_path / f"{name}_nets.py").write_text(NETS.format(library=name))
    (tmp_path / "spec.yaml").write_text(
        (tmp_path / "spec.yaml").read_text().replace("optimizer:", "# optimizer:")
    )
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in MODULES:
        sys.modules.pop(f"{name}_nets", None)


def net(library, name="Net"):
    return f"model={{class_path: {library}_nets.{name}}}"


def mine(library):
    """Make an ordinary module of one import name."""

    class Mine(library.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(5, 3)

        def training_step(self, batch, batch_idx):
            x, y = batch
            return nn.functional.cross_entropy(self.layer(x), y)

        def validation_step(self, batch, batch_idx):
            x, y = batch
            self.log("val_loss", nn.functional.cross_entropy(self.layer(x), y))

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    torch.manual_seed(3)
    return Mine()


def private(tmp_path, **changes):
    given = {
        "sampler": Poisson(sample_rate=0.05, physical_batch_size=4),
        "noise": Constant(noise_multiplier=1.0),
        "accountant": Rdp(),
        "budget": dppipe.Budget(epsilon=4.0, delta=1e-5),
        "run_dir": tmp_path / "run",
    }
    return dppipe.DPCallback(**given | changes)


def trainer(library, *callbacks, **changes):
    quiet = {
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    given = (
        callbacks[0] if len(callbacks) == 1 else list(callbacks)
    )  # a Trainer takes a single one only if it is its own kind
    return library.Trainer(max_steps=6, accelerator="cpu", callbacks=given, **quiet | changes)


@pytest.fixture
def dataset():
    generator = torch.Generator().manual_seed(0)
    return TensorDataset(
        torch.randn(200, 5, generator=generator), torch.randint(3, (200,), generator=generator)
    )


def test_the_callback_trains_the_same_model_in_trainers_of_both_names(tmp_path, dataset):
    weights = []
    for name, library in MODULES.items():
        callback, module = (
            private(tmp_path, run_dir=tmp_path / name, reproducible_seed=5),
            mine(library),
        )
        trainer(library, callback).fit(
            module, callback.loader(dataset), DataLoader(dataset, batch_size=50)
        )
        assert isinstance(callback, dppipe.DPCallback)
        assert (
            callback.outcome.steps
            == len((tmp_path / name / "ledger.jsonl").read_text().splitlines())
            == 6
        )
        assert set(callback.outcome.metrics) == {"nonprivate/val/loss"}
        weights.append(module.layer.weight.detach())
    assert torch.equal(*weights)


@pytest.mark.parametrize("name", MODULES)
def test_unsafe_callbacks_of_either_name_are_refused(name, tmp_path, dataset):
    library = MODULES[name]
    library = library.pytorch if name == "lightning" else library
    for unsafe in (
        library.callbacks.EarlyStopping("val_loss"),
        library.callbacks.GradientAccumulationScheduler({1: 2}),
    ):
        callback = private(tmp_path)
        with pytest.raises(PrivacyRefusal, match=type(unsafe).__name__):
            trainer(library, callback, unsafe).fit(
                mine(library), callback.loader(dataset), DataLoader(dataset)
            )
    assert not (tmp_path / "run").exists()


def test_a_strategy_settles_on_the_import_name_of_its_trainer():
    for library, other in ((L.pytorch, pl), (pl, L.pytorch)):
        strategy = trainer(library, strategy=dppipe.PrivateDDP(), devices=1).strategy
        assert isinstance(strategy, dppipe.PrivateDDP)
        assert isinstance(strategy, library.strategies.DDPStrategy)
        assert not isinstance(strategy, other.strategies.DDPStrategy)


def test_dppipes_own_callbacks_strategies_and_modules_can_be_copied_and_pickled(tmp_path):
    module = SpecModule(
        nn.Linear(2, 3), objective=Objective("multiclass", 3), optimizer=Sgd(lr=0.1), steps=1
    )
    for thing in (private(tmp_path), dppipe.PrivateDDP(), module):
        for made in (copy.deepcopy(thing), pickle.loads(pickle.dumps(thing))):
            assert type(made) is type(thing)
            assert vars(made).keys() == vars(thing).keys()


def test_a_users_own_subclass_of_the_callback_is_a_callback_of_both_names():
    class Mine(dppipe.DPCallback):
        pass

    made = Mine(sampler=Poisson(sample_rate=0.05), budget=None)
    assert isinstance(made, Mine)
    assert isinstance(made, pl.Callback)
    assert isinstance(made, L.Callback)
    assert made.state_key.endswith("Mine")


@pytest.mark.parametrize("name", MODULES)
def test_a_module_named_by_class_path_is_run_by_its_own_training_step(name, nets, run):
    done = run(net(name), "train.steps=60", "budget.epsilon=100")
    assert done.exit_code == 0, done.output
    assert (
        done.summary["metrics"]["val/accuracy"] > 0.6
    )  # of flipped labels; a third is what guessing gives
    model = dppipe.load_model(done.path)
    assert isinstance(model, MODULES[name].LightningModule)
    assert set(model.state_dict()) == set(done.weights()) == {"layer.weight", "layer.bias"}
    assert CliRunner().invoke(app, ["evaluate", str(done.path)]).exit_code == 0


def test_an_interrupted_run_of_a_lightning_module_can_be_resumed(nets, run, monkeypatch):
    finish = RunRecord.step

    def then_signal(record, **facts):
        finish(record, **facts)
        if record.ledger.rows == 4:
            os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(RunRecord, "step", then_signal)
        done = run(net("lightning"))
    assert done.exit_code == 143, done.output
    assert done.summary["status"] == "interrupted"
    again = CliRunner().invoke(app, ["resume", str(done.path)])
    assert again.exit_code == 0, again.output
    assert done.summary["steps"] == done.summary["charged"] == len(done.rows) == 10


@pytest.mark.parametrize("command", ["run", "doctor"])
def test_what_would_not_train_as_its_author_wrote_is_an_error_before_a_record_is_read(
    command, nets, monkeypatch
):
    monkeypatch.setattr(Synthetic, "load", lambda self: 1 / 0)
    optimizer = "optimizer={kind: sgd, lr: 0.5}"
    cases = [
        ([net("lightning"), optimizer], f"--set {optimizer}: optimizer: expected none beside Net"),
        (
            [net("pytorch_lightning"), optimizer],
            f"--set {optimizer}: optimizer: expected none beside Net",
        ),
        (
            [net("lightning", "Duck"), optimizer],
            "model.class_path: expected a LightningModule, or a network without",
        ),
        (
            [net("lightning", "Lazy")],
            "model: expected layers whose sizes are known, got LazyLinear at 'layer.0'",
        ),
    ]
    for changes, message in cases:
        words = [command, "spec.yaml", *(["--run-dir", "made"] if command == "run" else [])]
        ended = CliRunner().invoke(
            app, [*words, *(word for change in changes for word in ("--set", change))]
        )
        assert ended.exit_code == 2, ended.output
        assert message in " ".join(ended.stderr.split())
        assert not (nets / "made").exists()


def test_layers_without_sizes_are_an_error_before_a_users_own_trainer_plans(tmp_path, dataset):
    for library in MODULES.values():
        callback, module = private(tmp_path), mine(library)
        module.layer = nn.LazyLinear(3)
        with pytest.raises(UsageError, match=r"got LazyLinear at 'layer'.*module\(torch\.zeros"):
            trainer(library, callback).fit(module, callback.loader(dataset))
        assert callback.plan is None
    assert not (tmp_path / "run").exists()


ONE_NAME = """
import sys
from typer.testing import CliRunner
from dppipe.cli.app import app
for words in (["run", "spec.yaml", "--run-dir", "alone"], ["doctor", "spec.yaml"]):
    ended = CliRunner().invoke(app, [*words, "--set", "model={class_path: lightning_nets.Net}"])
    assert ended.exit_code == 0, ended.output
    assert "GPU available" not in ended.output, ended.output
print({"pytorch_lightning", "lightning_fabric", "lightning"} & set(sys.modules))
"""


def test_a_run_never_loads_the_import_name_that_its_module_does_not_use_and_keeps_lightning_quiet(
    nets,
):
    shown = subprocess.run(
        [sys.executable, "-c", ONE_NAME], capture_output=True, text=True, timeout=120
    )
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.splitlines()[-1] == "{'lightning'}"


def test_making_a_callback_loads_only_what_nobody_has_chosen(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "lightning.pytorch")
    assert type(private(tmp_path)).joined_names == ("pytorch_lightning",)
    assert "lightning.pytorch" not in sys.modules
    monkeypatch.delitem(sys.modules, "pytorch_lightning")
    monkeypatch.setattr(
        "importlib.import_module",
        lambda name: sys.modules.setdefault(name, MODULES.get(name, L.pytorch)),
    )
    assert loaded_names() == ()
    assert every_name() == ("pytorch_lightning", "lightning.pytorch")


FITTING = """
import sys

import pytorch_lightning  # some other library may load it; the Trainer's own name decides
import torch
import lightning as L
from torch.utils.data import TensorDataset

sys.path.insert(0, ".")
import dppipe
from dppipe.noise import Constant
from dppipe.privacy.accountants.rdp import Rdp
from dppipe.sampling import Poisson
from lightning_nets import Net

torch.manual_seed(0)
dataset = TensorDataset(torch.randn(200, 8), torch.randint(3, (200,)))
callback = dppipe.DPCallback(
    sampler=Poisson(sample_rate=0.1),
    noise=Constant(noise_multiplier=1.0),
    accountant=Rdp(),
    budget=dppipe.Budget(epsilon=9.0, delta=1e-5),
    run_dir=run_dir,
    reproducible_seed=5,
)
quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
trainer = L.Trainer(max_steps=5, accelerator="cpu", callbacks=[callback], **quiet, **devices)
trainer.fit(Net(3), callback.loader(dataset))
"""
SEVERAL = """
import dppipe, torch
run_dir, devices = "two", {"devices": 2, "strategy": dppipe.PrivateDDP()}
%s
assert trainer.world_size == 2
torch.distributed.destroy_process_group()
"""


@pytest.mark.slow
def test_two_processes_of_a_lightning_trainer_give_the_model_of_one(nets):
    exec(FITTING, {"run_dir": "one", "devices": {"devices": 1}})
    (nets / "two.py").write_text(SEVERAL % FITTING)
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    shown = subprocess.run(
        [sys.executable, "two.py"], capture_output=True, text=True, timeout=180, env=environment
    )
    assert shown.returncode == 0, shown.stderr
    one, two = (
        torch.load(nets / name / "checkpoints" / "final.ckpt", weights_only=True)
        for name in ("one", "two")
    )
    torch.testing.assert_close(one, two, rtol=0, atol=1e-5)
    assert len((nets / "two" / "ledger.jsonl").read_text().splitlines()) == 5
