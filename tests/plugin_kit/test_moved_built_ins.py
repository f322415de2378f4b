"""Built-in kinds are written as plugins are: moved to `plugins/` under another name, each works and passes every check."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

import dppipe
from dppipe.cli.app import app
from dppipe.plugin_kit.checking import CheckedKind
from dppipe.runs.verify import verify_ledger
from dppipe.spec.kinds.families import FAMILIES
from dppipe.spec.kinds.registry import built_in_kinds, load_built_in

Check = Callable[[str], CheckedKind]

PACKAGE = Path(dppipe.__file__).parent
QUICK = {
    ("clipping", "adaptive"),
    ("clipping", "flat"),
    ("clipping", "layerwise"),
    ("noise", "linear"),
    ("schedule", "cosine"),
}
"""One kind for each way in which a plugin is checked; the others are slow tests."""


def _moves(block: str) -> list[tuple[str, str]]:
    family = FAMILIES[block]
    kinds = [(kind, load_built_in(family, kind)) for kind in built_in_kinds(family)]
    return [
        (block, kind)
        for kind, cls in kinds
        if all(f.examples or not f.is_required() for f in cls.model_fields.values())
    ]


MOVES = [
    pytest.param(block, kind, marks=() if (block, kind) in QUICK else pytest.mark.slow)
    for block, family in FAMILIES.items()
    if family.takes_plugins
    for block, kind in _moves(block)
]


@pytest.mark.parametrize(("block", "kind"), MOVES)
def test_a_built_in_kind_passes_as_a_plugin(block: str, kind: str, check: Check) -> None:
    file = PACKAGE.joinpath(*FAMILIES[block].package.split(".")[1:], f"{kind}.py")
    checked = check(file.read_text().replace(f'kind="{kind}"', f'kind="moved_{kind}"'))
    assert (checked.block, checked.kind) == (block, f"moved_{kind}")
    assert not checked.faults


CLIPPERS = {kind: f"{{kind: moved_{kind}}}" for kind in built_in_kinds(FAMILIES["clipping"])} | {
    "grouped": '{kind: moved_grouped, max_grad_norms: {"*.bias": 0.1, "*": 1.0}}',
    "jl": "{kind: moved_jl, projections: 60, tolerance: 0.6, delta: 1.0e-6}",
}
SPEC = """
version: 1
name: moved
data:      {kind: synthetic, size: 500, features: 4, classes: 3, holdout: public}
model:     {kind: mlp, hidden: [4]}
optimizer: {kind: sgd, lr: 0.5}
sampler:   {kind: poisson, expected_batch_size: 50}
clipping:  CLIPPING
noise:     {kind: constant, noise_multiplier: 2.0}
accountant: rdp
budget:    {epsilon: 3.0, delta: 1.0e-5}
train:     {steps: 3}
"""


@pytest.mark.parametrize("kind", CLIPPERS)
def test_a_built_in_clipper_trains_as_a_plugin(kind: str, here: Path) -> None:
    text = (
        (PACKAGE / "clipping" / f"{kind}.py")
        .read_text()
        .replace(f'kind="{kind}"', f'kind="moved_{kind}"')
    )
    (here / "plugins" / "moved.py").write_text(text)
    (here / "spec.yaml").write_text(SPEC.replace("CLIPPING", CLIPPERS[kind]))
    result = CliRunner().invoke(app, ["run", "spec.yaml", "--run-dir", "run"])
    assert result.exit_code == 0, result.output
    assert verify_ledger(here / "run").intact
    assert list(json.loads((here / "run" / "plan.json").read_text())["plugins"]) == [
        "plugins/moved.py"
    ]
