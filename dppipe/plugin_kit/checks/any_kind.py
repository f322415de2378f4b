"""What every kind keeps, whatever its family: words, frozen options that survive being written, and
no memory.

The families' own files say how a component is put through its paces (`exercise`).
"""

from __future__ import annotations

import ast
import importlib
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from dppipe.component import Component
from dppipe.plugin_kit.checks import (
    averages,
    clippers,
    data,
    learners,
    losses,
    models,
    optimizers,
    rates,
    schedules,
)
from dppipe.plugin_kit.checks.memory import changed, digest, remembered
from dppipe.plugin_kit.checks.table import Fault, Remark, Trial, check_each, check_kind
from dppipe.spec.component_field import split_kind
from dppipe.spec.kinds.families import FAMILIES
from dppipe.spec.kinds.plugins import hash_file
from dppipe.spec.kinds.registry import Registry, plugin_files
from dppipe.spec.messages.describe import fields_by_key
from dppipe.spec.schema import json_schema
from dppipe.spec.yaml.reader import read_yaml
from dppipe.spec.yaml.writer import write_yaml

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError as ValidationFault

HEAVY = ("dp_accounting", "lightning", "pandas", "pytorch_lightning", "scipy", "sklearn", "torch")
"""What takes a second or so to import."""

EXERCISES: dict[str, Callable[[Any], Any]] = {
    "clipping": clippers.exercise,
    "noise": schedules.exercise,
    "model": models.exercise,
    "data": data.exercise,
    "optimizer": optimizers.exercise,
    "learner": learners.exercise,
    "schedule": rates.exercise,
    "averaging": averages.exercise,
    "loss": losses.exercise,
}


@check_kind("any")
def docstring(trial: Trial) -> Remark:
    """Its docstring says what it does."""
    if not (vars(trial.cls).get("__doc__") or "").strip():
        raise Fault(
            "expected a docstring, got none: its first sentence is the kind's help. Write one."
        )
    silent = [name for name, field in fields_by_key(trial.cls).items() if not field.description]
    return f"no description=... for {', '.join(silent)}" if silent else None


@check_kind("any")
def light(trial: Trial) -> Remark:
    """It loads without what is heavy."""
    names = [
        node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
        for node in _imports(trial)
    ]
    heavy = sorted({(name or "").split(".")[0] for name in names} & set(HEAVY))
    return (
        f"it loads {', '.join(heavy)} even where a spec is only validated: import it inside "
        "the method"
        if heavy
        else None
    )


def _imports(trial: Trial) -> list[ast.Import | ast.ImportFrom]:
    tree = ast.parse(trial.file.read_bytes())
    return [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]


@check_kind("any")
def frozen(trial: Trial) -> Remark:
    """Its options are frozen, and unknown ones are refused."""
    config = trial.cls.model_config
    if not config.get("frozen") or config.get("extra") != "forbid":
        raise Fault(
            "expected frozen options and extra='forbid', got another model_config. Leave "
            "model_config as it is."
        )
    try:
        trial.cls.from_data({"no_such_option": 1}, context=trial.registry)
    except ValidationError:
        return None
    raise Fault("expected an unknown option to be refused, got a component.")


@check_kind("any")
def survives_yaml(trial: Trial) -> Remark:
    """Its options survive YAML."""
    for component in trial.made:
        read = read_yaml(write_yaml({trial.block: component.to_data()}))
        kind, options = split_kind(trial.block, read.data[trial.block])
        if (
            kind != trial.cls.kind
            or trial.cls.from_data(options, context=trial.registry) != component
        ):
            raise Fault(
                f"expected {component.to_data()} back from YAML, got another. Use plain "
                "types for options."
            )
    return f"{len(trial.made)} sets of options" if len(trial.made) > 1 else None


