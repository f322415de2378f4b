"""The command line itself: light, quick, and silent about what it shouldn't say."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import typer
import yaml
from typer.testing import CliRunner

import dppipe
from dppipe.cli.app import app
from dppipe.cli.errors import Commands, say_error
from dppipe.cli.init import STARTER
from dppipe.cli.printing.wrapping import short_path, table
from dppipe.errors import BudgetExhausted, DppipeError, Interrupted, PrivacyRefusal, UsageError

ROOT = Path(__file__).parents[2]
HEAVY = (
    "torch",
    "pytorch_lightning",
    "lightning",
    "dp_accounting",
    "numpy",
    "scipy",
    "sklearn",
    "pandas",
    "tensorboard",
    "rich",
)
LIGHT = [
    ["--help"],
    ["--version"],
    ["validate", "--help"],
    ["validate", "s.yaml"],
    ["show", "s.yaml", "--sources"],
    ["schema"],
    ["init", "new.yaml"],
]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text(STARTER)
    return tmp_path


@pytest.mark.parametrize("words", LIGHT, ids=" ".join)
def test_light_commands_import_nothing_heavy(words: list[str], here: Path) -> None:
    code = (
        "import sys\nfrom dppipe.cli import main\nsys.argv[1:] = " + repr(words) + "\n"
        "try:\n    main()\nexcept SystemExit as end:\n    code = end.code\n"
        f"print(sorted(set({HEAVY!r}) & set(sys.modules)), code, file=sys.stderr)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env=_environment(),
    )
    assert result.stderr.splitlines()[-1] == "[] 0", result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("words", LIGHT, ids=" ".join)
def test_light_commands_answer_at_once(words: list[str], here: Path) -> None:
    """Half a second of an idle core: processor time, the best of three, as other work would only stretch the clock's.

    Modules are compiled once, as for a user, even where the environment asks Python to write no bytecode.
    """
    compiled = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(here / "bytecode")}
    seconds = []
    for _ in range(3):
        (here / "new.yaml").unlink(missing_ok=True)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        environment = _environment() | compiled
        subprocess.run(
            [sys.executable, "-m", "dppipe", *words],
            capture_output=True,
            check=True,
            env=environment,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    assert min(seconds) < 0.5


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT)}


def test_help_and_version() -> None:
    assert CliRunner().invoke(app, ["--version"]).stdout == f"dppipe {dppipe.__version__}\n"
    text = CliRunner().invoke(app, ["--help"]).stdout
    assert "validate" in text
    assert "--debug" in text
    assert "Usage:" in CliRunner().invoke(app, []).output


@pytest.mark.parametrize("words", [[], ["budget"], ["ledger"], ["plugins"]], ids=str)
def test_no_command_s_summary_is_cut_off_at_80_columns(words: list[str]) -> None:
    shown = CliRunner().invoke(app, [*words, "--help"], terminal_width=80).output
    summaries = shown.partition("Commands:\n")[2]
    assert summaries
    assert "..." not in summaries
    assert max(map(len, shown.splitlines())) <= 80


def test_a_path_is_never_broken_and_is_short_below_the_working_directory(here: Path) -> None:
    long = "/".join(["a_folder"] * 12)
    assert table({"run": long, "curves": f"dppipe tensorboard {long}"}).count(long) == 2
    assert short_path(here / "runs" / "x") == short_path("runs/x") == "runs/x"
    assert short_path("/elsewhere/x") == "/elsewhere/x"


def test_a_wrong_command_line_is_exit_code_2() -> None:
    for words in (["nope"], ["validate"], ["validate", "--nope", "x"], ["--nope"]):
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 2
        assert "Traceback" not in result.output


def test_validate_says_what_is_used(here: Path) -> None:
    (here / "plugins").mkdir()
    (here / "plugins" / "mine.py").write_text(
        "from dppipe import Clipper\nclass M(Clipper, kind='mine'): ...\n"
    )
    assert CliRunner().invoke(app, ["validate", "s.yaml"]).stdout == "s.yaml: valid\n"
    result = CliRunner().invoke(app, ["validate", "s.yaml", "--set", "clipping=mine"])
    assert result.stdout.startswith("s.yaml: valid\nuses plugins/mine.py (sha256 ")


def test_validate_says_that_an_estimate_will_not_run(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dppipe.privacy.support import Verdict
    from dppipe.spec.rules import between_blocks as rules

    monkeypatch.setattr(rules, "verdict", lambda **_: Verdict("estimate", "a guess"))
    assert "only estimates" in CliRunner().invoke(app, ["validate", "s.yaml"]).stdout


def test_the_starter_is_valid_and_never_overwrites(here: Path) -> None:
    result = CliRunner().invoke(app, ["init", "new.yaml"])
    assert result.exit_code == 0
    assert result.stdout.endswith("wrote new.yaml; next: dppipe plan new.yaml\n")
    assert CliRunner().invoke(app, ["validate", "new.yaml"]).exit_code == 0
    first = (here / "new.yaml").read_text().splitlines()[0]
    assert first == "# yaml-language-server: $schema=dppipe.schema.json"
    schema = json.loads((here / "dppipe.schema.json").read_text())
    jsonschema.validate(yaml.safe_load((here / "new.yaml").read_text()), schema)
    (here / "dppipe.schema.json").write_text("mine")
    alone = CliRunner().invoke(app, ["init", "alone.yaml", "--no-schema"])
    assert alone.stdout == "wrote alone.yaml; next: dppipe plan alone.yaml\n"
    assert (here / "alone.yaml").read_text() == STARTER
    assert "is there already" in CliRunner().invoke(app, ["init", "more.yaml"]).stdout
    assert (here / "dppipe.schema.json").read_text() == "mine"
    (here / "new.yaml").write_text("mine")
    for path, words in (
        ("new.yaml", "one that is there"),
        ("nowhere/new.yaml", "No such file"),
        (".", "one that is there"),
    ):
        result = CliRunner().invoke(app, ["init", path])
        assert result.exit_code == 2
        assert words in result.stderr
    assert (here / "new.yaml").read_text() == "mine"


def _failing(error: BaseException) -> typer.Typer:
    failing = typer.Typer(cls=Commands, pretty_exceptions_enable=False)

    @failing.callback()
    def options() -> None: ...

    @failing.command()
    def fail() -> None:
        raise error

    return failing


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (DppipeError("a"), 1),
        (UsageError("b"), 2),
        (PrivacyRefusal("c"), 3),
        (BudgetExhausted("d"), 3),
        (Interrupted("e"), 130),
        (Interrupted("f", exit_code=143), 143),
    ],
)
def test_an_error_is_its_message_and_its_exit_code(error: DppipeError, code: int) -> None:
    result = CliRunner().invoke(_failing(error), ["fail"])
    assert (result.exit_code, result.stderr, result.stdout) == (code, f"{error}\n", "")


def test_ctrl_c_is_130() -> None:
    assert CliRunner().invoke(_failing(KeyboardInterrupt()), ["fail"]).exit_code == 130


def test_an_unforeseen_error_shows_its_type_and_no_value() -> None:
    result = CliRunner().invoke(_failing(ValueError("patient 17 has 3.14")), ["fail"])
    assert result.exit_code == 1
    assert "ValueError" in result.stderr
    assert "patient" not in result.output


def test_an_unforeseen_error_names_the_place_in_the_code() -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(dppipe, "nothing_of_" + "this_name")
    assert say_error(caught.value).startswith("internal error: AttributeError at dppipe/lazy.py:")


@pytest.mark.parametrize("words", [["--debug", "fail"], ["fail", "--debug"]])
def test_debug_shows_the_traceback_wherever_it_stands(
    words: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    result = CliRunner().invoke(_failing(UsageError("wrong")), words)
    assert result.exit_code == 2
    assert "Traceback" in result.stderr
    assert "wrong" in result.stderr


def test_a_closed_pipe_is_no_internal_error(here: Path) -> None:
    command = f"{sys.executable} -m dppipe schema | head -c 10 > /dev/null"
    result = subprocess.run(
        command, shell=True, capture_output=True, text=True, check=False, env=_environment()
    )
    assert "internal error" not in result.stderr
    assert "Traceback" not in result.stderr


TABLE = """\
data:
  kind: csv
  path: people.csv
  records: 1000
  numeric: [{column: age}]
  target: {column: ill, classes: [0, 1]}
