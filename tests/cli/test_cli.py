"""The command line: exit codes, what goes to which stream, hostile files, and failures of dslc itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner, Result

import dslc.frontend
from dslc.cli.arguments import setting, spec_files
from dslc.cli.main import cli, main
from dslc.diagnostics.kinds import KINDS
from dslc.diagnostics.spec_error import SpecError
from dslc.resolve import files
from dslc.source import Source
from dslc.syntax.parser import Parsed

# Each stays good when names are looked up and sizes are checked.
GOOD = "fn twice(x) = x + x\n"
TWO_ERRORS = "fn f(x) = x ** 2\nfn g(x) = (x + 1\n"


def run(*arguments: str | Path, text: str | bytes | None = None) -> Result:
    return CliRunner().invoke(cli, [str(a) for a in arguments], input=text, catch_exceptions=False)


def run_process(arguments: Sequence[str], **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dslc", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=60, check=False
    )


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.dsl"
    path.write_text(GOOD)
    return path


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    path = tmp_path / "bad.dsl"
    path.write_text(TWO_ERRORS)
    return path


# ---- check ----------------------------------------------------------------------------------------------


def test_check_says_ok_of_a_good_spec(good: Path) -> None:
    result = run("check", good)
    assert result.exit_code == 0
    assert result.stdout.startswith(f"{good}: ok")
    assert result.stdout.count("\n") == 1
    assert result.stderr == ""


def test_check_reports_all_errors_on_standard_error(good: Path, bad: Path) -> None:
    result = run("check", bad, good)
    assert result.exit_code == 1
    assert result.stdout.startswith(f"{good}: ok")
    assert "error[E0114]" in result.stderr
    assert "error[E0102]" in result.stderr
    assert result.stderr.endswith("2 errors\n")


def test_check_json_has_the_documented_form(good: Path, bad: Path) -> None:
    result = run("check", good, bad, "--json")
    assert result.exit_code == 1
    assert result.stderr == ""
    told = json.loads(result.stdout)
    assert list(told) == ["version", "diagnostics", "specs"]
    assert told["version"] == 1
    assert told["specs"] == [{"file": str(good), "ok": True}, {"file": str(bad), "ok": False}]
    place = {"file", "line", "column", "end_line", "end_column"}
    for diagnostic in told["diagnostics"]:
        assert set(diagnostic) == place | {"code", "severity", "message", "labels", "notes", "help", "fix"}
        assert all(set(label) == place | {"text"} for label in diagnostic["labels"])
        assert diagnostic["file"] == str(bad)
    assert [d["line"] for d in told["diagnostics"]] == [1, 2]


def test_warnings_alone_are_no_failure(good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dslc.diagnostics.report import Diagnostic, Label
    from dslc.source import Span

    warning = Diagnostic("W0001", "careful", (Label(Span(Source(str(good), GOOD), 0, 2)),))
    monkeypatch.setattr(
        dslc.frontend, "check_file", lambda path, settings: dslc.frontend.Checked(None, None, [warning])
    )
    result = run("check", good, "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["specs"][0]["ok"] is True


def test_a_folder_stands_for_the_specs_below_it(tmp_path: Path, good: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "other.dsl").write_text(GOOD)
    (tmp_path / "deep" / "notes.txt").write_text("no spec")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "x.dsl").write_text(TWO_ERRORS)
    (tmp_path / "folder.dsl").mkdir()
    assert spec_files([tmp_path, good]) == [tmp_path / "deep" / "other.dsl", good]
    result = run("check", tmp_path / "folder.dsl")
    assert result.exit_code == 2
    assert "holds no *.dsl file" in result.stderr


def test_settings_are_numbers_truths_or_words(good: Path) -> None:
    given = ["hidden=512", "lr=1e-3", "eps = -2.5", "causal=true", "act=gelu", "s=a=b", "n=" + "9" * 5000]
    values = [setting(text)[1] for text in given]
    assert values == [512, 0.001, -2.5, True, "gelu", "a=b", float("inf")]
    for wrong in ("hidden", "=3", "a b=3", "3x=1"):
        result = run("check", good, "--set", wrong)
        assert result.exit_code == 2
        assert "expected NAME=VALUE" in result.stderr


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "E0006"),
        (b"\0" * 100, "E0003"),
        (b"fn f(x) = \xff\xfe\n", "E0002"),
        (b"fn f(x) = x\x1b[31m\n", "E0003"),
        (b"x" * 1_000_001, "E0004"),
        (b"x" * 20_000, "E0005"),
    ],
    ids=["empty", "NULs", "invalid UTF-8", "escape sequence", "too long", "one long line"],
)
def test_hostile_files_are_diagnosed(tmp_path: Path, content: bytes, code: str) -> None:
    path = tmp_path / "hostile.dsl"
    path.write_bytes(content)
    for command in ("check", "show", "fmt"):
        result = run(command, path)
        assert result.exit_code == 1
        assert f"error[{code}]" in result.stderr
        assert "\x1b" not in result.stderr
        assert path.read_bytes() == content


def test_missing_files_are_diagnosed(tmp_path: Path) -> None:
    for command in ("check", "show", "fmt"):
        result = run(command, tmp_path / "gone.dsl")
        assert result.exit_code == 1
        assert "E0001" in result.stderr
        assert ":1:1" not in result.stderr


# ---- show -----------------------------------------------------------------------------------------------


def test_show_prints_the_syntax_tree(tmp_path: Path) -> None:
    path = tmp_path / "a.dsl"
    path.write_text("fn f(x) = x - 1\n\nlayer l(x: [N, 3]) -> y: [N]:\n    y[n] = x[n, i] if true else false\n")
    result = run("show", path, "--stage", "ast")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[:5] == [
        "   1  Fn name=f",
        "   1    formals: Formal name=x",
        "   1    expression: Sum",
        "   1      terms +: Name id=x",
        "   1      terms -: Number text=1",
    ]
    assert "   4        otherwise: Bool value=False" in lines


def test_show_of_a_broken_spec_prints_its_errors(bad: Path) -> None:
    result = run("show", bad)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "2 errors" in result.stderr


def test_show_finds_library_definitions_and_near_misses(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "fn g(x) = x\n\n# Halves.\nfn halve(x) = x / 2   # so\n\nfn k(x) = x\n"
    monkeypatch.setattr(files, "library_sources", lambda: iter([Source("std/a.dsl", text)]))
    result = run("show", "halve")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == ["# std/a.dsl:4", "# Halves.", "fn halve(x) = x / 2   # so"]
    missing = run("show", "halves")
    assert missing.exit_code == 2
    assert "did you mean halve?" in missing.stderr


# ---- fmt ------------------------------------------------------------------------------------------------


@pytest.fixture
def formatter(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A stand-in for the formatter: it only strips the ends of lines."""
    module = ModuleType("dslc.syntax.format")

    def format_source(parsed: Parsed) -> str:
        return "".join(line.rstrip() + "\n" for line in parsed.source.text.splitlines())

    module.format_source = format_source  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "dslc.syntax.format", module)
    return module


