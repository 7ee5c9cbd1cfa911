"""Damaged data, weights and checkpoints: an error that names the file, whatever the damage, and little memory."""

from __future__ import annotations

import io
import json
import random
import struct
import subprocess
import sys
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import dslc
from dslc.arrays import read_arrays
from dslc.cli.main import cli
from dslc.data.rows import Rows
from dslc.run_errors import RunError
from dslc.training.checkpoint import CHECKPOINT
from dslc.training.loop import Job, train
from dslc.training.run import Settings
from dslc.training.stopping import Rules
from dslc.training.weights import read_weights

SPEC = """
model line(x: f32[N, 3]) -> y: [N]:
    param w: [3] ~ ones
    param b: [] ~ zeros
    state seen: [] = 0
    training:
        seen <- seen + 1
    y[n] = x[n, i] * w[i] + b

train line(x, target: f32[N], batch = 4):
    minimize mean((line(x) - target)^2)
    using adam(lr = 0.1)
"""
ROUNDS = 150
#: bytes; the files of these tests have a few thousand
MOST_MEMORY = 20_000_000


def damaged(data: bytes, chance: random.Random) -> bytes:
    """Bytes with some of them flipped, cut off, repeated or replaced by large numbers."""
    found = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 5, 20))):
        at = chance.randrange(len(found))
        match chance.randrange(5):
            case 0:
                found[at] ^= 1 << chance.randrange(8)
            case 1:
                found[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, ord("9"), ord("("), ord("'")))
            case 2:
                del found[max(at, 1) :]
            case 3:
                found[at:at] = found[at : at + chance.randrange(1, 30)]
            case 4:
                found[at : at + 4] = b"\xff" * 4
    return bytes(found)


@pytest.fixture(autouse=True)
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def tolerant(path: Path, read: Callable[[], object]) -> str:
    """What a reader says about a file: nothing, or an error that names it."""
    tracemalloc.reset_peak()
    told: RunError | None = None
    try:
        read()
    except RunError as error:
        told = error
    assert tracemalloc.get_traced_memory()[1] < MOST_MEMORY
    assert told is None or (str(path) in told.message and told.help), told
    return "" if told is None else told.message


