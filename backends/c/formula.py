"""Scalars of the IR as C expressions, with what several of them need, or an outer loop can compute, on lines before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeGuard

from dslc.backends.c.text import bare, constant, factor

from dslc.dtypes import is_float
from dslc.ir import nodes as ir
from dslc.ir.rewrite import plain_variable
from dslc.ops.table import RECORDS
from dslc.passes.narrow import HALVES
from dslc.polynomials import surely_nonnegative, surely_positive
from dslc.schedule.form import based
from dslc.sizes import Size

if TYPE_CHECKING:
    from dslc.backends.c.kernel import Kernel

#: operations on whole numbers whose text is another one than that for floats
WHOLE = {
    "^": "power_i64({0}, {1})", "pow": "power_i64({0}, {1})", "floor": "({0})", "ceil": "({0})",
    "round": "({0})", "trunc": "({0})",
}  # fmt: skip
#: powers as products
POWERS = {
    2.0: "({0} * {0})", 3.0: "({0} * {0} * {0})", 4.0: "(({0} * {0}) * ({0} * {0}))", 1.0: "{0}", 0.5: "sqrt{f}({0})",
    -1.0: "(1 / {0})",
}  # fmt: skip
WORDS = {
    "cast": "", "stop_grad": "", "+": "sum", "-": "difference", "*": "product", "/": "quotient", "neg": "negative",
    "^": "power", "select": "chosen",
}  # fmt: skip


@dataclass
class Formula:
    """The formulas of one nest of loops."""

    kernel: Kernel
    #: what each variable is called, and how deep in the loops it is known
    names: Mapping[int, str]
    levels: Mapping[int, int]
    sizes: Sequence[Size]
    #: lines at the beginning of the body of each loop
    lines: list[list[str]]
    #: the values of members: their texts, known at this level
    registers: dict[ir.Node, tuple[str, int]] = field(default_factory=dict)
    texts: dict[ir.Scalar, str] = field(default_factory=dict)
    places: dict[ir.Scalar, int] = field(default_factory=dict)
    uses: dict[ir.Scalar, int] = field(default_factory=dict)
    hoisted: set[ir.Scalar] = field(default_factory=set)

    @property
    def deepest(self) -> int:
        return len(self.lines) - 1

    def add(self, roots: Sequence[ir.Scalar]) -> None:
        """Look at formulas before any of them is written: what is used twice, and what an outer loop can compute."""
        order: dict[ir.Scalar, None] = {}
        for root in roots:
            order.update(dict.fromkeys(ir.scalars(root)))
        for s in order:
            self.places[s] = self.level(s)
            for x, count in self.mentions(s).items():
                self.uses[x] = self.uses.get(x, 0) + count
        for root in roots:
            self.uses[root] = self.uses.get(root, 0) + 1
        for s in order:
            for x in ir.operands(s):
                if self.places[x] < self.places[s]:
                    self.hoisted.add(x)
        for root in roots:
            if self.places[root] < self.deepest:
                self.hoisted.add(root)

    def mentions(self, s: ir.Scalar) -> dict[ir.Scalar, int]:
        """How often the text of a scalar has that of each operand."""
        found = dict.fromkeys(ir.operands(s), 1)
        if isinstance(s, ir.Op) and s.name in RECORDS:
            form = self.form(s)
            for k, x in enumerate(s.args):
                if len(s.args) <= 3 and form.count(f"{{{k}}}") > 1:
                    found[x] += 1
        return found

    def form(self, s: ir.Op) -> str:
        """The text of an operation, to be filled in."""
        if s.name in ("^", "pow") and isinstance(s.args[1], ir.Const):
            known = POWERS.get(float(s.args[1].value))
            if known and is_float(s.dtype):
                return known
        if s.name in WHOLE and not is_float(s.dtype) and not any(is_float(x.dtype) for x in s.args):
            return WHOLE[s.name]
        return RECORDS[s.name].c

    def level(self, s: ir.Scalar) -> int:
        match s:
            case ir.Const() | ir.SizeOf():
                return 0
            case ir.Var():
                return self.levels[s.number]
            case ir.Read():
                known = self.registers.get(s.tensor)
                if known is not None:
                    return known[1]
                found = [self.places[x] for x in ir.operands(s)]
                found += [self.levels[n] for x in s.places if isinstance(x, ir.Affine) for n, _ in x.terms]
                return max([*found, self.surely()])
        return max((self.places[x] for x in ir.operands(s)), default=0)

    def surely(self) -> int:
        """The level from which on all loops inside run at least once: a read further out might be of nothing."""
        empty = [
            self.levels[n]
            for n, size in enumerate(self.sizes)
            if n in self.levels and not (size > 0 if isinstance(size, int) else surely_positive(size))
        ]
        return max(empty, default=0)

    def text(self, root: ir.Scalar) -> str:
        """A formula as text; what it needs is written before."""
        for s in ir.scalars(root):
            if s in self.texts:
                continue
            text = self.one(s)
            number = isinstance(s, ir.Op) and s.name == "cast" and exact(s.args[0])
            if isinstance(s, ir.Op | ir.Read | ir.Rand) and not text.isidentifier() and not number:
                if self.uses.get(s, 0) > 1 or s in self.hoisted or len(text) > 400:
                    text = self.local(s, text)
            self.texts[s] = text
        return self.texts[root]

    def local(self, s: ir.Scalar, text: str) -> str:
        name = self.kernel.names.fresh(self.word(s))
        self.lines[self.places[s]].append(f"const {self.kernel.types.of(s.dtype)} {name} = {bare(text)};")
        return name

    def word(self, s: ir.Scalar) -> str:
        """What a part of a formula is called: after its operation and the first tensor in it."""
        of = next((x.tensor for x in ir.scalars(s) if isinstance(x, ir.Read)), None)
        name = self.kernel.wish(of).rpartition(".")[2] if of is not None else ""
        if isinstance(s, ir.Read):
            return f"{name}_{self.names.get(self.last(s), 'here')}"
        word = WORDS.get(s.name, s.name if s.name.isidentifier() else "test") if isinstance(s, ir.Op) else "draw"
        return f"{word}_{name}" if name and word else name or word or "value"

    def last(self, s: ir.Read) -> int:
        return next((n for x in reversed(s.places) if isinstance(x, ir.Affine) for n, _ in x.terms), -1)

    def one(self, s: ir.Scalar) -> str:
        types = self.kernel.types
        match s:
            case ir.Const():
                return constant(s, types.of(s.dtype))
            case ir.SizeOf():
                if is_float(s.dtype) or not (isinstance(s.size, int) or s.size.is_integer is not None):
                    return f"({self.kernel.size_as_float(s.size, types.of(s.dtype))})"
                return factor(f"{self.kernel.size(s.size)}")
            case ir.Var():
                return self.names[s.number]
            case ir.Read():
                return self.read(s)
            case ir.Rand():
                return self.draw(s)
            case ir.Op():
                return self.operation(s, [self.texts[x] for x in s.args])

    def operation(self, s: ir.Op, args: list[str]) -> str:
        types = self.kernel.types
        ctype = types.of(s.dtype)
        if s.name == "cast":
            given = s.args[0]
            if exact(given) and s.dtype in ("f32", "f64"):
                return constant(given, ctype)
            return self.cast(given.dtype, s.dtype, args[0])
        if s.name == "stop_grad":
            return args[0]
        if s.name == "neg":
            return f"(-{args[0]})"
        record = RECORDS[s.name]
        argument_float = any(is_float(x.dtype) for x in s.args)
        form = self.form(s)
        if is_float(s.dtype) and not argument_float and s.args and record.gives != "bool":
            args = [
                f"({ctype}){x}"
                if not isinstance(a, ir.Const)
                else f"{constant(ir.const(float(a.value), s.dtype), ctype)}"
                for a, x in zip(s.args, args, strict=True)
            ]
        elif is_float(s.dtype):  # what C would do without a word, and compilers warn of
            whole = [a.dtype in ("i32", "i64") and not isinstance(a, ir.Const) for a in s.args]
            args = [f"({ctype}){factor(x)}" if one else x for one, x in zip(whole, args, strict=True)]
        floats = [x.dtype for x in s.args if is_float(x.dtype)]
        suffix = types.suffix(s.dtype if is_float(s.dtype) else floats[0]) if floats or is_float(s.dtype) else "_i64"
        if record.arity == 0 or len(args) > record.arity:
            text = args[0]
            for x in args[1:]:
                text = form.format(text, x, f=suffix)
        else:
            text = form.format(*args, f=suffix)
        self.kernel.call(text)
        return text

    def cast(self, given: str, wanted: str, text: str) -> str:
        types = self.kernel.types
        if given == wanted:
            return text
        if wanted in HALVES:
            number = text if is_float(given) else f"({types.of(wanted)}){factor(text)}"
            return self.kernel.call(f"rounded_{wanted}{types.suffix(wanted)}({number})")
        if wanted == "bool":
            return f"({text} != 0)"
        if wanted == "i32" and given != "i32":
            return f"(int64_t)(int32_t){factor(text)}" if not is_float(given) else f"(int64_t){factor(text)}"
        if types.of(given) == types.of(wanted):
            return text
        return f"({types.of(wanted)}){factor(text)}"

    # ---- reads

    def read(self, s: ir.Read) -> str:
        tensor = s.tensor
        if tensor in self.registers:
            return self.registers[tensor][0]
        if isinstance(tensor, ir.Step) and tensor.kind == "number":
            return self.kernel.counter(tensor)
        positions, tests = [], []
        for place, size in zip(s.places, tensor.shape, strict=True):
            at, test = self.position(place, size, s.outside is not None)
            positions.append(at)
            tests += test
        text = self.kernel.element(tensor, s.places, positions)
        ctype = self.kernel.types.of(tensor.dtype)
        if ctype == "int64_t" and isinstance(based(tensor), ir.Input):
            text = f"(int64_t){text}"
        if tensor.dtype in HALVES and isinstance(tensor, ir.Input):
            text = self.wide(tensor, text)
        if s.outside is None:
            return text
        if not tests:
            return text
        return f"({' && '.join(tests)} ? {text} : {self.texts[s.outside]})"

    def wide(self, x: ir.Input, text: str) -> str:
        """A number of 16 bits as a wider one: converted, or rounded where the caller hands over wider ones."""
        types, kept = self.kernel.types, self.kernel.entry.inputs[x][1].dtype
        if kept not in HALVES:
            return text if x.role == "saved" else self.cast("float", x.dtype, text)
        wide = f"widened_{kept}({text})"
        return wide if types.of(kept) == "float" else f"(double){wide}"

    def position(self, place: ir.Place, size: Size, guarded: bool) -> tuple[str, list[str]]:
        """A position along an axis, and what must hold for it to be inside."""
        kernel = self.kernel
        if isinstance(place, ir.At):
            counter = kernel.counter(place.step)
            if place.offset == 0:
                return counter, []
            text = f"{counter} + {factor(kernel.size(place.offset))}".replace("+ (-", "- (").replace("+ -", "- ")
            return text, [f"{text} >= 0", f"{text} < {kernel.size(size)}"] if guarded else []
        tests: list[str] = []
        if isinstance(place, ir.Data):
            text, low, high = self.texts[place.value], False, False
        else:
            text = self.affine(place)
            low, high = self.bounds(place, size)
            if place.divisor != 1:
                divisor = factor(kernel.size(place.divisor))
                tests = [f"({text}) % {divisor} == 0"] if guarded else []
                low, high = low, False
                if guarded and not low:
                    tests.append(f"{text} >= 0")
                    low = True
                text = f"({text}) / {divisor}"
        if place.mode != "inside":
            function = "wrapped" if place.mode == "wrap" else "clamped"
            return f"{function}({text}, {kernel.size(size)})", []
        if guarded:
            tests += ([] if low else [f"{text} >= 0"]) + ([] if high else [f"{text} < {factor(kernel.size(size))}"])
        return text, tests

    def affine(self, place: ir.Affine) -> str:
        kernel = self.kernel
        text = ""
        for number, c in place.terms:
            name = self.names[number]
            negative = isinstance(c, int) and c < 0
            size = -c if negative else c
            part = name if size == 1 else f"{factor(kernel.size(size))} * {name}"
            text = (f"-{part}" if negative else part) if not text else f"{text} {'-' if negative else '+'} {part}"
        if place.offset != 0 or not text:
            offset = place.offset
            if isinstance(offset, int) and offset < 0 and text:
                return f"{text} - {-offset}"
            shown = kernel.size(offset)
            text = (
                shown
                if not text
                else f"{text} + {shown}"
                if not shown.startswith("-")
                else f"{text} - {factor(kernel.size(-offset))}"
            )
        return text

    def bounds(self, place: ir.Affine, size: Size) -> tuple[bool, bool]:
        """Is an affine place surely not below, not above its axis?"""
        if plain_variable(place) is not None and self.sizes[place.terms[0][0]] == size:
            return True, True
        low: Size = place.offset
        high: Size = place.offset
        for number, c in place.terms:
            last = self.sizes[number] - 1
            if isinstance(c, int):
                low, high = (low, high + c * last) if c > 0 else (low + c * last, high)
            elif surely_nonnegative(c):
                high = high + c * last
            else:
                return False, False
        return _not_negative(low), _not_negative(size - 1 - high)

    def draw(self, s: ir.Rand) -> str:
        number = ""
        for place, size in zip(s.places, s.sizes, strict=True):
            at = self.texts[place]
            number = at if not number else f"({number}) * {factor(self.kernel.size(size))} + {at}"
        suffix = self.kernel.types.suffix(s.dtype)
        return self.kernel.call(f"uniform{suffix}({self.kernel.seed()}, {s.site}, {number or '0'}, {s.lane})")


def _not_negative(size: Size) -> bool:
    return size >= 0 if isinstance(size, int) else surely_nonnegative(size)


def vectorised(bodies: Iterable[ir.Scalar]) -> bool:
    """May a loop over some formulas be one for `omp simd`?

    Draws are loops of their own. And GCC 12 takes a loop away that is asked for vectors, has a known number of steps
    and reads x[i * j + i], where i belongs to the loop around it.
    """
    scalars = [s for body in bodies for s in ir.scalars(body)]
    return not any(isinstance(s, ir.Rand) or _multiplies_indices(s) for s in scalars)


def _multiplies_indices(s: ir.Scalar) -> bool:
    return isinstance(s, ir.Op) and s.name == "*" and not is_float(s.dtype) and all(map(ir.variables, s.args))


def exact(s: ir.Scalar) -> TypeGuard[ir.Const]:
    """A whole number that any float has."""
    return isinstance(s, ir.Const) and not isinstance(s.value, float) and abs(s.value) < 2**11
