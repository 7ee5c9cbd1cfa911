"""What the arguments that commands share mean: spec files and folders, and `--set NAME=VALUE`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

import click

SPECS = click.argument("specs", metavar="SPEC...", nargs=-1, required=True, type=click.Path(path_type=Path))


def spec_files(specs: Iterable[Path]) -> list[Path]:
    """The files that are meant, each once: a folder stands for all `*.dsl` below it, hidden folders apart.

    >>> spec_files([Path("a.dsl"), Path("a.dsl")])
    [PosixPath('a.dsl')]
    """
    files: list[Path] = []
    for spec in specs:
        if os.path.isdir(spec):  # as that of a Path, but for a name that is too long
            inside = [
                path
                for path in sorted(spec.rglob("*.dsl"))
                if path.is_file() and not any(part.startswith(".") for part in path.relative_to(spec).parts)
            ]
            if not inside:
                raise click.UsageError(f"the folder {click.format_filename(spec)} holds no *.dsl file")
            files += inside
        else:
            files.append(spec)
    return list(dict.fromkeys(files))


def setting(text: str) -> tuple[str, object]:
    """`NAME=VALUE` as a name and a bool, a number or else a string.

    >>> setting("hidden=512"), setting("lr=1e-3"), setting("act=gelu")
    (('hidden', 512), ('lr', 0.001), ('act', 'gelu'))
    """
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        raise click.BadParameter(f"expected NAME=VALUE, found {text!r}")
    if value in ("true", "false"):
        return name, value == "true"
    if re.fullmatch(r"[+-]?[0-9]{1,18}", value):
        return name, int(value)
    if re.fullmatch(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?", value):
        return name, float(value)
    return name, value


def names_of(context: click.Context, option: click.Parameter, values: Iterable[str]) -> list[str]:
    """Names that are given one by one or with commas between them."""
    return [name.strip() for value in values for name in value.split(",") if name.strip()]


SET = click.option(
    "--set", "settings", metavar="NAME=VALUE", multiple=True,
    callback=lambda context, option, values: dict(map(setting, values)),
    help="Give a hyper-parameter of the model another value; may be repeated.",
)  # fmt: skip
