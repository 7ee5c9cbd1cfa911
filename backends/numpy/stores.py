"""Formulas computed where their result lies: one operation after the other on the memory of the result.

dense_y = np.matmul(x, dense_W, out=space("dense_y", N, 512))
dense_y += dense_b
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from dslc.backends.numpy.body import Body
from dslc.backends.numpy.operations import FUNCTIONS
from dslc.backends.numpy.text import Extent, MatrixProduct, Text

from dslc.ir import nodes as ir
from dslc.ops.dtypes import is_float
from dslc.passes.products import variables

#: operations that take a place for their result: the function of NumPy, and the sign that does it in place
UFUNCS: dict[str, tuple[str, str]] = {
    "+": ("np.add", "+="), "-": ("np.subtract", "-="), "*": ("np.multiply", "*="), "/": ("np.divide", "/="),
    "neg": ("np.negative", ""), "relu": ("np.maximum", ""), "gelu": ("gelu", ""),
    **{name: (text, "") for name, text in FUNCTIONS.items() if text.startswith("np.") and text != "np.where"},
}  # fmt: skip

#: what an operation becomes when its second operand is written with the other sign
OPPOSITE = {"+": "-", "-": "+"}


@dataclass
class Store(Body):
    """A formula that is written to a given place."""

    uses: dict[ir.Scalar, int] = field(default_factory=dict)
    #: may the value at the place have its axes in another order?
    views: bool = True

    def into(
        self, root: ir.Scalar, name: str, place: Callable[[Sequence[Extent]], str], target: ir.Tensor | None = None
    ) -> list[str] | None:
        """The lines that compute a formula and call it by a name; None when it is none of these.

        `place` writes the memory of the result under a shape: that of the tensor `target`, if one is given.
        """
        spine = self.spine(root) if target is None else self.after(self.spine(root), target)
        if not spine:
            return None
        last = spine.pop()
        if isinstance(last, ir.Op):
            lines = [f"{name} = {self.first(last, place(self.sizes))}"]
        else:
            product = self.done[last].product
            assert product is not None
            lines = [f"{name} = {product.text(place(product.shape))}"]
        for s in reversed(spine):
            assert isinstance(s, ir.Op)
            lines.append(self.in_place(s, last, name))
            last = s
        return lines

    def last(self, root: ir.Scalar, place: str) -> str | None:
        """The line that computes a formula with the result of its last operation at a place; None if it cannot."""
        self.count(root)
        return self.first(root, place) if isinstance(root, ir.Op) and self.stored(root) else None

    def over(self, root: ir.Scalar, target: ir.Tensor, name: str) -> list[str] | None:
        """The lines that put a formula in the place of an argument that it reads; None when it is none of these."""
        spine = self.after(self.spine(root), target)
        if not spine or not isinstance(spine[-1], ir.Op):
            return None
        last = spine.pop()
        assert isinstance(last, ir.Op)
        own = next((x for x in last.args if isinstance(x, ir.Read) and x.tensor is target), None)
        lines = [self.in_place(last, own, name) if own is not None else self.first(last, name)]
        for s in reversed(spine):
            assert isinstance(s, ir.Op)
            lines.append(self.in_place(s, last, name))
            last = s
        return lines

    def after(self, spine: list[ir.Scalar], target: ir.Tensor) -> list[ir.Scalar]:
        """The operations that can run where a tensor lies: the first of them is the last to read it."""
        while len(spine) > 1:
            rest = [x for a, b in pairwise(spine) for x in ir.operands(a) if x is not b]
            if not any(self.reads(s, target) for x in rest for s in ir.scalars(x)):
                break
            spine.pop()
        return spine

    def reads(self, s: ir.Scalar, target: ir.Tensor) -> bool:
        """Does a scalar read a tensor, itself or in a part of the formula that has no line of its own?"""
        if not isinstance(s, ir.Read):
            return False
        low = self.lowering
        return s.tensor is target or (low.inlined(s.tensor) and target in low.memory.needs(s.tensor))

    def first(self, s: ir.Op, place: str) -> str:
        if s.name in OPPOSITE:
            (first, second), everything = (self.scalar(x, self.uses) for x in s.args), tuple(range(len(self.sizes)))
            if second.positive is None and s.name == "+":
                first, second = second, first
            if second.positive is not None:
                texts = (self.lowering.expand(t, everything).code for t in (first, second.positive))
                return f"{self.function(OPPOSITE[s.name])}({', '.join(texts)}, out={place})"
        return f"{self.function(s.name)}({self.arguments(s)}, out={place})"

    def function(self, name: str) -> str:
        text = UFUNCS[name][0]
        return text if text.startswith("np.") else self.lowering.helper(text)

    def spine(self, root: ir.Scalar) -> list[ir.Scalar]:
        """Operations that can run one after the other at one place, the last one first; none if not even the last."""
        self.count(root)
        if not self.stored(root):
            return []
        found = [root]
        while isinstance(found[-1], ir.Op):
            below = next((x for x in found[-1].args if self.uses[x] == 1 and self.stored(x)), None)
            if below is None:
                break
            found.append(below)
        return found

    def count(self, root: ir.Scalar) -> None:
        """How often each part of a formula is used."""
        for s in ir.scalars(root):
            for x in ir.operands(s):
                self.uses[x] = self.uses.get(x, 0) + 1

    def stored(self, s: ir.Scalar) -> bool:
        """Has a value all axes of the result, and can it be computed at a place?"""
        if not is_float(s.dtype) or len(variables(s)) != len(self.sizes):
            return False
        if isinstance(s, ir.Read):
            product = self.contained_product(s)
            return product is not None and (self.views or not product.views)
        low = self.lowering
        return isinstance(s, ir.Op) and s.name in UFUNCS and s not in low.common and self.key(s) not in low.shared

    def contained_product(self, s: ir.Read) -> MatrixProduct | None:
        node = s.tensor
        if not isinstance(node, ir.Comp) or node.op != "sum" or node in self.lowering.names:
            return None
        text = self.scalar(s, self.uses)
        return text.product if len(text.axes) == len(self.sizes) else None

    def arguments(self, s: ir.Op, known: ir.Scalar | None = None, name: str = "") -> str:
        """The arguments of an operation; that which lies at the place already goes by its name."""
        everything = tuple(range(len(self.sizes)))
        texts = [Text(name, everything) if x is known else self.scalar(x, self.uses) for x in s.args]
        codes = [self.lowering.expand(t, everything).code for t in texts]
        return ", ".join([*codes, "0"] if s.name == "relu" else codes)

    def in_place(self, s: ir.Op, known: ir.Scalar, name: str) -> str:
        sign = UFUNCS[s.name][1]
        if sign and (s.args[0] is known or s.name in ("+", "*")):
            other = s.args[1] if s.args[0] is known else s.args[0]
            text = self.scalar(other, self.uses)
            if s.name in OPPOSITE and text.positive is not None:
                sign, text = UFUNCS[OPPOSITE[s.name]][1], text.positive
            return f"{name} {sign} {self.lowering.expand(text, tuple(range(len(self.sizes)))).code}"
        return f"{self.function(s.name)}({self.arguments(s, known, name)}, out={name})"
