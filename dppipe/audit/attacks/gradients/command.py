"""`dppipe attack RUN --kind gradients`: recover a record from its gradient, at each stage.

By default the record is made up, and nothing real is read: the attack shows what the run's clipping
and noise leave of any record's gradient.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from dppipe.audit.attacks.gradients.picture import draw_trial
from dppipe.audit.attacks.gradients.searching import DEFAULT_SEED
from dppipe.audit.attacks.gradients.setting import make_setting
from dppipe.audit.attacks.gradients.summary import as_data, paragraphs, screen_lines
from dppipe.audit.attacks.gradients.trial import METHODS, Method, run_trial, searches
from dppipe.audit.attacks.report import Report

if TYPE_CHECKING:
    from dppipe.audit.attacks.options import AttackOptions
    from dppipe.audit.attacks.victim import Victim

STARTS = 4
"""From how many starts a search is made."""
SECONDS = 600.0
"""How long all searches may take together."""


def attack(victim: Victim, options: AttackOptions) -> Report:
    """Attack one record's gradient, raw, clipped, noised and in the run's release."""
    seed = DEFAULT_SEED
    setting = make_setting(victim, record=options.record, seed=seed)
    method = options.method or "all"
    chosen = METHODS if method == "all" else (cast(Method, method),)
    starts = options.starts or STARTS
    limits = searches(steps=options.steps, starts=starts, seed=seed, seconds=SECONDS)
    trial = run_trial(setting, chosen, limits, seed=seed, progress=options.progress)
    data = as_data(setting, trial, victim.claim)
    data |= {"seed": seed, "starts": starts}
    data["steps"] = {"distance": limits.distance.steps, "cosine": limits.cosine.steps}
    return Report(
        kind="gradients",
        method=method,
        lines=screen_lines(setting, trial, victim.claim),
        data=data,
        text=list(paragraphs(setting, trial, victim.claim, seed=seed)),
        picture="gradients.png",
        draw=partial(draw_trial, setting=setting, trial=trial),
        from_records=not setting.is_made_up,
    )
