"""The forms of the numbers, of what was released and of what it was made with."""

from __future__ import annotations

from typing import Any

from statements.facts import Facts, head_of, is_near, is_shown, says_statistics
from statements.forms import always, form, private

# The numbers.


def says_range(name: str) -> Any:
    """Return a check of a row's two cells: as planned, and least and most in the ledger."""

    def check(facts: Facts, planned: str, executed: str) -> bool:
        values = [row[name] for row in facts.steps]
        done = [float(value) for value in executed.split(" to ")]
        near = [f"{least:.6g}" for least in (min(values), max(values))]
        if [f"{value:.6g}" for value in (done[0], done[-1])] != near:
            return False
        given = {
            "sample_rate": facts.steps[0]["sample_rate"],
            "noise_multiplier": facts.option("noise", "noise_multiplier", 2.0),
            "max_grad_norm": facts.option("clipping", "max_grad_norm", 1.0),
        }
        return float(planned) == given[name]

    return check


def says_steps(facts: Facts, planned: str, executed: str) -> bool:
    asked = facts.asked_steps or facts.plan["steps"]
    return int(planned) == asked == facts.plan["steps"] and int(executed) == len(facts.steps)


def updates_of(facts: Facts, name: str) -> int:
    """Return how many updates the last checkpoint holds."""
    import torch

    last = torch.load(facts.path / "checkpoints" / "last.ckpt", weights_only=True)
    return int(last["global_step"])


def says_kept(facts: Facts, kept: str, charged: str) -> bool:
    held = (int(kept), int(charged)) == (facts.once("updates", updates_of), len(facts.steps))
    return held and int(kept) == facts.summary["steps"]


form(r"## The numbers", private)
form(r"\| \| planned \| executed \|", private)
form(r"\| steps \| (\d+) \| (\d+) \|", private, says_steps)
for word in ("sample_rate", "noise_multiplier", "max_grad_norm"):
    form(rf"\| {word.replace('_', ' ')} \| (\S+) \| (.+) \|", private, says_range(word))
form(
    r"\| mechanism \| (\w+) \| (\w+) \|",
    private,
    lambda f, *names: set(names) == {f.option("noise", "mechanism", "gaussian"), f.mechanism},
)
form(
    r"(\d+) of the (\d+) charged steps are in the weights\.",
    lambda f: f.private and not f.failed,
    says_kept,
)


def has_curve(facts: Facts) -> bool:
    return facts.protects and not facts.adaptive


def says_point(facts: Facts, delta: str, epsilon: str) -> bool:
    known = dict(
        zip(facts.plan["whole_curve"]["deltas"], facts.plan["whole_curve"]["epsilons"], strict=True)
    )
    right = float(delta) in known and is_shown(epsilon, known[float(delta)])
    return right and is_near(known[float(delta)], facts.cost(facts.planned_rows, float(delta)))


form(r"## The whole curve", has_curve)
form(r"The whole plan at other deltas:", has_curve)
form(r"\| delta \| epsilon \|", has_curve)
form(
    r"\| (\d\S*) \| (\d\S*) \|",
    lambda f: len(f.plan["whole_curve"]["deltas"]) if has_curve(f) else 0,
    says_point,
)

# What was released.


def left(*names: str) -> Any:
    """Return whether a run that didn't fail has left these files."""
    return lambda facts: not facts.failed and set(names) <= facts.files


form(r"## What was released", always)
form(r"Nothing under a claim\.", lambda f: f.failed)
form(
    r"The final weights, `(.+)`\.", left("checkpoints/final.ckpt"), lambda f, file: file in f.files
)
form(
    r"The checkpoint to resume from, `(.+)`\.",
    left("checkpoints/last.ckpt"),
    lambda f, file: file in f.files,
)
form(
    r"The weights after every step, and so any checkpoint that was made of them\.",
    lambda f: f.private and not f.failed,
    lambda f: len(f.steps) > 0,
)
form(
    r"The (.+) that inputs were scaled by, without noise, `(.+)`\.",
    lambda f: not f.private and left("statistics.json")(f),
    lambda f, named, file: says_statistics(f, named, None) and file in f.files,
)
form(
    r"The noisy (.+) that inputs were scaled by \(noise multiplier (\S+)\), `(.+)`\.",
    lambda f: f.private and left("statistics.json")(f),
    lambda f, named, noise, file: says_statistics(f, named, noise) and file in f.files,
)
form(
    r"Noisy counts of gradients that were not clipped: the bound follows them, in the curve "
    r"`privacy/max_grad_norm` and in the checkpoint\.",
    lambda f: f.clipping == "adaptive",
)
form(
    r"The curves, `events\.out\.tfevents\.\*`\.",
    lambda f: not f.private,
    lambda f: any(file.startswith("events.out.tfevents.") for file in f.files),
)
form(
    r"The curves under `privacy/` and `public/`, which follow from the spec and the above\.",
    lambda f: f.private and not f.failed,
    lambda f: any(file.startswith("events.out.tfevents.") for file in f.files),
)

# Made with.


def installed(facts: Facts, name: str, version: str) -> bool:
    import platform
    from importlib import metadata

    found = platform.python_version() if name == "python" else metadata.version(name)
    return version == found == facts.summary["versions"][name]


form(r"## Made with", always)
form(
    r"(python|dppipe|torch|pytorch-lightning|dp-accounting|numpy|scipy) (\d\S*)",
    lambda f: len(f.summary["versions"]),
    installed,
)
form(r"config (\w{64})", lambda f: f.config is not None, lambda f, found: found == f.config_hash)
form(
    r"ledger head (\w{64})",
    always,
    lambda f, found: found == head_of(f.path) == f.summary["ledger_head"],
)
