"""`dppipe plugins list`: every kind with its file, its help and its options, whatever state the plugins are in."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

from dppipe.cli.app import app
from dppipe.plugin_kit import list_kinds
from dppipe.spec.kinds.families import FAMILIES
from dppipe.spec.kinds.registry import Registry, built_in_kinds

SOFT = """\
from dppipe import Clipper, Field

class Soft(Clipper, kind="soft"):
    '''Shrinks smoothly,
    everywhere.

    More about it.'''
    stability: float = Field(0.01, gt=0, le=2, description="Keeps it tame.")
    needed: int
"""


def listed(*words: str) -> str:
    result = CliRunner().invoke(app, ["plugins", "list", *words])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_every_kind_of_every_family_is_listed(here: Path) -> None:
    (here / "plugins" / "soft.py").write_text(SOFT)
    found = [(facts.block, facts.kind) for facts in list_kinds(Registry())]
    expected = {
        (block, kind) for block, family in FAMILIES.items() for kind in built_in_kinds(family)
    }
    assert set(found) == expected | {("clipping", "soft")}
    assert list(dict.fromkeys(block for block, _ in found)) == list(FAMILIES)
    assert all(facts.help for facts in list_kinds(Registry()))


def test_a_kind_says_its_file_help_options_defaults_and_limits(here: Path) -> None:
    (here / "plugins" / "soft.py").write_text(SOFT)
    (soft,) = [facts for facts in json.loads(listed("--json"))["kinds"] if facts["kind"] == "soft"]
    assert (soft["source"], soft["built_in"], soft["help"]) == (
        "plugins/soft.py",
        False,
        "Shrinks smoothly, everywhere.",
    )
    (stability,) = [option for option in soft["options"] if option["name"] == "stability"]
    assert stability == {
        "name": "stability",
        "takes": "a number > 0 and <= 2",
        "required": False,
        "default": 0.01,
        "description": "Keeps it tame.",
    }
    text = listed()
    assert "  soft  (plugins/soft.py)\n      Shrinks smoothly, everywhere.\n" in text
    assert (
        "      stability: a number > 0 and <= 2; default 0.01\n      needed: an integer; required\n"
        in text
    )
    assert "  flat  (dppipe/clipping/flat.py)\n" in text


def test_one_block_can_be_listed_alone(here: Path) -> None:
    assert {facts["block"] for facts in json.loads(listed("clipping", "--json"))["kinds"]} == {
        "clipping"
    }
    result = CliRunner().invoke(app, ["plugins", "list", "cliping"])
    assert result.exit_code == 2
    assert "got 'cliping'. Did you mean 'clipping'?" in result.stderr


def test_the_list_fits_80_columns(here: Path) -> None:
    assert max(map(len, listed().splitlines())) <= 80


def test_what_cannot_be_used_is_listed_with_the_reason(here: Path) -> None:
    (here / "plugins" / "broken.py").write_text(SOFT.replace('"soft"', '"broken"') + "1 / 0\n")
    (here / "plugins" / "shadow.py").write_text(SOFT.replace('"soft"', '"flat"'))
    (here / "plugins" / "torn.py").write_text("class (")
    result = CliRunner().invoke(app, ["plugins", "list"])
    assert "CAN'T BE USED: plugins/broken.py:10: the plugin can't be loaded:" in result.stdout
    assert "CAN'T BE USED: expected one clipper named 'flat', got 2" in result.stdout
    assert "not read: plugins/torn.py:1" in result.stderr


def test_listing_imports_nothing_heavy(here: Path) -> None:
    code = (
        "import sys\nfrom dppipe.cli import main\nsys.argv[1:] = ['plugins', 'list']\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print({'torch', 'dp_accounting', 'pytorch_lightning', 'sklearn'} & set(sys.modules), file=sys.stderr)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stderr.splitlines()[-1] == "set()"