@pytest.mark.usefixtures("formatter")
def test_fmt_rewrites_in_place_and_keeps_permissions(tmp_path: Path, good: Path) -> None:
    path, link = tmp_path / "messy.dsl", tmp_path / "link.dsl"
    path.write_bytes(b"fn f(x) = x  \r\n")
    path.chmod(0o640)
    link.symlink_to(path)
    before = good.stat().st_mtime_ns, good.stat().st_ino
    assert run("fmt", "--check", link, good).stdout == f"{link}\n"
    assert run("fmt", "--check", link).exit_code == 1
    difference = run("fmt", "--diff", path)
    assert difference.exit_code == 0
    assert "-fn f(x) = x  \n+fn f(x) = x\n" in difference.stdout
    result = run("fmt", link, good)
    assert (result.exit_code, result.stdout) == (0, f"{link}: formatted\n")
    assert path.read_bytes() == b"fn f(x) = x\n"
    assert path.stat().st_mode & 0o777 == 0o640
    assert link.is_symlink()
    assert (good.stat().st_mtime_ns, good.stat().st_ino) == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["good.dsl", "link.dsl", "messy.dsl"]
    assert run("fmt", "--check", path).exit_code == 0


@pytest.mark.usefixtures("formatter")
def test_fmt_leaves_broken_files_alone(good: Path, bad: Path) -> None:
    bad.write_text(TWO_ERRORS.replace("\n", "  \n"))
    good.write_text(GOOD.replace("\n", "  \n"))
    result = run("fmt", bad, good)
    assert result.exit_code == 1
    assert "2 errors" in result.stderr
    assert bad.read_text() == TWO_ERRORS.replace("\n", "  \n")
    assert good.read_text() == GOOD


@pytest.mark.usefixtures("formatter")
def test_fmt_filters_standard_input() -> None:
    result = run("fmt", "-", text="fn f(x) = x  # µ  \n")
    assert (result.exit_code, result.stdout_bytes.decode()) == (0, "fn f(x) = x  # µ\n")
    assert run("fmt", "-", text=b"\xff").exit_code == 1
    check = run("fmt", "-", "--check", text="fn f(x) = x  \n")
    assert (check.exit_code, check.stdout) == (1, "<stdin>\n")


def test_fmt_never_writes_what_says_something_else(formatter: ModuleType, good: Path) -> None:
    formatter.format_source = lambda parsed: "fn twice(x) = x - x\n"  # type: ignore[attr-defined]
    with pytest.raises(AssertionError, match="would not say the same"):
        run("fmt", good)
    assert good.read_text() == GOOD


def test_fmt_settles(good: Path) -> None:
    pytest.importorskip("dslc.syntax.format")
    good.write_text("fn   twice( x ) = x+x   # why\n")
    assert run("fmt", good).exit_code == 0
    assert run("fmt", "--check", good).exit_code == 0
    assert "# why" in good.read_text()


# ---- explain, completion, help --------------------------------------------------------------------------


