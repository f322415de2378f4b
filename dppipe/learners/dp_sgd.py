"""DP-SGD: noisy, clipped gradients, one release a step (Abadi et al. 2016).

Its loop is a Lightning Trainer's: `dppipe.lightning` calls the private step (`sgd/step.py`), in
`dppipe run` and in a user's own Trainer alike. Its releases are those of `sampler`, `clipping` and
`noise`; `dppipe.planning` makes a `StepPlan` of them.
"""

from __future__ import annotations

from typing import ClassVar

from dppipe.learners.base import Learner


class DpSgd(Learner, kind="dp_sgd"):
    """Takes steps along noisy gradients.

    Guarantee: that of `PrivateStep`, at every step of the plan.
    """

    takes: ClassVar[frozenset[str]] = frozenset(
        {"model", "optimizer", "sampler", "clipping", "noise", "train"}
    )
