"""Facts that a plan repeats as they were stated; planning computes nothing with them."""

from __future__ import annotations

from typing import Literal, TypedDict

from dppipe.planning.data_source import DataSource


class StatedFacts(TypedDict, total=False):
    """The facts by name; each has a default in `DEFAULT_FACTS`. `Plan` says what they mean."""

    holdout: Literal["public", "private"]
    diagnostics: Literal["off", "nonprivate"]
    pretrained: bool
    own_module: bool
    split: Literal["position", "hash"] | None
    data: DataSource | None
    reproducible: bool
    spec_hash: str
    committed_hash: str
    plugins: dict[str, str]


DEFAULT_FACTS: StatedFacts = {
    "holdout": "private",
    "diagnostics": "off",
    "pretrained": False,
    "own_module": False,
    "split": None,
    "data": None,
    "reproducible": False,
    "spec_hash": "",
    "committed_hash": "",
    "plugins": {},
}
"""The facts of a plan that was made in Python and states nothing else."""