@check_kind("any")
def fits_schema(trial: Trial) -> Remark:
    """Its options fit the JSON schema."""
    schema = _schema(trial.registry)
    for component in trial.made:
        found = _misfit(schema, block=trial.block, data=json.loads(json.dumps(component.to_data())))
        if found is not None:
            raise Fault(
                f"expected {component.to_data()} to fit the schema that editors read, got: {found}."
            )
    return None


def _misfit(schema: dict[str, Any], *, block: str, data: dict[str, Any]) -> str | None:
    """Return where and why a component's data doesn't fit the schema; None if it fits."""
    from jsonschema import Draft202012Validator

    family = {"$ref": f"#/$defs/any-{block}", "$defs": schema["$defs"]}
    fault = next(Draft202012Validator(family).iter_errors(data), None)
    if fault is None:
        return None
    while meant := _in_the_form_meant(fault):
        fault = meant
    if fault.validator == "oneOf" and not fault.context:
        return "data that fits the form of another kind too"
    place = fault.json_path.removeprefix("$").removeprefix(".")
    return f"{place}: {fault.message}" if place else str(fault.message)


def _in_the_form_meant(fault: ValidationFault) -> ValidationFault | None:
    """Return the fault inside the form that the data's type and `kind` choose, if one does."""
    others = set()
    for each in fault.context:
        chooses = list(each.relative_path) in ([], ["kind"])
        if chooses and each.validator in ("const", "type"):
            others.add(each.relative_schema_path[0])
    for each in fault.context:
        if each.relative_schema_path[0] not in others:
            return each
    return None


@lru_cache(maxsize=1)
def _schema(registry: Registry) -> dict[str, Any]:
    """Return the schema of everything registered as an editor reads it."""
    schema: dict[str, Any] = json.loads(json.dumps(json_schema(registry)))
    return schema


@check_kind("any")
def pickles(trial: Trial) -> Remark:
    """It pickles for worker processes."""
    code = (
        "import json, pickle, sys; print(json.dumps([one.to_data() for one in "
        "pickle.load(sys.stdin.buffer)]))"
    )
    paths = os.pathsep.join(path for path in sys.path if path)
    worker = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        input=pickle.dumps(trial.made),
        capture_output=True,
        env=os.environ | {"PYTHONPATH": paths},
        timeout=120,
        check=False,
    )
    if worker.returncode:
        raise Fault(
            "expected a worker process to read it, got: "
            f"{worker.stderr.decode(errors='replace').splitlines()[-1]}"
        )
    if json.loads(worker.stdout) != json.loads(json.dumps([one.to_data() for one in trial.made])):
        raise Fault("expected equal options in a worker process, got others.")
    return None


@check_kind("any")
def file_hash(trial: Trial) -> Remark:
    """The hash of its file goes into the plan."""
    if trial.built_in:
        return "it is built in"
    digests = list(plugin_files([trial.made[0]]).values())
    if digests != [hash_file(trial.file)]:
        raise Fault(
            "expected the hash of the file as it is now, got another: it was changed while "
            "it was in use."
        )
    return f"sha256 {digests[0][:12]}"


@check_each("any")
def deterministic(component: Component) -> Remark:
    """Equal calls give equal results."""
    if digest(_exercise(component)) != digest(_exercise(component)):
        raise Fault(
            "expected the same results again, got others. Use no randomness, no clock and no state."
        )
    return None


@check_each("any")
def keeps_nothing(component: Component) -> Remark:
    """It keeps nothing between calls."""
    before = remembered(component)
    _exercise(component)
    kept = changed(before, remembered(component))
    if kept:
        raise Fault(
            f"expected no state, got something kept in {', '.join(kept)}. State goes in and comes "
            "out as a value; what follows from the options alone can be a "
            "functools.cached_property."
        )
    return None


def _exercise(component: Component) -> Any:
    """Put a component through its paces, as its family does."""
    for block, exercise in EXERCISES.items():
        family = FAMILIES[block]
        if isinstance(
            component, getattr(importlib.import_module(f"{family.package}.base"), family.base)
        ):
            return exercise(component)
    return None
