"""Runs that are killed, interrupted or fail: nothing is lost, and what goes on ends with the same bits."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest
from small_runs import normed, process, run, same_bits, weights

from dslc import arrays as files
from dslc.run_errors import Stopped

CHECKPOINT = "checkpoint.npz"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path, tuple[object, ...]]:
    """A run that was never stopped: spec, data, folder, options."""
    folder = tmp_path_factory.mktemp("whole")
    spec, data = normed(folder, rows=200)
    options = ("--data", data, "--epochs", 15, "--validation", 0.2, "--patience", 15, "--checkpoint-every", 7)
    done = run("train", spec, *options, "-o", folder / "run")
    assert done.exit_code == 0, done.output
    return spec, data, folder / "run", options


def wait_for_change(path: Path, before: int, child: subprocess.Popen[str]) -> int:
    """The time stamp of a checkpoint that was written after `before`, or of the last one when the process ends."""
    while child.poll() is None:
        stamp = path.stat().st_mtime_ns if path.exists() else 0
        if stamp != before:
            return stamp
        time.sleep(0.001)
    return path.stat().st_mtime_ns if path.exists() else 0


def test_killed_at_random_moments_it_ends_with_the_same_bits(
    whole: tuple[Path, Path, Path, tuple[object, ...]], tmp_path: Path
) -> None:
    spec, _, reference, options = whole
    chance = random.Random(1)
    stamp, kills = 0, 0
    for _ in range(4):
        child = process("train", spec, *options, "-o", tmp_path / "run")
        stamp = wait_for_change(tmp_path / "run" / CHECKPOINT, stamp, child)
        time.sleep(chance.uniform(0, 0.05))
        child.kill()
        kills += child.wait() == -signal.SIGKILL
        child.communicate()
    assert kills >= 3
    done = run("train", spec, *options, "-o", tmp_path / "run")
    assert done.exit_code == 0, done.output
    assert "resumed at" in done.stdout
    assert same_bits(weights(reference), weights(tmp_path / "run"))
    assert not list((tmp_path / "run").glob(".*.part"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_a_checkpoint_of_the_last_step(
    number: signal.Signals, whole: tuple[Path, Path, Path, tuple[object, ...]], tmp_path: Path
) -> None:
    spec, _, reference, options = whole
    child = process("train", spec, *options, "-o", tmp_path / "run")
    wait_for_change(tmp_path / "run" / CHECKPOINT, 0, child)
    child.send_signal(number)
    _, told = child.communicate(timeout=60)
    assert child.returncode == 130
    assert "with a checkpoint; the same command goes on" in told
    assert weights(tmp_path / "run")
    assert run("train", spec, *options, "-o", tmp_path / "run").exit_code == 0
    assert same_bits(weights(reference), weights(tmp_path / "run"))


@pytest.mark.parametrize("option", [("--fresh",), ("--roll-back", 2)])
def test_what_would_not_go_on_from_the_checkpoint_is_told(
    option: tuple[object, ...], whole: tuple[Path, Path, Path, tuple[object, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, _, folder, options = whole

    def stop(*_: object) -> None:
        raise Stopped(5, 1, folder)

    monkeypatch.setattr("dslc.cli.train.trained", stop)
    done = run("train", spec, *options, "-o", folder, *option)
    assert done.exit_code == 130 and f"the same command without {option[0]} goes on from there" in done.stderr


def test_a_run_in_parts_ends_with_the_same_bits(tmp_path: Path) -> None:
    """Ended in the middle of an epoch, and with an evaluation there that the whole run does not have."""
    spec, data = normed(tmp_path)
    options = ("train", spec, "--data", data, "--validation", 0.2, "--patience", 50)
    for steps in (3, 7, 20):
        assert run(*options, "--steps", steps, "-o", tmp_path / "parts").exit_code == 0
    assert run(*options, "--steps", 20, "-o", tmp_path / "whole").exit_code == 0
    assert same_bits(weights(tmp_path / "parts"), weights(tmp_path / "whole"))
    with np.load(tmp_path / "parts" / CHECKPOINT) as a, np.load(tmp_path / "whole" / CHECKPOINT) as b:
        assert sorted(a.files) == sorted(b.files)
        assert all(a[name].tobytes() == b[name].tobytes() for name in a.files)


# ---- disks ---------------------------------------------------------------------------------------------


def test_a_full_disk_leaves_the_last_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, data = normed(tmp_path)
    folder = tmp_path / "run"
    assert run("train", spec, "--data", data, "-o", folder, "--steps", 5).exit_code == 0
    good = (folder / CHECKPOINT).read_bytes()
    real = os.fdopen

    class Full:
        """A file on a disk with room for a hundred bytes more."""

        def __init__(self, file: IO[bytes]):
            self.file, self.room = file, 100

        def write(self, data: bytes) -> int:
            self.room -= len(data)
            if self.room < 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return self.file.write(data)

        def __enter__(self) -> Full:
            return self

        def __exit__(self, *_: object) -> None:
            self.file.close()

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

    monkeypatch.setattr(os, "fdopen", lambda *a, **k: Full(real(*a, **k)))
    done = run("train", spec, "--data", data, "-o", folder, "--steps", 10)
    assert done.exit_code == 1
    assert f"cannot write {folder / CHECKPOINT}: no space left on device; the last checkpoint is whole" in done.stderr
    assert "help: free some space on that disk; then the same command goes on" in done.stderr
    assert (folder / CHECKPOINT).read_bytes() == good
    assert sorted(x.name for x in folder.iterdir()) == [".lock", CHECKPOINT, "run.json", "weights.safetensors"]
    monkeypatch.undo()
    assert run("train", spec, "--data", data, "-o", folder, "--steps", 10).exit_code == 0
    assert run("train", spec, "--data", data, "-o", tmp_path / "whole", "--steps", 10).exit_code == 0
    assert same_bits(weights(folder), weights(tmp_path / "whole"))


def test_a_full_disk_for_real(tmp_path: Path) -> None:
    """A file system of 64 KiB, in a namespace of its own, filled after the first checkpoints."""
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode:
        pytest.skip("this system does not let users mount a small file system")
    spec, data = normed(tmp_path)
    train = f"{sys.executable} -m dslc.cli.main train {spec} --data {data} -o {tmp_path}/small/run --steps"
    script = (
        f"mkdir {tmp_path}/small && mount -t tmpfs -o size=64k tmpfs {tmp_path}/small || exit 99\n"
        f"{train} 5 || exit 98\n"
        f"cat /dev/zero > {tmp_path}/small/filler 2> /dev/null\n"
        f"{train} 10; echo status $?\n"
        f"rm {tmp_path}/small/filler; {train} 10\n"
    )
    done = subprocess.run(["unshare", "-rm", "sh", "-c", script], capture_output=True, text=True, check=False)
    if done.returncode == 99:
        pytest.skip("this system does not let users mount a small file system")
    assert done.returncode == 0, done.stderr
    assert "status 1" in done.stdout and "10 steps, resumed at 5" in done.stdout
    assert "no space left on device; the last checkpoint is whole" in done.stderr


def test_two_runs_do_not_share_a_folder(tmp_path: Path) -> None:
    spec, data = normed(tmp_path)
    with files.locked(tmp_path):
        done = run("train", spec, "--data", data, "-o", tmp_path)
    assert done.exit_code == 1
    assert f"another run of dslc is writing to {tmp_path}" in done.stderr
    assert run("train", spec, "--data", data, "-o", tmp_path, "--steps", 1).exit_code == 0


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    spec, data = normed(tmp_path)
    (tmp_path / "file").write_text("")
    done = run("train", spec, "--data", data, "-o", tmp_path / "file/run")
    assert done.exit_code == 1
    assert f"cannot write {tmp_path / 'file/run'}: not a directory" in done.stderr


# ---- checkpoints that do not fit ------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["text", "cut", "flipped"])
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_goes_on(damage: str, tmp_path: Path) -> None:
    spec, data = normed(tmp_path)
    folder = tmp_path / "run"
    for steps in (5, 10):
        assert run("train", spec, "--data", data, "-o", folder, "--steps", steps).exit_code == 0
    good = (folder / CHECKPOINT).read_bytes()
    flipped = bytearray(good)
    flipped[300] ^= 64
    bad = {"text": b"not a checkpoint", "cut": good[:-200], "flipped": bytes(flipped)}[damage]
    (folder / CHECKPOINT).write_bytes(bad)
    done = run("train", spec, "--data", data, "-o", folder, "--steps", 15)
    assert done.exit_code == 1
    assert f"the checkpoint {folder / CHECKPOINT} cannot be used" in done.stderr
    assert (folder / CHECKPOINT).read_bytes() == bad
    # the cure that the message names
    previous = folder / "checkpoint.previous.npz"
    assert f"`mv {previous} {folder / CHECKPOINT}`" in done.stderr
    previous.rename(folder / CHECKPOINT)
    assert "resumed at 5" in run("train", spec, "--data", data, "-o", folder, "--steps", 15).stdout
    assert run("train", spec, "--data", data, "-o", tmp_path / "whole", "--steps", 15).exit_code == 0
    assert same_bits(weights(folder), weights(tmp_path / "whole"))


def test_a_run_that_lost_its_last_checkpoint_does_not_begin_anew(tmp_path: Path) -> None:
    spec, data = normed(tmp_path)
    folder = tmp_path / "run"
    for steps in (5, 10):
        assert run("train", spec, "--data", data, "-o", folder, "--steps", steps).exit_code == 0
    previous = folder / "checkpoint.previous.npz"
    (folder / CHECKPOINT).unlink()
    done = run("train", spec, "--data", data, "-o", folder, "--steps", 15)
    assert done.exit_code == 1
    assert f"`mv {previous} {folder / CHECKPOINT}` goes on" in done.stderr
    # where that one is no better, it is not recommended
    previous.write_bytes(b"not a checkpoint, either")
    done = run("train", spec, "--data", data, "-o", folder, "--steps", 15)
    assert done.exit_code == 1
    assert "mv " not in done.stderr and "--fresh starts anew" in done.stderr


def test_other_data_another_spec_or_other_settings_are_refused(tmp_path: Path) -> None:
    spec, data = normed(tmp_path)
    folder = tmp_path / "run"
    options = ("train", spec, "--data", data, "-o", folder)
    assert run(*options, "--steps", 5).exit_code == 0

    def refused(*more: object) -> str:
        before = (folder / CHECKPOINT).read_bytes()
        done = run(*options, *more)
        assert done.exit_code == 1
        assert "--fresh" in done.stderr
        assert (folder / CHECKPOINT).read_bytes() == before
        return done.stderr

    assert "was made with --seed 0, not 1" in refused("--seed", 1)
    assert "was made with --batch 8, not 4" in refused("--batch", 4)
    assert "was made with --validation 0.0, not 0.5" in refused("--validation", 0.5)
    assert "the spec, its settings or its dtype have changed" in refused("--set", "classes=4")
    assert "the spec, its settings or its dtype have changed" in refused("--dtype", "f64")
    with np.load(data) as file:
        arrays = dict(file)
    np.savez(data, x=arrays["x"][:50], label=arrays["label"][:50])
    assert "`x` had the shape (60, 4) when" in refused() and "now (50, 4)" in refused()
    np.savez(data, x=arrays["x"] + 1, label=arrays["label"])
    assert "`x` has other values than when" in refused()
    np.savez(data, **arrays)
    text = spec.read_text()
    spec.write_text(text.replace("relu", "tanh"))
    assert "have changed since" in refused()
    # comments and layout are no change, and --fresh begins anew
    spec.write_text("# a comment\n" + text)
    assert "resumed at 5" in run(*options, "--steps", 6).stdout
    assert "resumed" not in run(*options, "--steps", 6, "--fresh", "--seed", 1).stdout


# ---- numbers that are not finite --------------------------------------------------------------------------


def nonfinite(tmp_path: Path, body: str, x: np.ndarray, *options: object) -> str:
    spec = tmp_path / "bad.dsl"
    spec.write_text(f"model bad(x: f32[N, 2]) -> y: [N]:\n{body}\n    using sgd(lr = 1.0)\n", encoding="utf-8")
    np.savez(tmp_path / "x.npz", x=x.astype(np.float32))
    done = run("train", spec, "--data", tmp_path / "x.npz", "-o", tmp_path / "run", *options)
    assert done.exit_code == 1, done.output
    return done.stderr


def test_the_first_value_that_is_not_finite_is_named(tmp_path: Path) -> None:
    body = (
        "    param w: [2] ~ ones\n"
        "    h[n] = x[n, i] * w[i]\n"
        "    grown = exp(h)\n"
        "    y = grown - 1\n"
        "train bad(x):\n"
        "    minimize mean(bad(x))"
    )
    x = np.zeros((4, 2))
    x[2] = 50
    told = nonfinite(tmp_path, body, x)
    assert "the loss is inf at step 1: the first value that is not finite is `grown`, which is inf at [" in told
    assert "bad.dsl:4:" in told and "grown = exp(h)" in told


def test_a_bad_value_inside_a_scan_is_named(tmp_path: Path) -> None:
    body = (
        "    param w: [2] ~ ones\n"
        "    s[n] = x[n, i] * w[i]\n"
        "    scan t in 0..8:\n"
        "        doubled[n] = h[n, t-1]^2 + s[n]\n"
        "        h[n, t] = doubled[n] * 2\n"
        "    start h = 0\n"
        "    y[n] = h[n, 7]\n"
        "train bad(x):\n"
        "    minimize mean(bad(x))"
    )
    told = nonfinite(tmp_path, body, np.full((4, 2), 50.0))
    assert "that is not finite is `doubled`, which is inf" in told
    assert "bad.dsl:5:" in told


def test_a_bad_gradient_is_found_in_the_step_before(tmp_path: Path) -> None:
    body = (
        "    param w: [2] ~ zeros\n"
        "    h[n] = x[n, i] * w[i]\n"
        "    y[n] = sqrt(h[n])\n"
        "train bad(x):\n"
        "    minimize mean(bad(x))"
    )
    told = nonfinite(tmp_path, body, np.ones((4, 2)))
    assert "the loss is nan at step 2" in told
    assert "the first value of step 1 that is not finite is the gradient of `h`" in told
    assert "bad.dsl:4:" in told  # the slope of the square root


def test_weights_that_are_not_finite_are_never_written(tmp_path: Path) -> None:
    """The loss of the only step is finite, but not what the step makes of the parameters."""
    body = "    param w: [2] ~ zeros\n    y[n] = sqrt(x[n, i] * w[i])\ntrain bad(x):\n    minimize mean(bad(x))"
    told = nonfinite(tmp_path, body, np.ones((4, 2)), "--steps", 1)
    assert "a parameter or a state is not finite after step 1" in told
    assert not list((tmp_path / "run").glob("[!.]*"))


@pytest.mark.point("J")
@pytest.mark.parametrize("name", ["params/dense.W", "opt.state/batch_norm.running_var", "best/dense2.b"])
def test_a_checkpoint_that_is_not_finite_is_refused(name: str, tmp_path: Path) -> None:
    spec, data = normed(tmp_path)
    options = ("--data", data, "--epochs", 2, "--validation", 0.2, "--patience", 5, "-o", tmp_path / "run")
    assert run("train", spec, *options).exit_code == 0
    path = tmp_path / "run" / CHECKPOINT
    arrays, before = files.read_arrays(path), weights(tmp_path / "run")
    arrays[name].flat[0] = np.nan
    files.write_arrays(path, arrays)
    done = run("train", spec, *options)
    part = name.partition("/")[2]
    assert done.exit_code == 1 and f"{CHECKPOINT} cannot be used: `{part}` is not finite" in done.stderr
    assert "--fresh starts anew" in done.stderr and same_bits(weights(tmp_path / "run"), before)


def test_a_mask_of_infinities_is_not_blamed(tmp_path: Path) -> None:
    body = (
        "    param w: [2] ~ ones\n"
        "    masked[n, i] = x[n, i] * w[i] if i < 1 else -inf\n"
        "    a[n, i] = softmax[i](masked[n, i])\n"
        "    grown[n] = exp(1000 * a[n, 0] * w[0])\n"
        "    y = grown\n"
        "train bad(x):\n"
        "    minimize mean(bad(x))"
    )
    assert "that is not finite is `grown`" in nonfinite(tmp_path, body, np.ones((4, 2)))


def test_the_last_good_weights_stay_when_the_loss_diverges(tmp_path: Path) -> None:
    body = "    param w: [2] ~ ones\n    y[n] = (x[n, i] * w[i])^2\ntrain bad(x):\n    minimize mean(bad(x))"
    told = nonfinite(tmp_path, body, np.full((8, 2), 4.0), "--checkpoint-every", 2, "--batch", 4, "--epochs", 100)
    assert "is inf at step" in told and f"are in {tmp_path / 'run'}" in told
    assert all(np.isfinite(v).all() for v in weights(tmp_path / "run").values())


# ---- whose files they are ---------------------------------------------------------------------------------


@pytest.mark.point("G")
@pytest.mark.parametrize("kind", ["link", "dangling link", "folder", "pipe"])
def test_a_lock_that_is_no_plain_file_is_refused_and_left_alone(kind: str, tmp_path: Path) -> None:
    spec, data = normed(tmp_path)
    folder, precious = tmp_path / "run", tmp_path / "precious.txt"
    folder.mkdir()
    precious.write_text("all my notes")
    lock = folder / ".lock"
    if kind == "folder":
        lock.mkdir()
    elif kind == "pipe":
        os.mkfifo(lock)
    else:
        lock.symlink_to(precious if kind == "link" else tmp_path / "missing.txt")
    done = run("train", spec, "--data", data, "-o", folder, "--steps", 1)
    assert done.exit_code == 1
    assert f"{lock} is no plain file" in done.stderr and "help: remove it" in done.stderr
    assert precious.read_text() == "all my notes" and not (tmp_path / "missing.txt").exists()
    assert [x.name for x in folder.iterdir()] == [".lock"]


@pytest.mark.point("G")
def test_a_file_that_is_called_as_the_lock_keeps_its_text(tmp_path: Path) -> None:
    spec, data = normed(tmp_path)
    (tmp_path / ".lock").write_text("of another tool")
    assert run("train", spec, "--data", data, "-o", tmp_path, "--steps", 1).exit_code == 0
    assert (tmp_path / ".lock").read_text() == "of another tool"


@pytest.mark.point("G")
def test_only_own_leftovers_are_removed(tmp_path: Path) -> None:
    spec, data = normed(tmp_path)
    others = [".thesis.part", ".checkpoint.npz.backup.part", ".big.iso.abcd1234.part", ".checkpoint.part"]
    own = [".checkpoint.npz.abcd_123.part", ".weights.safetensors.abcd1234.part", ".checkpoint.previous.npz.part"]
    for name in others + own:
        (tmp_path / name).write_text("half of it")
    link = tmp_path / ".checkpoint.npz.link1234.part"
    link.symlink_to(tmp_path / others[0])
    assert run("train", spec, "--data", data, "-o", tmp_path, "--steps", 1).exit_code == 0
    assert sorted(x.name for x in tmp_path.glob(".*.part")) == sorted([*others, link.name])


@pytest.mark.point("G")
def test_a_fresh_run_waits_for_the_lock_before_it_deletes(tmp_path: Path) -> None:
    spec, data = normed(tmp_path)
    folder = tmp_path / "run"
    for steps in (2, 4):
        assert run("train", spec, "--data", data, "-o", folder, "--steps", steps).exit_code == 0
    before = {x.name: x.read_bytes() for x in folder.iterdir()}
    with files.locked(folder):
        done = run("train", spec, "--data", data, "-o", folder, "--steps", 3, "--fresh")
    assert done.exit_code == 1 and "another run of dslc is writing to" in done.stderr
    assert {x.name: x.read_bytes() for x in folder.iterdir()} == before
    assert run("train", spec, "--data", data, "-o", folder, "--steps", 3, "--fresh").exit_code == 0
    assert not (folder / "checkpoint.previous.npz").exists()
