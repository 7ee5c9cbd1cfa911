"""The IR as text: one line for each node, in order of computation.

    h[n:N, o:256] = sum[i:64](x[n, i] * W[i, o])          # 3: h[n, o] = x[n, i] * W[i, o]

Inputs are only named. The steps of a scan are indented below it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from dslc.ir import nodes as ir
from dslc.ir.index_names import index_names
from dslc.sizes import Size
from dslc.sizes import show as show_size
from dslc.source import NOWHERE

#: how strongly an operator binds; functions and names bind most
STRENGTH = {
    "select": 0, "or": 1, "and": 2, "not": 3, "<": 4, "<=": 4, ">": 4, ">=": 4, "==": 4, "!=": 4, "+": 5, "-": 5,
    "*": 6, "/": 6, "//": 6, "%": 6, "neg": 7, "^": 8,
}  # fmt: skip
STRONGEST = 9
COMMENT_COLUMN = 72


def show(outputs: Mapping[str, ir.Tensor] | Iterable[ir.Tensor]) -> str:
    """All nodes that the outputs need.

    >>> x = ir.intern(ir.Input("x", "input", "f64", (3,)))
    >>> print(show([ir.comp((), ir.op("*", (ir.whole(x), ir.whole(x)), "f64"), "sum", (3,), "y")]))
    y[] = sum[i:3](x[i] * x[i])
    return y
    """
    named = dict(outputs) if isinstance(outputs, Mapping) else {}
    roots: tuple[ir.Tensor, ...] = tuple(named.values() if isinstance(outputs, Mapping) else outputs)
    printer = _Printer(index_names(ir.every_node(roots)))
    lines = list(printer.lines(ir.schedule(roots), ""))
    results = [printer.name(x) for x in roots]
    if named:
        results = [name if name == inner else f"{name} = {inner}" for name, inner in zip(named, results, strict=True)]
    return "\n".join([*lines, f"return {', '.join(results)}"])


class _Printer:
    def __init__(self, indices: Mapping[ir.Node, tuple[str, ...]]) -> None:
        self.index_names = indices
        #: of the value that is being written
        self.indices: tuple[str, ...] = ()
        self.names: dict[ir.Node, str] = {}
        self.taken: set[str] = set()

    def name(self, node: ir.Node) -> str:
        """The name of a node in the spec, numbered where several have it."""
        if node not in self.names:
            if isinstance(node, ir.Step) and not node.name:
                base = "step" if node.kind == "number" else "carry"
            elif isinstance(node, ir.Scan):
                base = "layers" if node.kind == "layers" else "scan"
            else:
                base = getattr(node, "name", "") or type(node).__name__.lower()
            name, count = base, 1
            while name in self.taken:
                count += 1
                name = f"{base}~{count}"
            self.taken.add(name)
            self.names[node] = name
        return self.names[node]

    def lines(self, order: Iterable[ir.Node], indent: str) -> Iterator[str]:
        for node in order:
            match node:
                case ir.Input() | ir.Step():
                    self.name(node)
                case ir.Scan():
                    yield from self.scan(node, indent)
                case _:
                    yield self.line(node, indent)

    def scan(self, node: ir.Scan, indent: str) -> Iterator[str]:
        inner, _ = ir.inside(node)
        steps = {x.place: x for x in inner if isinstance(x, ir.Step) and x.scan == node.number and x.kind == "carry"}
        number = next(
            (x for x in inner if isinstance(x, ir.Step) and x.kind == "number" and x.scan == node.number), None
        )
        counter = "_" if number is None else self.name(number)
        back = " reversed" if node.reverse else ""
        yield self.commented(f"{indent}scan {self.name(node)} {counter}:{show_size(node.length)}{back}:", node)
        for place, start in enumerate(node.starts):
            carry = self.name(steps[place]) if place in steps else "_"
            yield f"{indent}    carry {carry} = {self.name(start)}"
        yield from self.lines(inner, indent + "    ")
        for place, after in enumerate(node.carries):
            if place in steps:
                yield f"{indent}    {self.name(steps[place])} <- {self.name(after)}"
        if node.results:
            yield f"{indent}    stack {', '.join(self.name(r) for r in node.results)}"

    def line(self, node: ir.Node, indent: str) -> str:
        self.indices = self.index_names.get(node, ())
        match node:
            case ir.Comp():
                left = f"{self.name(node)}[{_ranges(self.indices, node.shape)}]"
                body = self.scalar(node.body)
                reduced = _ranges(self.indices[len(node.shape) :], node.reduced)
                right = body if node.op is None else f"{node.op}[{reduced}]({body})"
                text = f"{left} = {right}"
            case ir.Scatter():
                base = "" if node.base is None else f" onto {self.name(node.base)}"
                places = ", ".join(self.place(x) for x in node.places)
                sign = "+=" if node.op == "+" else f"{node.op}="
                text = f"{self.name(node)}[{_sizes(node.shape)}]{base}: for [{_ranges(self.indices, node.ranges)}] "
                text += f"[{places}] {sign} {self.scalar(node.body)}"
            case ir.Reshape():
                text = f"{self.name(node)}[{_sizes(node.shape)}] = reshape({self.name(node.of)})"
            case ir.Along():
                back = " reversed" if node.reverse else ""
                text = f"{self.name(node)} = {node.op}[axis {node.axis}{back}]({self.all(node.args)})"
            case ir.External():
                text = f"{self.name(node)} = {node.op}({self.all(node.args)})"
            case ir.Custom():
                text = f"{self.name(node)} = custom({self.all(node.args)}) -> ({self.all(node.values)})"
            case ir.Part():
                text = f"{self.name(node)}[{_sizes(node.shape)}] = {self.name(node.of)}.{node.number}"
            case _:
                text = self.name(node)
        return self.commented(indent + text, node)

    def commented(self, text: str, node: ir.Node) -> str:
        """The text, and the line of the spec that it comes from."""
        span = getattr(node, "span", NOWHERE)
        if span is NOWHERE:
            return text
        return f"{text:<{COMMENT_COLUMN}}  # {span.comment}"

    def all(self, nodes: Iterable[ir.Node]) -> str:
        return ", ".join(self.name(x) for x in nodes)

    # ---- bodies

    def scalar(self, root: ir.Scalar) -> str:
        done: dict[ir.Scalar, tuple[str, int]] = {}
        for s in ir.scalars(root):
            done[s] = self.one(s, done)
        return done[root][0]

    def one(self, s: ir.Scalar, done: Mapping[ir.Scalar, tuple[str, int]]) -> tuple[str, int]:
        """The text of a scalar, and how strongly it binds."""

        def operand(x: ir.Scalar, least: int) -> str:
            text, strength = done[x]
            return text if strength >= least else f"({text})"

        match s:
            case ir.Const():
                text = str(s.value).lower() if isinstance(s.value, bool) else f"{s.value:g}"
                return text, STRONGEST if s.value >= 0 else STRENGTH["neg"]
            case ir.SizeOf():
                text = show_size(s.size)
                return text, STRONGEST if text.isalnum() else STRENGTH["+"]
            case ir.Var():
                return self.indices[s.number], STRONGEST
            case ir.Rand():
                return f"rand[{', '.join(done[x][0] for x in s.places)}](site {s.site}, lane {s.lane})", STRONGEST
            case ir.Read():
                places = ", ".join(self.place(x) for x in s.places)
                text = f"{self.name(s.tensor)}[{places}]"
                if isinstance(s.tensor, ir.Step) and not places:
                    text = self.name(s.tensor)
                return (text, STRONGEST) if s.outside is None else (f"({text} else {done[s.outside][0]})", STRONGEST)
            case ir.Op("select"):
                least = STRENGTH["select"] + 1
                condition, a, b = (operand(x, least) for x in s.args)
                return f"{a} if {condition} else {b}", STRENGTH["select"]
            case ir.Op("neg" | "not"):
                sign = "-" if s.name == "neg" else "not "
                return sign + operand(s.args[0], STRENGTH[s.name]), STRENGTH[s.name]
            case ir.Op("cast"):
                return f"{s.dtype}({done[s.args[0]][0]})", STRONGEST
            case ir.Op() if s.name in STRENGTH:
                strength = STRENGTH[s.name]
                first, *rest = s.args
                left = operand(first, strength + (s.name == "^"))
                return f" {s.name} ".join([left, *(operand(x, strength + 1) for x in rest)]), strength
        return f"{s.name}({', '.join(done[x][0] for x in s.args)})", STRONGEST

    def place(self, place: ir.Place) -> str:
        match place:
            case ir.At():
                text = _plus(self.name(place.step), place.offset)
                mode = "inside"
            case ir.Data():
                text, mode = self.scalar(place.value), place.mode
            case ir.Affine():
                text, mode = _affine(place, self.indices), place.mode
        return text if mode == "inside" else f"{mode}({text})"


def _affine(place: ir.Affine, indices: Sequence[str]) -> str:
    text = ""
    for number, coefficient in place.terms:
        minus = str(coefficient).startswith("-")
        factor = show_size(-coefficient if minus else coefficient)
        index = indices[number]
        term = index if factor == "1" else f"{factor}*{index}" if factor.isalnum() else f"({factor})*{index}"
        text += f" {'-' if minus else '+'} {term}" if text else f"{'-' if minus else ''}{term}"
    text = _plus(text, place.offset)
    return text if place.divisor == 1 else f"({text}) / {show_size(place.divisor)}"


def _plus(text: str, offset: Size) -> str:
    if offset == 0:
        return text or "0"
    shown = show_size(offset)
    if not text:
        return shown
    return f"{text} - {shown[1:]}" if shown.startswith("-") else f"{text} + {shown}"


def _ranges(indices: Sequence[str], sizes: Sequence[Size]) -> str:
    return ", ".join(f"{index}:{show_size(size)}" for index, size in zip(indices, sizes, strict=False))


def _sizes(sizes: tuple[Size, ...]) -> str:
    return ", ".join(show_size(size) for size in sizes)
