"""Export a finished run: its weights or its graph, a model card, and how inputs are encoded.

Nothing here reads a record. What is written follows from the spec and from what the run has
released, so it costs no privacy.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import torch
from torch import Tensor

from dppipe.durable import sync
from dppipe.errors import UsageError
from dppipe.learners.inputs.model_inputs import released_transforms
from dppipe.pipeline.exporting.claim import Claim, read_claim
from dppipe.pipeline.exporting.input_facts import input_facts
from dppipe.pipeline.exporting.model_card import Exported, model_card
from dppipe.pipeline.load import load_network, spec_of
from dppipe.runs.directory import RunDirectory
from dppipe.runs.statement.audit_findings import audit_of_run
from dppipe.runs.tensors import load_tensors
from dppipe.spec.messages.suggestions import suggest_name

if TYPE_CHECKING:
    from dppipe.learners.inputs.stages import InputTransform
    from dppipe.spec.spec import Spec

Format = Literal["safetensors", "onnx"]
FORMATS: tuple[str, ...] = get_args(Format)

_SAFETENSORS = (
    "The file holds the network's weights alone, under its own names: "
    "`network.load_state_dict(safetensors.torch.load_file({name!r}))`. What lies between a raw "
    "input and the network is in `dppipe.load_model` of the run, and in an ONNX export."
)
_ONNX = (
    "The graph takes `inputs` and returns `outputs`, for any number of rows n: "
    "`onnxruntime.InferenceSession({name!r}).run(None, {{'inputs': inputs}})`. Scaling and "
    "features are inside."
)
_COLUMNS = (
    " A row's numbers stand in the order of `{beside}`, which says how each column is encoded: "
    "numbers as the file has them, words as 0/1 inputs or codes."
)


def export_run(
    run_dir: Path | str,
    *,
    file_format: str,
    out: Path | None = None,
    plugins: Path | None = None,
) -> list[Path]:
    """Write a run's model in a format that other programs read; return the files.

    Args:
        run_dir: A finished run.
        file_format: `safetensors` for the weights, `onnx` for the whole path from raw inputs.
        out: The file; the card stands beside it. Without it, the run's name in this folder.
        plugins: The folder of plugin files.

    Example:
        >>> from dppipe.pipeline.exporting.export import export_run
        >>> [path.name for path in export_run("runs/first", file_format="safetensors")]
        ['quickstart.safetensors', 'quickstart.safetensors.md']
    """
    if file_format not in FORMATS:
        guess = suggest_name(file_format, FORMATS)
        raise UsageError(f"--format: expected {' or '.join(FORMATS)}, got {file_format!r}.{guess}")
    run = RunDirectory.open(run_dir)
    spec = spec_of(run, plugins=plugins)
    path = out if out is not None else Path(f"{_file_name(spec.name)}.{file_format}")
    card = path.with_name(f"{path.name}.md")
    columns = path.with_name(f"{path.name}.json")
    _refuse_existing(path, card, columns)
    audit = audit_of_run(run)
    if audit is not None and audit.kind is not None:
        raise UsageError(
            f"{run.path}: expected a model that is for use, got that of an {audit.kind}."
        )
    claim = read_claim(run)
    facts = input_facts(spec.data) if spec.trained_model is not None else {}
    data = (
        _safetensors(run, spec, claim) if file_format == "safetensors" else _onnx(run, spec, claim)
    )
    use = (_SAFETENSORS if file_format == "safetensors" else _ONNX).format(name=path.name)
    files: dict[Path, bytes] = {}
    if "columns" in facts:
        use += _COLUMNS.format(beside=columns.name)
        files[columns] = json.dumps(facts, indent=2).encode() + b"\n"
    exported = Exported(
        name=path.name,
        digest=hashlib.sha256(data).hexdigest(),
        model=_model_name(spec),
        learner=spec.learner.kind,
        use=use,
        facts=facts,
    )
    files[card] = model_card(exported, claim).encode()
    files[path] = data  # last: no model without its card
    _write_all(files)
    return [path, *(other for other in files if other != path)]


def _safetensors(run: RunDirectory, spec: Spec, claim: Claim) -> bytes:
    from dppipe.pipeline.exporting.safetensors_file import safetensors_bytes

    load_network(run, spec)  # refused unless the weights are whole and those of the spec's model
    state = load_tensors(run.final_checkpoint)
    return safetensors_bytes(state, metadata=_metadata(claim))


def _onnx(run: RunDirectory, spec: Spec, claim: Claim) -> bytes:
    from dppipe.pipeline.exporting.onnx_graph import onnx_bytes

    if spec.trained_model is None:
        raise UsageError(
            f"--format onnx: expected a learner with a model, got {spec.learner.kind!r}, which "
            "makes no predictions. Take --format safetensors."
        )
    transforms: list[InputTransform] = [
        *spec.data.public_scaling,
        *released_transforms(spec.data, run),
    ]
    network = load_network(run, spec)
    return onnx_bytes(transforms, network, _example(spec), metadata=_metadata(claim))


def _example(spec: Spec) -> Tensor:
    """Return made-up inputs, for their shapes and type."""
    inputs: Any = spec.data.synthetic(3)[0]
    if not isinstance(inputs, Tensor):
        raise UsageError(
            "--format onnx: expected data whose input is one tensor, got "
            f"{type(inputs).__name__} of kind {spec.data.kind!r}. Take --format safetensors."
        )
    return inputs.to(torch.float32) if inputs.is_floating_point() else inputs


def _metadata(claim: Claim) -> Mapping[str, str]:
    return {f"dppipe.{name}": text for name, text in claim.facts.items()}


def _model_name(spec: Spec) -> str:
    model = spec.trained_model
    if model is None:
        return "none: the released values alone"
    return str(getattr(model, "class_path", model.kind))


def _file_name(name: str) -> str:
    """Return a run's name as that of a file."""
    return "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in name)


def _refuse_existing(*paths: Path) -> None:
    for path in paths:
        if path.exists():
            raise UsageError(
                f"--out: expected a new file, got {path}, which is there. Choose another."
            )


def _write_all(files: Mapping[Path, bytes]) -> None:
    """Write all files or none; the last one appears last."""
    mark = f".part-{secrets.token_hex(4)}"
    parts = {path: path.with_name(f".{path.name}{mark}") for path in files}
    made: list[Path] = []
    try:
        for path, part in parts.items():
            part.write_bytes(files[path])
            sync(part)
        for path, part in parts.items():
            part.rename(path)
            made.append(path)
    except OSError as error:
        for path in made:
            with suppress(OSError):
                path.unlink()
        raise UsageError(f"--out: expected a place to write to, got: {error.strerror}.") from error
    finally:
        for part in parts.values():
            with suppress(OSError):
                part.unlink()
