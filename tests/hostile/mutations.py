"""Specs that are slightly wrong: mutations of whole specs, drawn from a seed, as data and as text."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

import yaml

from dppipe.spec.kinds.families import FAMILIES
from dppipe.spec.kinds.registry import Registry

BASE = """
version: 1
name: small
seed: 7
data: {kind: synthetic, size: 60, features: 3, classes: 2, holdout: public, split: {train: 0.8, val: 0.1, test: 0.1}}
model: {kind: mlp, hidden: [4]}
optimizer: {kind: sgd, lr: 0.5, momentum: 0.9, schedule: {kind: cosine, warmup: 0.1}}
sampler: {kind: poisson, sample_rate: 0.1}
clipping: {kind: flat, max_grad_norm: 1.0}
noise: {kind: constant, noise_multiplier: 2.0}
accountant: {kind: rdp}
budget: {epsilon: 8.0, delta: 1.0e-5, relation: zero_out}
train: {steps: 3, accelerator: cpu, precision: 32-true, checkpoint_every: 2, validate_every: 2}
diagnostics: "off"
reproducible: false
"""

VALUES: list[Any] = [
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        2,
        0.5,
        -0.5,
        1e-300,
        1e300,
        10**6,
        10**12,
        2**63,
        -(2**63),
        10**30,
        1e-5,
        0.999999,
        1.0000001,
    ),
    *(
        "",
        " ",
        "auto",
        "none",
        "budget",
        "nan",
        ".inf",
        "1e-5",
        "yes",
        "../x",
        "flat",
        "poisson",
        "\u202e",
        "a" * 300,
        "\0",
        "#",
        "a: b",
    ),
    *([], [1], [0], [-1], [[]], ["a"], [None], [1e300], list(range(50))),
    *(
        {},
        {"kind": "flat"},
        {"kind": None},
        {"a": 1},
        {"class_path": "os.path"},
        {"kind": "synthetic", "size": 10},
    ),
]
CHARACTERS = "{}[]:,-#&*!|>'\"%@`\n\t \\0aé\u2028\x00\x1b9."


def mutated_specs(seed: int) -> Iterator[str]:
    """Yield endless changed specs: half of them with other kinds and numbers, most of which are valid; half of them wild."""
    dice, registry = random.Random(seed), Registry()
    kinds = {block: registry.kinds(block) for block in FAMILIES if block in yaml.safe_load(BASE)}
    while True:
        data, wild = yaml.safe_load(BASE), dice.random() < 0.5
        for _ in range(dice.choice([1, 1, 2, 2, 3, 4])):
            mutate(data, dice, kinds) if wild else vary(data, dice, kinds)
        text = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=10**6)
        yield tear(text, dice) if wild and dice.random() < 0.5 else text


def vary(data: dict[str, Any], dice: random.Random, kinds: dict[str, list[str]]) -> None:
    """Change a number by some orders of magnitude, or take another kind."""
    numbers = [
        (holder, key)
        for holder, key in places(data)
        if type(holder[key]) in (int, float) and key != "version"
    ]
    if dice.random() < 0.5 and numbers:
        holder, key = dice.choice(numbers)
        orders = dice.choice([4, 4, 30, 300])
        holder[key] = type(holder[key])(
            min(holder[key] * 10 ** dice.uniform(-orders, orders), 1e300)
        )
    else:
        block = dice.choice(list(kinds))
        data[block] = {"kind": dice.choice(kinds[block])}


def mutate(data: dict[str, Any], dice: random.Random, kinds: dict[str, list[str]]) -> None:
    """Change one thing somewhere in a spec."""
    holder, key = dice.choice(list(places(data)))
    way = dice.random()
    if way < 0.45:
        holder[key] = copy.deepcopy(dice.choice(VALUES))
    elif way < 0.55 and isinstance(holder[key], int | float) and not isinstance(holder[key], bool):
        holder[key] = holder[key] * dice.choice([-1, 0, 1e-9, 0.1, 10, 1e9])
    elif way < 0.65:
        del holder[key]
    elif way < 0.72:
        _, other = dice.choice(list(places(data)))
        holder[key if isinstance(holder, list) else other if isinstance(other, str) else "x"] = (
            holder[key]
        )
    elif way < 0.8 and isinstance(holder, dict):
        holder[
            dice.choice(
                [
                    "kind",
                    "extra",
                    "Kind",
                    "lr",
                    "max_grad_norm",
                    "records",
                    "scope",
                    "unit",
                    "secure",
                    "",
                ]
            )
        ] = dice.choice(VALUES)
    else:
        block = dice.choice(list(kinds))
        name = dice.choice(kinds[block])
        data[block] = {"kind": name} if dice.random() < 0.5 else name


def places(data: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every place in a spec: what holds it, and its key or index."""
    for key in list(data) if isinstance(data, dict) else range(len(data)):
        yield data, key
        if isinstance(data[key], dict | list):
            yield from places(data[key])


def tear(text: str, dice: random.Random) -> str:
    """Change the text itself: characters and lines put in, taken out and moved."""
    lines = text.split("\n")
    for _ in range(dice.randint(1, 3)):
        way, at = dice.random(), dice.randrange(len(lines))
        if way < 0.2:
            del lines[at]
            lines = lines or [""]
        elif way < 0.4:
            lines.insert(at, dice.choice(lines))
        elif way < 0.5:
            lines[at] = dice.choice(["  ", "\t", "- "]) + lines[at]
        else:
            spot = dice.randrange(len(lines[at]) + 1)
            lines[at] = (
                lines[at][:spot] + dice.choice(CHARACTERS) + lines[at][spot + dice.choice([0, 1]) :]
            )
    return "\n".join(lines)
