"""Thousands of mutated specs: each is valid, explained or refused, and none ends in a traceback. All are drawn from a seed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from itertools import islice
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dppipe.cli.app import app
from dppipe.errors import DppipeError
from dppipe.spec.load import spec_from_text

SHORT = {"steps": 60, "records": 5000, "expected_batch_size": 2000}
"""What is trained for real; of anything larger only the plan is made."""


def mutated_specs(seed: int) -> Iterator[str]:
    """The tests are no package: what they share is loaded by its path."""
    spec = spec_from_file_location("mutations", Path(__file__).with_name("mutations.py"))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.mutated_specs(seed)


def validate(count: int, *, seed: int) -> Counter[int]:
    """Validate so many mutated specs in this process, and give how often each exit code would have come."""
    codes: Counter[int] = Counter()
    for text in islice(mutated_specs(seed), count):
        code, said = 0, ""
        try:
            spec_from_text(text)
        except DppipeError as error:
            code, said = error.exit_code, str(error)
        except Exception as error:
            raise AssertionError(f"{error!r} from the spec:\n{text}") from error
        codes[code] += 1
        assert code in (0, 2, 3), f"{said}\n{text}"
    return codes


def command(count: int, *, seed: int, folder: Path) -> Counter[int]:
    """Take so many mutated specs through the whole command, and give how often each exit code came."""
    codes: Counter[int] = Counter()
    for number, text in enumerate(islice(mutated_specs(seed), count)):
        (folder / "s.yaml").write_text(text, encoding="utf-8", errors="surrogatepass")
        done = CliRunner().invoke(app, ["plan", "s.yaml", "--json"])
        if done.exit_code == 0:
            plan = json.loads(done.stdout)
            if all((plan[name] or 0) <= most for name, most in SHORT.items()):
                done = CliRunner().invoke(app, ["run", "s.yaml", "--run-dir", f"r{number}"])
        codes[done.exit_code] += 1
        assert done.exit_code in (0, 2, 3), f"{done.output}\n{text}"
        assert "Traceback" not in done.output, f"{done.output}\n{text}"
        assert "internal error" not in done.output, f"{done.output}\n{text}"
        assert done.exit_code == 0 or not (folder / f"r{number}").exists(), f"{done.output}\n{text}"
    return codes


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_mutated_specs_are_valid_explained_or_refused(empty: Path) -> None:
    codes = validate(250, seed=1)
    assert min(codes[0], codes[2]) > 20, codes


def test_mutated_specs_end_the_command_with_a_message(empty: Path) -> None:
    codes = command(25, seed=2, folder=empty)
    assert codes[0] > 1
    assert codes[2] > 5


@pytest.mark.slow
def test_ten_thousand_mutated_specs_are_valid_explained_or_refused(empty: Path) -> None:
    codes = validate(10_000, seed=3)
    assert min(codes[0], codes[2], codes[3]) > 30, codes


@pytest.mark.slow
def test_two_hundred_mutated_specs_end_the_command_with_a_message(empty: Path) -> None:
    codes = command(200, seed=4, folder=empty)
    assert codes[0] > 20


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        (["train.steps=1000000000000"], 2),
        (["train={epochs: 1.0e+300}"], 2),
        (["train={epochs: 1.0e+12}", "noise=linear"], 2),
        (["budget=none", "train.steps=1000000000000"], 2),
        (["noise.noise_multiplier=1e-200"], 2),
        (["noise.noise_multiplier=1e200", "train={until: budget}"], 2),
        (["noise.noise_multiplier=1e8", "train={until: budget}"], 2),
        (["data.size=1000000000000000", "budget.delta=1e-16"], 2),
        (["data.size=1000000000000000", "budget=none"], 2),
        (["model.hidden=[1000000000000]"], 2),
        (["model.hidden=[4000000000000000000, 4000000000000000000]"], 2),
        (["sampler.sample_rate=1e-300"], 2),
        (["sampler.sample_rate=1e-50"], 0),
        (["optimizer.lr=1e300"], 2),
        (["optimizer.lr=1e29"], 0),
        (["noise={kind: exponential, end: 1e-29, noise_multiplier: 1}"], 2),
        (["clipping.max_grad_norm=1e-300"], 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_numbers_beyond_all_measure_are_a_matter_of_the_spec(
    changes: list[str], code: int, here: Path
) -> None:
    words = [word for change in ["train.steps=2", *changes] for word in ("--set", change)]
    done = CliRunner().invoke(
        app, ["run", "s.yaml", "--run-dir", "r", "--set", "model={kind: mlp, hidden: [4]}", *words]
    )
    assert done.exit_code == code, done.output
    assert "internal error" not in done.output
    assert "Traceback" not in done.output
