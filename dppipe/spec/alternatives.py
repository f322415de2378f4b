"""Keys of which a spec has one: what comes later takes the place of another that came before.

`--set train.steps=5` over a file with `train: {epochs: 20}` trains 5 steps, and so does a second
file with `train: {steps: 5}`. The command says what was replaced. Two that are both set from the
command line stay a contradiction, and so do two of a file.
"""

from __future__ import annotations

from typing import Any

from dppipe.errors import Problem
from dppipe.spec.yaml.document import Path
from dppipe.spec.yaml.source import Located, Source

ALTERNATIVES = {
    "train": ("steps", "epochs", "until"),
    "sampler": ("sample_rate", "expected_batch_size"),
}
"""By their block, keys that say the same thing in different ways."""


def replace_alternatives(source: Source) -> list[str]:
    """Remove what something later takes the place of from a spec's data; return a line for each.

    Two overrides that contradict each other become a fault of the source.
    """
    lines: list[str] = []
    for block, keys in ALTERNATIVES.items():
        given = source.data.get(block) if isinstance(source.data, dict) else None
        if not isinstance(given, dict) or (block == "sampler" and _needs_both(source.data)):
            continue
        stated = {key: _order(source, block, key) for key in keys if given.get(key) is not None}
        last = max(stated.values(), default=0)
        chosen = [key for key, order in stated.items() if order == last]
        if len(chosen) > 1 and last == len(source.files):
            source.faults.append(_contradiction(source, block, chosen))
        for key, order in stated.items():
            if order < last:
                lines.append(_line(source, (block, chosen[0]), (block, key)))
                del given[key]
    return lines


def _order(source: Source, block: str, key: str) -> int:
    """Return the number of the file that states a key; overrides come after all files."""
    if (block, key) in source.overrides or (block,) in source.overrides:
        return len(source.files)
    spot = source.layer.values.get((block, key))
    return 0 if spot is None else spot.file


def _needs_both(data: dict[str, Any]) -> bool:
    """Tell whether the relation keeps the number of records secret: neither key gives the other."""
    budget = data.get("budget")
    return isinstance(budget, dict) and budget.get("relation") == "add_remove"


def _contradiction(source: Source, block: str, chosen: list[str]) -> Located:
    label = source.overrides[block, chosen[-1]]
    message = f"expected one of {' and '.join(chosen)}, got both by --set. Leave one out."
    return Located(Problem((block,), message, place=label), None)


def _line(source: Source, chosen: Path, replaced: Path) -> str:
    block, key = replaced
    place = source.layer.keys.get(replaced)
    where = f" (`{source.place(place)}`)" if place is not None else ""
    value = source.data[block][key]
    by = source.overrides.get(chosen)
    if by is None:
        by = f"{source.place(source.layer.keys[chosen])}: {'.'.join(map(str, chosen))}"
    return f"{by}: this takes the place of {block}.{key}: {value}{where}."