def archive(arrays: dict[str, Any], change: Callable[[bytes], bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    """An .npz file whose parts were changed before they got their checksums."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as file:
        for name, value in arrays.items():
            part = io.BytesIO()
            np.lib.format.write_array(part, np.asarray(value))
            file.writestr(f"{name}.npy", change(part.getvalue()))
    return buffer.getvalue()


ARRAYS = {"x": np.arange(12.0).reshape(4, 3), "target": np.zeros(4, np.float32), "names": np.array(["a", "bc"])}


@pytest.mark.point("J")
@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("outside", [True, False])
def test_damaged_arrays_are_named(compression: int, outside: bool, tmp_path: Path) -> None:
    path, chance, told = tmp_path / "data.npz", random.Random(1), 0
    for _ in range(ROUNDS):
        if outside:
            path.write_bytes(damaged(archive(ARRAYS, bytes, compression), chance))
        else:
            path.write_bytes(archive(ARRAYS, lambda part: damaged(part, chance), compression))
        told += bool(tolerant(path, lambda: read_arrays(path)))
    assert told > ROUNDS / 3


def header(descr: str, shape: str, data: bytes = b"") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (64 - (len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


@pytest.mark.point("J")
@pytest.mark.parametrize(
    ("part", "reason"),
    [
        (header("'<f8'", "(1000000000000,)"), "do not agree with its length"),
        (header("'<f8'", "(4294967296, 4294967296, 4294967296)"), "do not agree with its length"),
        (header("'<f8'", "(-1, -8)", b"\0" * 64), "do not agree with its length"),
        (header("'<U0'", "(1000000000000,)"), "do not agree with its length"),
        (header("'<f8'", "(True,)", b"\0" * 8), ""),
        (header("'|O'", "(1,)", b"\0" * 8), "holds Python objects"),
        (header("'<f8'", "(" * 3000), "is damaged"),
        (header("'<f8'", "(2,)", b"\0" * 8), "do not agree with its length"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\x7f", "is damaged"),
        (b"\x93NUMPY\x09\x00", "version 9.0"),
        (b"\x93NUM", "is damaged"),
        (b"", "is damaged"),
    ],
)
def test_a_header_is_believed_as_far_as_the_file_goes(part: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    path.write_bytes(archive({"x": 0.0}, lambda _: part))
    told = tolerant(path, lambda: read_arrays(path))
    assert reason in told and ("`x`" in told or not reason)


@pytest.mark.point("J")
def test_arrays_that_numpy_compressed_are_read_and_other_ways_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    np.savez_compressed(path, **ARRAYS, zeros=np.zeros(500_000))
    found = read_arrays(path)
    assert all(np.array_equal(found[name], x) for name, x in ARRAYS.items())
    for kind in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        path.write_bytes(archive({"x": np.zeros(9)}, bytes, kind))
        assert "compressed otherwise than NumPy does" in tolerant(path, lambda: read_arrays(path))
    data = bytearray(archive({"x": np.zeros(9)}, bytes))
    data[6] |= 1
    data[data.rindex(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(bytes(data))
    assert "it is encrypted" in tolerant(path, lambda: read_arrays(path))


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """A run whose checkpoint has everything in it: slots, states, validation, averages, the best weights."""
    folder = tmp_path_factory.mktemp("job")
    (folder / "line.dsl").write_text(SPEC, encoding="utf-8")
    x = np.random.default_rng(0).normal(size=(10, 3)).astype(np.float32)
    data = {"x": x, "target": x.sum(1)}
    rows = Rows(10, frozenset(data))
    module = dslc.compile(folder / "line.dsl")
    found = Job(module, data, rows, folder, data, rows, "the spec", module.init(1) | module.init_state())
    train(found, Settings(4, steps=7, rules=Rules(patience=9), keep_best=True, ema=0.9, norms=True))
    return found


def resumed(job: Job) -> None:
    train(job, Settings(4, steps=8, rules=Rules(patience=9), keep_best=True, ema=0.9, norms=True))


@pytest.mark.point("J")
def test_damaged_checkpoints_are_named(job: Job) -> None:
    path, chance = job.folder / CHECKPOINT, random.Random(2)
    good, told = path.read_bytes(), 0
    whole = read_arrays(path)
    for k in range(ROUNDS):
        spoilt = damaged(good, chance) if k % 2 else archive(whole, lambda part: damaged(part, chance))
        path.write_bytes(spoilt)
        told += bool(tolerant(path, lambda: resumed(job)))
    path.write_bytes(good)
    assert told > ROUNDS / 2
    resumed(job)
    path.write_bytes(good)


@pytest.mark.point("J")
def test_a_checkpoint_with_a_field_that_is_missing_or_mistyped_is_named(job: Job) -> None:
    path = job.folder / CHECKPOINT
    good = path.read_bytes()
    arrays = read_arrays(path)
    about = json.loads(bytes(arrays.pop("about")))
    junk: list[Any] = [None, "x", -1, True, [None], {"x": None}, {"x": [[1], 2, 3]}]
    refused: dict[str, int] = {}
    for field in about:
        for value in ["missing", *junk]:
            changed = {k: v for k, v in about.items() if k != field or value != "missing"}
            if value != "missing":
                changed[field] = value
            text = np.frombuffer(json.dumps(changed).encode(), np.uint8)
            path.write_bytes(archive({**arrays, "about": text}, bytes))
            refused[field] = refused.get(field, 0) + bool(tolerant(path, lambda: resumed(job)))
    for text in (b"[]", b"3", b"[" * 100_000, b"\xff", b"{}", b'{"format": 1}'):
        path.write_bytes(archive({**arrays, "about": np.frombuffer(text, np.uint8)}, bytes))
        assert tolerant(path, lambda: resumed(job))
    for number in (np.array(2**62), np.array(-1), np.array(2.5), np.zeros((2, 2), np.uint8), np.array(["{}"])):
        path.write_bytes(archive({**arrays, "about": number}, bytes))
        assert "it is not a checkpoint of dslc" in tolerant(path, lambda: resumed(job))
    for name in arrays:
        for value in (None, np.array("text"), np.zeros((2, 2, 2)), np.array([1 + 1j])):
            rest = {k: v for k, v in arrays.items() if k != name} | ({} if value is None else {name: value})
            text = np.frombuffer(json.dumps(about).encode(), np.uint8)
            path.write_bytes(archive({**rest, "about": text}, bytes))
            assert tolerant(path, lambda: resumed(job)), (name, value)
    path.write_bytes(good)
    assert min(refused.values()) >= 6, refused


@pytest.mark.point("J")
def test_damaged_weights_are_named(job: Job) -> None:
    path, chance = job.folder / "weights.safetensors", random.Random(3)
    good, told = path.read_bytes(), 0
    size = struct.unpack("<Q", good[:8])[0]
    for _ in range(ROUNDS):
        inner = damaged(good[8 : 8 + size], chance)
        spoilt = chance.choice((damaged(good, chance), struct.pack("<Q", len(inner)) + inner + good[8 + size :]))
        path.write_bytes(spoilt)
        told += bool(tolerant(path, lambda: read_weights(job.module, path)))
    path.write_bytes(good)
    assert told > ROUNDS / 2


@pytest.mark.point("J")
def test_the_commands_end_with_status_1(job: Job, tmp_path: Path) -> None:
    spec, data, weights = job.folder / "line.dsl", tmp_path / "data.npz", tmp_path / "w.safetensors"
    good = (job.folder / "weights.safetensors").read_bytes()
    for part in (header("'<f8'", "(1000000000000,)"), b"\x93NUMPY\x01\x00\x10"):
        data.write_bytes(archive({"x": 0.0, "target": 0.0}, lambda _, part=part: part))
        weights.write_bytes(good[: len(part)])
        kept = job.folder / "weights.safetensors"
        for named, arguments in (
            (data, ("train", spec, "--data", data, "-o", tmp_path / "run")),
            (data, ("run", spec, "--inputs", data, "--weights", kept, "-o", tmp_path / "y.npz")),
            (weights, ("run", spec, "--inputs", data, "--weights", weights, "-o", tmp_path / "y.npz")),
        ):
            done = CliRunner().invoke(cli, [str(a) for a in arguments], catch_exceptions=False)
            assert done.exit_code == 1 and str(named) in done.stderr, done.output
    np.savez(data, x=np.zeros((4, 3)), target=np.zeros(4))
    command = ("train", spec, "--data", data, "--weights", weights, "-o", tmp_path / "run")
    done = subprocess.run(
        [sys.executable, "-m", "dslc.cli.main", *map(str, command)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and str(weights) in done.stderr and not (tmp_path / "run").exists()
