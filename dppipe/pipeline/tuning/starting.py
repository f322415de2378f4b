"""What is checked of a search before it charges anything: each candidate's plan and model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.pipeline.doctor import find_build_problems
from dppipe.pipeline.learn import starting_tensors, untrained_module
from dppipe.pipeline.run import build_module
from dppipe.pipeline.seeding import seed_weights
from dppipe.pipeline.tuning.candidates import Candidate
from dppipe.pipeline.tuning.processes import refuse_other_machines
from dppipe.planning.tuning.candidate_plan import plan_candidate
from dppipe.privacy.release import is_built_in
from dppipe.runs.registration import module_hashes

if TYPE_CHECKING:
    from dppipe.planning.tuning.tune_plan import TunePlan
    from dppipe.spec.kinds.registry import Registry
    from dppipe.spec.spec import Spec


def plan_candidates(
    spec: Spec, plan: TunePlan, *, registry: Registry | None = None
) -> tuple[Candidate, ...]:
    """Plan every candidate and build its model; refuse what no search can run."""
    _refuse_unsearchable(spec, plan)
    found: list[Candidate] = []
    for number in range(len(plan.search.candidates)):
        one, own = plan_candidate(spec, plan, number, registry=registry)
        refuse_other_machines(one)
        candidate = Candidate(one, own)
        _refuse_own_module(candidate, number)
        found.append(candidate)
    return tuple(found)


def check_models(candidates: tuple[Candidate, ...]) -> None:
    """Try each candidate's model on made-up records: nothing is charged for a mistake in it."""
    for number, candidate in enumerate(candidates):
        problems = find_build_problems(candidate.spec)
        if problems:
            place = f"tune.candidates.{number}"
            said = [f"{'.'.join(map(str, one.path))}: {one.message}" for one in problems]
            raise UsageError("\n".join(f"{place}: {line}" for line in said))


def starting_hashes(spec: Spec) -> frozenset[str]:
    """Return the hashes of the tensors that training of a candidate starts from."""
    seed_weights(spec.seed)
    if spec.takes_steps:
        return module_hashes(build_module(spec, steps=1))
    return starting_tensors(spec, untrained_module(spec))


def _refuse_unsearchable(spec: Spec, plan: TunePlan) -> None:
    if plan.reproducible or not plan.private or not plan.certified:
        raise PrivacyRefusal(
            "tune: expected a private search with secret draws and a proven cost, got another."
        )


def _refuse_own_module(candidate: Candidate, number: int) -> None:
    """Refuse a user's own network on a private holdout: it may keep something of a record."""
    own = candidate.plan.own_module or not is_built_in(candidate.spec.learner)
    if own and candidate.plan.holdout == "private":
        raise PrivacyRefusal(
            f"tune.candidates.{number}: expected a model and a learner of the package where the "
            "holdout is private, got one of your own: what one record does to another's score "
            "isn't known. Declare data.holdout: public if it is, or take ones of the package."
        )
