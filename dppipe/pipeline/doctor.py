"""The engine's check of a spec's own model on made-up input; no record is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.engine import Engine
from dppipe.learners.inputs.model_inputs import made_up_batch
from dppipe.lightning.isolation.rehearsal import CHECKED_EXAMPLES, rehearse
from dppipe.lightning.isolation.replica import Replica
from dppipe.lightning.networks import from_clean_state, network_and_loss
from dppipe.pipeline.run import build_module
from dppipe.pipeline.seeding import seed_weights

if TYPE_CHECKING:
    from dppipe.engine.checks.report import EngineReport
    from dppipe.spec.spec import Spec


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
