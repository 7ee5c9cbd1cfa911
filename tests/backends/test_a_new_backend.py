"""A new backend is a file with its record and an entry: the example of CONTRIBUTING.md, put into a copy of dslc."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import worked_examples
from samples import load

from dslc.compiler import compile_text
from dslc.frontend import check_file
from dslc.ir.show import show
from dslc.pipeline import forward

(FILE,) = worked_examples.examples("Adding a backend")
(DIFFERENCE,) = worked_examples.examples("Adding a backend", "diff")

SPEC = "model m(x: f32[N, 3]) -> y: [N]:\n    y[n] = sum[k](x[n, k]^2)\n"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = worked_examples.copied(tmp_path_factory.mktemp("checkout"))
    (folder / "backends/listing.py").write_text(FILE, encoding="utf-8")
    registry = folder / "backends/registry.py"
    old = [line[1:] for line in DIFFERENCE.splitlines() if line.startswith(" ")]
    new = [line[1:] for line in DIFFERENCE.splitlines() if line.startswith("+")]
    for after, line in zip(old, new, strict=True):
        worked_examples.insert(registry, after, line)
    (folder / "m.dsl").write_text(SPEC, encoding="utf-8")
    return folder


def test_a_spec_is_compiled_with_it(checkout: Path) -> None:
    done = worked_examples.dslc(checkout, "compile", "m.dsl", "-b", "listing", "--dtype", "f64", "-o", "m.py")
    assert done.returncode == 0, done.stderr
    text = (checkout / "m.py").read_text(encoding="utf-8")
    assert text.startswith("FORWARD = [  # m.dsl, f64")
    program = check_file(checkout / "m.dsl").program
    assert program is not None
    assert show(forward(program.models["m"]).outputs).splitlines() == load(text, checkout).FORWARD


def test_python_takes_it_too(checkout: Path) -> None:
    script = "import dslc; print(dslc.compile('m.dsl', backend='listing').FORWARD[-1])"
    done = worked_examples.python(checkout, "-c", script)
    assert done.stdout == "return y\n", done.stderr


@pytest.mark.parametrize("command", ["compile", "show", "verify", "cost"])
def test_commands_offer_it(command: str, checkout: Path) -> None:
    assert "numpy|c|triton|listing]" in worked_examples.dslc(checkout, command, "--help").stdout
    assert "listing" in worked_examples.dslc(checkout, command, "m.dsl", "-b", "other").stderr


def test_stages_that_it_lacks_are_told(checkout: Path) -> None:
    done = worked_examples.dslc(checkout, "show", "m.dsl", "-b", "listing", "--stage", "kernels")
    assert done.returncode == 2 and "the listing backend has no kernels" in done.stderr
    done = worked_examples.dslc(checkout, "show", "m.dsl", "-b", "listing", "--stage", "fused")
    assert done.returncode == 2 and "does not tell what it computes together" in done.stderr


def test_modules_that_do_not_run_are_not_verified(checkout: Path) -> None:
    done = worked_examples.dslc(checkout, "verify", "m.dsl", "-b", "numpy", "-b", "listing", "--json")
    assert done.returncode == 0, done.stderr
    notes = {c["note"] for c in json.loads(done.stdout)["checks"] if c["backend"] == "listing"}
    assert notes == {"its modules do not run in Python"}


def test_what_there_is_not_is_refused_in_the_same_words(tmp_path: Path) -> None:
    spec = tmp_path / "m.dsl"
    spec.write_text(SPEC, encoding="utf-8")
    for options, message in (
        ({"backend": "jax"}, "there is no backend 'jax'; expected 'numpy', 'c' or 'triton'"),
        ({"dtype": "bf16"}, "NumPy has no bfloat16: take the dtype f32 or f16, or the backend c or triton"),
        ({"dtype": "f8"}, "there is no dtype 'f8' for parameters; expected 'f32', 'f64', 'f16' or 'bf16'"),
        ({"atomic": True}, "atomic additions are a choice of the backend triton alone"),
    ):
        with pytest.raises(ValueError) as error:  # noqa: PT011
            compile_text(spec, **options)  # type: ignore[arg-type]
        assert str(error.value) == message
