"""Schedules, models, data and optimizers with a fault each, and files that can't be used at all: the fault is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dppipe.errors import UsageError
from dppipe.plugin_kit import checking
from dppipe.plugin_kit.checking import CheckedKind, check_file, check_folder
from dppipe.plugin_kit.checks import table

pytestmark = pytest.mark.sampled(3)

Check = Callable[[str], CheckedKind]

SCHEDULES = {
    "to_zero": (
        "def multiplier(self, progress): return 1 - progress",
        "at every progress",
        "at progress 1, got 0",
    ),
    "infinite": (
        "def multiplier(self, progress): return 1 / (1 - progress)",
        "at every progress",
        "ZeroDivisionError",
    ),
    "negative": (
        "def multiplier(self, progress): return 0.5 - progress",
        "at every progress",
        "expected a finite number > 0",
    ),
    "tensor": (
        "def multiplier(self, progress): return torch.tensor(1.0)",
        "at every progress",
        "plain number",
    ),
    "nothing": ("", "at every progress", "expected multiplier(progress) or relative(steps)"),
    "one_step": (
        "def relative(self, steps): return [1 / (steps - 1)] * steps",
        "runs of 1, 2",
        "ZeroDivisionError",
    ),
    "short": (
        "def relative(self, steps): return [1.0]",
        "runs of 1, 2",
        "expected 2 numbers for 2 steps, got 1",
    ),
    "constant": (
        "constant: ClassVar[bool] = True\n    def multiplier(self, progress): return 1 + progress",
        "says that it is constant",
        "got several",
    ),
    "random": (
        "def multiplier(self, progress): return 1 + random.random()",
        "equal calls",
        "no randomness",
    ),
    "adapts_by_itself": (
        "def multiplier(self, progress): return 1.0\n    def next_multiplier(self, history): return 1.0",
        "if it adapts",
        "Add adaptive: ClassVar[bool] = True",
    ),
    "adapts_not": (
        "adaptive: ClassVar[bool] = True",
        "if it adapts",
        "Add next_multiplier(history)",
    ),
    "adapts_to_zero": (
        "adaptive: ClassVar[bool] = True\n    def next_multiplier(self, history): return sum(history) or 1.0",
        "if it adapts",
        "expected a finite number > 0 after",
    ),
    "eats_history": (
        "adaptive: ClassVar[bool] = True\n    def next_multiplier(self, history): history.append(1.0); return 1.0",
        "if it adapts",
        "Work on a copy",
    ),
}

MODELS = {
    "batch_norm": (
        "nn.Sequential(nn.Flatten(), nn.BatchNorm1d(n), nn.Linear(n, outputs))",
        "no layer mixes",
        "BatchNorm1d at 1",
    ),
    "mixes": (
        "Lambda(lambda x: x - x.mean(0, keepdim=True))",
        "no layer mixes",
        "Something mixes examples",
    ),
    "remembers": ("Remembering(n, outputs)", "nothing is remembered", "got another seen"),
    "shape": (
        "nn.Sequential(nn.Flatten(), nn.Linear(n, outputs + 1))",
        "on several shapes",
        "expected outputs of shape (4, 3)",
    ),
    "raises": ("nn.Sequential(nn.Linear(12345, outputs))", "on several shapes", "RuntimeError"),
    "no_module": ("None", "on several shapes", "got NoneType"),
    "unused": ("Unused(n, outputs)", "on several shapes", "got spare.weight unused"),
    "looks": ("Looking(n, outputs)", "meta device", "item()"),
    "single": (
        "nn.Sequential(Squeezed(), nn.Linear(n, outputs))",
        "a batch of one",
        "expected outputs of shape",
    ),
    "draws": (
        "nn.Sequential(nn.Flatten(), Drawn(n, outputs))",
        "weights come from the seed",
        "Draw them with torch alone",
    ),
}
MODEL_HEAD = """\
import math, random
import torch
from torch import nn
from dppipe import Model

class Layer(nn.Module):
    def __init__(self, n, outputs):
        super().__init__()
        self.layer = nn.Linear(n, outputs)
    def forward(self, x): return self.layer(x.flatten(1))

