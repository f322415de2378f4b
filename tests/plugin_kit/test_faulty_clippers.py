"""Clippers with a fault each: a check names it, and the guarantee holds all the same or the clipper is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from dppipe.cli.plugins import checked_text
from dppipe.clipping.base import Clipper
from dppipe.engine import clipped_sum
from dppipe.errors import UsageError
from dppipe.plugin_kit.checking import CheckedKind
from dppipe.spec.kinds.registry import Registry

pytestmark = pytest.mark.sampled(3)

Check = Callable[[str], CheckedKind]

HEAD = """\
import random, time
from typing import ClassVar
import torch
from pydantic import PrivateAttr
from dppipe import Clipper, Field
calls = 0
seen = []
def around():
    kept = []
    def remember(value): kept.append(value)
    return remember
note = around()
def noted(value): noted.last = value

class Mine(Clipper, kind="mine"):
    '''Has a fault.'''
    history: ClassVar[list] = []
    _count: int = PrivateAttr(0)
"""
FLAT = "return (bounds / norms).clamp(max=1)"


def clipper_text(body: str, *, signature: str = "self, norms, bounds") -> str:
    lines = "\n".join(f"        {line}" for line in body.splitlines())
    return f"{HEAD}\n    def factors({signature}):\n{lines}\n"


def body(line: str) -> str:
    return f"{line}\n{FLAT}"


LIES = {
    "lies": ("return torch.full_like(norms, 1e9)", "norms around the bound", "factor x norm exceeds the bound"),
    "negative": ("return -(bounds / norms).clamp(max=1)", "norms of 0", "which is negative"),
    "nan": ("return norms * float('nan')", "tiny norms", "no number"),
    "infinite": ("return bounds / norms", "norms of 0", "got inf at norm 0"),
    "overflows": ("return (bounds / norms).clamp(max=1) * norms.square() / norms.square()", "huge norms", "no number"),
    "boolean": ("return norms < bounds", "norms of 0", "torch.bool"),
    "mean": ("return (bounds / norms.mean(0)).clamp(max=1)", "nothing is averaged", "got mean over dimension 0"),
    "mean_dim": ("return (bounds / norms.mean(dim=0, keepdim=True)).clamp(max=1)", "nothing is averaged", "mean over"),
    "torch_mean": ("return (bounds / torch.mean(norms, axis=0)).clamp(max=1)", "nothing is averaged", "mean over dimension 0"),
    "median": ("return (bounds / norms.median(0).values).clamp(max=1)", "nothing is averaged", "median over dimension 0"),
    "norm": ("return (bounds / torch.linalg.vector_norm(norms, dim=0)).clamp(max=1)", "nothing is averaged", "vector_norm over"),
    "mean_of_all": ("return (bounds / norms.mean()).clamp(max=1)", "norms around the bound", "exceeds the bound"),
}  # fmt: skip
"""Wrong factors: the core holds them to the bound."""

REFUSED = {
    "scalar": ("return (bounds / norms).clamp(max=1).min()", "norms of 0", "got shape []"),
    "longer": ("return torch.cat([norms, norms])", "norms of 0", "shape [1], got shape [2]"),
}
"""Wrong shapes: the core refuses them."""

STATES = {
    "attribute": (
        body("object.__setattr__(self, 'count', getattr(self, 'count', 0) + 1)"),
        "self.count",
    ),
    "private": (body("self._count += 1"), "self._count"),
    "class_variable": (body("self.history.append(1)"), "Mine.history"),
    "class_attribute": (
        body("type(self).count = getattr(type(self), 'count', 0) + 1"),
        "Mine.count",
    ),
    "global_list": (body("seen.append(1)"), "the global seen"),
    "global_norms": (body("seen.append(norms)"), "the global seen"),
    "global_number": (body("global calls\ncalls += 1"), "the global calls"),
    "closure": (body("note(1)"), "kept around note"),
    "function": (body("noted(time.perf_counter())"), "an attribute of noted"),
    "options": (body("self.__dict__['max_grad_norm'] *= 2"), "self.max_grad_norm"),
}

OTHERS = {
    "assignment": (
        body("self.count = 1"),
        "equal calls",
        "plugins/mine.py:21: mine: expected a frozen component to stay",
    ),
    "randomness": (
        "return (bounds / norms).clamp(max=1) * random.random()",
        "equal calls",
        "Use no randomness",
    ),
    "torch_randomness": (
        "return (bounds / norms).clamp(max=1) * torch.rand(1)",
        "under vmap",
        "random",
    ),
    "looks": (body("norms.max().item()"), "under vmap", "item()"),
    "branches": (body("if norms.sum() > 1: return norms * 0"), "norms of 0", "data-dependent"),
    "elsewhere": (
        "return torch.minimum(bounds / norms, torch.ones(len(norms)))",
        "on the meta device",
        "meta",
    ),
    "in_place": (
        "return norms.div_(bounds).reciprocal_()",
        "norms and bounds are left",
        "in place",
    ),
    "raises": ("return bounds / self.nothing", "norms of 0", "plugins/mine.py:21"),
}


def failed(checked: CheckedKind, words: str) -> str:
    """Return why the check with these words failed."""
    found = [outcome for outcome in checked.outcomes if words in outcome.check]
    assert len(found) == 1, f"{words}: {[outcome.check for outcome in checked.outcomes]}"
    assert not found[0].ok, f"passed: {found[0].check}; failed: {checked.faults}"
    return found[0].remark


@pytest.mark.parametrize("name", [*LIES, *REFUSED])
def test_wrong_factors_are_named(name: str, check: Check) -> None:
    text, where, why = (LIES | REFUSED)[name]
    assert why in failed(check(clipper_text(text)), where)


@pytest.mark.parametrize("name", STATES)
def test_state_is_named_wherever_it_is_kept(name: str, check: Check) -> None:
    text, place = STATES[name]
    assert place in failed(check(clipper_text(text)), "keeps nothing")


def test_state_in_a_default_is_named(check: Check) -> None:
    text = clipper_text(body("seen.append(1)"), signature="self, norms, bounds, seen=[]")
    assert "a default of Mine.factors" in failed(check(text), "keeps nothing")


@pytest.mark.parametrize("name", OTHERS)
def test_other_faults_are_named(name: str, check: Check) -> None:
    text, where, why = OTHERS[name]
    assert why in failed(check(clipper_text(text)), where)


def test_a_method_that_is_missing_is_named(check: Check) -> None:
    assert (
        "mine: expected the kind to define factors(norms, bounds), got none. Write it."
        in failed(check(HEAD), "norms of 0")
    )


def test_what_was_said_is_not_said_again(check: Check) -> None:
    said = " ".join(" ".join(checked_text(check(clipper_text(body("self.count = 1"))))).split())
    assert said.count("expected a frozen component") == 1
    assert said.count(": the same") > 5


def test_wrong_groups_and_bounds_are_named(check: Check) -> None:
    text = clipper_text(FLAT)
    for more, why in (
        ("def groups(self, named_shapes): return {}", "one group for every trainable parameter"),
        ("def bounds(self, state): return (1.0, 1.0, 1.0)", "expected 1 bounds"),
        ("def bounds(self, state): return -1.0", "expected finite bounds > 0, got [-1.0]"),
        ("def bounds(self, state): return float('nan')", "expected finite bounds > 0"),
    ):
        assert why in failed(check(f"{text}\n    {more}\n"), "every parameter has a group")


ADAPTIVE = {
    "statistics": (
        "def statistics_std(self, size): return 1.0\n    def statistics(self, norms, bounds): return norms",
        "releases statistics",
        "from -1/2 to 1/2",
    ),
    "no_noise": (
        "def statistics_std(self, size): return 0.0\n    def statistics(self, norms, bounds): return 0 * norms",
        "releases statistics",
        "finite noise > 0",
    ),
    "mutates": (
        "def init_state(self, sizes): return {'b': 1.0}\n    def update(self, state, released): state['b'] = 2.0; return state",
        "has a state",
        "Make a new one",
    ),
    "unbounded": (
        "def init_state(self, sizes): return {'b': 1.0}\n    def bounds(self, state): return state['b']\n"
        "    def update(self, state, released): return {'b': state['b'] - 1}",
        "has a state",
        "expected finite bounds > 0",
    ),
    "no_plain_state": (
        "def init_state(self, sizes): return {'b': 1.0}\n    def update(self, state, released): return {'b': random.Random(1)}",
        "has a state",
        "",
    ),
    "slots": (
        "averages: ClassVar[bool] = True\n    def slots(self, indices, **options): return 0 * indices + len(indices)",
        "averages examples",
        "Use its index alone",
    ),
    "sensitivity": (
        "def sensitivity(self, bounds, relation): return 0.1",
        "sensitivity that it states",
        "expected a sensitivity of at least 1",
    ),
}


@pytest.mark.parametrize("name", ADAPTIVE)
def test_what_adapts_wrongly_is_named(name: str, check: Check) -> None:
    more, where, why = ADAPTIVE[name]
    assert why in failed(check(f"{clipper_text(FLAT)}\n    {more}\n"), where)


def test_a_fault_at_the_limit_of_an_option_names_the_option(check: Check) -> None:
    text = HEAD + "    hard: float = Field(0.5, ge=0, le=1)\n"
    text += "    def factors(self, norms, bounds): return bounds / norms.clamp(min=1e-3) / (1 - self.hard)\n"
    assert "(with hard: 1" in failed(check(text), "norms of 0")


def test_what_caches_its_options_is_no_state(check: Check) -> None:
    text = HEAD.replace("import random", "from functools import cached_property\nimport random")
    text += "    @cached_property\n    def double(self): return 2 * self.max_grad_norm\n"
    text += "    def factors(self, norms, bounds): return (bounds / norms).clamp(max=1) * self.double / self.double\n"
    assert check(text).ok, check(text).faults


def test_a_clipper_that_joins_its_groups_passes_with_a_remark(check: Check) -> None:
    checked = check(clipper_text("return (bounds / norms.norm()).clamp(max=1).expand_as(norms)"))
    assert checked.ok, checked.faults
    assert any(
        "follows the norms of the example's other groups" in outcome.remark
        for outcome in checked.outcomes
    )


def _moved(clipper: Clipper) -> float:
    """By how much a record of huge gradient moves the clipped sum of 50 records."""
    network = nn.Linear(3, 1, bias=False)
    batch = torch.cat([1e6 * torch.ones(1, 3), torch.eye(3).repeat(17, 1)[:49]])

    def loss(model: nn.Module, rows: torch.Tensor) -> torch.Tensor:
        return model(rows).squeeze(1)

    whole = clipped_sum(network, loss, batch, clipper).sums["weight"]
    return float((whole - clipped_sum(network, loss, batch[1:], clipper).sums["weight"]).norm())


def _plugin(text: str) -> Clipper:
    Path("plugins/mine.py").write_text(clipper_text(text))
    made = Registry("plugins").load("clipping", "mine")()
    assert isinstance(made, Clipper)
    return made


@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
@pytest.mark.parametrize("name", [*LIES, *STATES, "in_place"])
def test_the_bound_holds_for_a_clipper_that_is_wrong(name: str, here: Path) -> None:
    assert _moved(_plugin({**LIES, **STATES, **OTHERS}[name][0])) <= 1 + 1e-5


def test_the_bound_holds_for_a_clipper_that_shrinks_its_norms_in_place(here: Path) -> None:
    assert _moved(_plugin("norms.mul_(1e-9)\nreturn bounds / norms")) <= 1 + 1e-5


@pytest.mark.parametrize("name", REFUSED)
def test_factors_of_another_shape_are_refused(name: str, here: Path) -> None:
    with pytest.raises(UsageError, match="expected one factor for each of 1 groups"):
        _moved(_plugin(REFUSED[name][0]))
