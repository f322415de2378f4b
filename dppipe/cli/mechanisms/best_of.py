"""The best of a secret number of runs: what choosing it costs (`docs/tuning.md`)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dppipe.cli.mechanisms.asked import Asked, Single, at_delta, number
from dppipe.errors import PrivacyRefusal
from dppipe.privacy.printing import shown

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    from dppipe.planning.tuning.tune_plan import SearchCosts
    from dppipe.privacy.budget import Relation

_NOTE = (
    "This holds where the runs are independent, each is one of the same settings with the same "
    "chances, only the best is released, and nobody sees the number of runs."
)
_DRAWN = 12
"""How many means a picture has."""


def answer_best_of(asked: Asked) -> Single:
    """Return the epsilon of a selection by both proofs, of one run, and of all of them."""
    from dppipe.privacy.selection.repetitions import Repetitions

    mean = asked.select_best or 1.0
    runs = Repetitions(mean=mean, shape=_shape(asked))
    costs = _costs(asked, mean)
    known = {"pld": costs.by_curve, "rdp": costs.by_rdp}
    proven = {kind: cost for kind, cost in known.items() if cost is not None}
    if not proven or costs.one_run is None:
        raise PrivacyRefusal(
            "--select-best: expected a run for which a finite epsilon is proven, got one without. "
            "Raise the noise or delta."
        )
    delta = asked.delta or 0.0
    chosen = min(proven, key=lambda kind: proven[kind])
    data: dict[str, Any] = {
        "mechanism": asked.mechanism,
        "relation": asked.relation or "zero_out",
        "delta": delta,
        "noise_multiplier": asked.noise_multiplier,
        "sample_rate": asked.sample_rate,
        "steps": asked.steps or 1,
        "repetitions": asked.repetitions,
        "mean": mean,
        "shape": None if runs.is_poisson else runs.shape,
        "median": runs.quantile(0.5),
        "most": runs.quantile(0.99),
        "one_run": number(costs.one_run),
        "epsilon": number(proven[chosen]),
        "accountant": chosen,
        "by_curve": _number(costs.by_curve),
        "by_rdp": _number(costs.by_rdp),
        "all_runs": _number(costs.all_runs),
        "certified": True,
    }
    facts = {
        "one run": shown(costs.one_run),
        "best of them": f"{_shown(costs.by_curve)} by the curve of one run (pld)",
        "": f"{_shown(costs.by_rdp)} by Renyi divergences (rdp)",
        "all released": f"{_shown(costs.all_runs)}, if {math.ceil(mean)} runs are",
        "number of runs": f"secret, {mean:g} on average; half of all searches make "
        f"{data['median']} or fewer, 99 % make {data['most']} or fewer",
        "relation": str(data["relation"]),
    }
    sentence = (
        f"The best of {mean:g} runs on average costs {at_delta(proven[chosen], delta)} by {chosen}."
    )
    return Single(
        sentence=sentence,
        facts=facts,
        data=data,
        draw=lambda figure: _draw(figure, asked, mean),
        notes=(_NOTE,),
    )


def _shape(asked: Asked) -> float:
    """Return the shape as events state it: infinite for the Poisson distribution."""
    return math.inf if asked.repetitions == "poisson" else asked.shape or 0.0


def _run(asked: Asked) -> DpEvent:
    """Return all that one run releases."""
    import dp_accounting

    from dppipe.privacy.events.mechanisms import gaussian, laplace

    made = laplace if asked.mechanism == "laplace" else gaussian
    event = made(asked.noise_multiplier or 0.0)
    if asked.sample_rate is not None and asked.sample_rate < 1:
        event = dp_accounting.PoissonSampledDpEvent(asked.sample_rate, event)
    steps = asked.steps or 1
    return event if steps == 1 else dp_accounting.SelfComposedDpEvent(event, steps)


def _costs(asked: Asked, mean: float) -> SearchCosts:
    from dp_accounting.dp_event import RepeatAndSelectDpEvent

    from dppipe.planning.tuning.search_costs import search_costs
    from dppipe.privacy.accountants.pld import Pld
    from dppipe.privacy.budget import Budget

    run = _run(asked)
    relation: Relation = asked.relation or "zero_out"
    return search_costs(
        RepeatAndSelectDpEvent(run, mean, _shape(asked)),
        [run],
        mean=mean,
        accountant=Pld(),
        before=(),
        earlier=None,
        budget=Budget(epsilon=1.0, delta=asked.delta or 0.0, relation=relation),
    )


def _number(value: float | None) -> float | None:
    return None if value is None else number(value)


def _shown(value: float | None) -> str:
    return "not known" if value is None else shown(value)


def _draw(figure: Any, asked: Asked, mean: float) -> None:
    """Draw epsilon over the mean number of runs, with the asked one as a line."""
    import numpy as np

    means = np.geomspace(min(2.0, mean), max(100.0, 2 * mean), _DRAWN)
    found = [_costs(asked, float(one)) for one in means]
    axes = figure.subplots()
    lines = {
        "every run released": [cost.all_runs for cost in found],
        "the best, by Renyi divergences": [cost.by_rdp for cost in found],
        "the best, by the curve of one run": [cost.by_curve for cost in found],
        "one run": [cost.one_run for cost in found],
    }
    for label, epsilons in lines.items():
        axes.plot(means, [math.nan if one is None else one for one in epsilons], label=label)
    axes.axvline(mean, color="black", linestyle=":", label=f"asked: {mean:g} runs")
    axes.set(xscale="log", yscale="log", xlabel="runs on average", ylabel="ε")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_title(f"The best of several runs at δ = {asked.delta or 0:g}", fontsize=10)
    axes.legend(fontsize=9)
    axes.grid(alpha=0.3, which="both")
