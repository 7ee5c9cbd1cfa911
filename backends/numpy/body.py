"""The bodies of comprehensions as NumPy text: scalars become arrays over the variables, reads become views."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from dslc.backends.numpy.operations import FUNCTIONS, INFIX, PLAIN, TEMPLATES
from dslc.backends.numpy.text import (
    ATOM,
    COMPARE,
    PLUS,
    POWER,
    TIMES,
    UNARY,
    Text,
    atom,
    atom_code,
    constant,
    float_code,
    shape_code,
    size_code,
    transposed,
)  # fmt: skip
from dslc.backends.numpy.views import padded, slice_code, sliding
from dslc.backends.record import CannotLower

from dslc.dtypes import is_float
from dslc.ir import nodes as ir
from dslc.ir.algebra import is_zero
from dslc.passes.products import variables
from dslc.sizes import Size, estimate, tidy

if TYPE_CHECKING:
    from dslc.backends.numpy.lower import Lowering


#: the text of a number
NUMBER = r"-?[\d.]+(e-?\d+)?"

#: what values of an operation are called when they need a name
WORDS = {"+": "sum", "-": "gap", "*": "product", "/": "ratio", "^": "power", "select": "chosen", "and": "both",
         "or": "either"}  # fmt: skip


def values_in(s: ir.Scalar) -> list[ir.Tensor]:
    """The tensors whose values a formula is made of; data that only say where to read are none."""
    found: dict[ir.Tensor, None] = {}
    stack: list[ir.Scalar] = [s]
    while stack:
        x = stack.pop()
        if isinstance(x, ir.Read):
            found[x.tensor] = None
        stack += reversed(x.args) if isinstance(x, ir.Op) else ()
    return list(found)


def guarded_by(s: ir.Op) -> str:
    """What a choice between a value and a number makes sure of."""
    match s:
        case ir.Op(name="select", args=(ir.Op(name="isfinite", args=(x,)), y, ir.Const())) if x is y:
            return "finite"
        case ir.Op(name="select", args=(ir.Op(name="==", args=(x, zero)), ir.Const(), y)) if x is y and is_zero(zero):
            return "nonzero"
    return ""


def exact_quotient(above: str, below: str) -> str:
    """Two known numbers divided, if the result is exact; else nothing.

    >>> exact_quotient("2", "64"), exact_quotient("2", "3"), exact_quotient("2", "N")
    ('0.03125', '', '')
    """
    if not (re.fullmatch(NUMBER, above) and re.fullmatch(NUMBER, below)) or float(below) == 0:
        return ""
    quotient = float(above) / float(below)
    if not math.isfinite(quotient):
        return ""
    exact = Fraction(quotient) * Fraction(float(below)) == Fraction(float(above))
    return constant(ir.Const(quotient, "f64")) if exact else ""


def _number(s: ir.Scalar) -> float | None:
    return s.value if isinstance(s, ir.Const) and is_float(s.dtype) else None


def root(value: float) -> Text | None:
    """A number that is the root of a whole number, or one over it, as that.

    >>> root(5.656854249492381).code, root(0.17677669529663687).code, root(0.25)
    ('math.sqrt(32)', '1 / math.sqrt(32)', None)
    """
    for number, before, level in ((value, "", ATOM), (1 / value if value else 0, "1 / ", TIMES)):
        square = round(number * number) if 1 < number < 1000 else 0
        whole = isinstance(value, float) and math.isqrt(square) ** 2 != square
        if whole and value == (1 / math.sqrt(square) if before else math.sqrt(square)):
            return Text(f"{before}math.sqrt({square})", (), level)
    return None


def inverse(code: str) -> str:
    """What to divide by in place of a product with a small power of 1/2, which has long decimals and the same bits.

    >>> inverse("0.03125"), inverse("0.25"), inverse("0.3")
    ('32', '', '')
    """
    if not re.fullmatch(NUMBER, code) or not 0 < float(code) < 0.125 or not (1 / float(code)).is_integer():
        return ""
    divisor = int(1 / float(code))
    return str(divisor) if divisor & (divisor - 1) == 0 else ""


@dataclass
class Body:
    """Scalars of one comprehension as arrays over its variables."""

    lowering: Lowering
    sizes: tuple[Size, ...]
    done: dict[ir.Scalar, Text] = field(default_factory=dict)

    def scalar(self, root: ir.Scalar, uses: dict[ir.Scalar, int] | None = None) -> Text:
        """The text of a scalar; `uses` counts how often a larger formula has each part of it."""
        order = list(ir.scalars(root))
        if uses is None:
            uses = {}
            for s in order:
                for x in ir.operands(s):
                    uses[x] = uses.get(x, 0) + 1
        needed = self.needed(root)
        for s in order:
            if s not in self.done and s in needed:
                shared = self.lowering.formulas.shared.get(self.key(s)) if isinstance(s, ir.Op) else None
                self.done[s] = shared or self.one(s)
                twice = uses.get(s, 0) > 1 or s in self.lowering.formulas.common
                if shared is None and twice and isinstance(s, ir.Op) and s.name not in ("neg", "cast", "stop_grad"):
                    self.done[s] = self.named(s, self.done[s])
        return self.done[root]

    def needed(self, root: ir.Scalar) -> set[ir.Scalar]:
        """The scalars that must be computed for a root: none below those that are known."""
        found: set[ir.Scalar] = set()
        stack = [root]
        while stack:
            s = stack.pop()
            if s not in found:
                found.add(s)
                known = isinstance(s, ir.Op) and (s in self.done or self.key(s) in self.lowering.formulas.shared)
                if not known:
                    stack.extend(ir.operands(s))
        return found

    def key(self, s: ir.Scalar) -> tuple[ir.Scalar, tuple[Size, ...]]:
        """What a value is shared by: its formula, and the sizes of the variables in it."""
        return s, tuple(self.sizes[n] for n in sorted(variables(s)))

    def named(self, s: ir.Op, text: Text) -> Text:
        """A value that the formula uses more than once gets a line of its own."""
        low = self.lowering
        if not text.axes or re.fullmatch(r"\w+", text.code):
            return text
        word = guarded_by(s) or WORDS.get(s.name, s.name if s.name.isidentifier() else "test")
        known = [low.names.get(low.layers.slices.get(x, x), "") for x in values_in(s)]
        read = list(dict.fromkeys(x for x in known if re.fullmatch(r"\w+", x))) or [self.lowering.writing[0]]
        several = ["_".join(read[:k]) for k in range(1, len(read) + 1)]
        if s.name == "==" and len(read) == 2:  # which of the first is the second: the largest of a window
            word, several = "is", [read[1]]
        name = low.fresh(*(f"{word}_{x}" for x in (*several, *read[1:], f"for_{self.lowering.writing[0]}")))
        low.line(f"{name} = {text.code}", "", low.writing[1])
        named = low.formulas.shared[self.key(s)] = Text(name, text.axes)
        return named

    def one(self, s: ir.Scalar) -> Text:
        match s:
            case ir.Const():
                if isinstance(s.value, int | float) and s.value < 0:
                    return Text(constant(ir.const(-s.value, s.dtype)), ()).negative
                if (known := root(s.value)) is not None:
                    return known
                if self.lowering.dtype == "np.float32" and s.dtype in ("float", "f32") and len(repr(s.value)) > 12:
                    s = ir.const(float(f"{s.value:.9g}"), s.dtype)  # as many digits as tell a float32
                return Text(constant(s), ())
            case ir.SizeOf():
                code = float_code(s.size) if s.dtype == "float" else size_code(s.size)
                return Text(code, (), ATOM if re.fullmatch(r"\w+", code) else PLUS)
            case ir.Var():
                return Text(self.counted(s.number), (s.number,))
            case ir.Op():
                return self.op(s, [self.done[a] for a in s.args])
            case ir.Rand():
                return self.rand(s)
            case ir.Read():
                return self.read(s)

    def counted(self, number: int) -> str:
        """The values of a variable."""
        return f"np.arange({size_code(self.sizes[number])})"

    def align(self, texts: Sequence[Text]) -> tuple[list[Text], tuple[int, ...]]:
        axes = tuple(sorted({a for t in texts for a in t.axes}))
        return [self.lowering.expand(t, axes) for t in texts], axes

    def op(self, s: ir.Op, args: list[Text]) -> Text:
        low = self.lowering
        if s.name == "/" and isinstance(s.args[1], ir.SizeOf) and args[0].mean is not None:
            size, code = args[0].mean
            if size == s.args[1].size:
                other = args[0].positive
                positive = None if other is None or other.mean is None else Text(other.mean[1], other.axes)
                return Text(code, args[0].axes, positive=positive)
        if s.name == "+" and (joined := self.joined(s)) is not None:
            return joined
        parts, axes = self.align(args)
        if s.name in INFIX:
            return self.infix(s.name, parts, axes)
        match s.name:
            case "neg":
                return parts[0].negative
            case "^":
                plain = not axes and all(is_plain(x) for x in ir.scalars(s))  # np.square makes a float64 of a number
                if isinstance(s.args[1], ir.Const) and s.args[1].value == 2 and not plain:
                    return Text(f"np.square({parts[0].code})", axes)
                return Text(f"{parts[0].at(ATOM)} ** {parts[1].at(UNARY)}", axes, POWER)
            case "and" | "or":
                symbol = " & " if s.name == "and" else " | "
                return Text("(" + symbol.join(p.at(PLUS + 1) for p in parts) + ")", axes)
            case "cast":
                return Text(self.cast(parts[0], s.dtype), axes)
            case "stop_grad":
                return Text(parts[0].code, axes, parts[0].level)
        if not axes and all(is_plain(x) for x in ir.scalars(s)):
            form = PLAIN.get(s.name)
            if form is not None:  # a Python float takes the dtype of what it meets, a NumPy one would not
                for word in re.findall(r"\w+(?=\()", form):
                    low.helper(word)
                return Text(form.format(*(p.code for p in parts)), ())
        if s.name == "select" and is_float(s.dtype) and is_zero(s.args[2]) and args[1].axes and not guarded_by(s):
            return Text(f"{low.helper('masked')}({parts[1].code}, {parts[0].code})", axes)
        if s.name == "select" and not (args[1].axes or args[2].axes):
            # two Python numbers, also those that stand for a value, would make whole numbers or float64
            parts[1] = Text(f"{low.numpy_dtype(s.dtype)}({parts[1].code})", ())
        if s.name in TEMPLATES:
            template, level = TEMPLATES[s.name]
            return Text(template.format(*(p.code for p in parts)), axes, level)
        if s.name not in FUNCTIONS:
            raise CannotLower(f"`{s.name}`", ir.comp((), s))
        name = low.helper(FUNCTIONS[s.name])
        condition = parts[0] if s.name == "select" and [_number(x) for x in s.args[1:]] == [1, 0] else None
        return Text(f"{name}({', '.join(p.code for p in parts)})", axes, condition=condition)

    def infix(self, name: str, parts: list[Text], axes: tuple[int, ...]) -> Text:
        """An operation between its operands; a minus goes where it is least in the way."""
        left, right = parts
        if name in ("+", "-") and right.positive is not None:
            name, right = "-" if name == "+" else "+", right.positive
        elif name == "+" and (taken_away := left.positive) is not None:
            name, left, right = "-", right, taken_away
        if (
            name == "*" and left.axes and right.condition is not None
        ):  # of floats, which True and False leave as they are
            right = right.condition
        elif name == "*" and right.axes and left.condition is not None:
            left = left.condition
        symbol, level = INFIX[name]
        if name == "/" and (quotient := exact_quotient(left.code, right.code)):
            return Text(quotient, ())
        if name == "*" and (divisor := inverse(left.code)):
            name, left, right = "/", right, Text(divisor, ())
            symbol, level = INFIX[name]
        positive = None
        if name == "-" and left.positive is not None:  # two terms with a minus
            positive = self.infix("+", [left.positive, right], axes)
        if name in ("*", "/") and (left.positive is None) != (right.positive is None):
            positive = self.infix(name, [left.positive or left, right.positive or right], axes)
        first = left.at(level + 1 if level == COMPARE else level)
        last = right.at(level + 1 if name != "+" else level)
        return Text(f"{first} {symbol} {last}", axes, level, positive=positive)

    def cast(self, text: Text, dtype: str) -> str:
        target = self.lowering.numpy_dtype(dtype)
        if dtype in ("f16", "bf16"):
            number = f"np.asarray({text.code}, {self.lowering.dtype})" if not text.axes else text.code
            return f"{self.lowering.helper(f'as_{dtype}')}({number})"
        if not text.axes and dtype in ("float", "f32", "f64") and re.fullmatch(NUMBER, text.code):
            return text.code
        if not text.axes:
            return f"{target}({text.code})"
        return f"{text.at(ATOM)}.astype({target})"

    def rand(self, s: ir.Rand) -> Text:
        low = self.lowering
        own = [x.number for x in s.places if isinstance(x, ir.Var)]
        if len(own) == len(s.places) > 1 and own == sorted(set(own)) and [self.sizes[n] for n in own] == [*s.sizes]:
            element = Text(f"np.arange({size_code(s.sizes)}).reshape{shape_code(s.sizes)}", tuple(own))
        else:
            element = self.element(s)
        low.used.add("draw")
        wide = ".astype(np.float64)" if low.dtype == "np.float64" else ""
        return Text(f"draw(seed, {s.site}, {element.code}{f', {s.lane}' if s.lane else ''}){wide}", element.axes)

    def element(self, s: ir.Rand) -> Text:
        """The number of the element that is drawn, row-major."""
        number: Text | None = None
        for place, size in zip(s.places, s.sizes, strict=True):
            here = self.done[place]
            if number is None:
                number = here
            else:
                parts, axes = self.align([number, here])
                rows = parts[0].at(TIMES) if size == 1 else f"{parts[0].at(TIMES)} * {atom(size_code(size))}"
                number = Text(f"{rows} + {parts[1].at(TIMES)}", axes, PLUS)
        return number or Text("0", ())

    # ---- reads

    def read(self, s: ir.Read) -> Text:
        low = self.lowering
        if s.tensor in low.layers.slices and isinstance(s.places[0], ir.At):
            s = ir.read(low.layers.slices[s.tensor], s.places[1:], s.outside)
        inner = self.contained(s)
        if inner is not None:
            return inner
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

    def contained(self, s: ir.Read) -> Text | None:
        """A value without a line of its own, read as it is: its formula."""
        node = s.tensor
        if node in self.lowering.names or not isinstance(node, ir.Comp) or s.outside is not None:
            return None
        numbers = [x.terms[0][0] for x in s.places if isinstance(x, ir.Affine) and len(x.terms) == 1]
        if len(numbers) != len(s.places) or any(x is not ir.plain(n) for x, n in zip(s.places, numbers, strict=True)):
            return None
        sizes = [self.sizes[n] for n in numbers]
        if numbers != sorted(set(numbers)) or sizes != list(node.shape):
            return None
        text = self.lowering.comp(node)
        return text.over(dict(enumerate(numbers)))

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
                seen.update(numbers)
        fill = None
        if s.outside is not None:
            outside = self.done[s.outside]
            if outside.axes:
                return None
            fill = outside.code
        low = self.lowering
        code = base
        windows = any(isinstance(q, ir.Affine) and len(q.terms) == 2 for q in s.places)
        if windows and (found := sliding(s, self.sizes, base, fill)) is not None:
            return replace(self.arranged(*found), windows=s)
        cuts: dict[int, str] = {}
        if fill is not None:
            code, cuts = padded(s, self.sizes, base, fill, low.facts)
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
            assert isinstance(place, ir.Affine)  # data, and steps that are symbols, have gone already
            if not place.terms:
                offset = place.offset
                if fill is not None and offset != 0:
                    if not isinstance(offset, int):
                        return None
                    if not (isinstance(size, int) and 0 <= offset < size):  # there may be no such place
                        code = f"{low.helper('shifted')}({code}, {axis}, {offset}, 1, 1, {fill})"
                        offset = 0
                items.insert(0, size_code(offset))
                continue
            if len(place.terms) == 2:
                (a, ca), (b, cb) = place.terms
                if estimate(self.sizes[a]) < estimate(self.sizes[b]):  # a convolution and its gradient share windows
                    (a, ca), (b, cb) = (b, cb), (a, ca)
                start = size_code(place.offset)
                width = ", ".join([size_code(self.sizes[a]), str(ca), size_code(self.sizes[b]), str(cb)])
                code = f"{low.helper('windows')}({code}, {axis}, {start}, {width}, {fill or 0})"
                items[:0] = [":", ":"]
                order[:0] = [a, b]
                continue
            ((number, step_),) = place.terms
            assert isinstance(step_, int)
            order.insert(0, number)
            whole = place.offset == 0 and step_ == 1 and self.sizes[number] == size
            if whole:
                items.insert(0, ":")
            elif axis in cuts:
                items.insert(0, cuts[axis])
            elif fill is not None:
                count = size_code(self.sizes[number])
                code = f"{low.helper('shifted')}({code}, {axis}, {size_code(place.offset)}, {count}, {step_}, {fill})"
                items.insert(0, ":")
            else:
                items.insert(0, slice_code(place.offset, step_, self.sizes[number], size))
        if any(i != ":" for i in items):
            while items and items[-1] == ":":
                items.pop()
            code = f"{code}[{', '.join(items)}]"
        text = self.arranged(code, order)
        return replace(text, windows=s) if windows else text

    def joined(self, s: ir.Op) -> Text | None:
        """A sum of arrays that stand one behind the other along an axis, with 0 around each."""
        leaves: list[ir.Read] = []
        stack: list[ir.Scalar] = [s]
        while stack:
            x = stack.pop()
            if isinstance(x, ir.Op) and x.name == "+":
                stack += x.args
            elif isinstance(x, ir.Read) and x.outside is not None and self.done[x.outside].code == "0":
                leaves.append(x)
            else:
                return None
        pieces: list[tuple[Size, Size, Text]] = []
        along: set[int] = set()
        for x in leaves:
            sizes, start = list(self.sizes), None
            for place, size in zip(x.places, x.tensor.shape, strict=True):
                if not isinstance(place, ir.Affine) or place.mode != "inside" or place.divisor != 1:
                    return None
                if [c for _, c in place.terms] != [1]:
                    return None
                number = place.terms[0][0]
                if place.offset != 0 or sizes[number] != size:
                    if start is not None:
                        return None
                    start, sizes[number] = tidy(-place.offset), size
                    along.add(number)
            if start is None or len(along) != 1:
                return None
            places = tuple(ir.plain(p.terms[0][0]) for p in x.places if isinstance(p, ir.Affine))
            text = Body(self.lowering, tuple(sizes)).read(ir.read(x.tensor, places))
            pieces.append((start, sizes[min(along)], text))
        (number,) = along
        end: Size = 0
        parts: list[Text] = []
        while left := [piece for piece in pieces if piece[0] == end]:
            (_, size, text), *others = left
            end, parts = tidy(end + size), [*parts, text]
            if others or len(parts) > len(pieces) or text.axes != parts[0].axes:
                return None
        if end != self.sizes[number] or len(parts) != len(pieces) or number not in parts[0].axes:
            return None
        codes = ", ".join(x.code for x in parts)
        return Text(f"np.concatenate(({codes}), axis={parts[0].axes.index(number)})", parts[0].axes)

    def arranged(self, code: str, order: Sequence[int]) -> Text:
        """Bring axes into ascending order of their variables."""
        wanted = sorted(order)
        if list(order) == wanted:
            return Text(code, tuple(order))
        return Text(transposed(atom_code(code), order, wanted), tuple(wanted), ATOM, (code, tuple(order)))

    def taken(self, s: ir.Read, base: str) -> Text | None:
        """One place is data or counted otherwise, the others are plain: rows of the array are taken."""
        if s.outside is not None:
            return None
        whole = [
            isinstance(q, ir.Affine)
            and len(q.terms) == 1
            and q is ir.plain(n := q.terms[0][0])
            and self.sizes[n] == size
            for q, size in zip(s.places, s.tensor.shape, strict=True)
        ]
        if whole.count(False) != 1:
            return None
        axis = whole.index(False)
        place = s.places[axis]
        if isinstance(place, ir.At) or (isinstance(place, ir.Affine) and place.divisor != 1):
            return None
        index = self.position(place, s.tensor.shape[axis])
        order: list[int] = []
        for q in s.places:
            order += [q.terms[0][0]] if q is not place and isinstance(q, ir.Affine) else index.axes
        if len(set(order)) != len(order) or not index.axes:
            return None
        code = f"{base}[{index.code}]" if axis == 0 else f"np.take({base}, {index.code}, axis={axis})"
        return self.arranged(code, order)

    def counts(self, place: ir.Place, size: Size) -> bool:
        """Is a place a variable that runs over the whole axis?"""
        terms = place.terms if isinstance(place, ir.Affine) else ()
        return len(terms) == 1 and place is ir.plain(terms[0][0]) and self.sizes[terms[0][0]] == size

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
                text = Text(self.counted(number), (number,))
                if coefficient != 1:
                    text = Text(f"{atom(size_code(coefficient))} * {text.code}", text.axes, TIMES)
                parts.append(text)
            if isinstance(place.offset, int) and (place.offset != 0 or not parts):
                number_text = Text(str(abs(place.offset)), ())
                parts.append(number_text if place.offset >= 0 else number_text.negative)
            elif place.offset != 0:
                parts.append(Text(size_code(place.offset), (), PLUS))
            (text, *others), axes = self.align(parts)
            for other in others:
                text = self.infix("+", [text, other], axes)
            text = replace(text, axes=axes)
            if place.divisor != 1:
                text = Text(f"{text.at(POWER)} // {size_code(place.divisor)}", axes, TIMES)
        mode = "inside" if isinstance(place, ir.At) else place.mode
        if mode == "wrap":
            return Text(f"{text.at(POWER)} % {atom(size_code(size))}", text.axes, TIMES)
        if mode == "clamp":
            return Text(f"np.clip({text.code}, 0, {size_code(tidy(size - 1))})", text.axes)
        return text

    def gathered(self, s: ir.Read, base: str) -> Text:
        """The general read: positions for every axis."""
        low = self.lowering
        first = Text("0", ())  # of an axis of one entry
        pairs = zip(s.places, s.tensor.shape, strict=True)
        texts = [first if n == 1 and self.counts(q, n) else self.position(q, n) for q, n in pairs]
        if s.outside is not None:
            texts.append(self.done[s.outside])
        aligned, axes = self.align(texts)
        places = ", ".join(t.code for t in aligned[: len(s.places)])
        if s.outside is None:
            return Text(f"{base}[{places}]", axes)
        goods = []
        for q in s.places:
            if isinstance(q, ir.Affine) and q.divisor != 1:
                top = self.position(ir.affine(q.terms, q.offset), 1)
                lined = low.expand(top, axes)
                goods.append(f"({lined.at(POWER)} % {size_code(q.divisor)} == 0)")
        good = f", {' & '.join(goods)}" if goods else ""
        return Text(f"{low.helper('gather')}({base}, ({places},), {aligned[-1].code}{good})", axes)


def is_plain(s: ir.Scalar) -> bool:
    """Is a scalar a Python number in the module: known, a size, or the step of a loop?"""
    if isinstance(s, ir.Read):
        return isinstance(s.tensor, ir.Step) and s.tensor.kind == "number"
    return not isinstance(s, ir.Rand)
