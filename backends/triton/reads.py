"""Reads of tensors: where an element stands in memory, which lanes may touch it, what stands outside."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dslc.backends.record import CannotLower
from dslc.backends.triton.frame import Frame
from dslc.backends.triton.text import (
    ATOM,
    BIT,
    COMPARE,
    HALF,
    PLUS,
    TIMES,
    UNARY,
    Text,
    aligned,
    atom,
    expanded,
    is_float,
    name_of,
)  # fmt: skip
from dslc.backends.triton.tiles import kept_in

from dslc.ir import nodes as ir
from dslc.sizes import Size, tidy


class Reads(Frame):
    """A kernel's lines, with loads of what the IR reads."""

    def read(self, s: ir.Read) -> Text:
        tensor = s.tensor
        if tensor in self.values:
            return self.values[tensor]
        if tensor in self.tiles:
            self.values[tensor] = self.tiles[tensor]()
            return self.values[tensor]
        if tensor in self.formulas.lazy:
            return self.scalar(self.formulas.lazy[tensor])
        if isinstance(tensor, ir.Step) and tensor.kind == "number":
            return Text(self.step(tensor), self.axes_of_step(tensor), ATOM, self.step_depth(tensor))
        return self.from_memory(s)

    def from_memory(self, s: ir.Read, as_kept: bool = False) -> Text:
        """The load of a read, in the type that kernels compute in or in the one that the tensor is kept in."""
        tensor = s.tensor
        self.guarded = s.outside is not None
        skip = self.layers.depths.get(tensor, 0)
        if skip:
            self.layers.steps[tensor] = tuple(q.step.scan for q in s.places[:skip] if isinstance(q, ir.At))
        offset, tests = self.offset(s.places[skip:], tensor.shape[skip:])
        self.guarded = False
        return self.load(tensor, offset, tests, s, as_kept)

    def loaded_as(self, s: ir.Scalar, half: str) -> Text | None:
        """A read as it is kept, where that is in the given type of 16 bits and nothing is done to it."""
        if not isinstance(s, ir.Read) or self.kept(s.tensor) != half or s.tensor.dtype != half:
            return None
        if s.tensor in self.values or s.tensor in self.tiles or s.tensor in self.formulas.lazy:
            return None
        if s.outside is not None and not self.is_zero(s.outside):
            return None
        known = self.recall(("kept", s))
        if known is None:
            known = self.from_memory(s, as_kept=True)
            self.scopes[known.depth].memo[("kept", s)] = known
        return known

    def upcast(self, tensor: ir.Node) -> str:
        """What follows a load: floats of 16 bits are computed with in float32."""
        return f".to({self.float_type})" if self.kept(tensor) in HALF else ""

    def kept(self, tensor: ir.Node) -> str:
        return kept_in(tensor, self.dtype)

    def load(self, tensor: ir.Tensor, offset: Text, tests: list[Text], s: ir.Read, as_kept: bool = False) -> Text:
        place = self.pointer(tensor) + ("" if offset.code == "0" else f" + {offset.at(PLUS)}")
        masks = [m for a in offset.axes if (m := self.mask(a)) is not None] + tests
        other = "False" if tensor.dtype == "bool" else "0.0" if is_float(tensor.dtype) else "0"
        depth = max([offset.depth, *(t.depth for t in masks)])
        axes = offset.axes
        if masks:
            parts, axes, _ = aligned([Text("", offset.axes), *masks])
            guard = conjunction(parts[1:])
            code = f"tl.load({place}, mask={guard}, other={other})"
            if axes != offset.axes:
                raise CannotLower("a read whose condition has more axes than its place", self.node)
        else:
            code = f"tl.load({place})"
        if not as_kept:
            code += self.upcast(tensor)
            if tensor.dtype in HALF and self.kept(tensor) != tensor.dtype:
                self.helpers.add(f"as_{tensor.dtype}")
                code = f"as_{tensor.dtype}({code})"
        loaded = self.named(name_of(tensor), Text(code, axes, ATOM, depth))
        if s.outside is None or not tests or self.is_zero(s.outside):
            return loaded
        outside = self.converted(s.outside, s.dtype)
        parts, axes, depth = aligned([*tests, loaded, outside])
        test = conjunction(parts[: len(tests)])
        return Text(f"tl.where({test}, {parts[-2].code}, {parts[-1].code})", axes, ATOM, depth)

    def zero_outside(self, s: ir.Scalar) -> bool:
        """Is a scalar a load, so that it is 0 in the lanes outside the tile? Values of the kernel itself are not."""
        if not isinstance(s, ir.Read) or (isinstance(s.tensor, ir.Step) and s.tensor.kind == "number"):
            return False
        inner = s.tensor in self.values or s.tensor in self.tiles or s.tensor in self.formulas.lazy
        return not inner and (s.outside is None or self.is_zero(s.outside))

    def is_zero(self, s: ir.Scalar) -> bool:
        while isinstance(s, ir.Op) and s.name == "cast":
            s = s.args[0]
        return isinstance(s, ir.Const) and s.value == 0

    def mask(self, number: int) -> Text | None:
        """Which lanes of an axis are inside it; None where all are."""
        axis = next(a for a in self.axes if a.number == number and not a.single)
        if not axis.ragged:
            return None
        key = ("mask", axis.name)
        known = self.recall(key)
        if known is None:
            wish = {"rows": "row_mask", "columns": "column_mask", "i": "mask"}.get(axis.name, f"{axis.name}_mask")
            known = self.named(wish, self.on(axis, f"{axis.name} < {self.size(axis.extent)}", COMPARE))
            self.scopes[axis.depth].memo[key] = known
        return known

    def offset(self, places: Sequence[ir.Place], shape: Sequence[Size]) -> tuple[Text, list[Text]]:
        """Where an element stands in memory, row-major, and tests that it is inside."""
        linear: dict[int, Size] = {}
        constant: Size = 0
        extra: list[Text] = []
        tests: list[Text] = []
        stride: Size = 1
        for place, size in reversed(list(zip(places, shape, strict=True))):
            if isinstance(place, ir.Affine) and place.mode == "inside" and place.divisor == 1:
                for number, coefficient in place.terms:
                    linear[number] = tidy(linear.get(number, 0) + coefficient * stride)
                constant = tidy(constant + place.offset * stride)
                below, beyond = self.may_leave(place, size)
                if below or beyond:
                    tests += self.inside(self.position(place), size, below, beyond)
            else:
                position, good = self.placed(place, size)
                tests += good
                factor = "" if stride == 1 else f" * {atom(self.size(stride))}"
                code = f"{position.at(UNARY if factor else PLUS)}{factor}"
                extra.append(Text(code, position.axes, TIMES if factor else position.level, position.depth))
            stride = tidy(stride * size)
        parts = [*self.terms(linear), *extra]
        if constant != 0 or not parts:
            parts.append(Text(self.size(constant), (), PLUS))
        return total(parts), tests

    def may_leave(self, place: ir.Affine, size: Size) -> tuple[bool, bool]:
        """Can a place be below 0, or beyond the end? Only reads with an `else` can: the rest was proved inside."""
        if not self.guarded:
            return False, False
        least: Size = place.offset
        most: Size = place.offset
        for number, coefficient in place.terms:
            reach = tidy(coefficient * (self.variable_size(number) - 1))
            negative = (
                getattr(coefficient, "is_negative", None) if not isinstance(coefficient, int) else coefficient < 0
            )
            if negative:
                least = tidy(least + reach)
            else:
                most = tidy(most + reach)
        gap = tidy(size - 1 - most)
        return not surely_at_least_zero(least), not surely_at_least_zero(gap)

    def variable_size(self, number: int) -> Size:
        axis = self.axis_of(number)
        return axis.sizes[axis.variables.index(number)]

    def inside(self, position: Text, size: Size, below: bool = True, beyond: bool = True) -> list[Text]:
        if not re.fullmatch(r"\w+(\[[\w:, ]+\])?", position.code):
            position = self.named("at", position)
        tests = ([">= 0"] if below else []) + ([f"< {self.size(size)}"] if beyond else [])
        return [Text(f"{position.at(BIT)} {test}", position.axes, COMPARE, position.depth) for test in tests]

    def position(self, place: ir.Affine) -> Text:
        """An affine place before it is divided, as a number."""
        parts = []
        for number, coefficient in place.terms:
            parts.append(scaled(self.variable(number), coefficient, self))
        if place.offset != 0 or not parts:
            parts.append(Text(self.size(place.offset), (), PLUS))
        return total(parts)

    def placed(self, place: ir.Place, size: Size) -> tuple[Text, list[Text]]:
        """A place that is not simply affine, and tests that it is inside."""
        tests: list[Text] = []
        if isinstance(place, ir.At):
            step = self.step(place.step)
            code = step if place.offset == 0 else f"{step} + {self.size(place.offset)}".replace("+ -", "- ")
            level = ATOM if place.offset == 0 else PLUS
            at = Text(code, self.axes_of_step(place.step), level, self.step_depth(place.step))
            return at, self.inside(at, size) if self.guarded else tests
        if isinstance(place, ir.Data):
            at = self.scalar(place.value)
            sure = never_negative(place.value)
        else:
            at, sure = self.position(place), False
            if place.divisor != 1:
                at = self.named("at", at)
                divisor = atom(self.size(place.divisor))
                tests.append(Text(f"{at.code} % {divisor} == 0", at.axes, COMPARE, at.depth))
                if self.guarded:
                    tests.append(Text(f"{at.code} >= 0", at.axes, COMPARE, at.depth))
                at = Text(f"{at.code} // {divisor}", at.axes, TIMES, at.depth)
                if self.guarded:
                    at = self.named("at", at)
                    tests.append(Text(f"{at.code} < {self.size(size)}", at.axes, COMPARE, at.depth))
                return at, tests
        top = self.size(size)
        if place.mode == "wrap":
            if sure:
                return Text(f"{at.at(UNARY)} % {atom(top)}", at.axes, TIMES, at.depth), tests
            at = Text(f"({at.at(UNARY)} % {atom(top)} + {top}) % {atom(top)}", at.axes, TIMES, at.depth)
            return at, tests
        if place.mode == "clamp":
            return Text(f"tl.minimum(tl.maximum({at.code}, 0), {atom(top)} - 1)", at.axes, ATOM, at.depth), tests
        if self.guarded:
            tests += self.inside(at, size)
        return at, tests

    def terms(self, linear: dict[int, Size]) -> list[Text]:
        """The sum of stride * variable, with variables that are neighbours in memory taken together."""
        parts: list[Text] = []
        for axis in self.axes:
            last = len(axis.variables) - 1
            while last >= 0:
                coefficient = linear.get(axis.variables[last], 0)
                first = last
                if coefficient != 0 and axis.name != "0":
                    reach = coefficient
                    while first > 0:
                        reach = tidy(reach * axis.sizes[first])
                        if linear.get(axis.variables[first - 1], 0) != reach:
                            break
                        first -= 1
                    parts.append(scaled(self.run(axis, first, last), coefficient, self))
                last = first - 1
        return sorted(parts, key=lambda t: t.axes)


