"""From IR nodes to NumPy text: whole arrays, views for reads, matrix products for contractions."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from dslc.backends.numpy import runtime

from dslc.ir import nodes as ir
from dslc.sizes import Size, show
from dslc.source import Span

ATOM, POWER, UNARY, TIMES, PLUS, COMPARE = 9, 8, 7, 6, 5, 4

INFIX = {
    "+": ("+", PLUS), "-": ("-", PLUS), "*": ("*", TIMES), "/": ("/", TIMES), "//": ("//", TIMES), "%": ("%", TIMES),
    "<": ("<", COMPARE), "<=": ("<=", COMPARE), ">": (">", COMPARE), ">=": (">=", COMPARE), "==": ("==", COMPARE),
    "!=": ("!=", COMPARE),
}  # fmt: skip

FUNCTIONS = {
    "exp": "np.exp", "exp2": "np.exp2", "expm1": "np.expm1", "log": "np.log", "log2": "np.log2", "log10": "np.log10",
    "log1p": "np.log1p", "sqrt": "np.sqrt", "abs": "np.abs", "sign": "np.sign", "sin": "np.sin", "cos": "np.cos",
    "tan": "np.tan", "asin": "np.arcsin", "acos": "np.arccos", "atan": "np.arctan", "atan2": "np.arctan2",
    "sinh": "np.sinh", "cosh": "np.cosh", "tanh": "np.tanh", "asinh": "np.arcsinh", "acosh": "np.arccosh",
    "atanh": "np.arctanh", "sigmoid": "sigmoid", "softplus": "softplus",
    "erf": "erf", "erfc": "erfc", "erfinv": "erfinv", "lgamma": "lgamma",
    "floor": "np.floor", "ceil": "np.ceil", "round": "np.round", "trunc": "np.trunc", "min": "np.minimum",
    "max": "np.maximum", "pow": "np.power", "hypot": "np.hypot", "isnan": "np.isnan", "isinf": "np.isinf",
    "isfinite": "np.isfinite", "not": "np.logical_not", "select": "np.where",
}  # fmt: skip

#: functions of plain numbers
MATH = (
    "exp", "expm1", "log", "log1p", "log2", "log10", "sqrt", "sin", "cos", "tan", "tanh", "sinh", "cosh", "erf", "erfc",
    "lgamma", "floor", "ceil", "isfinite", "isnan",
)  # fmt: skip
PLAIN = {name: f"math.{name}({{}})" for name in MATH} | {
    "abs": "abs({})",
    "max": "max({}, {})",
    "min": "min({}, {})",
    "select": "({1} if {0} else {2})",
    "sigmoid": "1 / (1 + math.exp(-({})))",
    "pow": "({}) ** ({})",
}

#: functions that a module may contain, by name
HELPERS = {name: each for name, each in vars(runtime).items() if inspect.isfunction(each)}

DTYPES = {"f16": "np.float32", "bf16": "np.float32", "f32": "np.float32", "f64": "np.float64", "i32": "np.int64",
          "i64": "np.int64", "bool": "np.bool_"}  # fmt: skip


class CannotLower(Exception):
    """Something that this backend cannot do; the caller shows the spec line."""

    def __init__(self, what: str, node: ir.Node):
        self.what = what
        self.span = getattr(node, "span", ir.NOWHERE)
        super().__init__(what)


@dataclass(frozen=True)
class Text:
    """An array expression whose axes are comprehension variables in ascending order."""

    code: str
    axes: tuple[int, ...]
    level: int = ATOM
    #: the same array before its axes were brought into order
    raw: tuple[str, tuple[int, ...]] | None = None

    def at(self, level: int) -> str:
        return self.code if self.level >= level else f"({self.code})"


def size_code(size: Size) -> str:
    """A size as Python: exact quotients are whole-number divisions."""
    return show(size).replace("^", "**").replace(" / ", " // ")


def atom(text: str) -> str:
    return text if re.fullmatch(r"[\w.]+", text) else f"({text})"


@dataclass
class Line:
    text: str
    comment: str = ""
    span: Span | None = None
    backward: bool = False


@dataclass
class Lowering:
    """The text of one function body."""

    dtype: str = "np.float32"
    taken: set[str] = field(default_factory=set)
    lines: list[Line] = field(default_factory=list)
    names: dict[ir.Node, str] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    indent: int = 0
    counts: dict[ir.Node, int] = field(default_factory=dict)
    steps: dict[int, str] = field(default_factory=dict)
    roots: set[ir.Node] = field(default_factory=set)
    #: lines from now on belong to a gradient
    backward: bool = False
    #: parameters and states that are one for each layer: how the one of a layer is written
    stars: dict[ir.Node, str] = field(default_factory=dict)
    #: values of all layers that leave the function: where the one of a layer is put
    sinks: dict[ir.Node, str] = field(default_factory=dict)
    #: values that layers leave for their gradients, and the name that one has inside
    kept: dict[ir.Node, tuple[str, str]] = field(default_factory=dict)
    #: what stands for the slice of a value at the current step
    slices: dict[ir.Node, ir.Input] = field(default_factory=dict)
    parts: dict[ir.Node, dict[int, ir.Part]] = field(default_factory=dict)
    readers: dict[ir.Node, list[ir.Read | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.taken |= {"np", "math", "seed", "params", "state", "entry", "below", "PARAMS", "STATE", "DTYPE", *HELPERS}

    # ---- names and lines

    def fresh(self, wish: str) -> str:
        """A name that is not taken, near to the wish."""
        base = re.sub(r"\W+", "_", wish).strip("_") or "value"
        if base[0].isdigit():
            base = f"v_{base}"
        name, k = base, 2
        while name in self.taken:
            name, k = f"{base}_{k}", k + 1
        self.taken.add(name)
        return name

    def line(self, text: str, comment: str = "", span: Span | None = None) -> None:
        self.lines.append(Line("    " * self.indent + text, comment, span, self.backward))

    def helper(self, name: str) -> str:
        if name in HELPERS:
            self.used.add(name)
        return name

    def numpy_dtype(self, dtype: str) -> str:
        return self.dtype if dtype in ("float", "f32") else DTYPES[dtype]

    # ---- nodes

    def count_uses(self, order: Sequence[ir.Node], roots: Sequence[ir.Node]) -> None:
        for node in order:
            if isinstance(node, ir.Part):
                self.parts.setdefault(node.of, {})[node.number] = node
            if isinstance(node, ir.Scan):
                self.count_uses(ir.inside(node)[0], ())
                for a in node.starts:
                    self.counts[a] = self.counts.get(a, 0) + 1
                    self.readers.setdefault(a, []).append(None)
            else:
                reads = [s for b in ir.bodies(node) for s in ir.scalars(b) if isinstance(s, ir.Read)]
                tensors = {s.tensor for s in reads}
                others = [a for a in ir.arguments(node) if a not in tensors]
                for r in reads:
                    self.readers.setdefault(r.tensor, []).append(r)
                for a in others:
                    self.readers.setdefault(a, []).append(None)
                for a in (*(s.tensor for s in reads), *others):
                    self.counts[a] = self.counts.get(a, 0) + 1
            if isinstance(node, ir.Scan):
                for a in (*node.carries, *node.results):
                    self.counts[a] = self.counts.get(a, 0) + 2
        for root in roots:
            self.counts[root] = self.counts.get(root, 0) + 2
            self.readers.setdefault(root, []).append(None)

    def run(self, roots: Sequence[ir.Node], everything: Sequence[ir.Node] | None = None) -> None:
        """Write what the roots need; `everything` lists all roots of the function when it is written in parts."""
        if not self.counts:
            whole = tuple(everything or roots)
            self.roots = set(whole)
            self.count_uses(ir.schedule(whole), whole)
        self.statements(ir.schedule(tuple(roots)))

    def statements(self, order: Sequence[ir.Node]) -> None:
        for node in order:
            if node not in self.names and not self.inlined(node):
                self.statement(node)

    def inlined(self, node: ir.Node) -> bool:
        """A value without a name of its own that is used once goes into the expression that uses it."""
        if isinstance(node, ir.Part | ir.Input | ir.Step):
            return False
        if isinstance(node, ir.Comp):
            if node.op is None and not any(isinstance(s, ir.Read) for s in ir.scalars(node.body)):
                return node not in self.roots
            return not node.name and self.counts.get(node, 0) == 1
        return False

    def statement(self, node: ir.Node) -> None:
        match node:
            case ir.Comp() if ir.slice_of_input(node) and self.star(node):
                self.assign(node, self.star(node))
            case ir.Comp():
                text = self.comp(node)
                code = self.full(text, node.shape)
                self.assign(node, code)
            case ir.Scatter():
                self.scatter(node)
            case ir.Reshape():
                shape = ", ".join(size_code(s) for s in node.shape)
                self.assign(node, f"{self.tensor(node.of)}.reshape({shape})")
            case ir.Along():
                self.along(node)
            case ir.External():
                self.external(node)
            case ir.Scan():
                if node.name == "layers":
                    self.layers(node)
                else:
                    self.scan(node)
            case ir.Custom():
                self.names[node] = ""
            case ir.Part():
                self.part(node)
            case ir.Input():
                assert node in self.stars, f"input {node.name} has no name"

    def assign(self, node: ir.Node, code: str) -> None:
        if re.fullmatch(r"[A-Za-z_]\w*", code):
            self.names[node] = code
            return
        name = self.fresh(self.wish(node))
        self.names[node] = name
        shape = ", ".join(size_code(s) for s in getattr(node, "shape", ()))
        self.line(f"{name} = {code}", f"[{shape}]", getattr(node, "span", None))

    def place(self, node: ir.Node) -> str:
        span = getattr(node, "span", ir.NOWHERE)
        if not span.source.text:
            return ""
        return f"  line {span.line}"

    def wish(self, node: ir.Node) -> str:
        name = getattr(node, "name", "")
        if name:
            return str(name)
        if isinstance(node, ir.Comp):
            read = next((self.names.get(s.tensor) for s in ir.scalars(node.body) if isinstance(s, ir.Read)), None)
            word = node.op or (node.body.name if isinstance(node.body, ir.Op) and node.body.name.isalpha() else "")
            return f"{word}_{read}" if read and word else read or word or "value"
        return "value"

    def tensor(self, node: ir.Tensor) -> str:
        """The text of a whole tensor in its own order of axes."""
        if node in self.names:
            return self.names[node]
        if isinstance(node, ir.Comp):
            return Text(self.full(self.comp(node), node.shape), (), PLUS).at(ATOM)
        raise AssertionError(f"{type(node).__name__} is not computed yet")

    def full(self, text: Text, shape: tuple[Size, ...]) -> str:
        """An expression with all axes of a result."""
        if len(text.axes) == len(shape):
            return text.code
        sizes = ", ".join(size_code(s) for s in shape) + ("," if len(shape) == 1 else "")
        if not text.axes:
            return f"np.full(({sizes}), {text.code}, {self.dtype})" if shape else text.code
        return f"np.broadcast_to({self.expand(text, tuple(range(len(shape)))).code}, ({sizes}))"

    # ---- comprehensions

    def comp(self, node: ir.Comp) -> Text:
        sizes = (*node.shape, *node.reduced)
        body = Body(self, sizes)
        if node.op is None:
            text = body.scalar(node.body)
            if not text.axes and not node.shape and isinstance(node.body, ir.Const):
                return Text(f"np.asarray({text.code}, {self.numpy_dtype(node.dtype)})", (), ATOM)
            return text
        if node.op == "sum":
            return body.total(node.body, len(node.shape))
        return body.reduce(node.op, body.scalar(node.body), len(node.shape))

    def expand(self, text: Text, axes: tuple[int, ...]) -> Text:
        """Insert new axes so that the text lines up with `axes` from the right."""
        if not text.axes or text.axes == axes:
            return text
        first = axes.index(text.axes[0])
        items = [":" if a in text.axes else "None" for a in axes[first:]]
        if "None" not in items:
            return text
        while items and items[0] == ":" and len(items) > 1 and items.count(":") == len(items):
            items.pop()
        if items[-1] == ":" and "None" in items:
            last_none = len(items) - 1 - items[::-1].index("None")
            tail = items[last_none + 1 :]
            if all(i == ":" for i in tail):
                items = items[: last_none + 1]
        return Text(f"{text.at(ATOM)}[{', '.join(items)}]", text.axes, ATOM)

    # ---- other nodes

    def scatter(self, node: ir.Scatter) -> None:
        body = Body(self, node.ranges)
        value = body.scalar(node.body)
        everything = tuple(range(len(node.ranges)))
        neutral = {"+": "0", "max": "-np.inf", "min": "np.inf"}[node.op]
        shape = ", ".join(size_code(s) for s in node.shape) + ("," if len(node.shape) == 1 else "")
        name = self.fresh(self.wish(node))
        self.names[node] = name
        dtype = self.numpy_dtype(node.dtype)
        comment = f"[{shape.rstrip(',')}]{self.place(node)}"
        if node.base is not None:
            self.line(f"{name} = {self.tensor(node.base)}.copy()", comment)
        elif neutral == "0":
            self.line(f"{name} = np.zeros(({shape}), {dtype})", comment)
        else:
            self.line(f"{name} = np.full(({shape}), {neutral}, {dtype})", comment)
        positions = [body.position(x, n) for x, n in zip(node.places, node.shape, strict=True)]
        alone = [a for a in value.axes if not any(a in x.axes for x in positions)]
        if alone and node.op == "+":
            value = body.presum(value, alone)
        elif alone:
            raise CannotLower(f"`{node.op}=` of several values at one place", node)
        places = ", ".join(self.expand(x, everything).code for x in positions)
        ufunc = {"+": "np.add", "max": "np.maximum", "min": "np.minimum"}[node.op]
        self.line(f"{ufunc}.at({name}, ({places},), {self.expand(value, everything).code})")

    def along(self, node: ir.Along) -> None:
        args = [self.tensor(a) for a in node.args]
        axis = node.axis
        x = f"np.flip({args[0]}, {axis})" if node.reverse else args[0]
        match node.op:
            case "cumsum" | "cumprod":
                code = f"np.{node.op}({x}, axis={axis})"
            case "cummax" | "cummin":
                code = f"np.{'maximum' if node.op == 'cummax' else 'minimum'}.accumulate({x}, axis={axis})"
            case "sort" | "argsort":
                code = f'np.{node.op}({x}, axis={axis}, kind="stable")'
            case "top_k":
                code = f"{self.helper('top_k')}({x}, {axis}, {size_code(node.shapes[0][axis])})"
            case _:
                code = f"{self.helper('fourier')}({node.op == 'ifft'}, {axis}, {', '.join(args)})"
        if node.reverse:
            code = f"np.flip({code}, {axis})"
        self.names[node] = code

    def external(self, node: ir.External) -> None:
        args = ", ".join(self.tensor(a) for a in node.args)
        own = {"solve": "solve", "logdet": "logdet", "matexp": "matexp"}
        code = f"{self.helper(own[node.op])}({args})" if node.op in own else f"np.linalg.{node.op}({args})"
        self.names[node] = code

    def part(self, node: ir.Part) -> None:
        of = node.of
        if isinstance(of, ir.Custom):
            self.names[node] = self.tensor(of.values[node.number])
            return
        if isinstance(of, ir.Scan):
            if node not in self.kept and node not in self.sinks:
                self.names[node] = self.scan_names[of][node.number]
            return
        shapes = of.shapes
        if len(shapes) == 1:
            self.assign(node, self.names[of])
            return
        if of not in self.several:
            names = [self.fresh(f"{w}") for w in self.part_names(of)]
            self.line(f"{', '.join(names)} = {self.names[of]}", self.place(of).strip())
            self.several[of] = names
        self.names[node] = self.several[of][node.number]

    several: dict[ir.Node, list[str]] = field(default_factory=dict)

    def part_names(self, of: ir.Along | ir.External) -> list[str]:
        words = {"top_k": ("top", "top_at"), "fft": ("re", "im"), "ifft": ("re", "im"), "eigh": ("values", "vectors")}
        return list(words.get(of.op, ("value", "other")))

    def star(self, node: ir.Comp) -> str:
        """How the parameter of a layer is written, when a node is one."""
        assert isinstance(node.body, ir.Read)
        template = self.stars.get(node.body.tensor, "")
        steps = [self.steps[x.step.scan] for x in node.body.places if isinstance(x, ir.At)]
        return template.format(*steps)

    def layers(self, node: ir.Scan) -> None:
        """A loop over layers; what their gradients need goes to lists, which the loop back empties again."""
        inner, outside = ir.inside(node)
        carried = {x.place: x for x in inner if isinstance(x, ir.Step) and x.kind == "carry"}
        numbers = [x for x in inner if isinstance(x, ir.Step) and x.kind == "number"]
        step = self.fresh(next((x.name for x in numbers if x.name), "l"))
        length = size_code(node.length)
        carries = []
        for j, start in enumerate(node.starts):
            name = self.fresh((carried[j].name if j in carried else "") or "carry")
            self.line(f"{name} = {self.tensor(start)}", "", node.span)
            carries.append(name)
        parts = self.parts.get(node, {})
        stacked: dict[int, str] = {}
        for k, result in enumerate(node.results):
            if k in parts and parts[k] not in self.sinks:
                stacked[k] = self.stack(parts[k], result, length)
        order = f"reversed(range({length}))" if node.reverse else f"range({length})"
        self.line(f"for {step} in {order}:", "", node.span)
        self.indent += 1
        self.steps[node.number] = step
        before = set(self.names)
        for x in inner:
            if isinstance(x, ir.Step):
                self.names[x] = step if x.kind == "number" else carries[x.place]
        for a in outside:
            if a in self.kept:
                self.take(node, a, step)
        self.statements(inner)
        for k, result in enumerate(node.results):
            if k not in parts:
                continue
            value = self.tensor(result)
            if parts[k] in self.sinks:
                self.line(f"{self.sinks[parts[k]].format(step)} = {value}")
            elif parts[k] in self.kept:
                self.line(f"{stacked[k]}.append({value})")
                local = value if re.fullmatch(r"\w+", value) and not isinstance(result, ir.Step) else ""
                self.kept[parts[k]] = (stacked[k], local)
            else:
                self.line(f"{stacked[k]}[{step}] = {value}")
        values = [self.tensor(c) for c in node.carries]
        moved = [(a, b) for a, b in zip(carries, values, strict=True) if a != b]
        if moved:
            self.line(f"{', '.join(a for a, _ in moved)} = {', '.join(b for _, b in moved)}")
        self.indent -= 1
        for x in set(self.names) - before:
            del self.names[x]
        self.names[node] = ""
        self.scan_names[node] = [*(stacked.get(k, "") for k in range(len(node.results))), *carries]

    def stack(self, part: ir.Part, result: ir.Tensor, length: str) -> str:
        """Where the values of all layers go: a list when they are only read layer by layer."""
        wish = result.name or self.wish(result)
        if all(r is not None and r.places and isinstance(r.places[0], ir.At) for r in self.readers.get(part, [])):
            name = self.fresh(f"{wish}_kept")
            self.line(f"{name} = []")
            self.kept[part] = (name, "")
            return name
        name = self.fresh(f"{wish}_all")
        shape = ", ".join((length, *(size_code(s) for s in result.shape)))
        comma = "" if result.shape else ","
        self.line(f"{name} = np.empty(({shape}{comma}), {self.numpy_dtype(result.dtype)})", f"[{shape}]")
        return name

    def take(self, node: ir.Scan, part: ir.Node, step: str) -> None:
        """Give the value that a layer has left a name inside the loop back."""
        assert isinstance(part, ir.Part)
        stored, local = self.kept[part]
        local = local or self.fresh(stored.removesuffix("_kept") + "_in")
        once = node.reverse and sum(part in ir.inside(s)[1] for s in self.parts if isinstance(s, ir.Scan)) == 1
        self.line(f"{local} = {stored}.pop()" if once else f"{local} = {stored}[{step}]")
        stands = ir.intern(ir.Input(local, "local", part.dtype, part.shape[1:]))
        self.names[stands] = local
        self.slices[part] = stands

    def scan(self, node: ir.Scan) -> None:
        """A Python loop over the steps; what does not depend on the step stands before it."""
        inner, _ = ir.inside(node)
        step = self.fresh(
            next((x.name for x in inner if isinstance(x, ir.Step) and x.kind == "number" and x.name), "t")
        )
        length = size_code(node.length)
        carry_names = []
        steps = {x.place: x for x in inner if isinstance(x, ir.Step) and x.kind == "carry"}
        for j, start in enumerate(node.starts):
            name = self.fresh(f"{(steps[j].name if j in steps else '') or 'carry'}_before")
            self.line(f"{name} = {self.tensor(start)}", "start" + self.place(node))
            carry_names.append(name)
        stacked = []
        for result in node.results:
            name = self.fresh(f"{result.name or 'step'}_steps")
            shape = ", ".join((length, *(size_code(s) for s in result.shape)))
            self.line(
                f"{name} = np.empty(({shape}{',' if not result.shape else ''}), {self.numpy_dtype(result.dtype)})",
                f"[{shape}]",
            )
            stacked.append(name)
        order = f"reversed(range({length}))" if node.reverse else f"range({length})"
        self.line(f"for {step} in {order}:", self.place(node).strip())
        self.indent += 1
        self.steps[node.number] = step
        for x in inner:
            if isinstance(x, ir.Step):
                self.names[x] = step if x.kind == "number" else carry_names[x.place]
        before = set(self.names)
        self.statements(inner)
        for k, result in enumerate(node.results):
            self.line(f"{stacked[k]}[{step}] = {self.tensor(result)}")
        values = [self.tensor(c) for c in node.carries]
        if values:
            self.line(f"{', '.join(carry_names)} = {', '.join(values)}")
        self.indent -= 1
        for x in set(self.names) - before:
            if x in inner:
                del self.names[x]
        for x in inner:
            if isinstance(x, ir.Step):
                self.names.pop(x, None)
        self.names[node] = ""
        self.scan_names[node] = [*stacked, *carry_names]

    scan_names: dict[ir.Node, list[str]] = field(default_factory=dict)


@dataclass
class Body:
    """Scalars of one comprehension as arrays over its variables."""

    lowering: Lowering
    sizes: tuple[Size, ...]
    done: dict[ir.Scalar, Text] = field(default_factory=dict)

    def scalar(self, root: ir.Scalar) -> Text:
        uses: dict[ir.Scalar, int] = {}
        order = list(ir.scalars(root))
        for s in order:
            for x in ir.operands(s):
                uses[x] = uses.get(x, 0) + 1
        for s in order:
            if s not in self.done:
                self.done[s] = self.one(s)
                if uses.get(s, 0) > 1 and isinstance(s, ir.Op) and s.name not in ("neg", "cast", "stop_grad"):
                    self.done[s] = self.named(s, self.done[s])
        return self.done[root]

    def named(self, s: ir.Op, text: Text) -> Text:
        """A value that the formula uses more than once gets a line of its own."""
        low = self.lowering
        if not text.axes or re.fullmatch(r"\w+", text.code):
            return text
        read = next(
            (low.names[x.tensor] for x in ir.scalars(s) if isinstance(x, ir.Read) and x.tensor in low.names), ""
        )
        word = (
            s.name if s.name.isalpha() else {"+": "sum", "-": "gap", "*": "product", "/": "ratio"}.get(s.name, "test")
        )
        name = low.fresh(f"{word}_{read}" if re.fullmatch(r"\w+", read) else word)
        low.line(f"{name} = {text.code}")
        return Text(name, text.axes)

    def one(self, s: ir.Scalar) -> Text:
        match s:
            case ir.Const():
                return Text(constant(s), (), UNARY if isinstance(s.value, int | float) and s.value < 0 else ATOM)
            case ir.SizeOf():
                code = show(s.size).replace("^", "**") if s.dtype == "float" else size_code(s.size)
                return Text(code, (), ATOM if re.fullmatch(r"\w+", code) else PLUS)
            case ir.Var():
                return Text(f"np.arange({size_code(self.sizes[s.number])})", (s.number,))
            case ir.Op():
                return self.op(s, [self.done[a] for a in s.args])
            case ir.Rand():
                return self.rand(s)
            case ir.Read():
                return self.read(s)

    def align(self, texts: Sequence[Text]) -> tuple[list[Text], tuple[int, ...]]:
        axes = tuple(sorted({a for t in texts for a in t.axes}))
        return [self.lowering.expand(t, axes) for t in texts], axes

    def op(self, s: ir.Op, args: list[Text]) -> Text:
        low = self.lowering
        parts, axes = self.align(args)
        if s.name in INFIX:
            symbol, level = INFIX[s.name]
            right = level + 1 if s.name in ("-", "/", "//", "%") or level == COMPARE else level
            left = level + 1 if level == COMPARE else level
            return Text(f"{parts[0].at(left)} {symbol} {parts[1].at(right)}", axes, level)
        match s.name:
            case "neg":
                return Text(f"-{parts[0].at(UNARY)}", axes, UNARY)
            case "^":
                if isinstance(s.args[1], ir.Const) and s.args[1].value == 2:
                    return Text(f"np.square({parts[0].code})", axes)
                return Text(f"{parts[0].at(ATOM)} ** {parts[1].at(UNARY)}", axes, POWER)
            case "and" | "or":
                symbol = " & " if s.name == "and" else " | "
                return Text("(" + symbol.join(p.at(PLUS + 1) for p in parts) + ")", axes)
            case "cast":
                return Text(self.cast(parts[0], s.dtype), axes)
            case "stop_grad":
                return Text(parts[0].code, axes, parts[0].level)
            case "relu":
                return Text(f"np.maximum({parts[0].code}, 0)", axes)
            case "rsqrt":
                return Text(f"1 / np.sqrt({parts[0].code})", axes, TIMES)
            case "clip":
                return Text(f"np.minimum(np.maximum({parts[0].code}, {parts[1].code}), {parts[2].code})", axes)
        if not axes and not any(isinstance(x, ir.Read | ir.Rand) for x in ir.scalars(s)):
            plain = PLAIN.get(s.name)
            if plain is not None:  # a Python float takes the dtype of what it meets, a NumPy one would not
                return Text(plain.format(*(p.code for p in parts)), ())
        if s.name not in FUNCTIONS:
            raise CannotLower(f"`{s.name}`", ir.comp((), s))
        name = low.helper(FUNCTIONS[s.name])
        return Text(f"{name}({', '.join(p.code for p in parts)})", axes)

    def cast(self, text: Text, dtype: str) -> str:
        target = self.lowering.numpy_dtype(dtype)
        if not text.axes and re.fullmatch(r"-?[\d.]+(e-?\d+)?|[-\w. ()/*+]*", text.code) and "[" not in text.code:
            if dtype in ("float", "f32", "f64") and re.fullmatch(r"-?[\d.]+(e-?\d+)?", text.code):
                return text.code
        if not text.axes:
            return f"{target}({text.code})"
        return f"{text.at(ATOM)}.astype({target})"

    def rand(self, s: ir.Rand) -> Text:
        low = self.lowering
        number: Text | None = None
        for place, size in zip(s.places, s.sizes, strict=True):
            here = self.done[place]
            if number is None:
                number = here
            else:
                parts, axes = self.align([number, here])
                number = Text(f"{parts[0].at(TIMES)} * {atom(size_code(size))} + {parts[1].at(TIMES)}", axes, PLUS)
        element = number or Text("0", ())
        low.used.add("draw")
        return Text(f"draw(seed, {s.site}, {element.code}{f', {s.lane}' if s.lane else ''})", element.axes)

    # ---- reads

    def read(self, s: ir.Read) -> Text:
        low = self.lowering
        if s.tensor in low.slices and isinstance(s.places[0], ir.At):
            s = ir.read(low.slices[s.tensor], s.places[1:], s.outside)
        base = low.tensor(s.tensor)
        if not s.places:
            return Text(base, ())
        simple = self.view(s, base)
        if simple is not None:
            return simple
        taken = self.taken(s, base)
        if taken is not None:
            return taken
        return self.gathered(s, base)

    def view(self, s: ir.Read, base: str) -> Text | None:
        """A read at affine places of distinct variables: slices, shifts and windows of the array."""
        seen: set[int] = set()
        for place in s.places:
            if isinstance(place, ir.Data) or (
                isinstance(place, ir.Affine) and (place.mode != "inside" or place.divisor != 1)
            ):
                return None
            if isinstance(place, ir.Affine):
                numbers = [n for n, _ in place.terms]
                if len(numbers) > 2 or any(n in seen for n in numbers):
                    return None
                if any(not isinstance(c, int) for _, c in place.terms):
                    return None
                if len(numbers) == 2 and any(c < 0 for _, c in place.terms):
                    return None
                seen.update(numbers)
        fill = None
        if s.outside is not None:
            outside = self.done[s.outside]
            if outside.axes:
                return None
            fill = outside.code
        low = self.lowering
        code = base
        items: list[str] = []
        order: list[int] = []
        for axis in reversed(range(len(s.places))):
            place, size = s.places[axis], s.tensor.shape[axis]
            if isinstance(place, ir.At):
                if fill is not None:
                    return None
                step = low.steps[place.step.scan]
                items.insert(
                    0, step if place.offset == 0 else f"{step} + {size_code(place.offset)}".replace("+ -", "- ")
                )
                continue
            if not place.terms:
                if fill is not None and not isinstance(place.offset, int):
                    return None
                items.insert(0, size_code(place.offset))
                continue
            if len(place.terms) == 2:
                (a, ca), (b, cb) = place.terms
                start = size_code(place.offset)
                width = ", ".join([size_code(self.sizes[a]), str(ca), size_code(self.sizes[b]), str(cb)])
                code = f"{low.helper('windows')}({code}, {axis}, {start}, {width}, {fill or 0})"
                items[:0] = [":", ":"]
                order[:0] = [a, b]
                continue
            ((number, step_),) = place.terms
            order.insert(0, number)
            whole = place.offset == 0 and step_ == 1 and self.sizes[number] == size
            if whole:
                items.insert(0, ":")
            elif fill is not None:
                count = size_code(self.sizes[number])
                code = f"{low.helper('shifted')}({code}, {axis}, {size_code(place.offset)}, {count}, {step_}, {fill})"
                items.insert(0, ":")
            else:
                items.insert(0, self.slice(place.offset, step_, self.sizes[number], size))
        if any(i != ":" for i in items):
            while items and items[-1] == ":":
                items.pop()
            code = f"{code}[{', '.join(items)}]"
        return self.arranged(code, order)

    def slice(self, offset: Size, step: int, count: Size, size: Size) -> str:
        if step == 1:
            stop = offset + count
            low = "" if offset == 0 else size_code(offset)
            return f"{low}:" if stop == size else f"{low}:{size_code(stop)}"
        if step == -1 and offset == size - 1 and count == size:
            return "::-1"
        if step > 0:
            return f"{size_code(offset)}:{size_code(offset + step * (count - 1) + 1)}:{step}"
        last = offset + step * (count - 1)
        return f"{size_code(offset)}:{'' if last == 0 else size_code(last - 1)}:{step}"

    def arranged(self, code: str, order: Sequence[int]) -> Text:
        """Bring axes into ascending order of their variables."""
        wanted = sorted(order)
        if list(order) == wanted:
            return Text(code, tuple(order))
        return Text(transposed(atom_code(code), order, wanted), tuple(wanted), ATOM, (code, tuple(order)))

    def taken(self, s: ir.Read, base: str) -> Text | None:
        """One place is data, the others are plain: rows of the array are taken."""
        if s.outside is not None:
            return None
        data = [i for i, q in enumerate(s.places) if isinstance(q, ir.Data)]
        if len(data) != 1:
            return None
        (axis,) = data
        place = s.places[axis]
        assert isinstance(place, ir.Data)
        if place.mode != "inside":
            return None
        index = self.done[place.value]
        order: list[int] = []
        for i, q in enumerate(s.places):
            if i == axis:
                order.extend(index.axes)
                continue
            if (
                not isinstance(q, ir.Affine)
                or q.offset != 0
                or len(q.terms) != 1
                or q.terms[0][1] != 1
                or q.divisor != 1
            ):
                return None
            number = q.terms[0][0]
            if number in order or number in index.axes or self.sizes[number] != s.tensor.shape[i]:
                return None
            order.append(number)
        code = f"{base}[{index.code}]" if axis == 0 else f"np.take({base}, {index.code}, axis={axis})"
        return self.arranged(code, order)

    def position(self, place: ir.Place, size: Size) -> Text:
        """A position as whole numbers over the variables."""
        if isinstance(place, ir.Data):
            text = self.scalar(place.value)
        elif isinstance(place, ir.At):
            step = self.lowering.steps[place.step.scan]
            text = Text(step if place.offset == 0 else f"{step} + {size_code(place.offset)}", (), PLUS)
        else:
            parts: list[Text] = []
            for number, coefficient in place.terms:
                text = Text(f"np.arange({size_code(self.sizes[number])})", (number,))
                if coefficient != 1:
                    text = Text(f"{atom(size_code(coefficient))} * {text.code}", text.axes, TIMES)
                parts.append(text)
            if place.offset != 0 or not parts:
                parts.append(Text(size_code(place.offset), (), PLUS))
            aligned, axes = self.align(parts)
            text = Text(" + ".join(p.at(TIMES) for p in aligned), axes, PLUS if len(aligned) > 1 else aligned[0].level)
            if place.divisor != 1:
                text = Text(f"{text.at(POWER)} // {size_code(place.divisor)}", axes, TIMES)
        mode = "inside" if isinstance(place, ir.At) else place.mode
        if mode == "wrap":
            return Text(f"{text.at(POWER)} % {atom(size_code(size))}", text.axes, TIMES)
        if mode == "clamp":
            return Text(f"np.clip({text.code}, 0, {size_code(size)} - 1)", text.axes)
        return text

    def gathered(self, s: ir.Read, base: str) -> Text:
        """The general read: positions for every axis."""
        low = self.lowering
        texts = [self.position(q, n) for q, n in zip(s.places, s.tensor.shape, strict=True)]
        aligned, axes = self.align(texts)
        places = ", ".join(t.code for t in aligned)
        if s.outside is None:
            return Text(f"{base}[{places}]", axes)
        goods = []
        for q in s.places:
            if isinstance(q, ir.Affine) and q.divisor != 1:
                top = self.position(ir.affine(q.terms, q.offset), 1)
                lined = low.expand(top, axes)
                goods.append(f"({lined.at(POWER)} % {size_code(q.divisor)} == 0)")
        outside = low.expand(self.done[s.outside], axes).code
        good = f", {' & '.join(goods)}" if goods else ""
        return Text(f"{low.helper('gather')}({base}, ({places},), {outside}{good})", axes)

    # ---- sums

    def reduce(self, op: str, text: Text, kept: int) -> Text:
        """Reduce all variables from `kept` on."""
        everything = tuple(range(len(self.sizes)))
        gone = [i for i, a in enumerate(text.axes) if a >= kept]
        axes = tuple(a for a in text.axes if a < kept)
        missing = [n for n in everything[kept:] if n not in text.axes]
        if op in ("argmax", "argmin", "prod") and missing:
            shape = tuple(sorted({*text.axes, *missing}))
            sizes = ", ".join(size_code(self.sizes[n]) for n in shape)
            text = Text(f"np.broadcast_to({self.lowering.expand(text, shape).code}, ({sizes},))", shape)
            return self.reduce(op, text, kept)
        if not gone:
            return text
        where = str(gone[0]) if len(gone) == 1 else f"({', '.join(map(str, gone))})"
        if gone == list(range(len(text.axes))) and len(gone) > 1:
            where = ""
        if op in ("argmax", "argmin") and len(gone) > 1:
            sizes = ", ".join([*(size_code(self.sizes[a]) for a in axes), "-1"])
            return Text(f"np.{op}({text.at(ATOM)}.reshape({sizes}), axis=-1)", axes)
        argument = f", axis={where}" if where else ""
        return Text(f"np.{op}({text.code}{argument})", axes)

    def total(self, body: ir.Scalar, kept: int) -> Text:
        """A sum: of products as matrix products, term by term where that saves work."""
        factors, numbers = self.factors(body)
        texts = [self.scalar(f) for f in factors]
        sizes_missing = [n for n in range(kept, len(self.sizes)) if not any(n in t.axes for t in texts)]
        scale = [self.scalar(x) for x in numbers] + [Text(size_code(self.sizes[n]), (), PLUS) for n in sizes_missing]
        result = self.product_sum(texts, kept)
        for extra in scale:
            if result.code == "1":
                result = extra
            elif extra.code.startswith("-1") and extra.code == "-1":
                result = Text(f"-{result.at(UNARY)}", result.axes, UNARY)
            else:
                result = Text(f"{result.at(TIMES)} * {extra.at(TIMES + 1)}", result.axes, TIMES)
        return result

    def factors(self, body: ir.Scalar) -> tuple[list[ir.Scalar], list[ir.Scalar]]:
        """The factors of a product that are arrays, and those that are numbers."""
        arrays: list[ir.Scalar] = []
        numbers: list[ir.Scalar] = []
        stack = [body]
        while stack:
            s = stack.pop()
            if isinstance(s, ir.Op) and s.name == "*":
                stack.extend(reversed(s.args))
            elif isinstance(s, ir.Op) and s.name == "neg":
                numbers.append(ir.const(-1, "i64"))
                stack.append(s.args[0])
            elif self.scalar(s).axes:
                arrays.append(s)
            else:
                numbers.append(s)
        return arrays, numbers

    def product_sum(self, texts: list[Text], kept: int) -> Text:
        if not texts:
            return Text("1", ())
        parts = list(texts)
        while len(parts) > 1:
            found = self.pick(parts, kept)
            i, j = found
            a, b = parts[i], parts[j]
            others = [p for k, p in enumerate(parts) if k not in (i, j)]
            later = {x for p in others for x in p.axes} | set(range(kept))
            parts = [self.pair(a, b, later), *others]
        only = parts[0]
        return self.reduce("sum", only, kept) if any(a >= kept for a in only.axes) else only

    def pick(self, parts: list[Text], kept: int) -> tuple[int, int]:
        """Which two factors to multiply next: one inside the other first, then those that share summed variables."""
        best: tuple[tuple[int, int], tuple[int, int]] | None = None
        for i in range(len(parts)):
            for j in range(i + 1, len(parts)):
                a, b = set(parts[i].axes), set(parts[j].axes)
                later = {x for k, p in enumerate(parts) if k not in (i, j) for x in p.axes} | set(range(kept))
                result = len((a | b) & later) if not (a <= b or b <= a) else -1
                key = (result, -len(a & b))
                if best is None or key < best[0]:
                    best = (key, (i, j))
        assert best is not None
        return best[1]

    def pair(self, a: Text, b: Text, later: set[int]) -> Text:
        """The product of two arrays, summed over what nothing later needs."""
        sa, sb = set(a.axes), set(b.axes)
        summed = (sa | sb) - later
        common = sa & sb
        a = self.presum(a, [x for x in a.axes if x in summed and x not in common])
        b = self.presum(b, [x for x in b.axes if x in summed and x not in common])
        contracted = sorted(common & summed)
        if not contracted:
            parts, axes = self.align([a, b])
            return Text(f"{parts[0].at(TIMES)} * {parts[1].at(TIMES)}", axes, TIMES)
        batch = sorted(common - summed)
        rows = [x for x in a.axes if x not in common]
        columns = [x for x in b.axes if x not in common]
        if not rows and not columns:
            parts, axes = self.align([a, b])
            product = Text(f"{parts[0].at(TIMES)} * {parts[1].at(TIMES)}", axes, TIMES)
            if not batch and len(contracted) == 1:
                return Text(f"{a.at(TIMES)} @ {b.at(TIMES)}", (), TIMES)
            return self.presum(product, contracted)
        return self.matmul(a, b, batch, rows, columns, contracted)

    def presum(self, text: Text, axes: list[int]) -> Text:
        if not axes:
            return text
        code, order = text.raw or (text.code, text.axes)
        where = sorted(order.index(x) for x in axes)
        rest = tuple(x for x in order if x not in axes)
        if rest != tuple(sorted(rest)):
            code, order, rest = text.code, text.axes, tuple(x for x in text.axes if x not in axes)
            where = sorted(order.index(x) for x in axes)
        shown = str(where[0]) if len(where) == 1 else f"({', '.join(map(str, where))})"
        return Text(f"np.sum({code}, axis={shown})", rest)

    def matmul(self, a: Text, b: Text, batch: list[int], rows: list[int], columns: list[int], inner: list[int]) -> Text:
        if columns and (not rows or columns[0] < rows[0]):
            a, b, rows, columns = b, a, columns, rows
        left = self.matrix(a, batch, rows, inner, stacked=True)
        right = self.matrix(b, batch, inner, columns)
        code = f"{left.at(TIMES)} @ {right.at(TIMES + 1)}"
        result = Text(code, (), TIMES)
        if not columns and batch:
            right = self.matrix(b, batch, inner, [])
            code = f"({left.at(TIMES)} @ {right.at(ATOM)}[..., None])[..., 0]"
            result = Text(code, (), ATOM)
        order = [*batch, *rows, *columns]
        if len(rows) > 1 or len(columns) > 1:
            direct = len(columns) <= 1 and ".reshape(" not in left.code
            if not direct:
                sizes = ", ".join(size_code(self.sizes[x]) for x in order)
                result = Text(f"({result.code}).reshape({sizes})", ())
        arranged = self.arranged(result.at(ATOM) if sorted(order) != order else result.code, order)
        return Text(arranged.code, arranged.axes, result.level if sorted(order) == order else ATOM)

    def matrix(self, x: Text, batch: list[int], first: list[int], second: list[int], stacked: bool = False) -> Text:
        """An array as a stack of matrices with grouped rows and columns; `stacked` rows may stay apart."""
        order = [*batch, *first, *second]
        source, given = x.raw or (x.at(ATOM), x.axes)
        code = atom_code(source) if list(given) == order else transposed(atom_code(source), given, order)
        untouched = list(given) == order
        grouped = len(first) > 1 or len(second) > 1
        if grouped and not (stacked and len(second) == 1 and not batch and len(first) > 1 and untouched):
            sizes = [size_code(self.sizes[n]) for n in batch]
            for group in (first, second):
                if group:
                    sizes.append(" * ".join(atom(size_code(self.sizes[n])) for n in group))
            code = f"{code}.reshape({', '.join(sizes)})"
        return Text(code, tuple(order), ATOM)


def transposed(code: str, given: Sequence[int], wanted: Sequence[int]) -> str:
    if len(wanted) == 2:
        return f"{code}.T"
    if len(wanted) > 2 and list(wanted[:-2]) == list(given[:-2]):
        return f"{code}.swapaxes(-1, -2)"
    return f"{code}.transpose({', '.join(str(list(given).index(n)) for n in wanted)})"


def atom_code(code: str) -> str:
    return code if re.fullmatch(r"[\w.]+(\[[^\[\]]*\])?|[\w.]+\([^()]*\)", code) else f"({code})"


def constant(s: ir.Const) -> str:
    value = s.value
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, float):
        if value != value:
            return "np.nan"
        if value in (float("inf"), float("-inf")):
            return "np.inf" if value > 0 else "-np.inf"
        if value.is_integer() and abs(value) < 1e6:
            return f"{int(value)}"
    return repr(value)