class Lambda(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function, self.scale = function, nn.Parameter(torch.ones(3))
    def forward(self, x): return self.function(x).flatten(1)[:, :3] * self.scale

class Remembering(Layer):
    def __init__(self, n, outputs):
        super().__init__(n, outputs)
        self.register_buffer("seen", torch.zeros(1))
    def forward(self, x):
        if self.training: self.seen += x.mean()
        return super().forward(x)

class Unused(Layer):
    def __init__(self, n, outputs):
        super().__init__(n, outputs)
        self.spare = nn.Linear(2, 2)

class Looking(Layer):
    def forward(self, x): return super().forward(x) * (1 if x.numel() == 0 or x.sum().item() > 0 else 2)

class Squeezed(nn.Module):
    def forward(self, x): return x.flatten(1).squeeze(0)

class Drawn(nn.Linear):
    def reset_parameters(self):
        nn.init.constant_(self.weight, random.random())
        nn.init.zeros_(self.bias)

class Mine(Model, kind="mine"):
    '''Has a fault.'''
    def build(self, input_shape, outputs):
        n = math.prod(input_shape)
        return """

DATA = {
    "counts_wrong": (("return self.known_count(60)", "return 61"), "as many records", "got 48"),
    "counts_by_loading": (
        ("self.known_count(60)", "len(self.load())"),
        "no record is read",
        "got a call of it",
    ),
    "synthetic_loads": (
        ("# more", "def synthetic(self, n): return self.load()[:n]"),
        "no record is read",
        "to do without load()",
    ),
    "synthetic_shape": (
        ("# more", "def synthetic(self, n): return torch.zeros(n, 3), torch.zeros(n).long()"),
        "look like real ones",
        "got (3,)",
    ),
    "synthetic_is_real": (
        ("# more", "def synthetic(self, n): return TensorDataset(*self._records())[:n]"),
        "look like real ones",
        "got a record",
    ),
    "label": (("% 3", "% 4"), "labels are in range", "from 0 to 2, got one outside"),
    "label_type": ((".long()", ".int()"), "labels are in range", "torch.int32"),
    "input_shape": (("return (2,)", "return (3,)"), "labels are in range", "to have shape (3,)"),
    "inputs": (
        ("points = ", "points = torch.inf + "),
        "labels are in range",
        "expected finite inputs",
    ),
    "task": (('"multiclass"', '"sorting"'), "fit together", "got 'sorting'"),
    "order": (
        ("generator=torch.Generator().manual_seed(0)", "generator=None"),
        "the same records",
        "Draw nothing",
    ),
    "raises": (
        ("points = ", "raise ValueError('patient 17'); points = "),
        "as many records",
        "plugins/mine.py:20: ValueError",
    ),
}
DATA_TEXT = '''\
import torch
from torch.utils.data import TensorDataset
from dppipe import Data

class Mine(Data, kind="mine"):
    """Points."""
    @property
    def task(self): return "multiclass"
    @property
    def input_shape(self): return (2,)
    @property
    def outputs(self): return 3
    def count(self): return self.known_count(60)
    # more
    def load(self):
        return TensorDataset(*self._records())

    def _records(self):

        points = torch.randn(60, 2, generator=torch.Generator().manual_seed(0))
        return points, (points[:, 0].abs() * 10).long() % 3
'''

OPTIMIZERS = {
    "closure": ("return torch.optim.LBFGS(params)", "one gradient a step", "closure"),
    "reads_twice": (
        "list(params); return torch.optim.SGD(params, lr=0.1)",
        "takes a generator",
        "empty parameter list",
    ),
    "drops": (
        "return torch.optim.SGD(list(params)[:1], lr=0.1)",
        "takes a generator",
        "expected every parameter once",
    ),
    "no_optimizer": ("return None", "takes a generator", "got NoneType"),
    "frozen": (
        "return torch.optim.SGD(params, lr=0.0)",
        "one gradient a step",
        "expected the parameters to move",
    ),
    "forgets": (
        "return Forgetful(params, lr=0.1)",
        "a saved state goes on",
        "Keep what steps need",
    ),
}
OPTIMIZER_HEAD = """\
import torch
from dppipe import Optimizer

class Forgetful(torch.optim.SGD):
    speed = 1
    def step(self, closure=None):
        self.speed += 1
        for group in self.param_groups:
            group["lr"] = 0.1
            for p in group["params"]:
                if p.grad is not None: p.data.sub_(0.01 * self.speed * p.grad)

class Mine(Optimizer, kind="mine"):
    '''Has a fault.'''
    def build(self, params):
        """


def failed(checked: CheckedKind, words: str) -> str:
    found = [outcome for outcome in checked.outcomes if words in outcome.check]
    assert len(found) == 1, f"{words}: {[outcome.check for outcome in checked.outcomes]}"
    assert not found[0].ok, f"passed: {found[0].check}; failed: {checked.faults}"
    return found[0].remark


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules(name: str, check: Check) -> None:
    text, where, why = SCHEDULES[name]
    head = "import random, torch\nfrom typing import ClassVar\nfrom dppipe import NoiseSchedule\n"
    checked = check(
        f'{head}class Mine(NoiseSchedule, kind="mine"):\n    """Has a fault."""\n    {text}\n'
    )
    assert why in failed(checked, where)


@pytest.mark.parametrize("name", MODELS)
def test_models(name: str, check: Check) -> None:
    text, where, why = MODELS[name]
    assert why in failed(check(f"{MODEL_HEAD}{text}\n"), where)


@pytest.mark.parametrize("name", DATA)
def test_data(name: str, check: Check) -> None:
    (old, new), where, why = DATA[name]
    assert old in DATA_TEXT
    checked = check(DATA_TEXT.replace(old, new))
    assert why in failed(checked, where)
    assert "patient" not in str(checked)


def test_the_data_without_a_fault_passes(check: Check) -> None:
    assert not check(DATA_TEXT).faults


def test_counting_by_reading_everything_is_named(check: Check, here: Path) -> None:
    (here / "points.pt").write_bytes(bytes(400_000))
    text = DATA_TEXT.replace("import torch\n", "import torch\nfrom pathlib import Path\n", 1)
    text = text.replace(
        "self.known_count(60)", "self.known_count(60 + 0 * len(Path('points.pt').read_bytes()))"
    )
    text = text.replace(
        "\n\n        points = ", "\n        Path('points.pt').read_bytes()\n        points = "
    )
    if not Path("/proc/self/io").exists():
        pytest.skip("this system doesn't tell how much was read")
    assert "expected count() to read a header at most" in failed(check(text), "no record is read")


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name: str, check: Check) -> None:
    text, where, why = OPTIMIZERS[name]
    assert why in failed(check(f"{OPTIMIZER_HEAD}{text}\n"), where)


def test_learning_rate_schedules(check: Check) -> None:
    text = "from dppipe.optim.schedules.base import LRSchedule\nclass Mine(LRSchedule, kind='mine'):\n    'Has a fault.'\n"
    checked = check(f"{text}    def factor(self, progress): return 0.9 - progress\n")
    assert "charged and change nothing" in failed(checked, "every step of runs")
    assert check(f"{text}    def factor(self, progress): return 1 / (1 + progress)\n").ok


PLAIN = "from dppipe import Clipper, Field\nclass Mine(Clipper, kind='mine'):\n    '''Flat.'''\n    # more\n"
PLAIN += "    def factors(self, norms, bounds): return (bounds / norms).clamp(max=1)\n"


@pytest.mark.parametrize(
    ("old", "new", "where", "why"),
    [
        ("'''Flat.'''", "pass", "docstring", "expected a docstring"),
        ("# more", "model_config = {'frozen': False}", "frozen", "Leave model_config"),
        ("# more", "model_config = {'extra': 'allow'}", "frozen", "Leave model_config"),
        ("# more", "needed: int", "with its defaults", "expected a default or Field(examples=[...])"),
        ("# more", "odd: float = 'text'", "survive YAML", ""),
        ("# more", "odd: object = Field(default_factory=object)", "survive YAML", ""),
        ("# more", "odd: int = Field(1, gt=0, json_schema_extra={'maximum': 0})", "fit the JSON schema", "odd: 1 is greater than the maximum of 0"),
        ("# more", "odd: int = Field(1, alias='other', serialization_alias='third')", "fit the JSON schema", "'third' was unexpected"),
        ("kind='mine'", "kind='flat'", "name is free", "expected one clipper named 'flat', got 2"),
        ("kind='mine'", "kind=KIND", "defines a kind", "expected a class statement"),
        ("class Mine", "class Mine((", "defines a kind", "plugins/mine.py:2: SyntaxError"),
        ("class Mine", "1 / 0\nclass Mine", "it loads", "plugins/mine.py:2: the plugin can't be loaded: ZeroDivisionError"),
        ("class Mine", "raise SystemExit(3)\nclass Mine", "it loads", "SystemExit"),
    ],
)  # fmt: skip
def test_files_and_options(old: str, new: str, where: str, why: str, check: Check) -> None:
    assert why in failed(check(PLAIN.replace(old, new)), where)


def test_a_misfit_inside_a_block_is_named_by_its_place(check: Check) -> None:
    inner = "from dppipe.component import Options\nclass Inner(Options):\n"
    inner += "    size: int = Field(1, json_schema_extra={'maximum': 0})\n"
    text = PLAIN.replace("class Mine", f"{inner}class Mine")
    text = text.replace("# more", "inner: Inner | None = Inner()")
    assert "inner.size: 1 is greater than" in failed(check(text), "fit the JSON schema")


def test_required_options_take_their_example(check: Check) -> None:
    assert check(PLAIN.replace("# more", "needed: int = Field(examples=[3])")).ok


def test_samplers_and_accountants_are_refused(check: Check) -> None:
    text = "from dppipe.sampling.base import Sampler\nclass Mine(Sampler, kind='mine'):\n    '''Mine.'''\n"
    assert "Its claims can't be checked" in failed(check(text), "name is free")


def test_heavy_imports_are_remarked(check: Check) -> None:
    checked = check("import torch\n" + PLAIN)
    assert checked.ok
    assert any("it loads torch even where" in outcome.remark for outcome in checked.outcomes)


def test_what_cannot_be_pickled_is_named(here: Path) -> None:
    file = here / "plugins" / "mine.py"
    more = "_secret: object = PrivateAttr(default_factory=lambda: (lambda: 1))"
    file.write_text("from pydantic import PrivateAttr\n" + PLAIN.replace("# more", more))
    (checked,) = check_file(file)
    assert "pickle" in failed(checked, "pickles for worker").lower()


def test_a_new_check_is_one_function(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert checking.all_checks()  # so that the table is filled before it is put aside
    monkeypatch.setattr(table, "CHECKS", [])
    monkeypatch.setattr(checking, "CHECKS", table.CHECKS)

    @table.check_each("clipping")
    def bound_is_one(clipper: Any) -> table.Remark:
        """The bound is 1."""
        if clipper.max_grad_norm != 1:
            raise table.Fault(f"expected 1, got {clipper.max_grad_norm:g}.")
        return None

    (here / "plugins" / "mine.py").write_text(PLAIN)
    (checked,) = check_file(here / "plugins" / "mine.py")
    assert checked.faults == ["the bound is 1: expected 1, got 0.001. (with max_grad_norm: 0.001)"]


def test_a_folder_may_hold_files_without_kinds(here: Path) -> None:
    (here / "plugins" / "also.py").write_text("BASE = 1\n")
    (here / "plugins" / "_hidden.py").write_text("class (\n")
    with pytest.raises(UsageError, match="expected a folder with plugin files, got none"):
        check_folder()
    (here / "plugins" / "mine.py").write_text(
        "from dppipe import Clipper, Field\nfrom dppipe.spec.kinds.plugins.also import BASE\n"
        + PLAIN
    )
    (here / "plugins" / "torn.py").write_text("class (\n")
    assert [(Path(checked.file).name, checked.ok) for checked in check_folder()] == [
        ("mine.py", True),
        ("torn.py", False),
    ]


def test_every_kind_of_a_file_is_checked(here: Path) -> None:
    file = here / "plugins" / "two.py"
    file.write_text(PLAIN + PLAIN.replace("Mine", "Other").replace("'mine'", "'other'"))
    assert [(checked.block, checked.kind, checked.ok) for checked in check_file(file)] == [
        ("clipping", "mine", True),
        ("clipping", "other", True),
    ]
