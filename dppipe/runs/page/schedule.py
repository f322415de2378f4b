"""How a run was noised, clipped and sampled, step by step; the releases of a run without steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from markupsafe import Markup

from dppipe.planning.step_plan import StepPlan, charges_for
from dppipe.runs.page.markup.elements import EMPTY, joined, paragraph, section, table
from dppipe.runs.page.markup.plots import COLOURS, Plot, thinned
from dppipe.runs.page.markup.wording import counted, number_of_units
from dppipe.runs.statement.claims import units_of
from dppipe.runs.statement.other_releases import planned_phrase

if TYPE_CHECKING:
    from dppipe.planning.tuning.tune_plan import TunePlan
    from dppipe.privacy.charges import Charge
    from dppipe.runs.page.facts import PageFacts

_TIPS = 24
_SAME = "the same at every step"


def schedule(facts: PageFacts) -> Markup:
    """Return noise, bound, sample rate and batch size of the steps, or the planned releases."""
    plan = facts.step_plan
    if not facts.plan.private:
        return EMPTY
    if plan is None:
        return section("What was planned", _releases(facts), _search(facts), ident="schedule")
    steps = _executed(facts)
    rows = [
        ("sampler", f"`{plan.sampler}`", ""),
        *_payments(plan),
        _row("noise multiplier", _planned(plan, plan.noise_multiplier), _values(steps, "noise")),
        _row("clipping bound", _planned(plan, _bound(plan)), _values(steps, "bound")),
        _row("sample rate", _planned(plan, _rate(plan)), _values(steps, "rate")),
    ]
    rows += _batches(plan)
    return section(
        "Schedule and batches",
        table(rows, heading=("", "planned", "as charged"), style="numbers-table"),
        _pictures(plan, steps),
        paragraph(
            "Noise is in units of the clipping bound. Each "
            "noisy sum is divided by the expected batch size, whatever size was drawn."
        ),
        _before(facts),
        ident="schedule",
    )


def _executed(facts: PageFacts) -> Sequence[Charge]:
    rows = () if facts.ledger is None else facts.ledger.charges
    return [charge for charge in rows if charge.what == "step"]


def _values(steps: Sequence[Charge], name: str) -> list[float]:
    if name == "noise":
        return [charge.noise_multiplier for charge in steps]
    if name == "bound":
        return [charge.max_grad_norm for charge in steps]
    return [charge.sample_rate for charge in steps]


def _planned(plan: StepPlan, at: Callable[[int], float]) -> list[float]:
    return [at(place + 1) for place in thinned(plan.steps)]


def _bound(plan: StepPlan) -> Callable[[int], float]:
    return lambda step: plan.max_grad_norm * plan.bound_factor(step)


def _rate(plan: StepPlan) -> Callable[[int], float]:
    return lambda step: plan.batch(step).sample_rate


def _size(plan: StepPlan) -> Callable[[int], float]:
    return lambda step: plan.batch(step).expected_batch_size


def _row(name: str, planned: Sequence[float], charged: Sequence[float]) -> tuple[str, str, str]:
    return name, _span(planned), _span(charged)


def _span(values: Sequence[float]) -> str:
    if not values:
        return ""
    least = min(values)
    most = max(values)
    return f"{least:.6g}" if least == most else f"{least:.6g} to {most:.6g}"


def _payments(plan: StepPlan) -> list[tuple[str, str, str]]:
    """Return how steps are paid for, where one payment covers several."""
    each = plan.steps_per_charge
    if each == 1:
        return []
    payments = charges_for(plan.steps, each)
    return [("payments", f"{each} steps are one payment: {counted(payments, 'payment')}", "")]


def _batches(plan: StepPlan) -> list[tuple[str, str, str]]:
    """Return the size of batches, and how far the drawn size may differ from the expected one."""
    many = units_of(plan.unit)
    sizes = _span(_planned(plan, _size(plan)))
    if plan.sampler == "shuffle":
        passes = counted(plan.steps_per_epoch, "batch").replace("batchs", "batches")
        return [("batches", f"about {sizes} {many} each, {passes} a pass over the data", "")]
    rows = [("expected batch size", f"{sizes} {many}", "")]
    if plan.largest_likely_batch is not None:
        rows.append(("largest likely batch", number_of_units(plan, plan.largest_likely_batch), ""))
    empty = plan.empty_batch_probability
    if empty is not None:
        text = "practically 0" if empty < 1e-12 else f"{empty:.2g}"
        rows.append(("probability of an empty batch", text, ""))
    return rows


def _pictures(plan: StepPlan, steps: Sequence[Charge]) -> Markup:
    """Draw what changes from step to step; what doesn't stands in the table."""
    wanted = [
        ("noise multiplier", plan.noise_multiplier, _values(steps, "noise")),
        ("clipping bound", _bound(plan), _values(steps, "bound")),
        ("sample rate", _rate(plan), _values(steps, "rate")),
        ("expected batch size", _size(plan), []),
    ]
    drawn = []
    for name, at, charged in wanted:
        planned = _planned(plan, at)
        if len({*planned, *charged}) > 1:
            drawn.append(_picture(name, plan, planned, steps, charged))
    if not drawn:
        return EMPTY
    return Markup('<div class="small-plots">\n{}</div>\n').format(joined(drawn))


