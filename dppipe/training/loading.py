"""Bring a trained model back from its run directory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from torch import nn

from dppipe.errors import UsageError
from dppipe.spec.load import load_spec
from dppipe.training.adapting import make_network
from dppipe.training.checkpoints import load_weights
from dppipe.training.run_directory import RunDirectory

if TYPE_CHECKING:
    from dppipe.spec.spec import Spec


def spec_of(run: RunDirectory, *, plugins: Path | None = None) -> Spec:
    """Read the effective spec of a run."""
    if not run.config.exists():
        raise UsageError(f"{run.config}: expected the spec of the run. A run made in Python has none: build the model there.")
    return load_spec(run.config, plugins=plugins)


def load_model(run_dir: Path | str, *, plugins: Path | None = None) -> nn.Module:
    """Give the trained model of a finished run, in eval mode: an ordinary module with the user's own parameter names."""
    run = RunDirectory.open(Path(run_dir))
    spec = spec_of(run, plugins=plugins)
    if not run.final_checkpoint.exists():
        raise UsageError(f"{run.final_checkpoint}: expected the final model. The run hasn't finished: dppipe resume {run.path}")
    shape, outputs = spec.data.input_shape, spec.data.outputs
    network = make_network(spec.model, input_shape=shape, outputs=outputs, load_pretrained=False)
    load_weights(network, run.final_checkpoint)
    return network.eval()
