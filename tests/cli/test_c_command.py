"""`dslc compile -b c` writes three files, called after the spec or as --name says."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from dslc.cli.main import cli

SPECS = Path(__file__).parents[2] / "specs"
MLP, GPT, LSTM = SPECS / "mlp/mlp.dsl", SPECS / "transformer/gpt.dsl", SPECS / "recurrent/lstm.dsl"


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


def test_its_kernels_are_the_functions_that_threads_share() -> None:
    done = CliRunner().invoke(cli, ["show", str(MLP), "-b", "c", "--stage", "kernels"])
    assert done.exit_code == 0 and "\n\n\nstatic void forward_logits(void *context, long begin," in done.output


def shown(spec: Path, *options: object) -> list[str]:
    done = CliRunner().invoke(cli, ["show", str(spec), "-b", "c", *map(str, options)])
    assert done.exit_code == 0, done.output
    return done.output.splitlines()


def test_fused_shows_the_products_passes_loops_and_calls_of_each_region() -> None:
    lines = shown(MLP, "--stage", "fused")
    assert lines[0] == "0: over [N], product [N, 128, 64]: y  (dense.dsl:8)"
    assert lines[1].startswith("0: over [N], pass [N, 128]: dense.y, h")
    assert any(x.startswith("0: over [N], pass [N, 10]: d_logits") for x in lines)  # with the forward pass
    assert any(": scatter [65, 64]: d_embed.W_scattered" in x for x in shown(GPT, "--stage", "fused"))
    looped = shown(LSTM, "--stage", "fused")
    assert any(x.startswith("2: for l over 2") for x in looped)
    assert any(x.startswith("    2.2: for t over T") for x in looped)
    assert any(x.startswith("        2.2.0: over [N], product [N, 64, 64]: u") for x in looped)


def test_memory_shows_which_values_share_a_slot_and_what_is_saved() -> None:
    lines = shown(MLP, "--stage", "memory")
    saved = [x for x in lines if "h [N, 128], 512*N bytes, saved for the gradient" in x]
    assert saved and all(x.startswith("slot ") for x in saved)
    assert any("; then " in x for x in shown(GPT, "--stage", "memory"))
    assert "d_dense.W [64, 128]: a result, in place  (dense.dsl:8)" in lines
    assert any("1024*N bytes" in x for x in shown(MLP, "--stage", "memory", "--dtype", "f64"))


def test_a_line_of_the_spec_picks_regions_slots_and_c_code() -> None:
    line = next(k for k, x in enumerate(MLP.read_text(encoding="utf-8").splitlines(), 1) if "gelu" in x)
    for stage in ("fused", "memory"):
        found = shown(MLP, "--stage", stage, "--line", line)
        assert found and all(f"mlp.dsl:{line}" in x for x in found)
    for stage in ("code", "kernels"):
        assert any(f"// mlp.dsl:{line}" in x for x in shown(MLP, "--stage", stage, "--line", line))


def test_passes_for_c_are_stages_too() -> None:
    assert any("dense.y" in x or "h[" in x for x in shown(MLP, "--stage", "exchange-sums"))