model: logistic
"""


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            "path: people.csv",
            "t.yaml:3:9: data.path: expected a file, got people.csv, which doesn't exist",
        ),
        (
            "model: {class_path: nowhere.Net}",
            "t.yaml:7:21: model.class_path: expected a class that can be imported",
        ),
        (
            "  records: 999",
            "t.yaml:4:12: data.records: expected the number of records in the data, 1000, got 999",
        ),
        (
            "  numeric: [{column: Age}]",
            "t.yaml:5:22: data.numeric.0.column: expected one of 2 columns",
        ),
    ],
)
def test_what_a_run_finds_in_files_and_classes_is_told_by_its_place_in_the_spec(
    change: str, told: str, here: Path
) -> None:
    rest = [line for line in STARTER.splitlines() if not line.startswith(("data:", "model:"))]
    key = change.strip().partition(":")[0]
    table = [
        change if line.strip().startswith(f"{key}:") and "path" not in key else line
        for line in TABLE.splitlines()
    ]
    (here / "t.yaml").write_text("\n".join([*table, *rest]))
    if key != "path":
        (here / "people.csv").write_text("age,ill\n" + "30,0\n40,1\n" * 500)
    result = CliRunner().invoke(app, ["run", "t.yaml"])
    assert result.exit_code == 2
    assert result.stderr.startswith(told)
    assert not (here / "runs").exists()
