"""Files of weights that modules read and write by themselves, against those of the safetensors library."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch

import dslc
from dslc.compiler import compile_text
from dslc.weights.files import read_arrays, write_arrays

SPEC = """\
layer centred(x: [N, C]) -> y: [N, C]:
    state middle: [C] = 0
    param file: [C] ~ ones
    training:
        mu[c] = mean[n](x[n, c])
        middle <- 0.9 * middle + 0.1 * mu
    inference:
        mu = middle
    y[n, c] = (x[n, c] - mu[c]) * file[c]

model m(x: [N, 3]) -> y: [N, 2]:
    y = x |> centred |> dense(2)
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "m.dsl"
    path.write_text(SPEC, encoding="utf-8")
    return path


ARRAYS = {
    "f64": np.arange(3.0), "f32": np.ones((2, 3), np.float32), "f16": np.full(5, 0.1, np.float16), "i64": np.arange(4),
    "i32": np.arange(6, dtype=np.int32).reshape(1, 2, 3), "bool": np.array([True, False]), "u8": np.ones(3, "u1"),
    "one": np.float32(2), "none": np.zeros((0, 3), np.float32), "turned": np.arange(6.0).reshape(2, 3).T,
    "näme.\"0\"": np.ones(1),
}  # fmt: skip


@pytest.mark.point("weights")
def test_the_library_reads_what_is_written_and_the_other_way_round(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    write_arrays(path, ARRAYS)
    for read in (safetensors.numpy.load_file(path), read_arrays(path)):
        assert read.keys() == ARRAYS.keys()
        for name, x in ARRAYS.items():
            assert read[name].dtype == x.dtype and read[name].shape == x.shape
            np.testing.assert_array_equal(read[name], x)
    other = tmp_path / "theirs.safetensors"
    safetensors.numpy.save_file({n: np.ascontiguousarray(x) for n, x in ARRAYS.items() if x.ndim}, other, {"by": "me"})
    for name, x in read_arrays(other).items():
        np.testing.assert_array_equal(x, ARRAYS[name])
    half = torch.randn(2, 3).to(torch.bfloat16)
    safetensors.torch.save_file({"half": half}, other)
    np.testing.assert_array_equal(read_arrays(other)["half"], half.float().numpy())
    write_arrays(tmp_path / "w.npz", ARRAYS)
    for name, x in np.load(tmp_path / "w.npz").items():
        np.testing.assert_array_equal(x, ARRAYS[name])
    assert read_arrays(tmp_path / "w.npz").keys() == ARRAYS.keys()


@pytest.mark.point("weights")
@pytest.mark.parametrize("ending", ["safetensors", "npz"])
def test_a_module_keeps_its_weights_where_numpy_alone_is_installed(spec: Path, tmp_path: Path, ending: str) -> None:
    (tmp_path / "m.py").write_text(compile_text(spec), encoding="utf-8")
    path = tmp_path / f"w.{ending}"
    script = (
        "import sys\n"
        "for name in ('safetensors', 'torch', 'dslc'):\n"
        "    sys.modules[name] = None\n"
        "import m\n"
        f"m.save(m.init(4), {str(path)!r})\n"
        f"found, state = m.load({str(path)!r}), m.load_state({str(path)!r})\n"
        "assert all((found[n] == x).all() and x.dtype == found[n].dtype for n, x in m.init(4).items())\n"
        "assert state.keys() == m.STATE.keys()\n"
    )
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)
    assert [x.name for x in tmp_path.iterdir() if x.name.startswith(".")] == []


