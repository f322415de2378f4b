"""Specs that are meant to do harm: bombs, huge files, and names that climb out of where they belong."""

from __future__ import annotations

import resource
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dppipe.cli.app import app

LAUGHS = "a0: &a0 [x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 30)
)
BOMBS = {
    "a billion laughs": LAUGHS,
    "an alias to itself": "a: &a [*a]\n",
    "merge keys": "a: &a {b: 1}\nc: {<<: *a}\n",
    "deep lists": "a: " + "[" * 400_000,
    "deep blocks": "".join(f"{' ' * n}a{n}:\n" for n in range(1_000)),
    "deep flow blocks": "a: " + "{b: " * 100_000,
    "many keys": "".join(f"k{n}: {n}\n" for n in range(15_000)),
    "many equal keys": "k: 1\n" * 100_000,
    "a long key": "k" * 900_000 + ": 1\n",
    "a long value": "name: " + "x" * 900_000 + "\n",
    "a long number": "seed: " + "9" * 900_000 + "\n",
    "a long fraction": "seed: 0." + "9" * 900_000 + "e-9999999\n",
    "a huge exponent": "seed: 1e999999999999\n",
    "a hex number": "seed: 0x" + "f" * 900_000 + "\n",
    "many documents": "---\n" * 200_000,
    "many tags": "a: [" + "!!python/name:os.system x, " * 20_000 + "]\n",
    "a python object": "a: !!python/object/apply:os.mkdir [trace]\n",
    "an open quote": "a: '" + "\n" * 900_000,
    "an endless comment": "# " + "x" * 2_000_000,
    "a long line of faults": "a: [" + "&x 1, " * 100_000 + "]\n",
    "directives": "%YAML 9.9\n%TAG ! tag:x,2000:\n---\na: 1\n",
    "surrogates": 'name: "\\ud800"\n',
    "a byte order mark in the middle": "name: a\ufeffb\nseed: \ufeff7\n",
    "right to left": "name: \u202edigits\n",
}


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_quickly_and_in_a_few_words(name: str, empty: Path) -> None:
    """Ten seconds of processor time and half a gigabyte are far above what any needs, and far below what a bomb would take."""
    (empty / "s.yaml").write_text(BOMBS[name], encoding="utf-8", errors="surrogatepass")
    memory, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    result = CliRunner().invoke(app, ["validate", "s.yaml"])
    assert time.process_time() - started < 10
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 500_000
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    assert "internal error" not in result.output
    assert len(result.output) < 50_000
    assert [file.name for file in empty.iterdir()] == ["s.yaml"]


def test_a_file_without_end_is_read_only_so_far(empty: Path) -> None:
    result = CliRunner().invoke(app, ["validate", "/dev/zero"])
    assert result.exit_code == 2
    assert "1,000,000 bytes" in result.output


CLIMBING = [
    "../../outside",
    "../plugins/outside",
    "/etc/passwd",
    "outside.py",
    "..",
    "os.system",
    "base",
    "__init__",
    "a/b",
    "a\\b",
    "flat\0",
    "FLAT",
    " flat",
    "",
    "constant",
]


@pytest.mark.parametrize("kind", CLIMBING)
def test_a_kind_that_is_a_path_is_an_unknown_kind(kind: str, here: Path) -> None:
    (here / "plugins").mkdir()
    (here / "outside.py").write_text(
        "open('trace', 'w')\nfrom dppipe import Clipper\nclass X(Clipper, kind='outside'): ...\n"
    )
    text = (
        (here / "s.yaml")
        .read_text()
        .replace("noise:", f"clipping: {{kind: {yaml_text(kind)}}}\nnoise:")
    )
    (here / "s.yaml").write_text(text)
    for word in ("validate", "plan", "run"):
        result = CliRunner().invoke(app, [word, "s.yaml"])
        assert result.exit_code == 2, result.output
        assert "clipping.kind" in result.output
    assert not (here / "trace").exists()
    assert not (here / "runs").exists()


def yaml_text(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace("\0", "\\0") + '"'


@pytest.mark.parametrize("link", ["a file", "the folder", "a file through a folder"])
def test_a_plugin_behind_a_link_that_leads_out_is_not_loaded(
    link: str, here: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "evil.py").write_text(
        f"open({str(here / 'trace')!r}, 'w')\nfrom dppipe import Clipper\nclass X(Clipper, kind='evil'): ...\n"
    )
    if link == "the folder":
        (here / "plugins").symlink_to(outside)
    else:
        (here / "plugins").mkdir()
        (here / "plugins" / "evil.py").symlink_to(
            outside / "evil.py" if link == "a file" else here / "plugins" / ".." / "up.py"
        )
        (here / "up.py").symlink_to(outside / "evil.py")
    result = CliRunner().invoke(app, ["validate", "s.yaml", "--set", "clipping=evil"])
    assert result.exit_code == 2, result.output
    assert not (here / "trace").exists()


@pytest.mark.parametrize(
    "path",
    [
        "../outside.Net",
        "outside",
        "..outside.Net",
        "a b.C",
        "os.system",
        "outside.Net.Inner",
        "outside;x.Net",
        "",
    ],
)
def test_a_class_path_that_is_no_class_is_named(path: str, here: Path) -> None:
    (here / "s.yaml").write_text(
        (here / "s.yaml")
        .read_text()
        .replace("{kind: logistic}", f"{{class_path: {yaml_text(path)}}}")
    )
    result = CliRunner().invoke(app, ["run", "s.yaml", "--run-dir", "r"])
    assert result.exit_code == 2, result.output
    assert "model" in result.output
    assert "Traceback" not in result.output
    assert not (here / "r").exists()


@pytest.mark.parametrize("name", ["../up", "a/b", ".hidden", "-rf", "a\nb", "x" * 101, "nul\0"])
def test_a_name_cannot_lead_out_of_runs(name: str, here: Path) -> None:
    text = (
        (here / "s.yaml")
        .read_text()
        .replace("name: small", "name: " + yaml_text(name).replace("\n", "\\n"))
    )
    (here / "s.yaml").write_text(text)
    result = CliRunner().invoke(app, ["run", "s.yaml"])
    assert result.exit_code == 2, result.output
    assert [file.name for file in here.iterdir()] == ["s.yaml"]
