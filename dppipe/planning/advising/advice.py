"""The whole advice: a learner, a batch size with its steps and noise, a bound, and why."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from dppipe.planning.advising.batches import CLOSE, BatchRow, Facts, batch_rows, proposed
from dppipe.planning.advising.learners import LearnerAdvice, learner_advice

MAX_GRAD_NORM = 1.0
"""The bound to start with."""
SOURCES = {
    "total noise": "Sander, Stock and Sablayrolles, TAN Without a Burn, ICML 2023 "
    "(arXiv 2210.03403)",
    "noise-to-batch ratio": "McKenna et al., Scaling Laws for Differentially Private Language "
    "Models, ICML 2025 (arXiv 2501.18914)",
    "bound": "De et al., Unlocking High-Accuracy Differentially Private Image Classification "
    "through Scale, 2022 (arXiv 2204.13650)",
    "learners": "dppipe/learners/measured.json, made by benchmarks/learners_table.py",
    "cost": "dppipe's pld accountant",
}
_FEW_STEPS = 100


@dataclass(frozen=True)
class Advice:
    """What is proposed for a budget, and what it was chosen from."""

    facts: Facts
    rows: tuple[BatchRow, ...]
    chosen: BatchRow
    learners: LearnerAdvice

    @property
    def learner(self) -> str:
        """The learner to start with."""
        return "dp_sgd" if self.learners.far else self.learners.best.learner

    def spec(self) -> str:
        """Return the blocks of a spec for DP-SGD with the proposed batch size."""
        relation = self.facts.relation
        size = f"expected_batch_size: {self.chosen.batch_size}"
        if relation == "add_remove":
            size = f"sample_rate: {self.chosen.sample_rate:.10g}, {size}"
        return (
            f"sampler:   {{kind: poisson, {size}}}\n"
            f"clipping:  {{kind: flat, max_grad_norm: {MAX_GRAD_NORM}}}\n"
            "noise:     {kind: constant, noise_multiplier: auto}\n"
            f"budget:    {{epsilon: {self.facts.epsilon:g}, delta: {self.facts.delta:g}, "
            f"relation: {relation}}}\n"
            f"train:     {{steps: {self.chosen.steps}}}"
        )

    def reasons(self) -> list[str]:
        """Return why, in sentences, each with its source."""
        return [*self._batch_reasons(), *self._learner_reasons()]

    def to_data(self) -> dict[str, Any]:
        """Return plain data, for programs."""
        return {
            **asdict(self.facts),
            "learner": self.learner,
            "chosen": self.chosen.to_data(),
            "max_grad_norm": MAX_GRAD_NORM,
            "batches": [row.to_data() for row in self.rows],
            "learners": self.learners.to_data(),
            "spec": self.spec(),
            "reasons": self.reasons(),
            "sources": dict(SOURCES),
        }

    def _batch_reasons(self) -> list[str]:
        chosen = self.chosen
        least = min(row.total_noise for row in self.rows)
        said = [
            f"Batch {chosen.batch_size:,}: the smallest whose total noise is within "
            f"{CLOSE - 1:.0%} of the least ({chosen.total_noise / least:.2f} times it), which "
            f"leaves {chosen.steps:,} steps to learn in. Smaller batches need noise multipliers "
            "well below 2, where the budget buys less; larger ones gain little and take fewer "
            "steps (Sander et al. 2023).",
            f"max_grad_norm {MAX_GRAD_NORM:g}: bound and learning rate scale together, as the "
            "noise is a multiple of the bound. Fix the bound and tune the rate on public data (De "
            "et al. 2022 fix 1), or take clipping `automatic`, which has none to choose.",
        ]
        if chosen.steps < _FEW_STEPS:
            said.append(
                f"Only {chosen.steps:,} steps: with so few, learners that release once are worth a "
                "try. More examples seen would give more steps at the same total noise."
            )
        if chosen.noise_norm is not None and chosen.noise_norm > 1:
            said.append(
                f"A step's noise has {chosen.noise_norm:.2g} times the norm that the mean of "
                "clipped gradients can have at most: train fewer weights, or on more records "
                "(McKenna et al. 2025)."
            )
        return said

    def _learner_reasons(self) -> list[str]:
        found = self.learners
        where = f"{found.task} ({found.records:,} records, {found.weights:,} weights)"
        if found.far:
            return [
                f"Learner dp_sgd: the others train a linear model, and the measured tasks have far "
                f"fewer weights than yours; {where} is the nearest."
            ]
        best = found.best
        return [
            f"Learner {best.learner}: the best at epsilon {found.epsilon:g} on {where}, the "
            "measured task nearest to yours. All but pate trained a linear model there; a deep "
            "one needs dp_sgd. The table says what was measured, not what your records will give."
        ]


def advise(facts: Facts) -> Advice:
    """Propose settings for a budget; no record is read."""
    rows = batch_rows(facts)
    return Advice(facts, tuple(rows), proposed(rows), learner_advice(facts))
