"""The registry and plugins: found without importing, imported on demand, refused by name, picklable in worker processes."""

from __future__ import annotations

import hashlib
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from dppipe.component import Component
from dppipe.errors import SpecError, UsageError
from dppipe.spec import Registry, spec_from_text
from dppipe.spec.kinds.families import FAMILIES
from dppipe.spec.kinds.registry import built_in_kinds, load_built_in

SOFT = '''\
from dppipe import Clipper, Field, NoiseSchedule

class SoftClip(Clipper, kind="soft"):
    """Shrinks every gradient smoothly instead of cutting at the bound."""
    max_grad_norm: float = Field(1.0, gt=0)
    stability: float = Field(0.01, gt=0)

    def factors(self, norms, bounds):
        return bounds / (norms + self.stability)

class Cooldown(NoiseSchedule, kind="cooldown"):
    """Noise falls in a straight line to `end` times its first value."""
    end: float = Field(0.5, gt=0)

    def multiplier(self, progress):
        return 1 + (self.end - 1) * progress
'''


@pytest.fixture
def plugins(here: Path) -> Path:
    folder = here / "plugins"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("block", FAMILIES)
def test_every_built_in_kind_is_what_its_file_says(block: str) -> None:
    family = FAMILIES[block]
    for kind in built_in_kinds(family):
        cls = load_built_in(family, kind)
        assert cls.kind == kind
        assert family.base in [base.__name__ for base in cls.__mro__]
        assert cls.__doc__


def test_plugin_kinds_are_options_of_a_spec(base: str, plugins: Path) -> None:
    (plugins / "soft.py").write_text(SOFT)
    text = base.replace("kind: flat", "kind: soft\n  stability: 0.5").replace(
        "kind: constant", "kind: cooldown"
    )
    spec = spec_from_text(text)
    assert spec.clipping.to_data() == {"kind": "soft", "max_grad_norm": 1.0, "stability": 0.5}
    assert spec.noise.multiplier(1.0) == 0.5
    assert spec.plugin_files() == {"plugins/soft.py": hashlib.sha256(SOFT.encode()).hexdigest()}
    assert spec_from_text(spec.to_yaml()) == spec
    assert [file.name for file in plugins.iterdir()] == ["soft.py"]


def test_options_of_a_plugin_are_checked_at_their_place(base: str, plugins: Path) -> None:
    (plugins / "soft.py").write_text(SOFT)
    with pytest.raises(
        SpecError, match=r"spec\.yaml:10:14: clipping\.stability: expected a number > 0, got 0\."
    ):
        spec_from_text(base.replace("kind: flat", "kind: soft\n  stability: 0"))
    with pytest.raises(SpecError, match=r"Did you mean 'stability'\?"):
        spec_from_text(base.replace("kind: flat", "kind: soft\n  stabilty: 0.1"))


def test_a_named_folder_takes_the_place_of_the_usual_one(
    base: str, plugins: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "soft.py").write_text(SOFT)
    with pytest.raises(SpecError, match="no clipper named 'soft'"):
        spec_from_text(base.replace("kind: flat", "kind: soft"))
    assert (
        spec_from_text(base.replace("kind: flat", "kind: soft"), plugins=other).clipping.kind
        == "soft"
    )
    for wrong in ("nowhere", "other/soft.py"):
        with pytest.raises(UsageError, match=f"--plugins {wrong}: expected a folder"):
            Registry(wrong)


def test_nothing_is_imported_until_it_is_used(base: str, plugins: Path) -> None:
    (plugins / "bomb.py").write_text(
        "from dppipe import Clipper\nclass B(Clipper, kind='bomb'): ...\nopen('boom', 'w').close()\n"
    )
    spec_from_text(base)
    assert "bomb" in Registry().kinds("clipping")
    assert not Path("boom").exists()
    spec_from_text(base.replace("kind: flat", "kind: bomb"))
    assert Path("boom").exists()


