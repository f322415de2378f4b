"""Releases that aren't steps, in words: what each is, and what was released of it.

`_KINDS` has the words of the releases that dppipe makes itself; any other release, such as a
plugin learner's, is described by its name and its facts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from dppipe.planning.plan import Plan
    from dppipe.planning.planned_release import PlannedRelease


class _Words(NamedTuple):
    """The words for one kind of release; `{name}` stands for a fact of that name."""

    planned: str
    assumption: str
    """What the claim says of it under "What it rests on"."""
    released: str
    without_noise: str
    """What a run without a budget says of it."""
    preprocessing: str = ""
    """The part of preprocessing that it makes a charged release of."""
    facts: tuple[str, ...] = ()
    """The facts without which a release of this name is another learner's."""


_KINDS = {
    "projection": _Words(
        planned="inputs are projected on {components} private principal components, noise "
        "multiplier {noise_multiplier:g}",
        assumption="Inputs were projected on {components} principal components of the training "
        "records: a matrix of their products, of records clipped to the norm {max_norm:g}, was "
        "released with noise (multiplier {noise_multiplier:g}) and charged before anything else "
        "was learned.",
        released="The {components} noisy principal components that inputs were projected on "
        "(noise multiplier {noise_multiplier:g}), `projection.pt`.",
        without_noise="The {components} principal components that inputs were projected on, "
        "without noise, `projection.pt`.",
        preprocessing="the projection of inputs",
    ),
    "statistics": _Words(
        planned="inputs are scaled by private {statistics}, noise multiplier {noise_multiplier:g}",
        assumption="Inputs were scaled by {statistics} of the training records, released with "
        "noise (multiplier {noise_multiplier:g}) and charged before the first step.",
        released="The noisy {statistics} that inputs were scaled by (noise multiplier "
        "{noise_multiplier:g}), `statistics.json`.",
        without_noise="The {statistics} that inputs were scaled by, without noise, "
        "`statistics.json`.",
        preprocessing="the scaling of inputs",
    ),
    "confidence": _Words(
        planned="the largest noisy count of votes on {asked} public inputs, noise scale "
        "{noise_scale:g}; the first {queries} that reach {threshold:g} get a label, and if fewer "
        "do, as many are charged",
        assumption="The largest counts of votes on {asked} public inputs (noise scale "
        "{noise_scale:g}) decided which of them got a label: the first {queries} with "
        "{threshold:g} or more. All {asked} were charged in the ledger before their noise was "
        "drawn.",
        released="The largest noisy counts of votes on {asked} public inputs (noise scale "
        "{noise_scale:g}), in `released/`.",
        without_noise="The largest counts of votes on {asked} public inputs, without noise.",
        facts=("asked", "queries", "threshold", "noise_scale"),
    ),
    "selection": _Words(
        planned="the best of a secret number of private runs ({mean:g} on average) of "
        "{candidates} candidates",
        assumption="Settings were chosen by a private search: one of {candidates} candidates was "
        "drawn, trained privately and scored, and that was repeated a secret number of times, "
        "{mean:g} on average. Only the run with the best score is released. The number of runs was "
        "drawn in secret, and other runs and their scores were deleted. The whole search was "
        "charged in the ledger before its first run, whatever that number was. The claim is about "
        "what is released: who watches the machine can tell the number of runs by the clock.",
        released="The run with the best score: its settings in `config.yaml`, its score in "
        "`tune.json`, its plan, ledger and curves in `tune/winner/`.",
        without_noise="The run with the best score.",
        facts=("candidates", "repetitions", "mean"),
    ),
    "vote": _Words(
        planned="votes of {teachers} teachers on {queries} public inputs ({aggregator}, noise "
        "scale {noise_scale:g})",
        assumption="{teachers} teachers, each trained on a block of the records of its own, voted "
        "on public inputs ({public}). The noisy counts of votes on {queries} of them "
        "({aggregator}, noise scale {noise_scale:g}) were charged in the ledger before their noise "
        "was drawn. That these inputs are public is the spec's statement: nothing is promised to "
        "the people behind them.",
        released="The noisy counts of votes on {queries} public inputs ({aggregator}, noise scale "
        "{noise_scale:g}), in `released/`. The student's labels follow from them.",
        without_noise="The counts of votes on {queries} public inputs, without noise.",
        facts=("teachers", "queries", "aggregator", "noise_scale", "public"),
    ),
}
_HASH_DIGITS = 12
"""How much of a hash is shown; `plan.json` and `privacy.json` have all of it."""
_OTHER = _Words(
    planned="{what} ({described})",
    assumption="A release named {what!r} ({described}) was charged in the ledger before its noise "
    "was drawn.",
    released="What was released as {what!r} ({described}), in `released/`.",
    without_noise="What was released as {what!r}, without noise.",
)


def planned_phrase(release: PlannedRelease) -> str:
    """Return what is planned to be released, in a few words."""
    return _fill(_words(release).planned, release)


def release_assumptions(plan: Plan) -> Iterator[str]:
    """Yield what a claim rests on in each release that isn't a step."""
    for release in plan.releases:
        yield _fill(_words(release).assumption, release)


def released_phrases(plan: Plan, done: int) -> Iterator[str]:
    """Yield what was released, for the first `done` releases that aren't steps."""
    for release in plan.releases[:done]:
        words = _words(release)
        yield _fill(words.released if plan.private else words.without_noise, release)


def charged_preprocessing(plan: Plan) -> str:
    """Return which preprocessing was charged, for the sentence on what isn't covered."""
    parts = []
    for release in plan.releases:
        part = _words(release).preprocessing
        if part:
            parts.append(part)
    return f", but for {' and '.join(parts)}, which was charged" if parts else ""


def _words(release: PlannedRelease) -> _Words:
    words = _KINDS.get(release.what, _OTHER)
    return words if set(words.facts) <= set(release.facts) else _OTHER


def _fill(text: str, release: PlannedRelease) -> str:
    facts = []
    for name, value in release.facts.items():
        shown = f"{value:g}" if isinstance(value, float) else str(value)
        if name.startswith("sha256"):
            shown = shown[:_HASH_DIGITS]
        facts.append(f"{name.replace('_', ' ')} {shown}")
    described = ", ".join(facts) or release.event["type"]
    if release.count > 1:
        described += f", {release.count} times"
    return text.format(what=release.what, described=described, **release.facts)
