"""What `plan`, `validate` and `run` say of the shared budget that a spec names."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from dppipe.cli.printing.wrapping import fit_terminal
from dppipe.errors import BudgetExhausted, DppipeError, PrivacyRefusal, StoreFailed, UsageError

if TYPE_CHECKING:
    from dppipe.budgets.outlook import Outlook
    from dppipe.planning.plan import Plan
    from dppipe.spec.spec import Spec


def plan_outlook(spec: Spec, plan: Plan) -> Outlook | None:
    """Return what a planned run's scope says; None where it has none or the store can't be read.

    The second case prints a warning.
    """
    from dppipe.budgets.outlook import look_ahead
    from dppipe.planning.privacy_plan import run_parts

    if plan.scope is None:
        return None
    try:
        return look_ahead(plan, run_parts(spec))
    except StoreFailed as error:
        _warn(plan.scope, error)
        return None


def spec_outlook(spec: Spec) -> Outlook | None:
    """Look at a spec's scope as `plan` does, even where the run can't be planned here."""
    from dataclasses import replace

    from dppipe.budgets.outlook import look_at_terms
    from dppipe.planning.any_plan import make_any_plan
    from dppipe.planning.privacy_plan import run_parts

    if spec.budget == "none" or spec.budget.scope is None:
        return None
    try:
        terms = look_at_terms(spec.budget.scope, run_parts(spec))
    except StoreFailed as error:
        _warn(spec.budget.scope, error)
        return None
    try:
        plan = make_any_plan(spec, allow_estimate=True)
    except (UsageError, PrivacyRefusal) as error:
        return replace(terms, problem=f"The run can't be planned here: {error}")
    return plan_outlook(spec, plan)


def refuse_unless_it_fits(spec: Spec, plan: Plan) -> Outlook | None:
    """Refuse a run that doesn't fit into its scope before torch is loaded; None without a scope."""
    from dppipe.budgets.outlook import look_ahead
    from dppipe.planning.privacy_plan import run_parts

    if plan.scope is None:
        return None
    try:
        outlook = look_ahead(plan, run_parts(spec))
    except StoreFailed as error:
        raise StoreFailed(f"{error} {_WAY_OUT}") from error
    if outlook.problem is not None:
        raise BudgetExhausted(outlook.problem)
    return outlook


def _warn(scope: str, error: DppipeError) -> None:
    """Say that a scope wasn't looked at, and what to do."""
    warning = f"warning: budget.scope: {scope!r} was not looked at. {error} {_WAY_OUT}"
    typer.echo(fit_terminal(warning, stream=sys.stderr), err=True)


_WAY_OUT = (
    "Check that its server or file can be reached, or set DPPIPE_STORE to the store that has "
    "the scope. `dppipe run` starts nothing until then."
)
