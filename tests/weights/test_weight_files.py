"""Files of weights that modules read and write by themselves, against those of the safetensors library."""

from __future__ import annotations

import json
import math
import os
import re
import struct
import subprocess
import sys
import tracemalloc
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch
from click.testing import CliRunner

import dslc
from dslc.cli.main import cli
from dslc.compiler import compile_text
from dslc.weights.files import read_arrays, read_known, write_arrays

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
    for known in ({"a": ((2,),)}, {"a": ((1,),)}, {"a": ((3,),)}, {"a": ((1,),), "b": ((1,),)}, {"a": ((-1, -2),)}, {}):
        with pytest.raises(ValueError, match=r"w\.safetensors is damaged, or holds the weights of another model: ."):
            read_known(path, known)


@pytest.mark.point("weights")
def test_an_archive_with_objects_or_without_arrays_is_refused_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "w.npz"
    np.savez(path, a=np.array([{}], dtype=object), allow_pickle=True)
    good = path.read_bytes()
    for content in (good, good[:40], b"", b"PK\x03\x04" + bytes(40), b"\x80\x04K\x01.", b"\x93NUMPY\x01\x00\x10"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"w\.npz is damaged, or no \.npz file"):
            read_arrays(path)
        with pytest.raises(ValueError, match=r"w\.npz is damaged, or holds the weights of another model: ."):
            read_known(path, {"a": ((1,),)})


@pytest.mark.point("weights")
@pytest.mark.parametrize(
    ("header", "words"),
    [
        ([], "expected a table of tensors as its header"),
        (None, "expected a table of tensors as its header"),
        (b"no JSON", "expected a table of tensors as its header"),
        ({"a": {"dtype": "F32", "shape": [2]}}, "a has no proper dtype, shape and place"),
        ({"a": None}, "a has no proper dtype, shape and place"),
    ],
)
def test_a_header_of_another_kind_is_told_in_words(tmp_path: Path, header: Any, words: str) -> None:
    path = tmp_path / "w.safetensors"
    path.write_bytes(damaged(header))
    with pytest.raises(ValueError, match=words):
        read_arrays(path)


@pytest.mark.point("weights")
def test_a_text_that_is_called_npz_is_told_in_words(spec: Path, tmp_path: Path) -> None:
    path = tmp_path / "w.npz"
    path.write_text("a text", encoding="utf-8")
    with pytest.raises(ValueError, match=r"expected an archive of arrays, as numpy\.savez writes it"):
        read_arrays(path)
    with pytest.raises(ValueError, match=r"w\.npz is damaged, or .* another model: File is not a zip file"):
        dslc.compile(spec).load(path)


def bomb(path: Path, shape: tuple[int, ...], dtype: str = "<f4", length: int | None = None) -> None:
    """The weights of the spec, but for one that claims another shape, and is packed well."""
    module = dslc.compile(path.parent / "m.dsl")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, x in {**module.init(0), **module.init_state()}.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                if name != "dense.W":
                    np.lib.format.write_array(member, x)
                    continue
                claims = {"descr": dtype, "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(member, claims)
                left = math.prod(shape) * np.dtype(dtype).itemsize if length is None else length
                while left > 0:
                    member.write(bytes(min(left, 2**24)))
                    left -= 2**24


@pytest.mark.point("weights")
@pytest.mark.point("J")
@pytest.mark.parametrize(
    ("shape", "dtype", "length", "words", "brief"),
    [
        (
            (75_000_000,),
            "<f4",
            None,
            r"dense.W has the shape \(75000000,\), expected \(3, 2\)",
            r"dense.W is <f4 \(75000000,\) in 300000000 bytes, expected numbers \(3, 2\)",
        ),
        (
            (3, 2),
            "<U12000000",
            None,
            "dense.W holds <U12000000, expected numbers",
            r"dense.W is <U12000000 \(3, 2\) in 288000000 bytes, expected numbers \(3, 2\)",
        ),
        (
            (10**18,),
            "<f4",
            100,
            "dense.W has 228 bytes, which is not float32 of shape",
            r"dense.W is <f4 \(10{18},\) in 100 bytes, expected numbers \(3, 2\)",
        ),
        (
            (3, 2),
            "<f4",
            100,
            "dense.W has 228 bytes, which is not float32 of shape",
            r"dense.W is <f4 \(3, 2\) in 100 bytes, expected numbers \(3, 2\)",
        ),
    ],
)
def test_headers_are_compared_before_anything_is_unpacked(
    spec: Path, tmp_path: Path, shape: tuple[int, ...], dtype: str, length: int | None, words: str, brief: str
) -> None:
    path = tmp_path / "w.npz"
    bomb(path, shape, dtype, length)
    module = dslc.compile(spec)
    np.savez(tmp_path / "x.npz", x=np.ones((2, 3), np.float32))
    files = ("--weights", str(path), "--inputs", str(tmp_path / "x.npz"), "-o", str(tmp_path / "y.npz"))
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=brief):
            read_known(path, {**module.PARAMS, **module.STATE})
        with pytest.raises(ValueError, match=r"w\.npz"):
            module.load(path)
        run = CliRunner().invoke(cli, ["run", str(spec), *files], catch_exceptions=False)
        brought = CliRunner().invoke(cli, ["weights", str(spec), "--from", str(path)], catch_exceptions=False)
        assert tracemalloc.get_traced_memory()[1] < 100_000_000
    finally:
        tracemalloc.stop()
    assert run.exit_code == 1 and re.search(words, run.stderr), run.stderr
    told = words if length else r"w.npz: its arrays would take \d+ bytes, more than 100 times its length"
    assert brought.exit_code == 1 and re.search(told, brought.stderr)


