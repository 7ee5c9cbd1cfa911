"""The inside of a kernel: scalars of the IR as lines over tiles, values named once."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dslc.backends.record import CannotLower
from dslc.backends.triton import scalars as ops
from dslc.backends.triton.frame import Axis, bare
from dslc.backends.triton.reads import Reads, conjunction, never_negative
from dslc.backends.triton.text import (
    ATOM,
    BIT,
    COMPARE,
    HALF,
    INTEGERS,
    PLUS,
    REDUCED,
    TIMES,
    UNARY,
    Text,
    aligned,
    atom,
    is_float,
    name_of,
)  # fmt: skip

from dslc.ir import nodes as ir
from dslc.ops.table import RECORDS
from dslc.sizes import tidy

__all__ = ["Axis", "Body", "conjunction"]

#: an expression longer than this gets a name
WIDE = 70


class Body(Reads):
    """Lines of one kernel, and what is known at this point of it."""

    def count(self, bodies: Sequence[ir.Scalar]) -> None:
        """Count how often each scalar is used, to name those that are used twice."""
        seen: set[ir.Scalar] = set()
        for body in bodies:
            self.formulas.uses[body] = self.formulas.uses.get(body, 0) + 1
            for s in ir.scalars(body):
                if s not in seen:
                    seen.add(s)
                    for x in ir.operands(s):
                        self.formulas.uses[x] = self.formulas.uses.get(x, 0) + 1

    def look(self, s: ir.Scalar) -> Text | None:
        for table in (x.done for x in reversed(self.scopes)):
            if s in table:
                return table[s]
        return None

    def scalar(self, root: ir.Scalar) -> Text:
        if self.look(root) is None:
            for s in ir.scalars(root):
                if self.look(s) is None:
                    text = self.one(s)
                    if isinstance(s, ir.Op) and self.worth_a_name(s, text):
                        text = self.named(self.wish(s), text)
                    self.scopes[text.depth].done[s] = text
        found = self.look(root)
        assert found is not None
        return found

    def worth_a_name(self, s: ir.Op, text: Text) -> bool:
        if re.fullmatch(r"[\w.\-\"()]+", text.code) and "(" not in text.code.replace('float("', ""):
            return False
        if s.name in ("stop_grad",):
            return False
        return self.formulas.uses.get(s, 0) > 1 or len(text.code) > WIDE

    def wish(self, s: ir.Op) -> str:
        own = self.formulas.wishes.get(s)
        if own is not None and own not in self.taken:
            return own
        words = {
            "+": "total",
            "-": "gap",
            "*": "product",
            "/": "ratio",
            "select": "chosen",
            "cast": "number",
            "^": "power",
        }
        base = words.get(s.name, s.name if s.name.isalpha() else "test")
        known = (name_of(x.tensor, "") for x in ir.scalars(s) if isinstance(x, ir.Read))
        of = next((x.removesuffix(f"_{REDUCED['sum']}") for x in known if x), "")
        return f"{base}_{of}" if of else base

    def one(self, s: ir.Scalar) -> Text:
        match s:
            case ir.Const():
                code, level = ops.constant(s.value, is_float(s.dtype))
                return Text(code, (), level)
            case ir.SizeOf():
                return self.size_number(s)
            case ir.Var():
                return self.variable(s.number)
            case ir.Rand():
                return self.rand(s)
            case ir.Read():
                return self.read(s)
            case ir.Op():
                return self.op(s)

    def size_number(self, s: ir.SizeOf) -> Text:
        if isinstance(s.size, int):
            code, level = ops.constant(s.size, is_float(s.dtype))
            return Text(code, (), level)
        if not is_float(s.dtype):
            code = self.size(s.size)
            return Text(code, (), ATOM if re.fullmatch(r"\w+", code) else PLUS)
        top, bottom = s.size.as_numer_denom()
        code = f"tl.cast({self.size(tidy(top))}, {self.float_type})"
        if bottom == 1:
            return Text(code)
        under = f"tl.cast({self.size(tidy(bottom))}, {self.float_type})"
        return Text(f"{code} / {under}", (), TIMES)

    def converted(self, s: ir.Scalar, dtype: str) -> Text:
        """An operand in the kind of number that an operation works in."""
        text = self.scalar(s)
        if is_float(dtype) and not is_float(s.dtype):
            if isinstance(s, ir.Const):
                code, level = ops.constant(s.value, True)
                return Text(code, (), level)
            if isinstance(s, ir.SizeOf):
                return self.size_number(ir.intern(ir.SizeOf(s.size, "float")))
            return self.cast(text, self.type_of(dtype))
        if dtype == "f64" not in (s.dtype, self.dtype) and is_float(s.dtype) and not isinstance(s, ir.Const):
            return self.cast(text, "tl.float64")
        if dtype in INTEGERS and s.dtype == "bool":
            return self.cast(text, "tl.int64")
        return text

    def cast(self, text: Text, type_: str) -> Text:
        if text.axes:
            return Text(f"{text.at(ATOM)}.to({type_})", text.axes, ATOM, text.depth)
        return Text(f"tl.cast({text.code}, {type_})", (), ATOM, text.depth)

    def op(self, s: ir.Op) -> Text:
        fold = ops.folded(s, [self.formulas.constants.get(a, a) for a in s.args])
        if fold is not None:
            self.formulas.constants[s] = fold
            code, level = ops.constant(fold.value, is_float(s.dtype))
            return Text(code, (), level)
        kind = s.dtype
        if s.name in ops.COMPARISONS:
            kind = "float" if any(is_float(a.dtype) for a in s.args) else "i64"
        match s.name:
            case "select":
                return self.select(s)
            case "and" | "or" | "not":
                return self.logic(s)
            case "cast":
                return self.cast_op(s)
            case "stop_grad":
                return self.scalar(s.args[0])
            case "isnan" | "isinf" | "isfinite":
                kind = "float"
        parts, axes, depth = aligned([self.converted(a, kind) for a in s.args])

        def text(code: str, level: int = ATOM) -> Text:
            return Text(code, axes, level, depth)

        if s.name in ops.INFIX:
            symbol, level, right = ops.INFIX[s.name]
            left = BIT if level == COMPARE else level
            if symbol == "+" and parts[1].level == UNARY and parts[1].code.startswith("-"):
                return text(f"{parts[0].at(left)} - {parts[1].code[1:]}", level)
            return text(f"{parts[0].at(left)} {symbol} {parts[1].at(right)}", level)
        x = parts[0]
        match s.name:
            case "neg":
                return text(f"-{x.at(UNARY)}", UNARY)
            case "^" | "pow":
                return self.power(s, parts, axes, depth)
            case "//" | "%":
                return self.floor(s, parts, axes, depth)
            case "floor" | "ceil" | "round" | "trunc" if not is_float(kind):
                return x
            case "relu" | "max" | "min" | "clip" if not is_float(kind):
                return text(self.whole_numbers(s.name, [p.code for p in parts]))
        record = RECORDS.get(s.name)
        if record is None:
            raise CannotLower(f"`{s.name}`", self.node)
        return text(self.filled(record.triton, s, parts))

    def filled(self, template: str, s: ir.Op, parts: list[Text]) -> str:
        """The text of an operation on its arguments."""
        used = {name for name in re.findall(r"(?<![\w.])(\w+)\(", template) if name in ops.DEVICE}
        self.helpers |= used
        if used:
            return template.format(*self.blocks(s, parts))
        if ops.call(template):
            return template.format(*(self.exact(p, s.dtype).code for p in parts))
        twice = [template.count(f"{{{k}}}") > 1 for k in range(len(parts))]
        parts = [
            self.named("x", p) if many and not re.fullmatch(r"[\w.]+", p.code) else p
            for p, many in zip(parts, twice, strict=True)
        ]
        return template.format(*(p.at(ATOM) for p in parts))

    def whole_numbers(self, name: str, args: list[str]) -> str:
        """Minimum and maximum of whole numbers, which are never NaN."""
        match name:
            case "relu":
                return f"tl.maximum({args[0]}, 0)"
            case "clip":
                return f"tl.minimum(tl.maximum({args[0]}, {args[1]}), {args[2]})"
        function = "tl.maximum" if name == "max" else "tl.minimum"
        code = args[0]
        for other in args[1:]:
            code = f"{function}({code}, {other})"
        return code

    def blocks(self, s: ir.Op, parts: Sequence[Text]) -> list[str]:
        """Arguments of a function of the module: numbers become tensors."""
        return [
            f"tl.full((), {p.code}, {self.float_of(s)})" if isinstance(a, ir.Const) else self.block(p, s.dtype).code
            for p, a in zip(parts, s.args, strict=True)
        ]

    def pairwise(self, name: str, a: str, b: str, kind: str) -> str:
        keep = ", propagate_nan=tl.PropagateNan.ALL" if is_float(kind) else ""
        return f"tl.{'maximum' if name == 'max' else 'minimum'}({a}, {b}{keep})"

    def select(self, s: ir.Op) -> Text:
        yes, no = (self.exact(self.converted(a, s.dtype), s.dtype) for a in s.args[1:])
        parts, axes, depth = aligned([self.scalar(s.args[0]), yes, no])
        return Text(f"tl.where({', '.join(bare(p.code) for p in parts)})", axes, ATOM, depth)

    def logic(self, s: ir.Op) -> Text:
        parts, axes, depth = aligned([self.scalar(a) for a in s.args])
        if s.name == "not":
            return Text(f"~{parts[0].at(ATOM)}", axes, UNARY, depth)
        if s.name == "and":
            code = conjunction(parts)
            return Text(code, axes, ATOM if code.startswith("tl.where") else BIT, depth)
        blocks = [p for p in parts if p.axes] or parts[-1:]
        code = " | ".join(p.at(BIT + 1) for p in blocks)
        for number in (p for p in parts if p not in blocks):
            code = f"tl.where({number.code}, True, {code})"
        return Text(code, axes, ATOM if code.startswith("tl.where") else BIT, depth)

    def cast_op(self, s: ir.Op) -> Text:
        x, source = self.scalar(s.args[0]), s.args[0].dtype
        if s.dtype == "bool":
            zero = "0.0" if is_float(source) else "0"
            return x if source == "bool" else Text(f"{x.at(BIT)} != {zero}", x.axes, COMPARE, x.depth)
        if s.dtype in INTEGERS:
            return x if source in INTEGERS else self.cast(x, "tl.int64")
        if s.dtype in HALF:
            self.helpers.add(f"as_{s.dtype}")
            (value,) = self.blocks(s, [self.converted(s.args[0], "float")])
            return Text(f"as_{s.dtype}({value})", x.axes, ATOM, x.depth)
        if s.dtype == "f64" and self.dtype != "f64":
            return self.cast(self.converted(s.args[0], "float"), "tl.float64")
        if source == "f64" and self.dtype != "f64":
            return self.cast(x, self.float_type)
        return self.converted(s.args[0], s.dtype)

    def power(self, s: ir.Op, parts: list[Text], axes: tuple[int, ...], depth: int) -> Text:
        """Small whole exponents by multiplication."""
        exponent = s.args[1]
        x = parts[0]
        if isinstance(exponent, ir.Const) and exponent.value == int(exponent.value) and 1 <= exponent.value <= 4:
            if not re.fullmatch(r"\w+", x.code) and exponent.value > 1:
                x = self.named("base", x)
            return Text(" * ".join([x.at(UNARY)] * int(exponent.value)), axes, TIMES, depth)
        if not is_float(s.dtype):
            raise CannotLower("a power of whole numbers that is not small and fixed", self.node)
        self.helpers.add("power")
        return Text(f"power({', '.join(self.blocks(s, parts))})", axes, ATOM, depth)

    def floor(self, s: ir.Op, parts: list[Text], axes: tuple[int, ...], depth: int) -> Text:
        """Quotients round down; Triton's own round to zero, which is the same for what is never negative."""
        a, b = parts
        if is_float(s.dtype):
            quotient = f"tl.floor({a.at(TIMES)} / {b.at(UNARY)})"
            if s.name == "//":
                return Text(quotient, axes, ATOM, depth)
            return Text(f"{a.at(PLUS)} - {b.at(UNARY)} * {quotient}", axes, PLUS, depth)
        if all(never_negative(x) for x in s.args):
            return Text(f"{a.at(TIMES)} {s.name} {b.at(UNARY)}", axes, TIMES, depth)
        if s.name == "%":
            left, right = a.at(UNARY), b.at(UNARY)
            return Text(f"({left} % {right} + {right}) % {right}", axes, TIMES, depth)
        left, right = a.at(UNARY), b.at(UNARY)
        return Text(f"({left} - ({left} % {right} + {right}) % {right}) // {right}", axes, TIMES, depth)

    def rand(self, s: ir.Rand) -> Text:
        number: Text | None = None
        for place, size in zip(s.places, s.sizes, strict=True):
            here = self.scalar(place)
            if number is None:
                number = here
            else:
                parts, axes, depth = aligned([number, here])
                code = f"{parts[0].at(UNARY) if parts[0].level < UNARY else parts[0].code} * {atom(self.size(size))}"
                number = Text(f"{code} + {parts[1].at(PLUS)}", axes, PLUS, depth)
        element = number or Text("0")
        if not element.axes:
            element = Text(f"tl.full((), 0, tl.int64) + {element.at(PLUS)}", (), PLUS, element.depth)
        self.random = True
        self.helpers.add("draw")
        text = Text(f"draw(seed, {s.site}, {element.code}, {s.lane})", element.axes, ATOM, element.depth)
        if self.dtype == "f64":
            text = self.cast(text, self.float_type)
        return self.named("uniform", text)