def _picture(
    name: str,
    plan: StepPlan,
    planned: Sequence[float],
    steps: Sequence[Charge],
    charged: Sequence[float],
) -> Markup:
    plot = Plot(name.replace(" ", "-"), x="steps", y=name, height=2.1, left=0.68)
    places = [place + 1 for place in thinned(plan.steps)]
    axes = plot.axes
    axes.plot(places, planned, color=COLOURS["planned"], linestyle=(0, (2, 2)))
    line = [(float(step), value) for step, value in zip(places, planned, strict=True)]
    if charged:
        kept = thinned(len(charged))
        line = [(float(steps[place].step), charged[place]) for place in kept]
        axes.plot([x for x, _ in line], [y for _, y in line], color=COLOURS["spent"])
    for place in thinned(len(line), most=_TIPS):
        step, value = line[place]
        plot.tip(step, value, f"step {step:g}: {name} {value:.6g}")
    axes.set_ylim(0, 1.1 * max([*planned, *charged]))
    axes.set_xlim(0, plan.steps * 1.02)
    return plot.svg(f"{name} at each step: planned {_span(planned)}, charged {_span(charged)}")


def _before(facts: PageFacts) -> Markup:
    """Return the releases that came before the steps."""
    return _releases(facts) if facts.plan.releases else EMPTY


def _releases(facts: PageFacts) -> Markup:
    statement = facts.statement
    done = 0 if statement is None else statement.other_releases
    rows = []
    for number, release in enumerate(facts.plan.releases):
        out = "yes" if number < done else "no"
        rows.append((planned_phrase(release), str(release.count), out))
    return table(rows, heading=("release", "charged", "released"), style="numbers-table")


def _search(facts: PageFacts) -> Markup:
    """Return what a private search has planned."""
    search = getattr(facts.plan, "search", None)
    if search is None:
        return EMPTY
    plan: TunePlan = facts.plan  # type: ignore[assignment]
    candidates = []
    for candidate in plan.search.candidates:
        changes = ", ".join(f"`{name}` = {value}" for name, value in candidate.overrides.items())
        candidates.append((changes or "as it is", f"{candidate.noise_multiplier:.6g}"))
    many = plan.search.repetitions
    return joined(
        [
            paragraph(
                f"A private search drew from {len(candidates)} candidates, {many.mean:g} times on "
                "average. How often is secret, and the other runs were deleted."
            ),
            table(candidates, heading=("candidate", "noise multiplier"), style="numbers-table"),
        ]
    )
