"""Load a trained model from its run directory; it takes inputs as the data's file has them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor, nn

from dppipe.errors import UsageError
from dppipe.learners.inputs.model_inputs import released_transforms
from dppipe.pipeline.adapting import make_network
from dppipe.pipeline.prediction.raw_inputs import take_raw_inputs
from dppipe.planning.privacy_plan import public_facts
from dppipe.runs.directory import RunDirectory
from dppipe.runs.tensors import load_weights
from dppipe.spec.load import load_spec

if TYPE_CHECKING:
    from dppipe.data.base import Data
    from dppipe.spec.spec import Spec


def spec_of(run: RunDirectory, *, plugins: Path | None = None) -> Spec:
    """Read the effective spec of a run."""
    if not run.config.exists():
        raise UsageError(
            f"{run.config}: expected the spec of the run. A run made in Python has none: build the "
            f"model there, and go on with an interrupted run by {run.how_to_resume}."
        )
    return load_spec(run.config, plugins=plugins)


def load_model(run_dir: Path | str, *, plugins: Path | None = None) -> nn.Module:
    """Return the trained model of a finished run, in eval mode.

    It is the network itself, with its own parameter names. It takes raw inputs `[n, ...]`, as the
    data's file has them: what the data kind, `data.normalize` and `data.features` do to an input
    (with public constants, or with what this run has released) is done before the network's own
    forward. So pixels of `idx` go from 0 to 255 and those of `digits` from 0 to 16; numbers of a
    table are those of the file, followed by its 0/1 inputs. Of a table it also takes rows as they
    are: a pyarrow table, a pandas data frame, or a list of dictionaries, with columns in any order.

    Example:
        >>> import dppipe, torch
        >>> model = dppipe.load_model("runs/first")  # a run of pipelines/quickstart.yaml
        >>> model(torch.zeros(2, 1, 8, 8)).shape
        torch.Size([2, 10])
    """
    run = RunDirectory.open(Path(run_dir))
    spec = spec_of(run, plugins=plugins)
    network = load_network(run, spec)
    released = released_transforms(spec.data, run)
    rows = spec.data if hasattr(spec.data, "encode_rows") else None
    transforms = [*spec.data.public_scaling, *released]
    integers = spec.data.input_layout.vocabulary is not None
    if rows is not None or transforms or _loads_floats(spec.data):
        take_raw_inputs(network, transforms, rows=rows, after_rows=released, integers=integers)
    return network


def _loads_floats(data: Data) -> bool:
    """Return whether the data kind makes 32-bit floats of whatever numbers its file has."""
    if data.reads_one_by_one:
        return False
    inputs = data.synthetic(1)[0]
    return isinstance(inputs, Tensor) and inputs.is_floating_point()


def load_network(run: RunDirectory, spec: Spec) -> nn.Module:
    """Return the trained network of a finished run, in eval mode.

    It takes inputs as the data kind loads them.
    """
    if not run.final_checkpoint.exists():
        raise UsageError(
            f"{run.final_checkpoint}: expected the final model. The run hasn't finished: "
            f"{run.how_to_resume}"
        )
    network = untrained_network(spec)
    load_weights(network, run.final_checkpoint)
    return network.eval()


def untrained_network(spec: Spec) -> nn.Module:
    """Return a network for a run's own weights: of the `model` block, or the learner's own."""
    model = spec.trained_model
    if model is None:
        return spec.learner.module(public_facts(spec))
    network = make_network(
        model, spec.data.input_layout, outputs=spec.data.outputs, load_pretrained=False
    )
    return network if spec.takes_steps else spec.learner.prepare(network, public_facts(spec))
