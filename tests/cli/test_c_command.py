"""`dslc compile -b c` writes three files, called after the spec or as --name says."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from dslc.cli.main import cli

MLP = Path(__file__).parents[2] / "specs/mlp/mlp.dsl"


def compiled(*options: object) -> tuple[int, str]:
    done = CliRunner().invoke(cli, ["compile", str(MLP), *map(str, options)])
    return done.exit_code, done.output


def test_a_folder_gets_the_c_file_its_header_and_the_python_module(tmp_path: Path) -> None:
    code, told = compiled("-b", "c", "-o", tmp_path / "new")
    assert code == 0 and told.count(" lines\n") == 3
    assert sorted(x.name for x in (tmp_path / "new").iterdir()) == ["mlp.c", "mlp.h", "mlp.py"]


def test_the_name_and_the_processor_may_be_given(tmp_path: Path) -> None:
    code, _ = compiled("-b", "c", "-o", tmp_path, "--name", "digits", "--march", "x86-64-v3")
    assert code == 0 and sorted(x.name for x in tmp_path.iterdir()) == ["digits.c", "digits.h", "digits.py"]
    assert "int32_t digits_forward(" in (tmp_path / "digits.h").read_text(encoding="utf-8")
    assert '"x86-64-v3"' in (tmp_path / "digits.py").read_text(encoding="utf-8")


def test_without_a_folder_all_of_it_is_one_text() -> None:
    code, text = compiled("-b", "c")
    assert code == 0 and 'C_TEXT = r"""' in text


def test_what_is_for_c_is_refused_elsewhere() -> None:
    code, told = compiled("--march", "native")
    assert code == 2 and "a processor (march) is a choice of the backend c alone" in " ".join(told.split())
    code, told = compiled("-b", "c", "--dtype", "bf16", "-o", "nowhere")
    assert code == 2 and "C modules compute in f32 and f64: take the dtype f32" in " ".join(told.split())


def test_its_kernels_are_the_functions_that_threads_share() -> None:
    done = CliRunner().invoke(cli, ["show", str(MLP), "-b", "c", "--stage", "kernels"])
    assert done.exit_code == 0 and done.output.startswith("static void forward_logits(void *context, long begin,")
    done = CliRunner().invoke(cli, ["show", str(MLP), "-b", "c", "--stage", "memory"])
    assert done.exit_code == 2 and "the c backend does not tell how long values live" in " ".join(done.output.split())