def test_explain_tells_cause_and_cure_of_every_code() -> None:
    listing = run("explain").stdout.splitlines()
    assert [line.split()[0] for line in listing] == list(KINDS)
    for code, kind in list(KINDS.items())[:: max(1, len(KINDS) // 20)]:
        result = run("explain", code.lower())
        assert result.exit_code == 0
        said = " ".join(result.stdout.split())
        assert kind.cause in said
        assert kind.cure in said


def test_explain_suggests_a_code() -> None:
    result = run("explain", "E03020")
    assert result.exit_code == 2
    assert "did you mean" in result.stderr
    assert "E0302" in result.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(shell: str) -> None:
    result = run("completion", shell)
    assert result.exit_code == 0
    assert "_DSLC_COMPLETE" in result.stdout


def test_completion_completes_codes() -> None:
    words = {"COMP_WORDS": "dslc explain e000", "COMP_CWORD": "2"}
    assert "plain,E0001" in run_process([], _DSLC_COMPLETE="bash_complete", **words).stdout.splitlines()


@pytest.mark.parametrize("arguments", [[], *([name] for name in cli.commands)])
def test_every_help_has_an_example(arguments: list[str]) -> None:
    for flag in ("-h", "--help"):
        result = run(*arguments, flag)
        assert result.exit_code == 0
        assert f"dslc {arguments[0] if arguments else 'check'} " in result.stdout.partition("\n")[2]


def test_help_and_version_import_nothing_heavy() -> None:
    script = (
        "import sys; from dslc.cli.main import cli\n"
        "cli.main(['{}'], standalone_mode=False)\n"
        "print(sorted({{'lark', 'sympy', 'numpy', 'rich'}} & set(sys.modules)))"
    )
    for flag in ("--version", "--help"):
        command = [sys.executable, "-c", script.format(flag)]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.endswith("\n[]\n")


# ---- failures of dslc itself ----------------------------------------------------------------------------


def test_a_bug_is_two_lines_and_a_report(
    good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(path: Path, settings: object) -> None:
        raise ValueError("first\nsecond \x1b[31m")

    monkeypatch.setattr(dslc.frontend, "check_file", fail)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(SystemExit) as stopped:
        main(["check", str(good)])
    assert stopped.value.code == 70
    first, second = capsys.readouterr().err.splitlines()
    assert first == "dslc hit a bug of its own: ValueError: first second \ufffd[31m"
    report = Path(second.removeprefix("please attach "))
    assert report.parent == tmp_path
    text = report.read_text()
    assert text.startswith("dslc ")
    assert f"arguments: ['check', {str(good)!r}]" in text
    assert "Traceback (most recent call last)" in text
    assert GOOD.strip() not in text
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with pytest.raises(SystemExit):
        main(["check", str(good)])
    assert "no report could be written" in capsys.readouterr().err


def test_an_interrupt_is_quiet(good: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(path: Path, settings: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(dslc.frontend, "check_file", interrupt)
    with pytest.raises(SystemExit) as stopped:
        main(["check", str(good)])
    assert stopped.value.code == 130
    assert capsys.readouterr().err.strip() == ""


def test_spec_errors_that_reach_the_top_are_shown(
    bad: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    diagnostics = dslc.frontend.check_file(bad).diagnostics

    def refuse(path: Path, settings: object) -> None:
        raise SpecError(diagnostics)

    monkeypatch.setattr(dslc.frontend, "check_file", refuse)
    with pytest.raises(SystemExit) as stopped:
        main(["check", str(bad)])
    assert stopped.value.code == 1
    assert capsys.readouterr().err.endswith("2 errors\n")


def test_the_process_itself(bad: Path) -> None:
    assert run_process(["--version"]).stdout.startswith("dslc ")
    failed = run_process(["check", str(bad)], PYTHONIOENCODING="ascii")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "\x1b" not in failed.stderr
    mistaken = run_process(["chek"])
    assert mistaken.returncode == 2
    assert "check" in mistaken.stderr


def test_a_closed_pipe_is_quiet() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "dslc.cli.main", "explain"]
    result = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, timeout=60, check=False)
    os.close(writer)
    assert result.stderr == b""


def test_color_only_on_a_terminal_and_never_against_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    from io import StringIO

    from dslc.cli.output import wants_color

    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert wants_color(Terminal())
    assert not wants_color(StringIO())
    assert not wants_color(None)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not wants_color(Terminal())


@pytest.mark.parametrize("stage", ["ast", "code"])
def test_a_full_disk_is_no_bug_of_dslc(stage: str) -> None:
    spec = Path(__file__).parents[2] / "specs/linear/linear_regression.dsl"
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "dslc.cli.main", "show", str(spec), "--stage", stage]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("error: cannot write to standard output") and len(done.stderr.splitlines()) == 1


def test_what_is_no_regular_file_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    spec = Path(__file__).parents[2] / "specs/linear/linear_regression.dsl"
    command = [sys.executable, "-m", "dslc.cli.main", "compile", str(spec), "-o", str(pipe)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as writer:
        text = pipe.read_text()
    assert writer.returncode == 0 and pipe.is_fifo() and "def train_step" in text