def test_bases_are_followed_through_imports_and_local_classes(plugins: Path) -> None:
    (plugins / "more.py").write_text(
        "import dppipe\nfrom dppipe.clipping.flat import Flat as F\nfrom dppipe import Clipper as C\n"
        "class A(F, kind='a'): ...\nclass B(C): ...\nclass D(B, kind='d'): ...\nclass E(dppipe.Clipper, kind='e'): ...\n"
        "class X:\n    def __init_subclass__(cls, **options): ...\nclass Not(X, kind='not'): ...\n"
    )
    assert {"a", "d", "e"} <= set(Registry().kinds("clipping"))
    assert "not" not in Registry().kinds("clipping")
    assert [Registry().load("clipping", kind).kind for kind in "ade"] == ["a", "d", "e"]


def test_a_built_in_kind_cannot_be_shadowed(base: str, plugins: Path) -> None:
    (plugins / "mine.py").write_text(SOFT.replace('"soft"', '"layerwise"'))
    spec_from_text(base)  # another kind is in use
    with pytest.raises(
        SpecError,
        match=r"expected one clipper named 'layerwise', got 2: dppipe and plugins/mine\.py:3\. Rename",
    ):
        spec_from_text(base, overrides=["clipping=layerwise"])


def test_a_kind_in_two_files_names_both(base: str, plugins: Path) -> None:
    (plugins / "a.py").write_text(SOFT)
    (plugins / "b.py").write_text("\n" + SOFT)
    spec_from_text(base)
    with pytest.raises(SpecError, match=r"got 2: plugins/a\.py:3 and plugins/b\.py:4"):
        spec_from_text(base.replace("kind: flat", "kind: soft"))


@pytest.mark.parametrize(
    ("block", "base_class"), [("sampler", "Sampler"), ("accountant", "Accountant")]
)
def test_samplers_and_accountants_never_come_from_plugins(
    block: str, base_class: str, base: str, plugins: Path
) -> None:
    module = FAMILIES[block].package
    (plugins / "mine.py").write_text(
        f"from {module}.base import {base_class}\nclass M({base_class}, kind='mine'): ...\n"
    )
    spec_from_text(base)
    with pytest.raises(
        SpecError,
        match=rf"expected a built-in {block}, got 'mine' of plugins/mine\.py:2\. Its claims can't be checked",
    ):
        spec_from_text(base, overrides=[f"{block}=mine"])


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("raise ValueError('no luck')", "ValueError: no luck"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("import nothing_of_this_name", "ModuleNotFoundError"),
        ("1 / 0", "ZeroDivisionError"),
        ("class Bad(Clipper, kind='bad'):\n    x: 'NoSuchType' = 1", "can't be loaded"),
    ],
)
def test_a_broken_plugin_names_itself_and_stops_nothing_else(
    line: str, words: str, base: str, plugins: Path
) -> None:
    (plugins / "broken.py").write_text(
        f"from dppipe import Clipper\nclass Soft(Clipper, kind='soft'): ...\n{line}\n"
    )
    (plugins / "good.py").write_text(SOFT.replace('"soft"', '"good"'))
    assert spec_from_text(base.replace("kind: flat", "kind: good")).clipping.kind == "good"
    if "class Bad" in line:
        return  # that one is found out when its own kind is used
    with pytest.raises(SpecError) as caught:
        spec_from_text(base.replace("kind: flat", "kind: soft"))
    first = str(caught.value).splitlines()[0]
    assert first.startswith(
        "spec.yaml:9:9: clipping.kind: plugins/broken.py:3: the plugin can't be loaded: "
    )
    assert words in first


def test_a_file_that_cannot_be_parsed_is_mentioned_where_it_matters(
    base: str, plugins: Path
) -> None:
    (plugins / "torn.py").write_text(
        "from dppipe import Clipper\nclass Soft(Clipper, kind='soft'\n"
    )
    (plugins / "latin.py").write_bytes(b"x = '\xff'\n")
    spec_from_text(base)
    with pytest.raises(SpecError) as caught:
        spec_from_text(base.replace("kind: flat", "kind: soft"))
    assert "no clipper named 'soft'" in str(caught.value)
    assert "Not read: plugins/latin.py" in str(caught.value)
    assert "plugins/torn.py:2 (" in str(caught.value)


