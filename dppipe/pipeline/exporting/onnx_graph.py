"""A run's whole path from raw inputs to outputs as an ONNX graph.

Public constants and released statistics are inside. Fixed features and projections have a form of
their own for the graph: the same arithmetic without what ONNX lacks. The result of a projection is
then rounded by the program that runs the graph, in float64.
"""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from dppipe.data.features.orientation_histograms import OrientationHistograms
from dppipe.errors import UsageError
from dppipe.learners.inputs.projection import Projection
from dppipe.pipeline.exporting.histogram_graph import histograms_in_graph

if TYPE_CHECKING:
    from dppipe.learners.inputs.stages import InputTransform

_OPSET = 20
_TOLERANCE = 1e-4
"""Outputs on made-up inputs may be far larger than usual ones, and sums are rounded otherwise."""


class WholePath(nn.Module):
    """From a raw input to the network's output."""

    def __init__(self, transforms: Sequence[InputTransform], network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self._transforms = tuple(transforms)

    def forward(self, inputs: Tensor) -> Tensor:  # [n, ...] -> [n, outputs]
        """Return the outputs for raw inputs."""
        for transform in self._transforms:
            inputs = _in_graph(transform, inputs)
        outputs: Tensor = self.network(inputs)
        return outputs

    def own_outputs(self, inputs: Tensor) -> Tensor:  # [n, ...] -> [n, outputs]
        """Return the outputs as the run itself computes them."""
        for transform in self._transforms:
            inputs = transform.transformed(inputs)
        outputs: Tensor = self.network(inputs)
        return outputs


def _in_graph(transform: InputTransform, inputs: Tensor) -> Tensor:
    """Apply a transform by operations that ONNX has, for any number of rows."""
    if isinstance(transform, Projection):
        return (inputs.flatten(1).double() @ transform.directions).to(inputs.dtype)
    if isinstance(transform, OrientationHistograms):
        return histograms_in_graph(
            inputs, orientations=transform.orientations, grids=transform.cells
        )
    return transform.transformed(inputs)


def onnx_bytes(
    transforms: Sequence[InputTransform],
    network: nn.Module,
    example: Tensor,
    *,
    metadata: Mapping[str, str],
) -> bytes:
    """Return an ONNX file whose input is `inputs`, `[n, ...]`, and whose output is `outputs`.

    Args:
        transforms: What becomes of a raw input before the network.
        network: The trained network, in eval mode.
        example: Made-up raw inputs, for shapes and types.
        metadata: Names and texts for the file's properties.
    """
    try:
        import onnx
        import onnxruntime  # noqa: F401  the graph is compared by it
        import onnxscript  # noqa: F401  torch's exporter needs it
    except ImportError:
        raise UsageError(
            "--format onnx: expected the packages onnx, onnxscript and onnxruntime, got none. "
            "Install dppipe[onnx]."
        ) from None
    path = WholePath(transforms, network).eval()
    try:
        with _silence(), torch.no_grad():
            program = torch.onnx.export(
                path,
                (example,),
                input_names=["inputs"],
                output_names=["outputs"],
                dynamic_shapes=({0: torch.export.Dim("n")},),
                opset_version=_OPSET,
                dynamo=True,
                optimize=False,  # it drops small terms that keep a division from zero
                verbose=False,
            )
    except Exception as error:
        raise UsageError(
            "--format onnx: expected a model that torch can export, got one that it can't "
            f"({type(error).__name__}). Take --format safetensors; --debug shows torch's reason."
        ) from error
    if program is None:
        raise UsageError("--format onnx: expected a graph from torch's exporter, got none.")
    model = program.model_proto
    onnx.helper.set_model_props(model, dict(metadata))
    onnx.checker.check_model(model)
    data: bytes = model.SerializeToString()
    _refuse_difference(data, path, example)
    return data


def _refuse_difference(data: bytes, path: WholePath, example: Tensor) -> None:
    """Refuse a graph that doesn't compute what the run's own model does, on made-up inputs."""
    import onnxruntime

    with _silence():
        session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
        for inputs in (example, example[:1], torch.zeros_like(example), _larger(example)):
            found = torch.from_numpy(session.run(["outputs"], {"inputs": inputs.numpy()})[0])
            with torch.no_grad():
                expected = path.own_outputs(inputs)
            if not torch.allclose(found, expected, rtol=_TOLERANCE, atol=_TOLERANCE):
                raise UsageError(
                    "--format onnx: expected a graph that computes what the model does, got other "
                    "outputs on made-up inputs. Take --format safetensors."
                )


@contextmanager
def _silence() -> Iterator[None]:
    """Keep what torch's exporter prints, warns and logs about its own work from the terminal."""
    noisy = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    before = [logger.level for logger in noisy]
    try:
        for logger in noisy:
            logger.setLevel(logging.CRITICAL)
        with (
            warnings.catch_warnings(action="ignore"),
            redirect_stdout(io.StringIO()),
            redirect_stderr(io.StringIO()),
        ):
            yield
    finally:
        for logger, level in zip(noisy, before, strict=True):
            logger.setLevel(level)


def _larger(inputs: Tensor) -> Tensor:
    """Return inputs of another size and sign; integers stay in their range."""
    return inputs.abs() * 9 if inputs.is_floating_point() else inputs.flip(0)
