"""The privacy statement of a run: what is promised, on what it rests, and what it doesn't cover.

A `Statement` holds plain values only; `to_data` gives `privacy.json` and `dppipe.privacy.statement_text` gives `privacy.md`. It
answers what NIST SP 800-226 and Ponomareva et al. (2023) ask of a differential privacy claim. Epsilon is always rounded up.
Guarantee: under add_remove nothing that depends on the number of records is stated; a statement that holds it is refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.budget import Relation
from dppipe.privacy.claims import EPSILON_DIGITS, guarantee_sentences
from dppipe.privacy.rounding import round_up


@dataclass(frozen=True, kw_only=True)
class Course:
    """The numbers that a run's steps were planned or executed with; each range is (least, most)."""

    steps: int
    sample_rate: tuple[float, float]
    noise_multiplier: tuple[float, float]
    max_grad_norm: tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Statement:
    """Everything that a reader needs to judge a run's claim."""

    name: str
    status: str
    """How the run ended: completed, budget_exhausted, interrupted, failed, or planned."""
    stopped_early: bool = False
    """Whether a callback, such as EarlyStopping, ended the run before its plan did."""
    private: bool
    """False for `budget: none`, where nothing is promised."""
    reproducible: bool
    """Whether sampler and noise were seeded, so that the run gives no protection."""
    unit: str
    relation: Relation | None = None
    records: int | None = None
    """The number of training records; None where the relation keeps it secret."""
    epsilon: float | None = None
    """What is claimed."""
    epsilon_spent: float | None = None
    """What the executed steps cost, where that is less than what is claimed."""
    budget_epsilon: float | None = None
    delta: float | None = None
    curve: Mapping[str, Any] = field(default_factory=dict)
    """The whole privacy curve, as the composition's `points()` gives it."""
    accountant: str | None = None
    certified: bool = False
    schedule: Literal["committed", "filter"] = "committed"
    """Whether the steps were fixed before any record was read, or chosen on the way and admitted by a filter."""
    sampler: str = "poisson"
    mechanism: str = "gaussian"
    clipping: str = "flat"
    planned: Course | None = None
    executed: Course | None = None
    independence: str | None = None
    """Why no record's gradient depends on another record: "checked" by value, or "by construction"."""
    holdout: Literal["public", "private", "none"] = "private"
    evaluation_looks: int = 0
    """How many times the model was measured on a private holdout."""
    diagnostics: bool = False
    """Whether training losses, norms or the like were recorded without noise."""
    pretrained: bool = False
    """Whether training started from weights that are taken as public."""
    own_module: bool = False
    """Whether a module of the user's own brought the weights that training started from."""
    earlier: tuple[str, ...] = ()
    """What the claim includes of private runs whose weights training started from, in whole sentences."""
    scope: str | None = None
    """The budget scope that accounts for earlier runs and tuning, where there is one."""
    noise_level: str = "Noise comes from a cryptographic generator that is keyed by the operating system's entropy."
    """What protects the noise itself, in whole sentences."""
    scaling_noise_multiplier: float | None = None
    """The noise on statistics of the records that inputs were scaled by; None where none were released."""
    scaling_statistics: str | None = None
    """Which they were, in words."""
    secure: bool = False
    """Whether sums and noise were rounded to a common grid before they were added."""
    audit: str | None = None
    """What an audit of this run found: a lower bound, never a proof."""
    versions: Mapping[str, str] = field(default_factory=dict)
    config_hash: str | None = None
    ledger_head: str | None = None

    def __post_init__(self) -> None:
        if self.relation == "add_remove" and self.records is not None:
            raise PrivacyRefusal("statement.records: expected none under add_remove, which keeps the number of records secret.")
        if self.private and (self.epsilon is None or self.delta is None or self.relation is None or self.accountant is None):
            raise PrivacyRefusal("statement: expected epsilon, delta, relation and accountant for a private run.")
        if self.epsilon is not None and math.isnan(self.epsilon):
            raise PrivacyRefusal("statement.epsilon: expected a number, got NaN.")

    @property
    def failed(self) -> bool:
        """Whether the run ended by an error: nothing is promised of what it left."""
        return self.status == "failed"

    @property
    def released(self) -> tuple[str, ...]:
        """What the claim is about."""
        if self.failed:
            return ()
        if not self.private:
            return ("the final weights", "every checkpoint of the run")
        ended = self.status in ("completed", "budget_exhausted")
        return (*(("the final weights",) if ended else ()), "every checkpoint of the run", "the curves under privacy/")

    @property
    def protects(self) -> bool:
        """Whether the run promises anything at all."""
        sound = self.certified and not self.failed and not self.reproducible
        return self.private and sound and self.epsilon != math.inf

    def guarantee(self) -> tuple[str, str]:
        """Give the claim in two plain sentences."""
        return guarantee_sentences(
            epsilon=self.epsilon,
            delta=self.delta,
            relation=self.relation,
            unit=self.unit,
            certified=self.certified,
            private=self.private,
            reproducible=self.reproducible,
            failed=self.failed,
        )

    def not_covered(self) -> dict[str, str]:
        """Say what the guarantee leaves out, each under a short name."""
        return {
            "holdout": _HOLDOUT[self.holdout].format(looks=self.evaluation_looks, times=_times(self.evaluation_looks)),
            "diagnostics": (
                "Training diagnostics were recorded without noise, under nonprivate/. Don't release them."
                if self.diagnostics
                else "No training diagnostics were recorded."
            ),
            "earlier_runs_and_tuning": (
                f"The budget scope {self.scope!r} adds this run to the others that it names."
                if self.scope
                else "Other runs on the same records, and hyper-parameters chosen by looking at such runs, are not accounted "
                "for: their costs add to this one."
            ),
            "timing": "How long a step or the run took, and how much memory it used, can depend on the records.",
            "faults": (
                "A run that memory or a disk has failed may have failed because of a record. Code of your own that writes files, "
                "global variables or logs by itself is outside too."
            ),
            "preprocessing": (
                "What was learned from private records before training (means, vocabularies) is not covered"
                f"{'' if self.scaling_noise_multiplier is None else ', but for the scaling of inputs, which was charged'}."
            ),
            "floating_point": (
                "The proofs are over real numbers. Noise and sums were added on a common grid; the sums themselves were computed "
                "in floating point."
                if self.secure
                else "The proofs are over real numbers; noise and sums are rounded to floating point."
            ),
            "trust": "Whoever runs the training sees the records (the central model).",
        } | ({"pretrained": _PRETRAINED} if self.pretrained else {})

    def to_data(self) -> dict[str, Any]:
        """Give the plain data of `privacy.json`."""
        data = {name: value for name, value in asdict(self).items() if name not in ("evaluation_looks", "epsilon_spent")}
        return data | {
            "epsilon": _printed(self.epsilon),
            "epsilon_spent": _printed(self.epsilon_spent),
            "budget_epsilon": self.budget_epsilon,
            "status_of_claim": self._status_of_claim(),
            "released": list(self.released),
            "protects": self.protects,
            "guarantee": list(self.guarantee()),
            "accountant_version": self.versions.get("dp-accounting"),
            "seeded": self.reproducible,
            "evaluation_looks": self.evaluation_looks,
            "assumptions": list(self.assumptions()),
            "not_covered": self.not_covered(),
        }

    def _status_of_claim(self) -> str:
        if not self.private:
            return "not private"
        if self.failed:
            return "failed"
        return "certified" if self.certified else "estimate"

    def assumptions(self) -> tuple[str, ...]:
        """Say what the claim rests on."""
        if not self.private:
            return ()
        said = [
            f"Batches were drawn by the sampler {self.sampler!r}, and accounted as such.",
            "Noise was seeded, so it gives no protection." if self.reproducible else self.noise_level,
            f"Each {self.unit}'s gradient was clipped ({self.clipping}); a gradient that was not finite counted as zero.",
            "Every step was charged in the ledger before its noisy gradient was used.",
            "A record that could not be read, collated or evaluated contributed nothing, and ended nothing.",
        ]
        if not self.reproducible:
            said.append("Dropout and other randomness of the model came from a secret stream.")
        if self.independence is not None:
            said.append(_INDEPENDENCE[self.independence])
        if self.schedule == "committed":
            said.append("Noise, sample rate and number of steps were fixed before any record was read.")
        else:
            said.append(
                "Noise or sample rate followed released values; a filter admitted each step only while the budget lasted."
            )
        if self.scaling_noise_multiplier is not None:
            said.append(
                f"Inputs were scaled by {self.scaling_statistics or 'statistics'} of the training records, released with noise "
                f"(multiplier {self.scaling_noise_multiplier:g}) and charged before the first step."
            )
        said += self.earlier
        if self.pretrained:
            said.append(_TAKEN_AS_PUBLIC)
        if self.own_module:
            said.append(_OWN_MODULE)
        if self.relation in ("zero_out", "replace_one"):
            said.append(f"The number of {'users' if self.unit == 'user' else 'records'} is public.")
        return tuple(said)


