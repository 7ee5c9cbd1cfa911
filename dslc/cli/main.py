"""The command `dslc`: its sub-commands, and what happens when dslc itself fails.

What a command imports beyond click it imports when it runs, so that `dslc --help` is quick.
"""

from __future__ import annotations

import errno
import io
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from dslc.cli.check import check
from dslc.cli.compile import compile_
from dslc.cli.completion import completion
from dslc.cli.cost import cost
from dslc.cli.explain import explain
from dslc.cli.fmt import fmt
from dslc.cli.library import library
from dslc.cli.plot import plot
from dslc.cli.run import run
from dslc.cli.show import show
from dslc.cli.train import train
from dslc.cli.verify import verify
from dslc.cli.weights import weights
from dslc.ir.interning import compilation

#: Exit statuses beside 0, 1 (the specs, the data or a run have errors) and 2 (the command line is wrong).
EXIT_BUG = 70
EXIT_INTERRUPTED = 130

#: why a system may refuse to write, which is nothing that dslc could do otherwise
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})


@click.group("dslc", context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="dslc", prog_name="dslc", message="%(prog)s %(version)s")
@click.pass_context
def cli(context: click.Context) -> None:
    """Compile differentiable models written in index notation.

    \b
    Example:
        dslc check mlp.dsl

    Results go to standard output, errors and warnings of a spec to standard error. Exit status: 0 when all is
    well, 1 when a spec has errors (or data, weights or a check of a run are wrong), 2 when the command line is
    wrong, 70 when dslc itself failed, 130 when it was interrupted. Output is coloured on a terminal unless
    NO_COLOR is set.
    """
    context.with_resource(compilation())  # nodes of an earlier command in this process have the places of another spec


for command in (check, compile_, train, run, plot, weights, show, cost, verify, fmt, library, explain, completion):
    cli.add_command(command)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit; `arguments` are those of the process unless given."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal without Unicode is no reason to fail
    try:
        sys.exit(cli.main(given, prog_name="dslc", standalone_mode=False) or 0)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(EXIT_INTERRUPTED)
    except Exception as error:
        from dslc.cli.output import tell
        from dslc.diagnostics.spec_error import SpecError

        if isinstance(error, SpecError):
            tell(error.diagnostics)
            sys.exit(1)
        if isinstance(error, OSError) and error.errno in NO_ROOM:
            where = error.filename or "to standard output or to the folder for temporary files"
            click.echo(f"error: cannot write {where}: {(error.strerror or '').lower()}", err=True)
            _forget_output()
            sys.exit(1)
        _report_bug(error, given)
        sys.exit(EXIT_BUG)


def _forget_output() -> None:
    """Leave what standard output did not take: Python would try once more at its end, and fail again."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report_bug(error: Exception, arguments: list[str]) -> None:
    """Say in two lines that dslc failed, and leave a file with the version, the arguments and the traceback."""
    import tempfile
    import traceback
    from importlib.metadata import version

    from dslc.quoting import printable

    message = printable(" ".join(str(error).split()))[:300]
    click.echo(f"dslc hit a bug of its own: {type(error).__name__}: {message}".rstrip(": "), err=True)
    report = f"dslc {version('dslc')}\narguments: {arguments!r}\n\n{''.join(traceback.format_exception(error))}"
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="dslc-bug-", suffix=".txt", delete=False, encoding="utf-8", errors="backslashreplace"
        ) as file:
            file.write(report)
    except OSError as failure:
        click.echo(f"no report could be written: {failure.strerror}", err=True)
    else:
        click.echo(f"please attach {file.name}", err=True)


if __name__ == "__main__":
    main()
