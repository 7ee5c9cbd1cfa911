"""The C text of a module is compiled once, found again, and what goes wrong is told with its cure."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import dense
import pytest

#: a process that imports the module and calls it: seconds that the import took beside NumPy's, and a result
SCRIPT = """
import sys, time, warnings
import numpy as np
sys.modules["ziglang"] = None  # a compiler that may be installed beside this Python
start = time.perf_counter()
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import dense
seconds = time.perf_counter() - start
y = dense.forward({"W": np.ones((3, 2), np.float32), "b": np.zeros(2, np.float32)}, np.ones((2, 3)), [0, 1])
assert "dslc" not in sys.modules
print(seconds, y.tolist(), *(str(w.message) for w in caught), sep="|")
"""


@pytest.fixture(scope="module")
def module_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with dense.py and dense.c, as `dslc compile -o` leaves them."""
    folder = tmp_path_factory.mktemp("module")
    (folder / "dense.py").write_text(dense.text_of(folder, beside=True), encoding="utf-8")
    (folder / "dense.c").write_text(dense.c_text(), encoding="utf-8")
    return folder


def run(folder: Path, cache: Path, **variables: str | None) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if k not in ("CC", "DSLC_CFLAGS", "XDG_CACHE_HOME", "PYTHONPATH")}
    changed = {"DSLC_CACHE": str(cache), "PYTHONDONTWRITEBYTECODE": "1", **variables}
    environment = kept | {k: v for k, v in changed.items() if v is not None}
    command = [sys.executable, "-c", SCRIPT]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def works(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert done.returncode == 0, done.stderr
    parts = done.stdout.strip().split("|")
    assert parts[1] == "[[3.0, 3.0], [3.0, 3.0]]"
    return parts


@pytest.fixture
def counted(tmp_path: Path) -> tuple[str, Path]:
    """A compiler that leaves a line in a file when it is started."""
    log, script = tmp_path / "started", tmp_path / "counted-cc"
    script.write_text(f'#!/bin/sh\necho started >> {log}\nexec cc "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    return str(script), log


def test_a_module_is_compiled_once(module_folder: Path, tmp_path: Path, counted: tuple[str, Path]) -> None:
    cc, log = counted
    cache = tmp_path / "deep" / "cache"
    works(run(module_folder, cache, CC=cc))
    found = os.listdir(cache)
    assert len(found) == 1 and found[0].startswith("dense-") and found[0].endswith(".so")
    seconds, *_ = works(run(module_folder, cache, CC=cc))
    assert log.read_text().splitlines() == ["started"]
    assert float(seconds) < 0.3


def test_other_flags_another_compiler_and_another_text_are_compiled_anew(
    module_folder: Path, tmp_path: Path, counted: tuple[str, Path]
) -> None:
    cc, log = counted
    cache = tmp_path / "cache"
    works(run(module_folder, cache, CC=cc))
    works(run(module_folder, cache, CC=cc, DSLC_CFLAGS="-O1"))
    works(run(module_folder, cache, CC=f"{cc} -g0"))
    os.utime(cc, ns=(1, 1))
    works(run(module_folder, cache, CC=cc))
    changed = tmp_path / "changed"
    changed.mkdir()
    for name in ("dense.py", "dense.c"):
        (changed / name).write_text((module_folder / name).read_text() + ("\n" if name[-1] == "c" else ""))
    works(run(changed, cache, CC=cc))
    assert len(log.read_text().splitlines()) == len(os.listdir(cache)) == 5


def test_the_cache_is_where_it_should_be(module_folder: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    works(run(module_folder, tmp_path, DSLC_CACHE=None, XDG_CACHE_HOME=str(tmp_path / "xdg"), HOME=str(home)))
    assert len(os.listdir(tmp_path / "xdg" / "dslc")) == 1 and not home.exists()
    works(run(module_folder, tmp_path, DSLC_CACHE=None, HOME=str(home)))
    assert len(os.listdir(home / ".cache" / "dslc")) == 1


def test_many_processes_may_import_at_once(module_folder: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "DSLC_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-c", SCRIPT]
    started = [
        subprocess.Popen(command, cwd=module_folder, env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    for process in started:
        told, _ = process.communicate()
        assert process.returncode == 0 and "[[3.0, 3.0], [3.0, 3.0]]" in told
    assert len(os.listdir(tmp_path / "cache")) == 1


def test_a_damaged_library_is_compiled_again(module_folder: Path, tmp_path: Path) -> None:
    works(run(module_folder, tmp_path))
    (library,) = tmp_path.glob("*.so")
    whole = library.read_bytes()
    for damage in (b"", b"not a library"):
        library.write_bytes(damage)
        works(run(module_folder, tmp_path))
        assert len(library.read_bytes()) == len(whole)


def test_a_cache_that_cannot_be_written_is_a_warning(module_folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    done = run(module_folder, file / "below", TMPDIR=str(tmp_path))
    *_, warning = works(done)
    assert "cannot keep the compiled dense in" in warning and "set DSLC_CACHE to a folder" in warning
    assert os.listdir(tmp_path) == ["file"]


def test_a_home_that_is_nowhere_is_a_warning(module_folder: Path, tmp_path: Path) -> None:
    before = sorted(os.listdir(module_folder))
    *_, warning = works(run(module_folder, tmp_path, DSLC_CACHE=None, HOME="nowhere"))
    assert "set DSLC_CACHE to a folder" in warning and sorted(os.listdir(module_folder)) == before


@pytest.mark.parametrize(
    ("does", "told"),
    [
        ("exit 0", "failed on dense.c; choose another compiler by CC"),
        ("kill -9 $$", "failed on dense.c; choose another compiler by CC"),
        ('while [ "$1" != -o ]; do shift; done; echo half > "$2"', "dense.c cannot be loaded"),
    ],
)
def test_a_compiler_that_stops_half_way_is_told_of(does: str, told: str, module_folder: Path, tmp_path: Path) -> None:
    script, cache = tmp_path / "half-cc", tmp_path / "cache"
    script.write_text(f"#!/bin/sh\n{does}\n", encoding="utf-8")
    script.chmod(0o755)
    done = run(module_folder, cache, CC=str(script))
    last = next(x for x in done.stderr.splitlines() if x.startswith("RuntimeError"))
    assert done.returncode == 1 and told in last and str(script) in last
    works(run(module_folder, cache))


def test_what_an_interrupted_compilation_leaves_is_in_nobodys_way(module_folder: Path, tmp_path: Path) -> None:
    script, cache = tmp_path / "slow-cc", tmp_path / "cache"
    script.write_text("#!/bin/sh\nexec sleep 60\n", encoding="utf-8")
    script.chmod(0o755)
    environment = os.environ | {"DSLC_CACHE": str(cache), "CC": str(script)}
    started = subprocess.Popen([sys.executable, "-c", SCRIPT], cwd=module_folder, env=environment, process_group=0)
    while not any(cache.glob(".*/dense.c")):
        assert started.poll() is None
        time.sleep(0.01)
    os.killpg(started.pid, signal.SIGKILL)
    started.wait()
    works(run(module_folder, cache))
    assert len(list(cache.glob("*.so"))) == 1


def test_without_a_compiler_the_cure_is_told(module_folder: Path, tmp_path: Path) -> None:
    done = run(module_folder, tmp_path, PATH=str(tmp_path))
    assert done.returncode == 1
    cure = "there is no C compiler: install gcc or clang, or `pip install ziglang`, or set CC to one"
    assert done.stderr.strip().splitlines()[-1] == f"RuntimeError: {cure}"
    done = run(module_folder, tmp_path, CC="no-such-compiler -O2")
    assert "there is no C compiler no-such-compiler, which CC names" in done.stderr.splitlines()[-1]


def test_what_a_compiler_complains_of_is_shown(module_folder: Path, tmp_path: Path) -> None:
    done = run(module_folder, tmp_path, DSLC_CFLAGS="-O2 -march=pdp11")
    assert done.returncode == 1
    assert "cc -O2 -march=pdp11" in done.stderr and "failed on dense.c; choose another compiler by CC" in done.stderr
    assert "pdp11" in done.stderr.split("failed on")[1]
    assert os.listdir(tmp_path) == []
    folder = tmp_path / "broken"
    folder.mkdir()
    (folder / "dense.py").write_text((module_folder / "dense.py").read_text())
    (folder / "dense.c").write_text(dense.c_text() + "\nint f(void) { return nothing; }\n")
    done = run(folder, tmp_path / "cache")
    assert "error: 'nothing' undeclared" in done.stderr and "dense.c:" in done.stderr


def test_the_c_file_must_stand_beside_the_python_file(module_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "dense.py").write_text((module_folder / "dense.py").read_text())
    done = run(tmp_path, tmp_path / "cache")
    assert "dense.c is missing: `dslc compile -b c` writes it beside dense.py" in done.stderr.splitlines()[-1]


def test_the_header_is_c_and_cplusplus(tmp_path: Path) -> None:
    from dslc.backends.c.header import header

    (tmp_path / "dense.h").write_text(header(dense.INTERFACE, "dense.dsl"), encoding="utf-8")
    use = '#include "dense.h"\n#include "dense.h"\nint f(void) { return (int)dense_forward_workspace(0); }\n'
    (tmp_path / "use.c").write_text(use)
    for language in ("c", "c++"):
        command = ["cc", "-x", language, "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", "use.c"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        if "cc1plus" in done.stderr:
            continue  # a compiler of C alone
        assert done.returncode == 0, done.stderr
