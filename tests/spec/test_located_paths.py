"""Paths that start with `./`, and variables of the environment: where they are taken, and what of
them is ever written down.
"""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dppipe.data.idx import Idx
from dppipe.data.npz import Npz
from dppipe.environment import NamedPath, expand, expand_all
from dppipe.errors import SpecError, UsageError
from dppipe.spec.load import load_spec, spec_from_text
from dppipe.spec.spec import committed_hash

CSV = """\
version: 1
name: table
data: {kind: csv, path: PATH, records: 300, numeric: [{column: a}], target: {column: y, classes: [n, y]}}
model: logistic
optimizer: {kind: sgd, lr: 0.1}
sampler: {kind: poisson, expected_batch_size: 30}
budget: {epsilon: 3.0, delta: 1.0e-5}
train: {steps: 3}
"""


def npz(path: str) -> str:
    data = f"{{kind: npz, path: {path}, records: 300, classes: 2, holdout: public}}"
    return CSV.replace(CSV.splitlines()[2], f"data: {data}")


def csv(path: str) -> str:
    return CSV.replace("PATH", path)


def arrays(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(1)
    inputs = generator.normal(size=(300, 4)).astype(np.float32)
    np.savez(path, x=inputs, y=(inputs[:, 0] > 0).astype(np.int64))


def data_of(path: str) -> Any:
    return spec_from_text(npz(path)).data


def test_a_path_that_starts_with_a_dot_begins_at_its_file(here: Path) -> None:
    (here / "specs").mkdir()
    (here / "specs/base.yaml").write_text(csv("./data/a.npz"))
    (here / "cluster.yaml").write_text("data: {path: ./b.npz}\n")
    one: Any = load_spec("specs/base.yaml").data
    assert one.path == here / "specs/data/a.npz"
    two: Any = load_spec(["specs/base.yaml", "cluster.yaml"]).data
    assert two.path == here / "b.npz"
    by_hand: Any = load_spec("specs/base.yaml", overrides=["data.path=./c.npz"]).data
    assert by_hand.path == here / "c.npz"


def test_the_effective_spec_holds_absolute_paths_and_means_the_same_anywhere(here: Path) -> None:
    (here / "specs").mkdir()
    (here / "specs/base.yaml").write_text(csv("./data/a.npz"))
    spec = load_spec("specs/base.yaml")
    assert spec.to_data()["data"]["path"] == str(here / "specs/data/a.npz")
    (here / "config.yaml").write_text(spec.to_yaml())
    assert load_spec("config.yaml") == spec


@pytest.mark.parametrize("path", ["a.npz", "../a.npz", "data/./a.npz", "/abs/a.npz"])
def test_other_paths_stay_as_they_are_written(path: str, here: Path) -> None:
    (here / "base.yaml").write_text(csv(path))
    data: Any = load_spec("base.yaml").data
    assert data.path == Path(path)


def test_weights_and_the_candidates_of_a_search_are_paths_too(here: Path, base: str) -> None:
    (here / "specs").mkdir()
    tune = (
        "tune: {candidates: {model.pretrained: [./a.pt, ./b.pt]},"
        " repetitions: {kind: poisson, mean: 3}}\n"
    )
    text = base.replace("hidden: [32]", "hidden: [32], pretrained: {path: ./w.pt}") + tune
    (here / "specs/s.yaml").write_text(text)
    spec = load_spec("specs/s.yaml")
    assert spec.model.pretrained.path == here / "specs/w.pt"  # type: ignore[union-attr]
    assert spec.tune is not None
    found = spec.tune.candidates["model.pretrained"]
    assert found == [str(here / "specs/a.pt"), str(here / "specs/b.pt")]


def test_text_that_is_no_path_stays_as_it_is(here: Path, base: str) -> None:
    (here / "s.yaml").write_text(base.replace("hidden: [32]", "hidden: [32], trainable: ['./x']"))
    assert load_spec("s.yaml").model.trainable == ("./x",)


def test_a_variable_is_read_where_the_file_is_opened_and_named_everywhere_else(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays(here / "secret-place/a.npz")
    monkeypatch.setenv("SECRET_PLACE", str(here / "secret-place"))
    data = data_of("'${env:SECRET_PLACE}/a.npz'")
    assert isinstance(data.path, NamedPath)
    assert len(data.load()) == 300
    for shown in (str(data), repr(data), str(data.to_data()), data.model_dump_json()):
        assert "secret-place" not in shown
        assert "${env:SECRET_PLACE}/a.npz" in shown
    assert pickle.loads(pickle.dumps(data)).path.read_bytes()


def test_the_hash_follows_the_name_and_not_the_value(monkeypatch: pytest.MonkeyPatch) -> None:
    hashes = set()
    for value in ("/one", "/two"):
        monkeypatch.setenv("PLACE", value)
        hashes.add(committed_hash(spec_from_text(csv("'${env:PLACE}/a.npz'"))))
    assert len(hashes) == 1


@pytest.mark.parametrize("value", [None, ""])
def test_a_variable_that_is_not_set_is_an_error_with_its_place(
    value: str | None, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PLACE", raising=False)
    if value is not None:
        monkeypatch.setenv("PLACE", value)
    (here / "s.yaml").write_text(npz("'${env:PLACE}/a.npz'"))
    with pytest.raises(SpecError) as caught:
        load_spec("s.yaml")
    (problem,) = caught.value.problems
    assert problem.place == "s.yaml:3:25"
    assert "environment variable PLACE, got none" in problem.message


@pytest.mark.parametrize("path", ["${env:1}/a", "${env:}/a", "${env:A", "${env:A}${B}", "${env A}"])
def test_another_form_of_a_variable_is_explained(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A", "value-of-a")
    with pytest.raises(SpecError, match=r"variables as \$\{env:NAME\}") as caught:
        data_of(f"'{path}'")
    assert "value-of-a" not in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("name: digits", "name: '${env:A}'", "name"),
        ("seed: 7", "seed: '${env:A}'", "seed"),
        ("lr: 0.25", "lr: '${env:A}'", "optimizer.lr"),
        ("delta: 1.0e-5", "delta: 1.0e-5, scope: '${env:A}'", "budget.scope"),
        ("hidden: [32]", "hidden: [32], trainable: ['${env:A}']", "model.trainable.0"),
        ("kind: mlp", "kind: '${env:A}'", "model.kind"),
    ],
)
def test_variables_are_refused_elsewhere(
    old: str, new: str, place: str, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A", "value-of-a")
    with pytest.raises(SpecError) as caught:
        spec_from_text(base.replace(old, new))
    (problem,) = caught.value.problems
    assert ".".join(map(str, problem.path)) == place
    assert "expected no environment variable here" in problem.message
    assert "value-of-a" not in str(caught.value)


def test_a_missing_file_is_told_by_its_name(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACE", str(here / "hidden"))
    (here / "s.yaml").write_text(npz("'${env:PLACE}/a.npz'"))
    with pytest.raises(SpecError) as caught:
        load_spec("s.yaml", files=True)
    assert "${env:PLACE}/a.npz" in str(caught.value)
    assert "hidden" not in str(caught.value)


def test_a_named_path_is_a_path_for_every_function_that_opens_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLACE", str(tmp_path))
    (tmp_path / "a").mkdir()
    (tmp_path / "a/b.txt").write_text("here")
    path = NamedPath("${env:PLACE}/a")
    assert path.is_dir()
    assert (path / "b.txt").read_text() == "here"
    assert os.stat(path) == (tmp_path / "a").stat()  # noqa: PTH116
    assert path.is_absolute()
    assert path.resolve() == path.absolute() == tmp_path / "a"
    for found in (path.iterdir(), path.glob("*.txt"), path.rglob("*")):
        (child,) = found
        assert str(child) == "${env:PLACE}/a/b.txt"
        assert child.read_text() == "here"
    assert str(path.parent) == "${env:PLACE}"
    assert path.parent.is_dir()
    monkeypatch.delenv("PLACE")
    with pytest.raises(UsageError, match="PLACE"):
        path.exists()


def test_public_inputs_under_another_name_are_still_recognised_as_the_records(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dppipe.spec.public_data import name_same_records

    arrays(here / "a.npz")
    monkeypatch.setenv("PLACE", str(here))
    assert name_same_records(Npz(path=here / "a.npz"), Npz(path=Path("${env:PLACE}/a.npz")))


def test_a_folder_of_records_may_be_named(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dppipe.budgets.fingerprints import data_files

    (here / "images").mkdir()
    (here / "images/train-images-idx3-ubyte").write_bytes(b"\0")
    monkeypatch.setenv("PLACE", str(here))
    (file,) = data_files(Idx(root=Path("${env:PLACE}/images")))
    assert str(file) == "${env:PLACE}/images/train-images-idx3-ubyte"
    assert file.read_bytes() == b"\0"


def test_options_are_expanded_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "t")
    assert expand_all({"a": ["${env:TOKEN}", 1], "b": {"c": "x${env:TOKEN}x"}}) == {
        "a": ["t", 1],
        "b": {"c": "xtx"},
    }
    assert expand("plain $HOME") == "plain $HOME"