@pytest.mark.point("weights")
def test_names_that_are_missing_unknown_or_twice_are_told(tmp_path: Path) -> None:
    table = {"a": ((2,),), "b": ((1,),)}
    for path in (tmp_path / "w.npz", tmp_path / "w.safetensors"):
        for arrays, words in (
            ({"a": np.ones(2)}, "missing b$"),
            (
                {"a": np.ones(2), "b": np.ones(1), "c": np.ones(3)},
                r"c is <f8 \(3,\) in 24 bytes, expected numbers no more$",
            ),
            ({"a": np.ones(2), "b": np.ones((1, 1))}, r"b is <f8 \(1, 1\) in 8 bytes, expected numbers \(1,\)$"),
        ):
            write_arrays(path, arrays)
            with pytest.raises(ValueError, match=rf"{path.name} .*: {words}"):
                read_known(path, table)
    with zipfile.ZipFile(tmp_path / "w.npz", "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zipfile warns of a name that is there
        for name in "aba":
            with archive.open(f"{name}.npy", "w") as part:
                np.lib.format.write_array(part, np.ones(table[name][0]))
    with pytest.raises(ValueError, match=r"w\.npz .*: a is <f8 \(2,\) in 16 bytes, expected numbers no more"):
        read_known(tmp_path / "w.npz", table)


@pytest.mark.point("weights")
def test_damaged_or_encrypted_bytes_of_an_archive_are_told(tmp_path: Path) -> None:
    path = tmp_path / "w.npz"
    write_arrays(path, {"a": np.arange(3.0).astype(">f8")})
    np.testing.assert_array_equal(read_known(path, {"a": ((3,),)})["a"], np.arange(3.0))
    good = path.read_bytes()
    for change, words in ((b"\x00\x41", "CRC"), (None, "encrypted")):
        data = bytearray(good)
        if change is None:
            data[6] |= 1
            data[data.rindex(b"PK\x01\x02") + 8] |= 1
        else:
            at = data.index(b"\n") + 1
            data[at : at + 2] = change
        path.write_bytes(data)
        with pytest.raises(ValueError, match=rf"w\.npz is damaged.*{words}"):
            read_known(path, {"a": ((3,),)})


@pytest.mark.point("weights")
def test_packed_weights_of_the_right_shapes_are_read(spec: Path, tmp_path: Path) -> None:
    module = dslc.compile(spec)
    kept = {**module.init(3), **module.init_state()}
    np.savez_compressed(tmp_path / "w.npz", **{n: np.asfortranarray(x) for n, x in kept.items()})
    for found in (read_known(tmp_path / "w.npz", {**module.PARAMS, **module.STATE}), module.load(tmp_path / "w.npz")):
        assert all(np.array_equal(x, kept[name]) for name, x in found.items())


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