@pytest.mark.point("weights")
@pytest.mark.parametrize("dtype", ["f64", "f16", "bf16"])
@pytest.mark.parametrize("ending", ["safetensors", "npz"])
def test_a_triton_module_keeps_its_weights_without_the_library(
    spec: Path, tmp_path: Path, dtype: str, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = dslc.compile(spec, backend="triton", dtype=dtype)
    kept = {name: torch.randn(shape).to(module.DTYPE) for name, (shape, *_) in module.PARAMS.items()}
    state = {name: torch.randn(shape) for name, (shape, _) in module.STATE.items()}
    path = tmp_path / f"w.{ending}"
    with monkeypatch.context() as patch:
        for name in ("safetensors", "safetensors.torch", "safetensors.numpy"):
            patch.setitem(sys.modules, name, None)
        module.save(kept, path, state)
        found, states = module.load(path, "cpu"), module.load_state(path, "cpu")
    for name, x in kept.items():
        assert found[name].dtype == x.dtype and torch.equal(found[name], x)
    for name, x in state.items():
        assert torch.equal(states[name].float(), x)
    if ending == "safetensors":
        theirs = safetensors.torch.load_file(path)
        assert all(theirs[name].dtype == x.dtype and torch.equal(theirs[name], x) for name, x in kept.items())


def damaged(header: Any, data: bytes = bytes(8), length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def tensor(start: int, end: int, shape: Any = (1,), dtype: Any = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


HOSTILE = {
    "nothing": b"",
    "less than a length": b"\x01\x00",
    "no header": bytes(8),
    "a huge header": damaged({}, length=2**63),
    "a header beyond the file": damaged({}, length=100),
    "no JSON": damaged(b"{'a': 1}"),
    "a list": damaged([1, 2]),
    "no text": damaged(b"\xff\xfe"),
    "deep nesting": damaged(b"[" * 100_000),
    "a huge number": damaged(b'{"a": {"dtype": "F32", "shape": [' + b"9" * 5000 + b'], "data_offsets": [0, 8]}}'),
    "overlap": damaged({"a": tensor(0, 8, [2]), "b": tensor(4, 8)}),
    "the same bytes": damaged({"a": tensor(0, 8, [2]), "b": tensor(0, 8, [2])}),
    "a gap": damaged({"a": tensor(4, 8)}),
    "bytes that are left": damaged({"a": tensor(0, 4)}),
    "beyond the end": damaged({"a": tensor(0, 16, [4])}),
    "cut short": damaged({"a": tensor(0, 8, [2])}, bytes(5)),
    "backwards": damaged({"a": tensor(8, 0, [2])}),
    "negative": damaged({"a": tensor(-4, 4, [2])}),
    "another product": damaged({"a": tensor(0, 8, [3])}),
    "a product that overflows": damaged({"a": tensor(0, 8, [2**62, 4, 2**62])}),
    "another dtype": damaged({"a": tensor(0, 8, [2], "F64")}),
    "a dtype that is a list": damaged({"a": tensor(0, 8, [2], ["F32"])}),
    "a shape that is a number": damaged({"a": tensor(0, 8, 2)}),
    "a shape of truths": damaged({"a": tensor(0, 8, [True, 2])}),
    "a negative shape": damaged({"a": tensor(0, 8, [-1, -2])}),
    "too many axes": damaged({"a": tensor(0, 4, [1] * 100)}, bytes(4)),
    "no place": damaged({"a": {"dtype": "F32", "shape": [2]}}),
    "three places": damaged({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4, 8]}}),
    "a name twice": damaged(b'{"a": ' + json.dumps(tensor(0, 4)).encode() + b', "a": '
                            + json.dumps(tensor(4, 8)).encode() + b"}"),
    "a field twice": damaged(b'{"a": {"dtype": "F32", "dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}'),
}  # fmt: skip


@pytest.mark.point("weights")
@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_file_is_refused_by_its_name(tmp_path: Path, what: str) -> None:
    path = tmp_path / "w.safetensors"
    path.write_bytes(HOSTILE[what])
    with pytest.raises(ValueError, match=r"w\.safetensors is damaged, or no safetensors file"):
        read_arrays(path)


@pytest.mark.point("weights")
def test_an_archive_with_objects_or_without_arrays_is_refused_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "w.npz"
    np.savez(path, a=np.array([{}], dtype=object), allow_pickle=True)
    good = path.read_bytes()
    for content in (good, good[:40], b"", b"PK\x03\x04" + bytes(40), b"\x80\x04K\x01.", b"\x93NUMPY\x01\x00\x10"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"w\.npz is damaged, or no \.npz file"):
            read_arrays(path)


@pytest.mark.point("weights")
def test_a_failed_save_leaves_the_file_that_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "w.safetensors"
    write_arrays(path, {"a": np.ones(3)})
    before = path.read_bytes()

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_arrays(path, {"a": np.zeros(3)})
    assert path.read_bytes() == before and [x.name for x in tmp_path.iterdir()] == ["w.safetensors"]
    monkeypatch.undo()
    (tmp_path / "link.safetensors").symlink_to(path)
    write_arrays(tmp_path / "link.safetensors", {"a": np.zeros(3)})
    assert (tmp_path / "link.safetensors").is_symlink() and not read_arrays(path)["a"].any()
    with pytest.raises(ValueError, match="no plain file"):
        write_arrays(Path(os.devnull), {"a": np.zeros(3)})
