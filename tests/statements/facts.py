"""The facts of a run, read from its files without the code that writes statements.

Epsilon is computed anew with dp_accounting, from the rows of the ledger.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from decimal import ROUND_CEILING, Context, Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml
from statements.costs import delta_of, epsilon_of
from statements.runs import MadeRun

RECORDS = {"digits": 1797}
CHECKING_KINDS = ("synthetic", "digits", "csv")
"""The data kinds of these runs that refuse bad records unless the spec says otherwise."""


class Facts:
    """What the files of one run hold; tests change `plan`, `summary` and `config` in place."""

    def __init__(self, made: MadeRun) -> None:
        self.made = made
        self.path = made.path
        self.known = made.known
        self._known: dict[str, Any] = {}
        self.text = (made.path / "privacy.md").read_text()
        self.plan = _json(made.path / "plan.json")
        self.summary = _json(made.path / "summary.json")
        self.origin = _json(made.path / "origin.json")
        self.rows = read_rows(made.path)
        self.files = {str(file.relative_to(made.path)) for file in made.path.rglob("*")}
        config = made.path / "config.yaml"
        self.config: dict[str, Any] | None = None
        if config.exists():
            self.config = yaml.safe_load(config.read_text())
            self.config_hash = hashlib.sha256(config.read_bytes()).hexdigest()

    def once(self, name: str, compute: Callable[[Facts, str], Any]) -> Any:
        """Return what is slow to compute, computed once for each name."""
        if name not in self._known:
            self._known[name] = compute(self, name)
        return self._known[name]

    def option(self, block: str, name: str, default: Any = None) -> Any:
        """Return an option of the spec; `default` for a run without one."""
        if self.config is None or not isinstance(self.config[block], dict):
            return default
        return self.config[block].get(name, default)

    # Who is protected, and how.

    @property
    def private(self) -> bool:
        return self.config is None or self.config["budget"] != "none"

    @property
    def status(self) -> str:
        return str(self.summary["status"])

    @property
    def stopped_early(self) -> bool:
        return bool(self.known.get("stopped_early"))

    @property
    def stopped(self) -> bool:
        return self.status == "interrupted" or self.stopped_early

    @property
    def asked_steps(self) -> int | None:
        return self.option("train", "steps", self.known.get("steps"))

    @property
    def failed(self) -> bool:
        return self.status == "failed"

    @property
    def seeded(self) -> bool:
        return bool(self.config and self.config["reproducible"])

    @property
    def relation(self) -> str:
        return str(self.rows[0]["relation"])

    @property
    def split_by_position(self) -> bool:
        return self.private and self.relation == "add_remove" and self.plan["split"] == "position"

    @property
    def protects(self) -> bool:
        return self.private and not (self.failed or self.seeded or self.split_by_position)

    @property
    def unit(self) -> str:
        return str(self.rows[0]["unit"]) if self.rows else "example"

    @property
    def units(self) -> str:
        return "users" if self.unit == "user" else "records"

    @property
    def one(self) -> str:
        """What one unit is called."""
        return self.units.removesuffix("s")

    @property
    def user(self) -> str | None:
        return self.known.get("user") or self.option("data", "user")

    @property
    def sampler(self) -> str:
        return "user" if self.unit == "user" else self.option("sampler", "kind", "poisson")

    @property
    def clipping(self) -> str:
        return self.option("clipping", "kind", "flat")

    @property
    def averages(self) -> bool:
        return self.clipping == "microbatch"

    @property
    def accountant(self) -> str:
        return self.option("accountant", "kind", "rdp")

    @property
    def mechanism(self) -> str:
        return self.rows[-1]["mechanism"]

    @property
    def delta(self) -> float:
        return float(self.option("budget", "delta", 1e-4))

    @property
    def budget(self) -> float:
        return float(self.option("budget", "epsilon", 8.0))

    @property
    def max_records_per_user(self) -> int | None:
        if self.sampler != "user":
            return None
        return self.option("sampler", "max_records_per_user", 3)

    @property
    def training_units(self) -> int:
        """The number of training records, or users, by the spec's own shares."""
        if self.config is None:
            return int(self.known["records"])
        data = self.config["data"]
        whole = data.get("users") or data.get("size") or RECORDS[data["kind"]]
        return round(data["split"]["train"] * whole)

    @property
    def on_bad_record(self) -> str:
        if self.config is None:
            return "drop"
        checks = self.config["data"]["kind"] in CHECKING_KINDS
        return self.config["data"].get("on_bad_record", "refuse" if checks else "drop")

    # What happened.

    @property
    def steps(self) -> list[dict[str, Any]]:
        return [row for row in self.rows if "step" in row]

    @property
    def adaptive(self) -> bool:
        return self.option("noise", "kind") == "falling"

    @property
    def starts(self) -> int:
        return int(self.known.get("starts", 1))

    @property
    def evaluations(self) -> int:
        return int(self.known.get("evaluations", 0))

    @property
    def holdout(self) -> str:
        return self.option("data", "holdout") or self.plan["holdout"]

    @cached_property
    def validations(self) -> int:
        """How often a metric of validation stands in the TensorBoard curves."""
        from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

        found: Counter[str] = Counter()
        for file in self.path.glob("events.out.tfevents.*"):
            for event in EventFileLoader(str(file)).Load():
                found.update(value.tag for value in event.summary.value)
        return max((count for tag, count in found.items() if "val/" in tag), default=0)

    @property
    def statistics(self) -> dict[str, Any] | None:
        normalize = self.option("data", "normalize")
        return normalize if isinstance(normalize, dict) else None

    @property
    def earlier(self) -> dict[str, Any] | None:
        """The pretrained weights of a private run, as the spec names them."""
        given = self.option("model", "pretrained")
        if isinstance(given, str):
            given = {"path": given, "records": "same"}
        return (
            given if given and (Path(given["path"]).parents[1] / "ledger.jsonl").exists() else None
        )

    # What it cost.

    @cached_property
    def spent(self) -> float | None:
        """Epsilon of all rows of the ledger."""
        return self.cost(self.rows, self.delta)

    @cached_property
    def claim(self) -> float | None:
        """Epsilon of what may be claimed: the whole plan's where a run was stopped."""
        return self.budget if self.adaptive else self.cost(self.planned_rows, self.delta)

    @property
    def planned_rows(self) -> list[dict[str, Any]]:
        """The rows of a run that ended by its plan; else as many as the spec has steps."""
        if self.status in ("completed", "budget_exhausted") and not self.stopped_early:
            return self.rows
        first = [row for row in self.rows if "step" not in row]
        return first + [self.steps[-1]] * (self.asked_steps or 0)

    def cost(self, rows: list[dict[str, Any]], delta: float) -> float | None:
        """Compute epsilon; None where dp_accounting has no bound."""
        delta -= float(self.option("clipping", "delta", 0.0) if self.clipping == "jl" else 0.0)
        if self.earlier is None:
            return epsilon_of(rows, delta, self.accountant)
        before = read_rows(Path(self.earlier["path"]).parents[1])
        if self.earlier["records"] == "same":
            return epsilon_of(rows + before, delta, self.accountant)
        both = [epsilon_of(part, delta, self.accountant) for part in (rows, before)]
        return max(cost for cost in both if cost is not None)

    def delta_at(self, epsilon: float) -> float | None:
        """Compute the delta of what is claimed; None where dp_accounting has no bound."""
        failure = float(self.option("clipping", "delta", 0.0) if self.clipping == "jl" else 0.0)
        parts = [self.planned_rows]
        if self.earlier is not None:
            before = read_rows(Path(self.earlier["path"]).parents[1])
            same = self.earlier["records"] == "same"
            parts = [self.planned_rows + before] if same else [self.planned_rows, before]
        deltas = [delta_of(part, epsilon, self.accountant) for part in parts]
        known = [delta for delta in deltas if delta is not None]
        return max(known) + failure if known else None


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Read the rows of a run's ledger."""
    return [json.loads(line) for line in (path / "ledger.jsonl").read_text().splitlines()]