def conjunction(tests: Sequence[Text]) -> str:
    """All tests at once; those on single numbers stand around the others, as Triton's interpreter cannot join these."""
    blocks = [t for t in tests if t.axes]
    numbers = [t for t in tests if not t.axes]
    if not blocks:
        *numbers, last = numbers
        code = last.code
    else:
        code = blocks[0].code if len(blocks) == 1 else " & ".join(t.at(BIT + 1) for t in blocks)
    for test in numbers:
        code = f"tl.where({test.code}, {code}, False)"
    return code


def scaled(text: Text, coefficient: Size, body: Frame) -> Text:
    if coefficient == 1:
        return text
    if coefficient == -1:
        return Text(f"-{text.at(UNARY)}", text.axes, UNARY, text.depth)
    return Text(f"{text.at(TIMES)} * {atom(body.size(coefficient))}", text.axes, TIMES, text.depth)


def total(parts: list[Text]) -> Text:
    lined, axes, depth = aligned(parts)
    if len(lined) == 1:
        return Text(lined[0].code, axes, lined[0].level, depth)
    # a row of a tile is indexed before it is scaled, so that the longest part of the sum stays one-dimensional
    lined = [outward(p, axes) for p in parts]
    code = lined[0].at(PLUS)
    for p in lined[1:]:
        code += f" - {p.code[1:]}" if p.code.startswith("-") and p.level >= PLUS else f" + {p.at(PLUS)}"
    return Text(code, axes, PLUS, depth)


def outward(text: Text, axes: tuple[int, ...]) -> Text:
    """`rows * 64` over a tile as `rows[:, None] * 64`."""
    simple = re.fullmatch(r"(\w+) \* (\w+)", text.code)
    if simple and text.axes and text.axes != axes:
        return Text(f"{expanded(Text(simple[1], text.axes), axes).code} * {simple[2]}", text.axes, TIMES, text.depth)
    return expanded(text, axes)


def surely_at_least_zero(size: Size) -> bool:
    if isinstance(size, int):
        return size >= 0
    return bool(size.is_nonnegative)


def never_negative(s: ir.Scalar) -> bool:
    """Variables, sizes, sums and products of them."""
    match s:
        case ir.Var():
            return True
        case ir.SizeOf():
            return surely_at_least_zero(s.size)
        case ir.Const():
            return s.value >= 0
        case ir.Op() if s.name in ("+", "*", "//", "%", "min", "max"):
            return all(never_negative(a) for a in s.args)
    return False
