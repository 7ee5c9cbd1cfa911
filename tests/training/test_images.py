"""Training on folders of images: what becomes of their pixels, and what is wrong with a folder."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from small_runs import run

from dslc.data import read_images

SHADES = """
model shades(image: f32[{shape}], classes = 2) -> logits: [N, classes]:
    {body}

train shades(image, label: i32[N] < classes, epochs = 60, batch = 8):
    logits = shades(image)
    minimize cross_entropy(logits, label)
    metric accuracy = accuracy(logits, label)
    using adam(lr = 0.05)
"""


def pictures(folder: Path, count: int = 12, size: tuple[int, int] = (4, 6), seed: int = 0) -> Path:
    """Noise that is dark in one class and bright in the other, in colour; height and width differ."""
    rng = np.random.default_rng(seed)
    for name, base in (("bright", 140), ("dark", 0)):
        (folder / name).mkdir(parents=True)
        for k in range(count):
            pixels = (base + rng.integers(0, 110, (*size, 3))).astype(np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{k:02}.png")
    return folder


def spec_of(folder: Path, shape: str) -> Path:
    path = folder / "shades.dsl"
    params = "param w: [H, W, classes] ~ glorot\n    param b: [classes] ~ zeros"
    flat = f"{params}\n    logits[n, c] = image[n, i, j] * w[i, j, c] + b[c]"
    body = flat if shape == "N, H, W" else "logits = image |> flatten |> dense(classes)"
    path.write_text(SHADES.replace("{shape}", shape).replace("{body}", body), encoding="utf-8")
    return path


def test_pixels_are_those_of_the_files(tmp_path: Path) -> None:
    folder = pictures(tmp_path / "data", 3)
    images, labels, classes = read_images(folder)
    assert classes == ["bright", "dark"] and labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert images.shape == (6, 4, 6, 3) and images.dtype == np.float32
    expected = np.asarray(Image.open(folder / "dark/01.png"), np.float64) / 255
    np.testing.assert_allclose(images[4], expected, rtol=1e-6)


def test_images_are_made_as_large_as_torch_makes_them(tmp_path: Path) -> None:
    folder = pictures(tmp_path / "data", 1, (8, 12))
    images, *_ = read_images(folder, (4, 6), channels=1)
    grey = np.asarray(Image.open(folder / "bright/00.png").convert("L"), np.float32)
    expected = torch.nn.functional.interpolate(torch.tensor(grey)[None, None], (4, 6), mode="bilinear", antialias=True)
    np.testing.assert_allclose(images[0, :, :, 0] * 255, expected[0, 0], atol=1)  # rounded twice, along either axis


@pytest.mark.parametrize("shape", ["N, H, W, 3", "N, 3, H, W", "N, 4, 6, 3", "N, H, W", "N, 1, 2, 3", "N, 3, 2, 3"])
def test_a_folder_is_trained_on_in_any_layout(shape: str, tmp_path: Path) -> None:
    data, spec = tmp_path / "data", spec_of(tmp_path, shape)
    for part, seed in (("train", 0), ("val", 1), ("test", 2)):
        pictures(data / part, 12, seed=seed)
    done = run("train", spec, "--data", data, "-o", tmp_path / "run", "--json", "--backend", "numpy")
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert report["rows"] == 24 and report["test"]["accuracy"] == report["validation"]["accuracy"] == 1
    about = json.loads((tmp_path / "run/encoding.json").read_text())
    assert about["classes"] == ["bright", "dark"]
    # images without classes are encoded in the same way
    new = tmp_path / "new"
    new.mkdir()
    for k, base in enumerate((200, 20)):
        Image.new("RGB", (6, 4), (base,) * 3).save(new / f"{k}.png")
    sizes = [x for n, x in (("H", "H=4"), ("W", "W=6")) if n in shape]
    options = [x for size in sizes for x in ("--set", size)]
    out = tmp_path / "y.npz"
    done = run(
        "run", spec, *options, "--weights", tmp_path / "run/weights.safetensors", "--inputs", new, "-o", out,
        "--backend", "numpy",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert np.load(out)["logits"].argmax(1).tolist() == [0, 1]


def test_channels_first_has_the_same_numbers(tmp_path: Path) -> None:
    data = pictures(tmp_path / "data")
    found = []
    for shape in ("N, 4, 6, 3", "N, 3, 4, 6"):
        folder = tmp_path / shape.replace(", ", "x")
        folder.mkdir()
        spec = spec_of(folder, shape)
        done = run(
            "train", spec, "--data", data, "-o", folder / "run", "--steps", 1, "--backend", "numpy", "--batch", 24,
            "--json",
        )  # fmt: skip
        assert done.exit_code == 0, done.output
        with np.load(folder / "run/checkpoint.npz") as file:
            about = json.loads(file["about"].tobytes())
        found.append(about["data"]["image"][0])
    assert found == [[24, 4, 6, 3], [24, 3, 4, 6]]


def test_a_mistake_is_named(tmp_path: Path) -> None:
    data, spec = pictures(tmp_path / "data", 3), spec_of(tmp_path, "N, H, W, 3")

    def told(help: str, *options: object) -> str:
        given = options or (spec, "--data", data)
        done = run("train", *given, "-o", tmp_path / "run", "--backend", "numpy")
        assert done.exit_code == 1 and help in done.stderr.partition("= help: ")[2], done.output
        assert not (tmp_path / "run").exists()
        return done.stderr

    whole = (data / "dark/01.png").read_bytes()
    (data / "dark/01.png").write_bytes(whole[:60])
    assert f"cannot read {data}/dark/01.png as an image" in told("write it anew")
    (data / "dark/01.png").write_bytes(b"GIF89a and then nothing")
    assert f"cannot read {data}/dark/01.png as an image" in told("remove it")
    Image.new("RGB", (5, 5)).save(data / "dark/01.png")
    assert "has 5 x 5 pixels" in told("images are then made that large")
    (data / "dark/01.png").unlink()
    (data / "dark/notes.txt").write_text("dark ones")
    assert "notes.txt is no image that is read" in told("move it elsewhere")
    (data / "dark/notes.txt").unlink()
    (data / "empty").mkdir()
    assert "empty holds no images" in told("remove it")
    (data / "empty").rmdir()
    (tmp_path / "none").mkdir()
    assert "none holds no folders" in told("a folder of its name", spec, "--data", tmp_path / "none")
    pictures(tmp_path / "three", 1)
    (tmp_path / "three/grey").mkdir()
    Image.new("L", (6, 4)).save(tmp_path / "three/grey/0.png")
    three = ("--data", tmp_path / "three")
    assert "expected whole numbers from 0 to 1 in `label`, found 2" in told("start from 0", spec, *three)
    assert "has the class `grey`, which did not occur" in told(
        "it had `bright`, `dark`", spec, "--data", data, "--test", tmp_path / "three"
    )


def test_an_image_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, spec = pictures(tmp_path / "data", 1), spec_of(tmp_path, "N, H, W, 3")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 20)
    done = run("train", spec, "--data", data, "-o", tmp_path / "run", "--backend", "numpy")
    assert done.exit_code == 1 and "exceeds limit of 20 pixels" in done.stderr


def test_hidden_files_are_left_alone(tmp_path: Path) -> None:
    data = pictures(tmp_path / "data", 2)
    (data / ".DS_Store").write_bytes(b"x")
    (data / "dark/._01.png").write_bytes(b"x")
    assert len(read_images(data)[0]) == 4


def test_weights_that_are_not_there_are_missed_before_their_encoding(tmp_path: Path) -> None:
    """`the weights were not trained on one` was said of a file that does not exist."""
    spec = spec_of(tmp_path, "N, 4, 6, 3")
    images = pictures(tmp_path / "images")
    done = run("run", spec, "--weights", tmp_path / "none.safetensors", "--inputs", images, "-o", tmp_path / "y.npz")
    assert done.exit_code == 1 and "none.safetensors does not exist" in done.stderr, done.stderr