_HOLDOUT = {
    "public": "The holdout was declared public: metrics on it cost nothing. Under val/ stand metrics of validation on it alone; "
    "what was logged while training was muted.",
    "private": "The holdout is private and was looked at {times}; its metrics stand under nonprivate/val/ and carry no noise. "
    "Don't release them, nor choose a model by them.",
    "none": "There was no holdout.",
}

_INDEPENDENCE = {
    "by construction": "Each record was evaluated alone, so that no record's gradient depends on another record.",
    "checked": "Records were evaluated in batches; that no record's gradient depends on another record was checked by value on "
    "made-up records before the first charge.",
}
_PRETRAINED = (
    "Training started from weights that are taken as public: nothing is promised to the people behind the records that they were "
    "trained on."
)

_TAKEN_AS_PUBLIC = (
    "The weights that training started from are in a file that isn't recognised as a private run's. "
    "They are taken as public: if they were trained on these records, the cost of that training adds."
)
_OWN_MODULE = (
    "The weights that the module came with are taken as independent of the records: if they were trained on them, that cost adds."
)


def _times(count: int) -> str:
    return "never" if count == 0 else "once" if count == 1 else f"{count} times"


def _printed(epsilon: float | None) -> float | None:
    return round_up(epsilon, EPSILON_DIGITS) if epsilon is not None and math.isfinite(epsilon) else None
