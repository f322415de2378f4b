"""The engine's check of a spec's own model on made-up input; no record is read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dppipe.data.class_path import ClassPathData
from dppipe.engine import Engine
from dppipe.errors import PrivacyRefusal, Problem, SpecError, UsageError
from dppipe.learners.inputs.model_inputs import made_up_batch
from dppipe.lightning.isolation.rehearsal import CHECKED_EXAMPLES, rehearse
from dppipe.lightning.isolation.replica import Replica
from dppipe.lightning.networks import from_clean_state, network_and_loss
from dppipe.pipeline.learn import untrained_module
from dppipe.pipeline.run import build_module
from dppipe.pipeline.seeding import seed_weights
from dppipe.spec.load import problem_of
from dppipe.spec.messages.layout import Refusal

if TYPE_CHECKING:
    from dppipe.engine.checks.report import EngineReport
    from dppipe.spec.spec import Spec


def find_build_problems(spec: Spec) -> list[Problem]:
    """Build a spec's data and model as a run would, and return what goes wrong.

    A class that can't be imported, a layer that mixes records and code that fails on made-up
    records are found; no record is read.
    """
    problems: list[Problem] = []
    with _noting(problems, block="data"):
        if isinstance(spec.data, ClassPathData):
            spec.data.find_class()
        spec.data.synthetic(CHECKED_EXAMPLES)
    with _noting(problems, block="model" if spec.trained_model is not None else "learner"):
        if spec.takes_steps:
            examine(spec)
        else:
            seed_weights(spec.seed)
            untrained_module(spec)
    return list(dict.fromkeys(problems))


@contextmanager
def _noting(problems: list[Problem], *, block: str) -> Iterator[None]:
    """Add what goes wrong inside to the problems, at its own key or else at a block."""
    try:
        yield
    except SpecError as error:
        problems += error.problems
    except (UsageError, PrivacyRefusal) as error:
        problems.append(problem_of(error) or _at_block(error, block))


def _at_block(error: UsageError | PrivacyRefusal, block: str) -> Problem:
    kind = Refusal if isinstance(error, PrivacyRefusal) else Problem
    return kind((block,), str(error))


def examine(spec: Spec) -> EngineReport:
    """Build a spec's model and compare the engine with a one-example loop on it.

    The report says how each parameter is treated.
    """
    seed_weights(spec.seed)
    module = build_module(spec, steps=1)
    network, per_sample_loss = network_and_loss(module)
    replica = Replica(network)
    loss = from_clean_state(per_sample_loss, replica)
    with Engine(replica.module, loss, spec.clipping) as engine:
        return rehearse(engine, made_up_batch(spec.data, CHECKED_EXAMPLES))
