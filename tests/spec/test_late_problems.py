"""Problems that show themselves after a spec was read, in the files and classes that it names: they have a place in it too."""

from __future__ import annotations

from pathlib import Path

import pytest

from dppipe.errors import DppipeError, PrivacyRefusal, Problem, SpecError, UsageError
from dppipe.spec.load import placing_problems
from dppipe.spec.messages.layout import SpecRefusal


def placed(path: Path, error: DppipeError, *, overrides: tuple[str, ...] = ()) -> DppipeError:
    with pytest.raises(DppipeError) as caught, placing_problems(path, overrides=overrides):
        raise error
    return caught.value


@pytest.fixture
def path(here: Path, base: str) -> Path:
    (here / "spec.yaml").write_text(base)
    return Path("spec.yaml")


def test_a_problem_gets_the_place_of_its_key(path: Path) -> None:
    error = placed(path, SpecError([Problem(("model", "hidden"), "expected a thing, got none.")]))
    assert str(error).startswith(
        "spec.yaml:5:28: model.hidden: expected a thing, got none.\n     5 | model:"
    )


def test_a_message_that_names_a_key_gets_its_place(path: Path) -> None:
    error = placed(path, UsageError("data.records: expected the number of records, 7: got 8."))
    assert str(error).startswith(
        "spec.yaml:4:1: data.records: expected the number of records, 7: got 8.\n"
    )
    assert error.exit_code == 2


def test_a_refusal_stays_a_refusal(path: Path) -> None:
    error = placed(path, PrivacyRefusal("accountant: expected a proven bound, got an estimate."))
    assert isinstance(error, SpecRefusal)
    assert str(error).startswith("spec.yaml:12:13: accountant: expected a proven bound")


def test_what_was_set_on_the_command_line_is_blamed_there(path: Path) -> None:
    error = placed(
        path, UsageError("model.hidden: expected less."), overrides=("model.hidden=[9]",)
    )
    assert str(error) == "--set model.hidden=[9]: model.hidden: expected less."


@pytest.mark.parametrize(
    "text",
    ["table.csv: line 3: expected 3 fields, got 2.", "something else", "datum.x: expected y."],
)
def test_other_messages_stay_as_they_are(path: Path, text: str) -> None:
    assert str(placed(path, UsageError(text))) == text


def test_a_problem_that_has_its_place_keeps_it(path: Path) -> None:
    error = SpecError([Problem(("data",), "expected x.", place="other.yaml:1:1")], "laid out")
    assert placed(path, error) is error
