"""Reductions as C text: what each begins with, and the statement that takes one more value into it."""

from __future__ import annotations

from collections.abc import Sequence

from dslc.backends.c.kernel import Kernel
from dslc.backends.c.text import bare, factor

from dslc.ir import nodes as ir
from dslc.ops.table import COSTLY, having
from dslc.sizes import Size


def neutral(node: ir.Comp, kernel: Kernel) -> str:
    ctype, whole = kernel.types.of(node.dtype), "INT32" if node.dtype == "i32" else "INT64"
    match node.op:
        case "max":
            return f"{whole}_MIN" if ctype == "int64_t" else "0" if ctype == "uint8_t" else "-INFINITY"
        case "min":
            return f"{whole}_MAX" if ctype == "int64_t" else "1" if ctype == "uint8_t" else "INFINITY"
        case "prod" | "all":
            return "1"
    return "0"


def combined(node: ir.Comp, target: str, text: str, kernel: Kernel) -> str:
    """The statement that takes one more value into a reduction."""
    match node.op:
        case "sum":
            return f"{target} += {bare(text)};"
        case "prod":
            return f"{target} *= {factor(text)};"
        case "any":
            return f"{target} |= {text};"
        case "all":
            return f"{target} &= {text};"
    kind = {"int64_t": "i64", "float": "f32", "double": "f64", "uint8_t": "i64"}[kernel.types.of(node.dtype)]
    return f"{target} = {LARGEST[node.op or '']}_{kind}({target}, {bare(text)});"


#: how loops in vectors take values together
TOGETHER = {"sum": "+", "prod": "*", "any": "|", "all": "&"}
LARGEST = {"max": "largest", "min": "smallest"}

#: rows known to be shorter are not worth numbers side by side
LONG = 64
#: sides of all processors divide this number
WIDEST = 32


class Sides:
    """Reductions along the innermost loop: numbers side by side take in neighbours, and are taken together in the end.

    One number would wait for itself at each step, and a compiler that keeps the order of sums takes lanes one by one.
    """

    def __init__(
        self, kernel: Kernel, nodes: Sequence[ir.Comp], targets: Sequence[str], bodies: Sequence[ir.Scalar]
    ) -> None:
        """Reductions and their results, in a loop that computes `bodies`."""
        self.kernel = kernel
        self.nodes = nodes
        self.targets = targets
        self.kind = kernel.types.suffix(nodes[0].dtype)
        self.count = f"{'STEP' if contains(bodies, SLOW) else 'SIDE'}{self.kind}"
        self.sides = [kernel.names.fresh(f"{x}_sides") for x in targets]
        self.nans = [
            kernel.names.fresh(f"{x}_nans") if n.op in LARGEST else "" for x, n in zip(targets, nodes, strict=True)
        ]
        self.lane = kernel.names.fresh("lane")

    @staticmethod
    def fit(kernel: Kernel, nodes: Sequence[ir.Comp], size: Size) -> bool:
        """Are these reductions of floats along a loop that may be long?"""
        kinds = {kernel.types.of(x.dtype) for x in nodes}
        short = isinstance(size, int) and size < LONG
        return kinds in ({"float"}, {"double"}) and not short and all(x.op in TAKEN for x in nodes)

    def begin(self) -> list[str]:
        """The numbers, before all loops."""
        ctype = self.kernel.types.of(self.nodes[0].dtype)
        starts = [neutral(x, self.kernel) for x in self.nodes]
        zeros = [x for x, start in zip(self.sides, starts, strict=True) if start == "0"] + [x for x in self.nans if x]
        others = [(x, start) for x, start in zip(self.sides, starts, strict=True) if start != "0"]
        lines = [f"{ctype} {x}[SIDE{self.kind}] __attribute__((aligned(64))) = {{0}};" for x in zeros]
        for x, start in others:
            lines.append(f"{ctype} {x}[SIDE{self.kind}] __attribute__((aligned(64)));")
            lines.append(
                f"for (long {self.lane} = 0; {self.lane} < SIDE{self.kind}; {self.lane}++) {x}[{self.lane}] = {start};"
            )
        return lines

    def taken(self, k: int, text: str) -> list[str]:
        """The statements that take in one more value."""
        side, node, form = f"{self.sides[k]}[{self.lane}]", self.nodes[k], TAKEN[self.nodes[k].op or ""]
        if not self.nans[k]:
            return [f"{side} {form} {bare(text)};"]
        nan = f"{self.nans[k]}[{self.lane}]"
        lines = []
        if not text.isidentifier():
            value = self.kernel.names.fresh("value")
            lines.append(f"const {self.kernel.types.of(node.dtype)} {value} = {bare(text)};")
            text = value
        return [*lines, f"{side} = {form}{self.kind}({side}, {text});", f"{nan} = nan_of{self.kind}({text}, {nan});"]

    def loops(self, name: str, size: Size, bound: str, lines: Sequence[str]) -> None:
        """The innermost loop up to a bound, which is the size of its axis or less: whole sides, then the rest."""
        kernel, side, extent = self.kernel, self.count, factor(bound)
        first = kernel.names.fresh("first")
        at = f"{first} + {self.lane}"
        if contains([x.body for x in self.nodes], COSTLY) and not (isinstance(size, int) and size % WIDEST == 0):
            # a formula so long that it need not wait for sums is not worth writing twice
            kernel.open(f"for (long {first} = 0; {first} < {extent}; {first} += {side}) {{")
            self.once(f"min_size({extent} - {first}, {side})", at, name, lines)
            kernel.close()
            return
        kernel.open(f"for (long {first} = 0; {first} + {side} <= {extent}; {first} += {side}) {{")
        self.once(side, at, name, lines)
        kernel.close()
        if not isinstance(size, int) or size % WIDEST:
            kernel.line(f"const long {first} = {extent} / {side} * {side};")
            self.once(f"{extent} - {first}", at, name, lines)
        else:
            kernel.names.taken.discard(first)
        kernel.names.taken.discard(self.lane)

    def once(self, count: str, at: str, name: str, lines: Sequence[str]) -> None:
        self.kernel.line("#pragma omp simd")
        self.kernel.open(f"for (long {self.lane} = 0; {self.lane} < {count}; {self.lane}++) {{")
        self.kernel.line(f"const long {name} = {at};")
        for line in lines:
            self.kernel.line(line)
        self.kernel.close()

    def end(self) -> list[str]:
        """The results, behind all loops."""
        lines = []
        for target, node, side, nan in zip(self.targets, self.nodes, self.sides, self.nans, strict=True):
            more = f", {nan}" if nan else ""
            ctype = self.kernel.types.of(node.dtype)
            lines.append(f"const {ctype} {target} = {node.op}_of{self.kind}({side}{more});")
        return lines


def contains(bodies: Sequence[ir.Scalar], names: frozenset[str]) -> bool:
    return any(isinstance(s, ir.Op) and s.name in names for x in bodies for s in ir.scalars(x))


#: operations that take longer than a sum waits for itself; powers are mostly squares
SLOW = having(lambda record: record.cost in ("medium", "costly")) - {"^"}
#: how numbers side by side take in a value
TAKEN = {"sum": "+=", "prod": "*=", "max": "larger", "min": "smaller"}
