"""The `performance` block: settings that change speed and memory, never what is charged.

These settings used to be in the `sampler` and `train` blocks, where they still work.
`gather_performance` moves them from there before a spec is read, so that the rest of the program
knows one place only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pydantic import field_validator

from dppipe.component import AutoInt, Field, Options
from dppipe.errors import Problem
from dppipe.spec.yaml.document import Path

OLD_BLOCKS = {
    "physical_batch_size": "sampler",
    "accelerator": "train",
    "devices": "train",
    "num_nodes": "train",
    "strategy": "train",
}
"""The block in which each setting was before."""


class Performance(Options):
    """How fast a run trains and how much memory it takes; no setting changes what is charged."""

    physical_batch_size: AutoInt = Field(
        "auto",
        gt=0,
        description="The number of records that go through the model at once. It changes memory "
        "and speed, never the result. `auto` finds a number that fits, on synthetic records.",
    )
    accelerator: Literal["auto", "cpu", "gpu", "cuda", "mps"] = Field(
        "auto", description="The kind of device."
    )
    devices: int = Field(1, gt=0, description="The number of devices on each machine.")
    num_nodes: int = Field(1, gt=0, description="The number of machines.")
    strategy: Literal["auto", "ddp"] = Field(
        "auto",
        description="How processes work together. `ddp`: each has a whole model, also where "
        "there is one process; `auto`: `ddp` for several processes, none for one.",
    )

    @field_validator("strategy", mode="before")
    @classmethod
    def _refuse_sharding(cls, value: Any) -> Any:
        if isinstance(value, str) and value.startswith(("fsdp", "deepspeed")):
            raise ValueError(
                f"expected auto or ddp, got {value!r}: the engine needs whole parameters, "
                "and these are sharded. Take ddp."
            )
        return value


@dataclass(frozen=True)
class Gathered:
    """The data of a spec with all performance settings in one block."""

    data: Any
    moved: dict[Path, Path] = field(default_factory=dict)
    """The new path of each setting that was moved, with its old one."""
    problems: tuple[Problem, ...] = ()
    """Settings that are in both places."""

    def at_old_place(self, problem: Problem) -> Problem:
        """Return a problem of a moved setting with the path that the user wrote."""
        old = self.moved.get(problem.path)
        return problem if old is None else replace(problem, path=old)

    def hints(self) -> Iterator[Problem]:
        """Say of each moved setting where it belongs now."""
        for new, old in self.moved.items():
            yield Problem(
                old, f"works here, and has moved. Write {'.'.join(map(str, new))} instead."
            )


def gather_performance(data: Any) -> Gathered:
    """Return the data of a spec with settings from their old places moved to `performance`."""
    if not isinstance(data, dict):
        return Gathered(data)
    found = list(_old_settings(data))
    if not found:
        return Gathered(data)
    gathered = dict(data)
    given = data.get("performance")
    block = dict(given) if isinstance(given, dict) else {}
    moved: dict[Path, Path] = {}
    problems = []
    for name, old in found:
        gathered[old] = {key: value for key, value in gathered[old].items() if key != name}
        if name in block:
            message = f"expected it in one place, got performance.{name} as well. Remove this one."
            problems.append(Problem((old, name), message))
            continue
        block[name] = data[old][name]
        moved["performance", name] = (old, name)
    if given is None or isinstance(given, dict):
        gathered["performance"] = block
    return Gathered(gathered, moved, tuple(problems))


def _old_settings(data: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each setting that is in its old block, with the name of that block."""
    for name, old in OLD_BLOCKS.items():
        block = data.get(old)
        if isinstance(block, dict) and name in block:
            yield name, old
