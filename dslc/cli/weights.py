"""`dslc weights`: the weights of another framework brought in."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dslc.cli.arguments import SET
from dslc.cli.compile import DTYPE, MODEL, SPEC

if TYPE_CHECKING:
    from dslc.arrays import Arrays
    from dslc.weights.maps import Mapped
    from dslc.weights.suggest import Suggestion

#: of the object that --json prints
VERSION = 1

Shape = tuple[int, ...]

#: of the arrays that a parameter may be, those that a line names
SHOWN = 3


@click.command(short_help="Bring in weights of another framework.")
@SPEC
@click.option(
    "--from", "source", metavar="FILE", required=True, type=click.Path(path_type=Path),
    help="Weights as .safetensors, .npz, or a torch state dict.",
)  # fmt: skip
@click.option("--map", "rules", metavar="MAP", type=click.Path(path_type=Path), help="Rules that rename and lay out.")
@click.option("-o", "--output", metavar="OUT", type=click.Path(path_type=Path), help="Where to write; else only look.")
@click.option("--partial", is_flag=True, help="Let parameters that are missing begin as fresh ones.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@SET
@MODEL
@DTYPE
@click.pass_context
def weights(
    context: click.Context, spec: Path, source: Path, rules: Path | None, output: Path | None, partial: bool,
    as_json: bool, settings: dict[str, object], model: str | None, dtype: str,
) -> None:  # fmt: skip
    """Bring the weights in FILE to the names and layouts of SPEC, and tell what fits, what is missing and what is left.

    \b
    Examples:
        dslc weights mlp.dsl --from mlp.pt > mlp.map
        dslc weights mlp.dsl --from mlp.pt --map mlp.map -o mlp.safetensors

    Without --map, names that differ lead to a suggestion: a map to read, mend and give with --map. Nothing is written
    unless all parameters are there, or --partial is given.
    """
    from dslc.cli.compiled import compiled, spec_errors
    from dslc.run_errors import RunError
    from dslc.weights.maps import MapError

    with spec_errors(as_json, VERSION):
        module = compiled(spec, settings, dtype, model, "numpy").module
    states = getattr(module, "STATE", {})
    wanted = {name: tuple(entry[0]) for name, entry in {**module.PARAMS, **states}.items()}
    try:
        try:
            report = brought(source, rules, wanted)
        except MapError as error:
            raise RunError(str(error), help="docs/weights.md has the rules of maps") from error
        if report.fits or (partial and not report.wrong and report.suggestion is None):
            if output is not None:
                fresh = {**module.init(0), **(module.init_state() if states else {})}
                _write(output, {n: report.mapped.arrays.get(n, x) for n, x in fresh.items()}, fresh)
            report.written = output
        else:
            report.failed = True
    except RunError as error:
        if as_json:
            click.echo(json.dumps({"version": VERSION, "ok": False, "error": error.to_json()}, indent=2))
        else:
            click.echo(error.text(), err=True)
        context.exit(1)
    click.echo(json.dumps(report.as_json(), indent=2) if as_json else report.text(source))
    context.exit(1 if report.failed else 0)


@dataclass
class Report:
    """What a checkpoint has for a model."""

    wanted: dict[str, Shape]
    found: dict[str, Shape]
    mapped: Mapped
    suggestion: Suggestion | None = None
    written: Path | None = None
    failed: bool = False

    @property
    def missing(self) -> list[str]:
        return [name for name in self.wanted if name not in self.mapped.arrays]

    @property
    def wrong(self) -> list[str]:
        return [n for n, x in self.mapped.arrays.items() if x.shape != self.wanted[n] or x.dtype.kind not in "fiub"]

    @property
    def fits(self) -> bool:
        return not self.missing and not self.wrong

    def rows(self) -> list[tuple[str, Shape, str, Shape | None, str]]:
        """Parameter, its shape, where it comes from, the shape there, and how they fit."""
        rows: list[tuple[str, Shape, str, Shape | None, str]] = []
        for name, shape in self.wanted.items():
            value = self.mapped.arrays.get(name)
            how = "missing" if value is None else "another shape" if name in self.wrong else "fits"
            origin = self.mapped.origins.get(name, "")
            rows.append((name, shape, origin, None if value is None else value.shape, how))
        return rows

    def as_json(self) -> dict[str, Any]:
        table = [
            {"name": n, "shape": list(s), "from": o or None, "found": None if f is None else list(f), "how": how}
            for n, s, o, f, how in self.rows()
        ]
        return {
            "version": VERSION, "ok": not self.failed, "file": None if self.written is None else str(self.written),
            "parameters": table, "missing": self.missing, "left_over": self.mapped.left,
            "dropped": self.mapped.dropped, "unused_rules": [str(rule) for rule in self.mapped.idle],
            "map": None if self.suggestion is None else str(self.suggestion.map),
            "unclear": {} if self.suggestion is None else self.suggestion.unclear,
        }  # fmt: skip

    def text(self, source: Path) -> str:
        from dslc.quoting import printable

        if self.suggestion is not None:
            return self.as_map(source)
        shown = [
            (n, _shape(s), o, "" if f is None else _shape(f), how if self.failed or how == "fits" else "fresh")
            for n, s, o, f, how in self.rows()
        ]
        lines = _aligned([("parameter", "shape", "from", "brought in as", ""), *shown])
        if self.mapped.left:
            lines += ["", "left over:", *(f"  {printable(n)} {_shape(self.found[n])}" for n in self.mapped.left)]
        if self.mapped.dropped:
            lines.append(f"dropped: {len(self.mapped.dropped)}")
        lines += [f"line {rule.line} of the map is about nothing: {printable(str(rule))}" for rule in self.mapped.idle]
        lines.append("")
        if self.failed:
            lines.append(f"{len(self.missing)} missing, {len(self.wrong)} of another shape: nothing is written")
        elif self.written is not None:
            lines.append(f"{printable(str(self.written))}: {len(self.wanted) - len(self.missing)} arrays brought in")
        else:
            lines.append("all is there; -o OUT writes it")
        return "\n".join(lines)

    def as_map(self, source: Path) -> str:
        """The suggestion, ready to be saved and given with --map; all else as comments."""
        assert self.suggestion is not None
        from dslc.quoting import printable

        suggestion = self.suggestion
        lines = [f"# suggested for {printable(source.name)} by shapes and paths: read it, and give it with --map"]
        rows = []
        for rule in suggestion.map.rules:
            there, here = _shape(self.found[rule.pattern]), _shape(self.wanted[rule.targets[0]])
            rows.append((str(rule), f"# {there} to {here}"))
        lines += _aligned(rows)
        placed = {target for rule in suggestion.map.rules for target in rule.targets}
        for name, shape in self.wanted.items():
            if near := suggestion.unclear.get(name):
                more = f" or {len(near) - SHOWN} more" if len(near) > SHOWN else ""
                lines.append(printable(f"# unclear: {name} {_shape(shape)} may be {' or '.join(near[:SHOWN])}{more}"))
            elif name not in placed:
                lines.append(f"# missing: {name} {_shape(shape)}")
        if suggestion.unclear:
            count = len(suggestion.unclear)
            lines.append(f"# {count} unclear: shapes and paths do not tell which array they are, so add rules for them")
        used = {rule.pattern for rule in suggestion.map.rules}
        lines += [f"# left over: {printable(n)} {_shape(s)}" for n, s in self.found.items() if n not in used]
        return "\n".join(lines)


def brought(source: Path, rules: Path | None, wanted: dict[str, Shape]) -> Report:
    """What a checkpoint has for parameters of these shapes, by a map, by equal names, or else by suggestion."""
    from dslc.run_errors import RunError
    from dslc.weights.checkpoints import TORCH, read_checkpoint
    from dslc.weights.maps import WeightMap, apply_map, parse_map
    from dslc.weights.suggest import suggested

    made = WeightMap()
    if rules is not None:
        try:
            made = parse_map(rules.read_text(encoding="utf-8"), str(rules))
        except (OSError, UnicodeDecodeError) as error:
            raise RunError(f"cannot read {rules}: {error}", help="a map is a text, one rule a line") from error
    found = read_checkpoint(source)
    shapes = {name: x.shape for name, x in found.items()}
    report = Report(wanted, shapes, apply_map(found, made, wanted))
    if rules is None and not report.fits:
        torch_like = source.suffix in TORCH or any(name.endswith(".weight") for name in found)
        report.suggestion = suggested(found, wanted, torch_like)
    return report


def _write(path: Path, arrays: Arrays, kept: Arrays) -> None:
    from dslc.arrays import as_kept
    from dslc.run_errors import RunError
    from dslc.training.checkpoint import cannot_write
    from dslc.weights.files import write_arrays

    if path.suffix not in (".safetensors", ".npz"):
        raise RunError(f"{path}: expected a name that ends in .safetensors or .npz", help="choose another name for -o")
    try:
        write_arrays(path, {name: as_kept(x, kept[name].dtype) for name, x in arrays.items()})
    except OSError as error:
        raise cannot_write(path, error, "then run the command again") from error


def _shape(shape: Shape) -> str:
    return f"[{', '.join(map(str, shape))}]"


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    from dslc.quoting import printable

    clean = [tuple(map(printable, row)) for row in rows]
    widths = [max(len(row[k]) for row in clean) for k in range(len(clean[0]))] if clean else []
    return ["  ".join(x.ljust(w) for x, w in zip(row, widths, strict=True)).rstrip() for row in clean]