def test_a_plugin_that_fails_on_its_options_names_itself(base: str, plugins: Path) -> None:
    (plugins / "odd.py").write_text(
        "from dppipe import Clipper\nfrom pydantic import model_validator\nclass Odd(Clipper, kind='odd'):\n"
        "    @model_validator(mode='after')\n    def check(self):\n        return self.nothing_here\n"
    )
    with pytest.raises(SpecError, match=r"plugins/odd\.py:6: .*AttributeError"):
        spec_from_text(base.replace("kind: flat", "kind: odd"))


def test_links_are_followed_only_where_the_user_says_so(
    base: str, plugins: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "soft.py").write_text(SOFT)
    (plugins / "soft.py").symlink_to(outside / "soft.py")
    with pytest.raises(
        SpecError, match=r"Not read: plugins/soft\.py \(a link that leads out of the folder\)"
    ):
        spec_from_text(base.replace("kind: flat", "kind: soft"))
    (tmp_path / "link").symlink_to(outside)
    assert (
        spec_from_text(base.replace("kind: flat", "kind: soft"), plugins="link").clipping.kind
        == "soft"
    )
    (plugins / "soft.py").unlink()
    plugins.rmdir()
    plugins.symlink_to(outside)
    assert Registry().folder is None


def test_an_edited_plugin_is_read_anew_with_its_new_hash(base: str, plugins: Path) -> None:
    text = base.replace("kind: flat", "kind: soft")
    (plugins / "soft.py").write_text(SOFT)
    first = spec_from_text(text).plugin_files()
    (plugins / "soft.py").write_text(SOFT.replace("0.01", "0.02"))
    second = spec_from_text(text)
    assert second.clipping.to_data()["stability"] == 0.02
    assert second.plugin_files() != first


def test_a_users_own_class_is_known_by_its_file_without_importing_it(base: str, here: Path) -> None:
    (here / "clinic").mkdir()
    source = "import nothing_of_this_name\nclass Net: ...\n"
    (here / "clinic" / "nets.py").write_text(source)
    spec = spec_from_text(base, overrides=["model={class_path: clinic.nets.Net}"])
    assert spec.plugin_files() == {"clinic/nets.py": hashlib.sha256(source.encode()).hexdigest()}
    (here / "clinic" / "nets.py").write_text(source + "\n")
    assert spec.plugin_files() != {"clinic/nets.py": hashlib.sha256(source.encode()).hexdigest()}
    for library in ("torch.nn.Linear", "collections.OrderedDict", "nowhere.Net"):
        assert (
            spec_from_text(base, overrides=[f"model={{class_path: {library}}}"]).plugin_files()
            == {}
        )


def test_a_plugin_has_the_same_name_in_the_plan_wherever_a_command_is_run(
    base: str, plugins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (plugins / "soft.py").write_text(SOFT)
    text = base.replace("kind: flat", "kind: soft")
    here = spec_from_text(text).plugin_files()
    monkeypatch.chdir("/")
    assert spec_from_text(text, plugins=plugins).plugin_files() == here


def test_what_a_plugin_defines_can_be_pickled_for_another_process(base: str, plugins: Path) -> None:
    (plugins / "soft.py").write_text(SOFT)
    spec = spec_from_text(base.replace("kind: flat", "kind: soft"))
    code = "import pickle, sys; print(pickle.load(sys.stdin.buffer).clipping.stability)"
    result = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(spec), capture_output=True, check=False
    )
    assert result.stdout.decode().strip() == "0.01", result.stderr.decode()


