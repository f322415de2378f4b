"""Broken specs through the whole command: the exit code, the place and the words, and nothing written or spilt."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dppipe.cli.app import app
from dppipe.errors import SpecError
from dppipe.spec.load import spec_from_text

# name: (text to replace, its replacement, what the message must hold). An empty text replaces the whole spec.
BROKEN: dict[str, tuple[str, str, str]] = {
    "unknown kind": (
        "kind: flat",
        "kind: flatt",
        "9:9: clipping.kind: no clipper named 'flatt'. Known: ",
    ),
    "unknown kind suggests": ("kind: flat", "kind: flatt", "Did you mean 'flat'?"),
    "kind of another tool": ("kind: flat", "kind: per_layer", "Did you mean 'layerwise'?"),
    "accountant of another tool": (
        "kind: pld",
        "kind: prv",
        "12:20: accountant.kind: no accountant named 'prv'",
    ),
    "bare unknown kind": (
        "{kind: pld}",
        "plx",
        "12:13: accountant.kind: no accountant named 'plx'",
    ),
    "kind is a number": (
        "kind: pld",
        "kind: 3",
        "12:20: accountant.kind: expected the name of an accountant, got 3",
    ),
    "kind missing": (
        "{kind: pld}",
        "{}",
        "12:13: accountant.kind: expected the name of an accountant, got nothing",
    ),
    "component is a list": (
        "{kind: pld}",
        "[pld]",
        "12:13: accountant: expected the name of an accountant or a block",
    ),
    "component is empty": (
        "accountant: {kind: pld}",
        "accountant:",
        "12:12: accountant: expected the name of an accountant",
    ),
    "class path of a clipper": (
        "kind: flat\n",
        "class_path: a.B\n",
        "clipping.kind: expected the name of a clipper, got a class path",
    ),
    "negative bound": (
        "max_grad_norm: 1.0",
        "max_grad_norm: -1",
        "10:18: clipping.max_grad_norm: expected a number > 0, got -1.",
    ),
    "zero bound": (
        "max_grad_norm: 1.0",
        "max_grad_norm: 0",
        "10:18: clipping.max_grad_norm: expected a number > 0, got 0.",
    ),
    "bound in quotes": (
        "max_grad_norm: 1.0",
        "max_grad_norm: '1'",
        "10:18: clipping.max_grad_norm: expected a number > 0, got '1'.",
    ),
    "bound is true": (
        "max_grad_norm: 1.0",
        "max_grad_norm: true",
        "10:18: clipping.max_grad_norm: expected a number > 0, got true.",
    ),
    "bound is a list": (
        "max_grad_norm: 1.0",
        "max_grad_norm: [1]",
        "10:18: clipping.max_grad_norm: expected a number > 0, got a list.",
    ),
    "bound is empty": (
        "max_grad_norm: 1.0",
        "max_grad_norm:",
        "10:17: clipping.max_grad_norm: expected a number > 0, got nothing.",
    ),
    "bound isn't a number": (
        "max_grad_norm: 1.0",
        "max_grad_norm: .nan",
        "10:18: clipping.max_grad_norm: expected a finite number, got .nan.",
    ),
    "bound is infinite": (
        "max_grad_norm: 1.0",
        "max_grad_norm: .inf",
        "10:18: clipping.max_grad_norm: expected a finite number, got .inf.",
    ),
    "bound overflows": (
        "max_grad_norm: 1.0",
        "max_grad_norm: 1e999",
        "10:18: clipping.max_grad_norm: expected a number that fits",
    ),
    "misspelt key": (
        "max_grad_norm: 1.0",
        "max_grad_nrom: 1.0",
        "10:3: clipping.max_grad_nrom: expected a key of the flat kind",
    ),
    "misspelt key suggests": (
        "max_grad_norm: 1.0",
        "max_grad_nrom: 1.0",
        "Did you mean 'max_grad_norm'?",
    ),
    "key of another tool": (
        "max_grad_norm: 1.0",
        "l2_norm_clip: 1.0",
        "Did you mean 'max_grad_norm'?",
    ),
    "key of another block": (
        "max_grad_norm: 1.0",
        "sigma: 1.0",
        "Did you mean noise.noise_multiplier?",
    ),
    "unknown top key": ("seed: 7", "sed: 7", "3:1: sed: expected a key of a spec, got 'sed'."),
    "trainer of Lightning": (
        "train:",
        "trainer:",
        "14:1: trainer: expected a key of a spec, got 'trainer'.",
    ),
    "repeated key": (
        "seed: 7",
        "seed: 7\nseed: 8",
        "4:1: seed: expected each key once, got it twice (first on line 3).",
    ),
    "leading zero": (
        "seed: 7",
        "seed: 007",
        "3:7: seed: expected a number without leading zeros, got 007.",
    ),
    "anchor": (
        "seed: 7",
        "seed: &s {a: *s}",
        "3:14: seed.a: expected another value, got the alias *s inside of itself.",
    ),
    "alias": (
        "seed: 7",
        "seed: *s",
        "3:7: seed: expected the name of an anchor above, got *s. Mark a value by &s, or quote this if it is text.",
    ),
    "tag": (
        "seed: 7",
        "seed: !!python/name:os.system x",
        "3:7: seed: expected a value, got the tag ",
    ),
    "tag on a block": (
        "seed: 7",
        "seed: !!python/object/apply:os.system [ls]",
        "3:7: seed: expected a value, got the tag ",
    ),
    "key is a number": ("seed: 7", "3: 7", "3:1: 3: expected a name as key, got 3."),
    "key is a list": ("seed: 7", "? [a]\n: 7", "3:3: spec: expected a name as key, got a list"),
    "second document": (
        "train: {epochs: 20}",
        "train: {epochs: 20}\n---\na: 1",
        "15:1: spec: expected one document",
    ),
    "tab": ("  kind: flat", "\tkind: flat", "9:1: spec: expected spaces, got a tab."),
    "bracket left open": ("{epochs: 20}", "{epochs: 20", "15:1: spec: expected YAML"),
    "indented key": ("seed: 7", " seed: 7", "3:6: spec: expected YAML"),
    "control character": (
        "digits\n",
        "dig\x07its\n",
        "2:10: spec: expected text, got a control character.",
    ),
    "too deep": ("seed: 7", "seed: " + "[" * 30 + "]" * 30, "expected at most 20 levels"),
    "too large": (
        "seed: 7",
        "seed: 7 #" + "x" * 1_000_000,
        "1:1: spec: expected at most 1,000,000 bytes",
    ),
    "empty file": ("", "", "1:1: spec: expected a spec with"),
    "only a comment": ("", "# nothing\n", "1:1: spec: expected a spec with"),
    "a list": (
        "",
        "- a\n- b\n",
        "1:1: spec: expected a spec with `version`, `name`, `data` and so on, got a list.",
    ),
    "a word": (
        "",
        "hello\n",
        "1:1: spec: expected a spec with `version`, `name`, `data` and so on, got 'hello'.",
    ),
    "version missing": (
        "version: 1\n",
        "",
        "1:1: version: expected 1, got nothing. Write `version: 1`.",
    ),
    "another version": ("version: 1", "version: 2", "1:10: version: expected 1, got 2."),
    "version is true": ("version: 1", "version: true", "1:10: version: expected 1"),
    "version is a float": ("version: 1", "version: 1.0", "1:10: version: expected 1"),
    "name is a path": ("name: digits", "name: ../digits", "2:7: name: expected text that matches"),
    "name is a number": (
        "name: digits",
        "name: 3",
        "2:7: name: expected text, got 3. Quote it if it is a name.",
    ),
    "name ends in a line": (
        "name: digits",
        'name: "digits\\n"',
        "2:7: name: expected text that matches",
    ),
    "negative seed": (
        "seed: 7",
        "seed: -1",
        "3:7: seed: expected an integer >= 0 and < 4294967296, got -1.",
    ),
    "broken seed": (
        "seed: 7",
        "seed: 7.5",
        "3:7: seed: expected an integer >= 0 and < 4294967296, got 7.5.",
    ),
    "huge seed": (
        "seed: 7",
        "seed: 99999999999999999999999",
        "3:7: seed: expected a number that fits in 64 bits",
    ),
    "separated number": (
        "seed: 7",
        "seed: 1_000",
        "3:7: seed: expected an integer >= 0 and < 4294967296, got '1_000'. Write it as a plain",
    ),
    "reproducible is yes": (
        "seed: 7",
        "reproducible: yes",
        "3:15: reproducible: expected true or false, got 'yes'. Write true.",
    ),
    "reproducible is off": (
        "seed: 7",
        "reproducible: off",
        "3:15: reproducible: expected true or false, got 'off'. Write false.",
    ),
    "delta in quotes": (
        "1.0e-5",
        '"1e-5"',
        "13:31: budget.delta: expected a number > 0 and < 1, got '1e-5'. Write it as a plain",
    ),
    "delta as a power": ("1.0e-5", "10^-5", "got '10^-5'. Write a power of ten as 1e-5."),
    "rate as a percentage": (
        "expected_batch_size: 256",
        "sample_rate: 4.5 %",
        "got '4.5 %'. Write a percentage as a share: 0.045.",
    ),
    "number with its unit": (
        "epochs: 20",
        "epochs: 20 epochs",
        "got '20 epochs'. Write the number alone, without a unit.",
    ),
    "decimal comma": (
        "epsilon: 3.0",
        "epsilon: 3,0",
        "13:21: budget.0: expected a name as key, got 0. A decimal has a point",
    ),
    "no space after the colon": (
        "train: {",
        "train:{",
        "A colon ends a key only where a space follows it.",
    ),
    "budget None": (
        "budget: {epsilon: 3.0, delta: 1.0e-5}",
        "budget: None",
        "got 'None'. Give epsilon and delta, or say `budget: none`",
    ),
    "list too short": (
        "{kind: digits, holdout: public}",
        "{kind: synthetic, normalize: {mean: []}}",
        "expected at least 1 item, got 0.",
    ),
    "kind missing names them": (
        "{kind: pld}",
        "{}",
        "Say which one by `kind`: advanced, basic, gdp, pld, rdp, tcdp, zcdp.",
    ),
    "bracket left open says where": ("{epochs: 20}", "{epochs: 20", "that begins on line 14"),
    "diagnostics of another name": (
        "seed: 7",
        "diagnostics: private",
        "3:14: diagnostics: expected off or nonprivate, got 'private'.",
    ),
    "budget missing": ("budget: {epsilon: 3.0, delta: 1.0e-5}\n", "", "1:1: budget: expected "),
    "budget missing says why": (
        "budget: {epsilon: 3.0, delta: 1.0e-5}\n",
        "",
        "or say `budget: none` for a baseline without privacy.",
    ),
    "budget is another word": (
        "{epsilon: 3.0, delta: 1.0e-5}",
        "unlimited",
        "13:9: budget: expected ",
    ),
    "delta missing": (
        "epsilon: 3.0, delta: 1.0e-5",
        "epsilon: 3.0",
        "13:1: budget.delta: expected a number > 0 and < 1, got nothing.",
    ),
    "delta too large": (
        "delta: 1.0e-5",
        "delta: 0.01",
        "13:31: budget.delta: expected less than 1/records = ",
    ),
    "delta is 1": (
        "delta: 1.0e-5",
        "delta: 1",
        "13:31: budget.delta: expected a number > 0 and < 1, got 1.",
    ),
    "target epsilon": (
        "epsilon: 3.0",
        "target_epsilon: 3.0",
        "13:10: budget.target_epsilon: expected a key of this block",
    ),
    "relation of another tool": (
        "delta: 1.0e-5",
        "delta: 1.0e-5, relation: add_or_remove_one",
        "Did you mean 'add_remove'?",
    ),
    "train missing": (
        "train: {epochs: 20}\n",
        "",
        "1:1: train: expected a block with steps, epochs",
    ),
    "two lengths": (
        "epochs: 20",
        "epochs: 20, steps: 100",
        "14:8: train: expected exactly one of steps, epochs and until, got steps and epochs.",
    ),
    "no length": (
        "{epochs: 20}",
        "{accelerator: cpu}",
        "14:8: train: expected exactly one of steps, epochs and until, got none",
    ),
    "until the end": (
        "epochs: 20",
        "until: end",
        "14:16: train.until: expected budget, got 'end'.",
    ),
    "auto without a length": (
        "epochs: 20",
        "until: budget",
        "14:16: train.until: expected steps or epochs, got until: budget with",
    ),
    "float16": (
        "epochs: 20",
        "epochs: 20, precision: 16-mixed",
        "14:32: train.precision: expected 32-true or bf16-mixed, got '16-mixed'",
    ),
    "true bfloat16": (
        "epochs: 20",
        "epochs: 20, precision: bf16-true",
        "would round the noise away",
    ),
    "precision as a number": (
        "epochs: 20",
        "epochs: 20, precision: 32",
        "14:32: train.precision: expected 32-true or bf16-mixed, got 32.",
    ),
    "a sharding strategy": (
        "epochs: 20",
        "epochs: 20, strategy: fsdp",
        "14:31: train.strategy: expected auto or ddp, got 'fsdp': the engine needs whole parameters",
    ),
    "an unknown strategy": (
        "epochs: 20",
        "epochs: 20, strategy: dp",
        "14:31: train.strategy: expected auto or ddp, got 'dp'.",
    ),
    "no devices": ("epochs: 20", "epochs: 20, devices: 0", "14:30: train.devices: expected"),
    "both rates": (
        "expected_batch_size: 256",
        "expected_batch_size: 256, sample_rate: 0.1",
        "7:10: sampler: expected one of sample_rate and",
    ),
    "no rate": (
        "{kind: poisson, expected_batch_size: 256}",
        "poisson",
        "7:10: sampler: expected one of sample_rate and",
    ),
    "batch of too many": (
        "expected_batch_size: 256",
        "expected_batch_size: 5000",
        "7:47: sampler.expected_batch_size: expected at most ",
    ),
    "rate above one": (
        "expected_batch_size: 256",
        "sample_rate: 1.5",
        "7:39: sampler.sample_rate: expected a number > 0 and <= 1, got 1.5.",
    ),
    "one rate under add_remove": (
        "delta: 1.0e-5",
        "delta: 1.0e-5, relation: add_remove",
        "7:10: sampler: expected both sample_rate and",
    ),
    "no optimizer": (
        "optimizer: {kind: sgd, lr: 0.25}\n",
        "",
        "1:1: optimizer: expected the name of an optimizer",
    ),
    "schedule of no name": (
        "lr: 0.25",
        "lr: 0.25, schedule: warm",
        "6:44: optimizer.schedule.kind: no schedule named 'warm'",
    ),
    "key in a schedule": (
        "lr: 0.25",
        "lr: 0.25, schedule: {kind: linear, wramup: 0.1}",
        "6:59: optimizer.schedule.wramup: expected a key",
    ),
    "item of a list": (
        "hidden: [32]",
        "hidden: [32, many]",
        "5:33: model.hidden.1: expected an integer, got 'many'.",
    ),
    "shares above one": (
        "holdout: public",
        "split: {train: 0.9, val: 0.9}",
        "data.split: expected shares",
    ),
}


def _broken(base: str, case: tuple[str, str, str]) -> str:
    old, new, _ = case
    if not old:
        return new
    assert old in base
    return base.replace(old, new, 1)


@pytest.mark.parametrize("name", BROKEN)
def test_broken_spec_is_explained_at_its_place(name: str, base: str, here: Path) -> None:
    (here / "s.yaml").write_text(_broken(base, BROKEN[name]), encoding="utf-8", newline="")
    result = CliRunner().invoke(app, ["validate", "s.yaml"])
    wanted = BROKEN[name][2]
    assert result.exit_code == 2, result.output
    assert wanted in result.stderr, result.stderr
    assert result.stderr.startswith("s.yaml:")
    assert "Traceback" not in result.output
    assert "pydantic" not in result.output
    assert result.stdout == ""
    assert [file.name for file in here.iterdir()] == ["s.yaml"]


def test_full_batch_is_refused_where_the_number_of_records_is_secret(base: str, here: Path) -> None:
    text = base.replace("{kind: poisson, expected_batch_size: 256}", "full_batch").replace(
        "1.0e-5}", "1.0e-5, relation: add_remove}"
    )
    (here / "s.yaml").write_text(text)
    result = CliRunner().invoke(app, ["validate", "s.yaml"])
    assert result.exit_code == 2
    assert (
        "s.yaml:7:10: sampler.kind: expected a sampler with sample_rate and expected_batch_size, got 'full_batch'."
        in result.stderr
    )


def test_a_pair_without_proof_is_a_refusal_with_its_own_exit_code(base: str, here: Path) -> None:
    (here / "s.yaml").write_text(
        base.replace("1.0e-5}", "1.0e-5, relation: replace_one}").replace("pld", "rdp")
    )
    result = CliRunner().invoke(app, ["validate", "s.yaml", "--json"])
    assert result.exit_code == 3
    assert (
        "s.yaml:12:20: accountant.kind: expected a pair with a proof, got 'rdp' with sampler 'poisson'"
        in result.stderr
    )
    assert "Take accountant: pld" in result.stderr
    assert json.loads(result.stdout)["problems"][0]["place"] == "s.yaml:12:20"


def test_a_refusal_beside_another_problem_is_a_wrong_spec(base: str, here: Path) -> None:
    text = (
        base.replace("1.0e-5}", "1.0e-5, relation: replace_one}")
        .replace("pld", "rdp")
        .replace("epochs: 20", "until: budget")
    )
    (here / "s.yaml").write_text(text)
    result = CliRunner().invoke(app, ["validate", "s.yaml"])
    assert result.exit_code == 2
    assert "expected a pair with a proof" in result.stderr
    assert "got until: budget with noise.noise_multiplier: auto" in result.stderr


def test_all_problems_come_at_once_in_the_order_of_the_file(base: str, here: Path) -> None:
    text = (
        base.replace("seed: 7", "seed: -7")
        .replace("kind: flat", "kind: flatt")
        .replace("epochs: 20", "epoch: 20")
        .replace("256", "0256")
    )
    (here / "s.yaml").write_text(text)
    result = CliRunner().invoke(app, ["validate", "s.yaml", "--set", "budget.delta=x"])
    places = [
        line.split(": ")[0]
        for line in result.stderr.splitlines()
        if line.startswith(("s.yaml", "--set"))
    ]
    assert places == [
        "s.yaml:3:7",
        "s.yaml:7:47",
        "s.yaml:9:9",
        "s.yaml:14:9",
        "--set budget.delta=x",
    ]


def test_the_source_line_is_shown_with_a_caret(base: str, here: Path) -> None:
    (here / "s.yaml").write_text(base.replace("1.0\n", "-1\n"))
    result = CliRunner().invoke(app, ["validate", "s.yaml"])
    assert result.stderr == (
        "s.yaml:10:18: clipping.max_grad_norm: expected a number > 0, got -1.\n"
        "    10 |   max_grad_norm: -1\n"
        "       |                  ^\n"
    )


@pytest.mark.parametrize(
    "name", ["unknown kind suggests", "tag on a block", "empty file", "too deep"]
)
def test_the_command_itself_ends_so_too(name: str, base: str, here: Path) -> None:
    (here / "s.yaml").write_text(_broken(base, BROKEN[name]))
    command = [
        sys.executable,
        "-c",
        "from dppipe.cli import main; main()",
        "validate",
        "s.yaml",
        "--json",
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert BROKEN[name][2] in result.stderr
    assert json.loads(result.stdout)["valid"] is False
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("nope.yaml", "No such file"),
        (".", "Is a directory"),
        ("bytes.yaml", "UTF-8"),
        ("a\0b", "null"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(path: str, words: str, here: Path) -> None:
    (here / "bytes.yaml").write_bytes(b"version: 1\nname: \xff\n")
    result = CliRunner().invoke(app, ["validate", path])
    assert result.exit_code == 2
    assert words in result.output


@pytest.mark.parametrize("before", [0, 40, 90, 300])
@pytest.mark.parametrize("after", [0, 200])
def test_a_source_line_fits_80_columns_and_the_caret_stands_below_its_place(
    base: str, before: int, after: int
) -> None:
    text = base.replace(
        "model: {kind: mlp, hidden: [32]}",
        f"model: {{kind: mlp, {' ' * before}hiden: [32]}} #{'x' * after}",
    )
    with pytest.raises(SpecError) as caught:
        spec_from_text(text)
    _, line, caret = str(caught.value).splitlines()
    assert max(len(line), len(caret)) <= 80
    assert line[caret.index("^") :].startswith("hiden: [32]")