def rounded_up(value: float, digits: int) -> float:
    """Round up to significant digits, unless the value has no more of them."""
    return float(Context(prec=digits, rounding=ROUND_CEILING).create_decimal(Decimal(repr(value))))


def is_shown(text: str, value: float, *, digits: int = 4) -> bool:
    """Return whether a text is this number, rounded up."""
    return math.isclose(float(text.replace(",", "")), rounded_up(value, digits), rel_tol=1e-12)


def is_near(value: float, again: float | None) -> bool:
    """Return whether a number agrees with one of other code, where there is one."""
    return again is None or again * (1 - 2e-3) - 1e-4 <= value <= again * (1 + 2e-3) + 1e-4


def is_minute(text: str, moment: str) -> bool:
    """Return whether a text is a moment of UTC, cut to its minute."""
    return datetime.strptime(text, "%Y-%m-%d %H:%M") == datetime.strptime(
        moment[:16], "%Y-%m-%dT%H:%M"
    )


def _json(path: Path) -> Any:
    return json.loads(path.read_text())


def says_statistics(facts: Facts, named: str, noise: str | None) -> bool:
    """Compare with the spec, the ledger's first row, and what the released file holds."""
    held = json.loads((facts.path / "statistics.json").read_text())
    given = facts.statistics or {}
    released = (
        {"mean", "std"} <= set(held) and named == "means and deviations" and "bins" not in given
    )
    if noise is None:
        return released and not facts.rows
    row = facts.rows[0]
    charged = {float(row["event"]["noise_multiplier"]), float(row["facts"]["noise_multiplier"])}
    return released and charged == {float(noise)} == {float(given["noise_multiplier"])}


def head_of(path: Path) -> str:
    """Return the hash of a ledger's last line; of the plan where it has none."""
    lines = (path / "ledger.jsonl").read_bytes().splitlines()
    return hashlib.sha256(lines[-1] if lines else (path / "plan.json").read_bytes()).hexdigest()
