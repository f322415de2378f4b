"""`physical_batch_size: auto` in a Trainer: found on made-up records, from public numbers, and without a trace in the result."""

from __future__ import annotations

import json

import pytest
import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import Dataset

import dppipe
from dppipe.clipping import Flat, Jl, Microbatch
from dppipe.engine import memory
from dppipe.learners.ranks import Ranks
from dppipe.learners.records.loader import PrivateLoader
from dppipe.learners.records.physical_batch_size import BASELINE_SIZE, likely_records
from dppipe.learners.records.unit_index import UserIndex
from dppipe.noise import Constant
from dppipe.planning.privacy_plan import PrivateParts, plan_privacy
from dppipe.privacy.accountants.rdp import Rdp
from dppipe.privacy.budget import Budget
from dppipe.sampling import Poisson, User

SEEN = []
"""What went through a module: it is kept here, since what a step writes on its module is undone."""


class Watched(Dataset):
    """Records of a given width that notes which of them are read."""

    def __init__(self, *, width=4, records=300):
        self.width, self.records, self.read = width, records, []
        self.users = [index // 3 for index in range(records)]

    def __len__(self):
        return self.records

    def __getitem__(self, index):
        self.read.append(index)
        return torch.full((self.width,), float(index)), index % 2


class Ordinary(pl.LightningModule):
    """A module with a mean loss, which is evaluated one example at a time."""

    def __init__(self, width=4, hidden=8):
        super().__init__()
        self.network = nn.Sequential(
            nn.Linear(width, hidden), nn.Dropout(), nn.ReLU(), nn.Linear(hidden, 2)
        )

    def training_step(self, batch, batch_idx):
        return F.cross_entropy(self.network(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Wide(Ordinary):
    """A module whose memory is that of its inputs and of one hidden layer."""

    def per_sample_loss(self, batch):
        SEEN.append(batch[0].detach().clone())
        return F.cross_entropy(self.network(batch[0]), batch[1], reduction="none")


def made_up(width):
    return lambda count: (
        -torch.rand(count, width) - 1,
        torch.arange(count) % 2,
    )  # no record is negative


def fit(tmp_path, module, dataset, *, size="auto", seed=None, steps=2, **changes):
    given = {
        "sampler": Poisson(sample_rate=0.5, physical_batch_size=size),
        "clipping": Flat(),
        "noise": Constant(noise_multiplier=1.0),
        "accountant": Rdp(),
        "budget": Budget(epsilon=1e5, delta=1e-5),
    } | changes
    callback = dppipe.DPCallback(run_dir=tmp_path / "run", reproducible_seed=seed, **given)
    trainer = pl.Trainer(
        max_steps=steps, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, callbacks=[callback],
    )  # fmt: skip
    trainer.fit(module, callback.loader(dataset, synthetic=made_up(dataset.width)))
    return callback


def test_the_search_sees_made_up_records_only(tmp_path, monkeypatch):
    dataset, module, read_after = Watched(), Wide(), []
    SEEN.clear()
    search = memory.step_bytes
    monkeypatch.setattr(
        memory,
        "step_bytes",
        lambda *args, **options: (search(*args, **options), read_after.append(list(dataset.read)))[
            0
        ],
    )
    fit(tmp_path, module, dataset)
    assert read_after == [[], [], []]
    assert [bool((batch < 0).all()) for batch in SEEN] == sorted(
        [bool((batch < 0).all()) for batch in SEEN], reverse=True
    )
    assert bool((SEEN[0] < 0).all())
    assert bool((SEEN[-1] >= 0).all())
    assert dataset.read


def test_large_rows_go_through_in_smaller_pieces(tmp_path):
    sizes = []
    for width in (4, 300_000):
        (tmp_path / str(width)).mkdir()
        callback = fit(
            tmp_path / str(width), Wide(width), Watched(width=width, records=100), steps=1
        )
        sizes.append(callback.outcome.physical_batch_size)
        assert (
            json.loads((tmp_path / str(width) / "run" / "summary.json").read_text())[
                "physical_batch_size"
            ]
            == sizes[-1]
        )
    assert sizes[0] == callback.plan.largest_likely_batch
    assert 16 <= sizes[1] < sizes[0]


def test_auto_gives_the_very_weights_that_the_size_it_finds_gives(tmp_path):
    """Dropout and all: the search leaves the generator of the forward pass as it was."""
    sizes, weights = ["auto"], []
    for run in ("first", "second"):
        (tmp_path / run).mkdir()
        torch.manual_seed(3)
        module = Wide(width=3000)
        callback = fit(
            tmp_path / run, module, Watched(width=3000, records=9000), size=sizes[-1], seed=5
        )
        sizes.append(callback.outcome.physical_batch_size)
        weights.append(
            torch.cat([parameter.detach().flatten() for parameter in module.parameters()])
        )
    assert 16 < sizes[1] < 4500
    assert torch.equal(*weights)


def test_a_reproducible_run_does_not_follow_the_memory_that_is_free(tmp_path, monkeypatch):
    weights, sizes = [], {None: [], 5: []}
    for left in (1e5, 1e12):
        monkeypatch.setattr(memory, "memory_left", lambda device, left=left: left)
        for seed, found in sizes.items():
            path = tmp_path / f"{left}-{seed}"
            path.mkdir()
            torch.manual_seed(3)
            module = Wide(width=500)
            found.append(
                fit(path, module, Watched(width=500), seed=seed).outcome.physical_batch_size
            )
            if seed:
                weights.append(
                    torch.cat([parameter.detach().flatten() for parameter in module.parameters()])
                )
    assert sizes[5][0] == sizes[5][1]
    assert sizes[None][0] < sizes[None][1]
    assert torch.equal(*weights)


@pytest.mark.parametrize(
    "changes",
    [
        {"clipping": Microbatch(size=3)},
        {"clipping": Jl(projections=300, delta=1e-6)},
        {"sampler": User(sample_rate=0.5, max_records_per_user=2)},
    ],
    ids=["microbatch", "jl", "user"],
)
def test_auto_works_with_every_way_of_clipping(tmp_path, changes):
    assert fit(tmp_path, Wide(), Watched(), steps=1, **changes).outcome.physical_batch_size > 16


def test_a_step_that_is_evaluated_one_example_at_a_time_has_its_memory_measured_too(tmp_path):
    size = fit(
        tmp_path, Ordinary(width=20_000, hidden=50), Watched(width=20_000), steps=1
    ).outcome.physical_batch_size
    assert size == memory.HOST_ROWS[0]  # 4 MB for each example's gradient


def test_without_a_budget_nothing_is_searched(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "step_bytes", None)
    assert (
        fit(tmp_path, Wide(), Watched(), steps=1, budget=None).outcome.physical_batch_size
        == BASELINE_SIZE
    )


def test_the_limit_is_a_batch_that_hardly_any_step_exceeds_and_follows_from_public_numbers():
    def limit(sampler, *, relation="zero_out", records=10_000, world=1, users=None):
        parts = PrivateParts(
            sampler,
            Flat(),
            Constant(noise_multiplier=1.0),
            Rdp(),
            Budget(epsilon=1e3, delta=1e-6, relation=relation),
        )
        plan = plan_privacy(
            parts, name="t", records=records if users is None else users.count, steps=2
        )
        loader = PrivateLoader(Watched(records=records), sampler=sampler, index=users)
        loader.ranks = Ranks(0, world)
        return likely_records(plan, loader)

    assert 100 < limit(Poisson(sample_rate=0.01)) < 200
    assert limit(Poisson(sample_rate=0.01), world=2) == -(-limit(Poisson(sample_rate=0.01)) // 2)
    secret = Poisson(sample_rate=0.01, expected_batch_size=100)
    assert (
        100
        < limit(secret, relation="add_remove", records=10_000)
        == limit(secret, relation="add_remove", records=9_000)
        < 200
    )
    users = UserIndex(torch.arange(10_000).numpy() // 5, at_most=4)
    assert limit(User(sample_rate=0.05, max_records_per_user=4), users=users) > 4 * 100