def test_kinds_of_installed_packages_are_found(
    base: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = here / "site"
    (site / "elsewhere-1.0.dist-info").mkdir(parents=True)
    (site / "elsewhere-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: elsewhere\nVersion: 1.0\n"
    )
    points = (
        "[dppipe.clippers]\nsoft = elsewhere_clips:SoftClip\ntorn = elsewhere_clips:Nothing\nflat = elsewhere_clips:SoftClip\n"
        "bust = elsewhere_bust:Bust\nill = elsewhere_ill:Ill\n"
    )
    (site / "elsewhere-1.0.dist-info" / "entry_points.txt").write_text(points)
    (site / "elsewhere_clips.py").write_text(SOFT)
    (site / "elsewhere_bust.py").write_text("import os\n1 / 0\n")
    (site / "elsewhere_ill.py").write_text("import os\n\nclass (\n")
    monkeypatch.syspath_prepend(site)
    spec = spec_from_text(base.replace("kind: flat", "kind: soft"))
    assert spec.clipping.kind == "soft"
    assert spec.plugin_files() == {"elsewhere_clips.py": hashlib.sha256(SOFT.encode()).hexdigest()}
    with pytest.raises(
        SpecError, match="elsewhere_clips:Nothing: the plugin can't be loaded: AttributeError"
    ):
        spec_from_text(base.replace("kind: flat", "kind: torn"))
    for kind, line in (("bust", 2), ("ill", 3)):
        with pytest.raises(
            SpecError,
            match=rf"clipping\.kind: site/elsewhere_{kind}\.py:{line}: elsewhere_{kind}:.* can't be loaded",
        ):
            spec_from_text(base.replace("kind: flat", f"kind: {kind}"))
    with pytest.raises(SpecError, match="got 2: dppipe and elsewhere_clips:SoftClip of elsewhere"):
        spec_from_text(base)


def test_the_name_of_a_kind_is_never_a_path(base: str, here: Path) -> None:
    for kind in ("../base", "base", "__init__", "flat.py", "", "flat/../flat"):
        with pytest.raises(SpecError, match="no clipper named"):
            spec_from_text(base.replace("kind: flat", f"kind: '{kind}'"))


def test_a_component_stands_as_itself_in_python() -> None:
    flat: type[Component] = load_built_in(FAMILIES["clipping"], "flat")
    assert flat().to_data() == {"kind": "flat", "max_grad_norm": 1.0}


def test_a_plugin_may_use_any_type_of_pydantic(base: str, plugins: Path) -> None:
    (plugins / "odd.py").write_text(
        "from datetime import date\nfrom dppipe import Clipper, Field\nfrom dppipe.component import Options\n"
        "class Part(Options):\n    a: int\n"
        "class Odd(Clipper, kind='odd'):\n    x: int | list[int] = 1\n    y: date | None = None\n    z: dict[str, Part] = {}\n"
        "    w: str = Field('a', max_length=2)\n    v: tuple[float, ...] = Field((), max_length=1)\n"
        "    u: int = Field(2, multiple_of=2)\n"
    )
    text = base.replace(
        "kind: flat",
        "kind: odd\n  x: a\n  y: never\n  z: {p: {a: b, c: 1}, q: {}}\n  w: long\n  v: [1, 2]\n  u: 3",
    )
    with pytest.raises(SpecError) as caught:
        spec_from_text(text)
    lines = [line for line in str(caught.value).splitlines() if line.startswith("spec.yaml")]
    assert (
        lines[0]
        == "spec.yaml:10:6: clipping.x: expected an integer or a list of integers, got 'a'."
    )
    assert lines[1].startswith("spec.yaml:11:6: clipping.y: expected a value, got 'never'.")
    assert lines[2:] == [
        "spec.yaml:12:14: clipping.z.p.a: expected an integer, got 'b'.",
        "spec.yaml:12:17: clipping.z.p.c: expected a key of this block, got 'c'. Known: a.",
        "spec.yaml:12:27: clipping.z.q.a: expected an integer, got nothing. Add it.",
        "spec.yaml:13:6: clipping.w: expected at most 2 characters, got 'long'.",
        "spec.yaml:14:6: clipping.v: expected at most 1 item, got 2.",
        "spec.yaml:15:6: clipping.u: expected a multiple of 2, got 3.",
    ]
