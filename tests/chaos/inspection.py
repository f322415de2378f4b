"""What is promised of a run directory after any death, and when the run is done; read from its files and the release counts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import dp_accounting
import torch
import yaml
from deaths import Death
from dp_accounting.rdp import RdpAccountant
from lives import End
from typer.testing import CliRunner

from dppipe.cli.app import app

EXPECTED_CODES = {
    "": set(),
    "kill": {-9},
    "term": {-15, 143},
    "interrupt": {130},
    "term-kill": {-9, -15, 143},
    "interrupt-twice": {130},
    "full-disk": {1},
    "file-limit": {1},
    # The one that is killed, and the other: it says what it has lost, or is ended while it waits for a process that never came.
    "rank-kill": {-9, 1, 143, -15},
}
# What a death may leave a ledger with: resume mends both.
CUT_SHORT = ("expected a whole row, got a torn one", "expected a newline after the row")


@dataclass
class Life:
    """A run over all its deaths."""

    run: Path
    released: int = 0
    """All updates that ever began, whether or not a death has taken them."""
    plan: bytes = b""
    rows: tuple[bytes, ...] = ()
    """The whole rows that the last death has left."""
    charged: int = 0
    """The charges that the last death has left, a torn row included."""
    saved: int = 0
    """The updates in the last checkpoint."""
    lost: int = 0
    """The charged steps that are not in the final model."""


def inspect_end(life: Life, end: End, *, death: Death | None) -> None:
    """Check everything that holds whenever a command has ended or died."""
    assert "Traceback" not in end.output
    assert "internal error" not in end.output
    expected = (
        {0}
        if death is None
        else {
            0,
            *EXPECTED_CODES[death.means],
            *EXPECTED_CODES["rank-kill" if len(end.codes) > 1 else ""],
        }
    )
    assert set(end.codes) <= expected, f"exit codes {end.codes}"
    life.released += end.released
    if not (life.run / "ledger.jsonl").exists():
        assert life.released == 0, "released without a ledger"
        return
    _inspect_files(life)
    found = _verify(life)
    told = [
        fault
        for fault in found["faults"]
        if end.code == 0 or not any(words in fault for words in CUT_SHORT)
    ]
    assert not told, told
    _inspect_spending(life, found)


def finished(life: Life) -> bool:
    """Say whether a run has written all that it ever will; its command may still die in saying goodbye."""
    return all(
        (life.run / name).exists()
        for name in ("checkpoints/final.ckpt", "summary.json", "privacy.md")
    )


def inspect_done(life: Life, end: End, *, before: Life) -> None:
    """Check everything that holds when a run has done what its plan said."""
    plan = json.loads(life.plan)
    assert end.updated == plan["steps"] - before.charged, (
        "trained for other than the steps that were left"
    )
    summary = json.loads((life.run / "summary.json").read_bytes())
    assert summary["charged"] == len(life.rows) == plan["steps"]
    assert summary["steps"] == life.saved == before.saved + end.updated, (
        f"{summary['steps']} updates, {life} after {before}"
    )
    assert summary["status"] == ("completed" if plan["ends_at"] == "steps" else "budget_exhausted")
    assert summary["epsilon"] == summary["epsilon_spent"] == plan["epsilon"]
    assert (
        summary["ledger_head"]
        == json.loads((life.run / "privacy.json").read_bytes())["ledger_head"]
    )
    weights = torch.load(life.run / "checkpoints" / "final.ckpt", weights_only=True)
    assert all(torch.isfinite(tensor).all() for tensor in weights.values())
    left = [file.name for file in life.run.rglob("*") if ".tmp-" in file.name]
    assert end.code != 0 or not left, f"left behind: {left}"
    life.lost = plan["steps"] - summary["steps"]


def _inspect_files(life: Life) -> None:
    """No file is half there, the plan never changes, and the ledger only grows."""
    for name in ("plan.json", "summary.json", "origin.json", "privacy.json"):
        if (life.run / name).exists():
            json.loads((life.run / name).read_bytes())
    yaml.safe_load((life.run / "config.yaml").read_bytes())
    plan = (life.run / "plan.json").read_bytes()
    assert life.plan in (b"", plan), "the plan has changed"
    for checkpoint in (life.run / "checkpoints").glob("*.ckpt"):
        loaded = torch.load(checkpoint, weights_only=True)
        life.saved = loaded["global_step"] if checkpoint.name == "last.ckpt" else life.saved
    rows = tuple((life.run / "ledger.jsonl").read_bytes().split(b"\n"))[:-1]
    assert rows[: len(life.rows)] == life.rows, "rows were taken back"
    life.plan, life.rows = plan, rows


def _verify(life: Life) -> dict[str, Any]:
    result = CliRunner().invoke(app, ["ledger", "verify", str(life.run), "--json"])
    assert result.exit_code in (0, 4), result.output
    found: dict[str, Any] = json.loads(result.stdout)
    life.charged = found["charged"]
    return found


def _inspect_spending(life: Life, found: dict[str, Any]) -> None:
    """What the ledger says is no less than what was released, and no more than the budget."""
    plan = json.loads(life.plan)
    assert found["charged"] >= life.released, (
        f"{life.released} releases, {found['charged']} charges"
    )
    assert found["charged"] <= plan["steps"]
    assert found["epsilon"] <= plan["budget_epsilon"]
    multipliers = sorted(json.loads(row)["noise_multiplier"] for row in life.rows)
    # A release is none of the charges in particular: the costliest bound it.
    cost = epsilon_of(
        tuple(multipliers[: life.released]), rate=plan["sample_rate"], delta=plan["delta"]
    )
    assert found["epsilon"] >= cost * 0.999, f"epsilon {found['epsilon']}, but {cost} was released"


@cache
def epsilon_of(multipliers: tuple[float, ...], *, rate: float, delta: float) -> float:
    """Return the epsilon of Poisson-sampled Gaussian steps, computed by dp_accounting alone."""
    if not multipliers:
        return 0.0
    accountant = RdpAccountant([2 + k / 10 for k in range(150)])
    for multiplier in set(multipliers):
        step = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(multiplier))
        accountant.compose(step, multipliers.count(multiplier))
    return float(accountant.get_epsilon(delta))
