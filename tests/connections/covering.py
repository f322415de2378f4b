"""The combinations that `make test` runs: a small set that holds every pair of kinds which can be combined.

`covering.json` lists them, and the pairs that no combination of the product can hold. It is made by

    PYTHONPATH=tests python -m connections.covering

which plans several thousand combinations, and takes some minutes.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path

from connections.kinds import Combination, all_combinations

FILE = Path(__file__).with_name("covering.json")
Pair = frozenset[str]
"""Two kinds of different parts, each as `part: kind`."""


def pairs_in(combination: Combination) -> set[Pair]:
    """Return the pairs of kinds that one combination holds."""
    kinds = [f"{part}: {kind}" for part, kind in combination._asdict().items()]
    return {frozenset(pair) for pair in combinations(kinds, 2)}


def covering_set() -> list[Combination]:
    """Return the combinations that the file lists."""
    return [Combination(*each) for each in json.loads(FILE.read_text())["run"]]


def impossible_pairs() -> set[Pair]:
    """Return the pairs of which the file says that nothing can be planned with them."""
    return {frozenset(each) for each in json.loads(FILE.read_text())["impossible"]}


def all_pairs() -> set[Pair]:
    """Return every pair of kinds."""
    return set().union(*map(pairs_in, all_combinations()))


def choose(possible: Iterable[Combination], *, seed: int) -> list[Combination]:
    """Choose combinations until every pair is in one of them: each time one that holds the most missing pairs."""
    candidates = {each: pairs_in(each) for each in possible}
    order = sorted(candidates)
    random.Random(seed).shuffle(order)
    missing = set().union(*candidates.values())
    chosen: list[Combination] = []
    while missing:
        best = max(order, key=lambda each: len(candidates[each] & missing))
        chosen.append(best)
        missing -= candidates[best]
    return sorted(chosen)


def main() -> None:
    """Write the file anew."""
    from connections.planning import planned

    possible = [each for each in all_combinations() if planned(each) is not None]
    chosen = choose(possible, seed=0)
    held = set().union(*map(pairs_in, possible))
    impossible = sorted(sorted(pair) for pair in all_pairs() - held)
    text = json.dumps({"run": chosen, "impossible": impossible}, indent=1)
    FILE.write_text(text + "\n")
    print(f"{len(possible)} combinations can be run; {len(chosen)} hold every pair")


if __name__ == "__main__":
    main()
