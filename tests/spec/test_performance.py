"""The `performance` block: one place for settings of speed, old places that still work, and no say in privacy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from dppipe.cli.app import app
from dppipe.errors import PrivacyRefusal, SpecError
from dppipe.planning.privacy_plan import make_plan
from dppipe.runs.changes import check_unchanged
from dppipe.runs.directory import RunDirectory
from dppipe.runs.origin import remember_origin
from dppipe.sampling.poisson import Poisson
from dppipe.spec import Spec, json_schema, spec_from_text
from dppipe.spec.performance import OLD_BLOCKS, Performance
from dppipe.spec.spec import committed_hash, spec_hash

VALUES: dict[str, Any] = {
    "physical_batch_size": 16,
    "accelerator": "cpu",
    "devices": 2,
    "num_nodes": 3,
    "strategy": "ddp",
}


def test_every_setting_is_tried_here() -> None:
    assert set(VALUES) == set(Performance.model_fields) == set(OLD_BLOCKS)


@pytest.mark.parametrize("name", VALUES)
def test_a_setting_in_its_old_place_is_the_same_as_in_the_new_one(base: str, name: str) -> None:
    new = spec_from_text(base, overrides=[f"performance.{name}={VALUES[name]}"])
    old = spec_from_text(base, overrides=[f"{OLD_BLOCKS[name]}.{name}={VALUES[name]}"])
    assert old == new
    assert getattr(new.performance, name) == VALUES[name]
    assert new != spec_from_text(base)


@pytest.mark.parametrize("name", VALUES)
def test_a_setting_in_both_places_is_an_error_at_the_old_one(base: str, name: str) -> None:
    block = OLD_BLOCKS[name]
    both = [f"performance.{name}={VALUES[name]}", f"{block}.{name}={VALUES[name]}"]
    with pytest.raises(SpecError) as caught:
        spec_from_text(base, overrides=both)
    expected = f"--set {both[1]}: {block}.{name}: expected it in one place, got performance.{name}"
    assert expected in str(caught.value)


def test_the_saved_spec_has_settings_in_the_new_place_only(base: str) -> None:
    old = [f"{block}.{name}={VALUES[name]}" for name, block in OLD_BLOCKS.items()]
    spec = spec_from_text(base, overrides=old)
    data = spec.to_data()
    assert data["performance"] == VALUES
    assert not set(OLD_BLOCKS) & (set(data["train"]) | set(data["sampler"]))
    assert spec_from_text(spec.to_yaml()) == spec


@pytest.mark.parametrize("name", VALUES)
def test_a_performance_setting_changes_no_number_of_the_plan(base: str, name: str) -> None:
    usual = spec_from_text(base)
    changed = spec_from_text(base, overrides=[f"performance.{name}={VALUES[name]}"])
    assert committed_hash(changed) == committed_hash(usual)
    assert spec_hash(changed) != spec_hash(usual)
    plan = make_plan(changed).model_copy(update={"spec_hash": spec_hash(usual)})
    assert plan == make_plan(usual)


def test_the_sampler_of_a_run_has_the_physical_batch_size(base: str) -> None:
    spec = spec_from_text(base, overrides=["performance.physical_batch_size=16"])
    assert spec.sized_sampler() == Poisson(expected_batch_size=256, physical_batch_size=16)


def test_a_spec_made_in_python_refuses_a_size_in_its_sampler(base: str) -> None:
    parts = {name: getattr(spec_from_text(base), name) for name in Spec.model_fields}
    parts["sampler"] = Poisson(expected_batch_size=256, physical_batch_size=16)
    with pytest.raises(ValidationError, match="expected it in performance, got 16"):
        Spec(**parts)


@pytest.mark.parametrize("block", ["[1]", "7", "auto"])
def test_a_performance_block_that_is_none_is_said(base: str, block: str) -> None:
    with pytest.raises(SpecError) as caught:
        spec_from_text(base, overrides=[f"performance={block}", "train.devices=2"])
    [problem] = caught.value.problems
    assert problem.path == ("performance",)


def test_the_schema_has_the_block_and_calls_the_old_places_deprecated() -> None:
    schema = json_schema()
    assert schema["properties"]["performance"]["$ref"] == "#/$defs/Performance"
    settings = schema["$defs"]["Performance"]["properties"]
    assert set(settings) == set(VALUES)
    assert not any(setting.get("deprecated") for setting in settings.values())
    for name, block in OLD_BLOCKS.items():
        holder = schema["$defs"]["Train" if block == "train" else "sampler-poisson"]
        assert holder["properties"][name]["deprecated"] is True


@pytest.mark.parametrize("command", ["validate", "plan"])
def test_a_command_hints_at_the_new_place(here: Path, base: str, command: str) -> None:
    Path("spec.yaml").write_text(base.replace("epochs: 20", "epochs: 20, devices: 1"))
    done = CliRunner().invoke(app, [command, "spec.yaml", "--json"])
    assert done.exit_code == 0, done.output
    assert "hint: spec.yaml:14:30: train.devices: works here, and has moved" in done.stderr
    assert "Write performance.devices instead." in done.stderr
    json.loads(done.stdout)


def test_a_spec_without_old_settings_gets_no_hint(here: Path, base: str) -> None:
    Path("spec.yaml").write_text(base + "performance: {devices: 2}\n")
    done = CliRunner().invoke(app, ["validate", "spec.yaml"])
    assert (done.exit_code, done.stderr) == (0, "")


@pytest.fixture
def begun(here: Path, base: str) -> RunDirectory:
    """A run directory of the spec, as far as changes are looked for in it."""
    run = RunDirectory(here)
    run.config.write_text(spec_from_text(base).to_yaml())
    run.ledger.touch()
    run.plan.touch()
    remember_origin(run, data=None, spec=run.config.read_text())
    return run


def test_a_run_goes_on_with_another_performance_block(base: str, begun: RunDirectory) -> None:
    plan = make_plan(spec_from_text(base))
    faster = spec_from_text(base, overrides=[f"performance={json.dumps(VALUES)}"])
    begun.config.write_text(faster.to_yaml())
    check_unchanged(faster, plan, begun, accept_changes=False)


def test_another_performance_block_hides_no_other_change(base: str, begun: RunDirectory) -> None:
    plan = make_plan(spec_from_text(base))
    faster = f"performance={json.dumps(VALUES)}"
    for change, message in [
        ("optimizer.lr=0.125", "optimizer.lr: expected 0.25"),
        ("train.epochs=21", "train.epochs: expected 20"),
        ("noise.noise_multiplier=9", "noise.noise_multiplier: expected 'auto'"),
    ]:
        spec = spec_from_text(base, overrides=[faster, change])
        begun.config.write_text(spec.to_yaml())
        with pytest.raises(PrivacyRefusal) as caught:
            check_unchanged(spec, plan, begun, accept_changes=False)
        assert message in str(caught.value)


EARLIER = """\
sampler: {kind: poisson, physical_batch_size: SIZE, expected_batch_size: 256.0}
train: {epochs: 20.0, accelerator: auto, devices: 1, num_nodes: 1, strategy: auto, precision: 32-true}
""".splitlines(keepends=True)
"""Two lines of the effective spec as the version before this block wrote them."""


@pytest.mark.parametrize(
    ("size", "committed", "whole"),  # the hashes that the same version put into the plan
    [
        (
            "auto",
            "ed772cc980b47a1a821f3b13dd52aabe8430931f6ed15b6d5c473ab8635d7e00",
            "c25bfac7cf2578e5a4aff4b1e42f6f6b598e558e35c86a311e08572fbf53b7d4",
        ),
        (
            "16",
            "c125f38818acb53434dae23e6668f94543fd2da8f58c68545ef292fd449e24b6",
            "8155bf5e7afa6726c8930b00c5f3c84c041001b0d1ee74b1ed996a18b3901594",
        ),
    ],
)
def test_a_run_of_an_earlier_version_goes_on(
    base: str, begun: RunDirectory, size: str, committed: str, whole: str
) -> None:
    lines = []
    for line in spec_from_text(base).to_yaml().splitlines(keepends=True):
        block = line.partition(":")[0]
        earlier = {"sampler": EARLIER[0].replace("SIZE", size), "train": EARLIER[1]}
        if block != "performance":
            lines.append(earlier.get(block, line))
    begun.config.write_text("".join(lines))
    spec = spec_from_text("".join(lines))
    plan = make_plan(spec).model_copy(update={"spec_hash": whole, "committed_hash": committed})
    check_unchanged(spec, plan, begun, accept_changes=False)
    other = spec_from_text("".join(lines), overrides=["clipping.max_grad_norm=2"])
    with pytest.raises(PrivacyRefusal, match=r"clipping\.max_grad_norm: expected 1\.0"):
        check_unchanged(other, plan, begun, accept_changes=True)


@pytest.mark.parametrize(
    ("changes", "several"),
    [
        ([], False),
        (["performance.strategy=ddp"], True),
        (["performance.devices=2"], True),
        (["performance.num_nodes=2"], True),
    ],
)
def test_the_strategy_reaches_the_trainer(base: str, changes: list[str], several: bool) -> None:
    from dppipe.lightning.strategies import PrivateDDP
    from dppipe.pipeline.trainer import _hardware

    found = _hardware(spec_from_text(base, overrides=changes))["strategy"]
    assert isinstance(found, PrivateDDP) == several
    assert several or found == "auto"
