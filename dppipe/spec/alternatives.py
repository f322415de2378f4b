"""Keys of which a spec has one: `--set` of one takes the place of another that the file has.

`--set train.steps=5` over a file with `train: {epochs: 20}` trains 5 steps. The command says what
was replaced. Two that are both set from the command line stay a contradiction, and so do two of a
file.
"""

from __future__ import annotations

from typing import Any

from dppipe.errors import Problem
from dppipe.spec.yaml.reader import Path
from dppipe.spec.yaml.source import Located, Source

ALTERNATIVES = {
    "train": ("steps", "epochs", "until"),
    "sampler": ("sample_rate", "expected_batch_size"),
}
"""By their block, keys that say the same thing in different ways."""


def replace_alternatives(source: Source) -> list[str]:
    """Remove what an override takes the place of from a spec's data; return a line for each.

    Two overrides that contradict each other become a fault of the source.
    """
    lines: list[str] = []
    for block, keys in ALTERNATIVES.items():
        given = source.data.get(block) if isinstance(source.data, dict) else None
        if not isinstance(given, dict) or (block == "sampler" and _needs_both(source.data)):
            continue
        stated = [key for key in keys if given.get(key) is not None]
        chosen = [key for key in stated if (block, key) in source.overrides]
        if len(chosen) > 1:
            source.faults.append(_contradiction(source, block, chosen))
        if len(chosen) != 1:
            continue
        for key in stated:
            if key != chosen[0]:
                lines.append(_line(source, (block, chosen[0]), (block, key)))
                del given[key]
    return lines


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
    place = source.document.keys.get(replaced)
    where = f" (`{source.name}:{place.line}:{place.column}`)" if place is not None else ""
    value = source.data[block][key]
    return f"{source.overrides[chosen]}: this takes the place of {block}.{key}: {value}{where}."
