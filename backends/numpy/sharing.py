"""Functions whose rows several threads compute: the checks of the whole batch, and the part of one member."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from dslc.backends.numpy.names import argument
from dslc.backends.numpy.statement import Lowering
from dslc.backends.numpy.text import size_code

from dslc.cost import costs, total
from dslc.ir import nodes as ir
from dslc.ir.build import Unit
from dslc.passes.rows import Shared, separate, share
from dslc.pipeline import GRADIENT, Lowered
from dslc.sizes import Symbol, symbol

#: what a byte that is read or written counts, in operations of a matrix product
BYTE = 25


@dataclass
class Sharing:
    """How the rows of a function are shared."""

    shared: Shared
    #: the inputs that have rows
    arrays: list[str]
    #: the work of a call, as a formula of the sizes
    work: str

    def whole(self, name: str, code: str) -> str:
        """A result as the caller gets it: with the rows of all members."""
        axis = self.shared.axes.get(name)
        if axis is None:
            return code
        return f'team.whole("{name}", {code}{f", axis={axis}" if axis else ""})'

    def gradient(self, name: str, code: str) -> str:
        """The gradient by a parameter or by an input, as the caller gets it."""
        return self.whole(GRADIENT + name, code) if GRADIENT + name in self.shared.axes else self.added(name, code)

    def added(self, name: str, code: str) -> str:
        """A gradient as the caller gets it: added up over the members."""
        return f"team.total({code})" if GRADIENT + name in self.shared.partial else code


def shared_rows(program: Lowered, dtype: str) -> tuple[Lowered, Sharing | None]:
    """The program for some rows of the batch, or as it is where its rows are not computed one by one."""
    unit = program.unit
    gradients = [k for k in program.outputs if k.startswith(GRADIENT)]
    for rows in _candidates(unit):
        made = share(program.outputs, rows, _all(rows, unit), gradients)
        if made is not None:
            arrays = [
                argument(n) for n, x in unit.inputs.items() if x.role == "input" and x.shape and x.shape[0] == rows
            ]
            values = [x for k, x in program.outputs.items() if k not in gradients]
            cost = total(costs(values, [program.outputs[k] for k in gradients], dtype)).at({})
            work = cost.operations + BYTE * (cost.read + cost.written)
            return replace(program, outputs=made.outputs), Sharing(
                made, arrays, size_code(work).replace("log2(", "math.log2(")
            )
    return program, None


def _candidates(unit: Unit) -> Iterable[Symbol]:
    """Sizes that may count the rows of a batch: those of first axes alone, also of inputs that nothing reads."""
    inputs = [x for x in unit.inputs.values() if x.role == "input"]
    first = dict.fromkeys(x.shape[0] for x in inputs if x.shape and isinstance(x.shape[0], Symbol))
    return [rows for rows in first if all(separate(x, rows) for x in inputs)]


def _all(rows: Symbol, unit: Unit) -> Symbol:
    """A name for the number of all rows that no size has."""
    sizes = {s.name for x in unit.inputs.values() for size in x.shape for s in getattr(size, "free_symbols", ())}
    name = f"{rows.name}_all"
    while name in sizes or name in unit.inputs:
        name += "_"
    return symbol(name)


def settle(low: Lowering, sharing: Sharing | None) -> None:
    """Tell a lowering what only a member of a team has."""
    if sharing is not None:
        shared = sharing.shared
        low.names[shared.first] = "team.first"
        low.taken |= {argument(shared.all_rows.name)}
        low.used |= {"share", "THREADS", "LEAST_WORK"}
        low.results = {
            x: name for name, x in shared.outputs.items() if shared.axes.get(name) == 0 and isinstance(x, ir.Comp)
        }


def texts(name: str, arguments: list[str], doc: str, checks: list[str], sharing: Sharing) -> tuple[list[str], str]:
    """The function that checks the whole batch, without its decorators, and the first line of that of a member."""
    plain = [x.split("=")[0] for x in arguments if x not in ("*", "space", "space=None")]
    others = [x for x in plain if x not in sharing.arrays]
    arrays = ", ".join(sharing.arrays) + ("," if len(sharing.arrays) == 1 else "")
    given = ", ".join(others) + ("," if len(others) == 1 else "")
    lines = [f"def {name}({', '.join(arguments)}):", f'    """{doc}"""', *(f"    {x}" for x in checks)]
    lines.append(f"    return share({name}_of_rows, ({arrays}), ({given}), {sharing.work}, space)")
    return lines, f"def {name}_of_rows({', '.join(['team', 'space', *sharing.arrays, *others])}):"
