"""Folders of images: which files are records, and what becomes of them."""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import dppipe
from dppipe.cli.app import app
from dppipe.data import ImageFolder
from dppipe.errors import DppipeError
from dppipe.learners.records.reading import RecordReader

SPEC = """
version: 1
name: pictures
data: {kind: image_folder, path: pictures, size: [4, 4], holdout: public}
model: logistic
optimizer: sgd
sampler: {kind: poisson, sample_rate: 0.5}
accountant: rdp
budget: {epsilon: 100.0, delta: 1.0e-5}
train: {steps: 2}
"""


def save(path: Path, shade: int, *, size: tuple[int, int] = (4, 4), **options: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (shade, 0, 255)).save(path, **options)


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    for label, name in enumerate(("cat", "dog", "ox")):
        for place in range(4):
            save(tmp_path / "pictures" / name / f"{place}.png", 20 * label + place)
    return tmp_path / "pictures"


def make(path: Path, **options: Any) -> ImageFolder:
    return ImageFolder.from_data({"path": str(path), "size": [4, 4], **options})


def shades(dataset: Any) -> list[int]:
    return [round(float(dataset[place][0][0, 0, 0]) * 255) for place in range(len(dataset))]


def test_records_are_the_image_files_by_class_and_name(pictures: Path) -> None:
    save(pictures / "cat" / "more" / "deep.JPG", 90, format="JPEG")
    for other in ("notes.txt", ".hidden.png"):
        (pictures / "dog" / other).write_text("no record")
    (pictures / ".git").mkdir()
    os.mkfifo(pictures / "ox" / "waits.png")
    data = make(pictures)
    dataset: Any = data.load()
    assert data.count() == len(dataset) == 13
    assert (data.class_labels, data.outputs) == (("cat", "dog", "ox"), 3)
    assert [int(dataset[place][1]) for place in range(13)] == [0] * 5 + [1] * 4 + [2] * 4
    assert shades(dataset)[:4] == [0, 1, 2, 3]
    assert shades(dataset)[4] == pytest.approx(90, abs=4)
    reordered: Any = make(pictures, classes=["ox", "cat", "dog"]).load()
    assert shades(reordered)[:4] == [40, 41, 42, 43]
    assert int(reordered[0][1]) == 0


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "CMYK", "1", "I;16"])
@pytest.mark.parametrize("channels", [1, 3])
def test_any_mode_of_an_image_becomes_the_stated_channels(
    pictures: Path, mode: str, channels: int
) -> None:
    ending = "jpg" if mode == "CMYK" else "png"
    Image.new(mode, (9, 3)).save(pictures / "cat" / f"0.{ending}")
    for data in (
        make(pictures, channels=channels),
        make(pictures, channels=channels, resize="crop"),
    ):
        dataset: Any = data.load()
        found = RecordReader(dataset).read(numpy.arange(len(dataset)))
        assert found.broken == 0
        assert found.parts[0][0].shape[1:] == data.input_shape == (channels, 4, 4)


def test_stretch_keeps_everything_and_crop_keeps_the_ratio(pictures: Path) -> None:
    wide = Image.new("L", (8, 4))
    wide.paste(255, (0, 0, 2, 4))  # a white stripe at the left edge, a quarter of the width
    wide.save(pictures / "cat" / "0.png")
    stretched: Any = make(pictures, channels=1).load()
    cropped: Any = make(pictures, channels=1, resize="crop").load()
    assert stretched[0][0][0, 0, 0] > 0.7
    assert cropped[0][0].max() == 0


def bomb() -> bytes:
    """Return a small PNG that announces 60,000 x 60,000 pixels."""

    def chunk(name: bytes, content: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(name + content))
        return struct.pack(">I", len(content)) + name + content + check

    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    pixels = zlib.compress(bytes(1000))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels)


def test_a_broken_image_contributes_nothing_and_keeps_its_place(pictures: Path) -> None:
    data = make(pictures)
    whole: Any = data.load()
    before = shades(whole)
    cut = (pictures / "cat" / "1.png").read_bytes()[:-30]
    for name, content in (("0", b""), ("1", cut), ("2", b"GIF89a"), ("3", bomb())):
        (pictures / "cat" / f"{name}.png").write_bytes(content)
    (pictures / "ox" / "3.png").unlink()  # after the files were listed
    read = RecordReader(whole).read(numpy.arange(12))
    assert read.broken == 5
    assert (read.parts[0][0][:, 0, 0, 0] * 255).round().tolist() == before[4:11]
    with pytest.raises(DppipeError, match=r"dataset\[0\]: expected a record that can be read"):
        make(pictures, on_bad_record="refuse").splits(seed=0)


def test_under_add_remove_an_image_moves_no_other_one(pictures: Path) -> None:
    data = make(pictures, split={"train": 0.5, "val": 0.25, "test": 0.25})
    before = [set(shades(part)) for part in data.splits(seed=1, by="hash")]
    assert sum(map(len, before)) == 12
    (pictures / "cat" / "2.png").unlink()
    (pictures / "dog" / "1.png").write_bytes(b"broken")
    after = [set(shades(part)) for part in data.splits(seed=1, by="hash")]
    assert after == [part - {2, 21} for part in before]


def test_the_test_folder_has_the_same_classes(pictures: Path, tmp_path: Path) -> None:
    save(tmp_path / "tested" / "ox" / "a.png", 7)
    data = make(
        pictures, test_path=str(tmp_path / "tested"), split={"train": 1, "val": 0, "test": 0}
    )
    test: Any = data.splits(seed=0).test
    assert [int(test[0][1]), shades(test)] == [2, [7]]
    save(tmp_path / "tested" / "yak" / "a.png", 7)
    with pytest.raises(DppipeError, match=r"data\.test_path: expected folders .* got 'yak' too"):
        data.check_files()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": "nowhere"}, r"data\.path: expected a folder, got nowhere, which doesn't exist"),
        ({"classes": ["cat", "dog", "ox", "yak"]}, "got none for 'yak'"),
        ({"classes": ["cat", "dog"]}, "got 'ox' too"),
    ],
)
def test_folders_that_dont_fit_are_named(
    pictures: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(DppipeError, match=message):
        make(pictures).from_data({"path": str(pictures), "size": [4, 4], **options}).check_files()


def test_a_folder_without_images_or_classes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DppipeError, match="a folder for each class"):
        make(tmp_path).count()
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    with pytest.raises(DppipeError, match=r"expected images \(\.png, \.jpg, \.jpeg\)"):
        make(tmp_path).count()


def test_a_folder_of_new_images_is_predicted(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spec.yaml").write_text(SPEC)
    (pictures / "cat" / "0.png").write_bytes(b"broken")
    done = CliRunner().invoke(app, ["run", "spec.yaml", "--run-dir", "run"])
    assert done.exit_code == 0, done.output
    save(tmp_path / "new" / "b.png", 50, size=(9, 9))
    save(tmp_path / "new" / "a.jpg", 200)
    (tmp_path / "new" / "c.png").write_bytes(b"broken")
    done = CliRunner().invoke(app, ["predict", "run", "new"])
    assert done.exit_code == 0, done.output
    rows = done.stdout.splitlines()
    assert len(rows) == 4
    pixels = torch.tensor([50.0, 0.0, 255.0]).reshape(1, 3, 1, 1).expand(1, 3, 4, 4)
    label = int(dppipe.load_model("run")(pixels).argmax())
    assert rows[2].split(",")[1].strip('"') == ("cat", "dog", "ox")[label]
    assert rows[3].startswith("3,,")
