"""Is a value one of those that a reduction runs over?"""

from __future__ import annotations

from dslc.ir import nodes as ir
from dslc.ir.rewrite import NotAffine
from dslc.stabilise.matching import composed, inlined


def is_at(body: ir.Scalar, value: ir.Scalar, read: ir.Read, node: ir.Comp | ir.Scatter) -> bool:
    """Is `value` the body of the node, whose result is read here, for some value of its reduced variables?"""
    if isinstance(node, ir.Scatter):
        return _same_scatter(body, value, read, node)
    return Match(read.places).scalar(body, value)


def _same_scatter(body: ir.Scalar, value: ir.Scalar, read: ir.Read, node: ir.Scatter) -> bool:
    """A value goes to the place that is read if it is read where it goes."""
    match = Match(())
    if not match.scalar(body, value):
        return False
    return all(match.place(p, q) for p, q in zip(node.places, read.places, strict=True))


class Match:
    """One formula as an instance of another: variables of the pattern stand for places."""

    def __init__(self, places: tuple[ir.Place, ...]):
        self.bound: dict[int, ir.Place] = dict(enumerate(places))

    def scalar(self, pattern: ir.Scalar, value: ir.Scalar) -> bool:
        stack = [(pattern, value)]
        while stack:
            p, v = stack.pop()
            if isinstance(p, ir.Read) and not isinstance(v, ir.Read):
                return False
            if isinstance(v, ir.Read) and not self._readable(p, v):
                unfolded = inlined(v) if isinstance(v.tensor, ir.Comp) and v.tensor.op is None else None
                if unfolded is None or v.outside is not None:
                    return False
                v = unfolded
            match p, v:
                case ir.Var(), _:
                    if not self._variable(p.number, v):
                        return False
                case ir.Op(), ir.Op():
                    if p.name != v.name or len(p.args) != len(v.args) or p.dtype != v.dtype:
                        return False
                    stack += zip(p.args, v.args, strict=True)
                case ir.Read(), ir.Read():
                    if p.tensor is not v.tensor or (p.outside is None) != (v.outside is None):
                        return False
                    if not all(self.place(a, b) for a, b in zip(p.places, v.places, strict=True)):
                        return False
                    if p.outside is not None and v.outside is not None:
                        stack.append((p.outside, v.outside))
                case _:
                    if p is not v:
                        return False
        return True

    def _readable(self, p: ir.Scalar, v: ir.Read) -> bool:
        return isinstance(p, ir.Read) and p.tensor is v.tensor

    def _variable(self, number: int, value: ir.Scalar) -> bool:
        place: ir.Place = ir.plain(value.number) if isinstance(value, ir.Var) else ir.intern(ir.Data(value))
        return self._bind(number, place)

    def _bind(self, number: int, place: ir.Place) -> bool:
        return self.bound.setdefault(number, place) is place

    def place(self, pattern: ir.Place, place: ir.Place) -> bool:
        """Can the variables of one place be chosen so that it is the other?"""
        if isinstance(pattern, ir.Data) and isinstance(place, ir.Data):
            return pattern.mode == place.mode and self.scalar(pattern.value, place.value)
        if not isinstance(pattern, ir.Affine):
            return pattern is place
        if len(pattern.terms) == 1 and pattern is ir.plain(pattern.terms[0][0]):
            return self._bind(pattern.terms[0][0], place)
        if isinstance(place, ir.Affine):
            self._bind_by_coefficient(pattern, place)
        if any(n not in self.bound for n, _ in pattern.terms):
            return False
        try:
            return composed(pattern, self.bound) is place
        except NotAffine:
            return False

    def _bind_by_coefficient(self, pattern: ir.Affine, place: ir.Affine) -> None:
        """In 2 i + k, i and k stand for the variables with the factors 2 and 1, in their order."""
        known = {(m, c) for n, c in pattern.terms for m, _ in getattr(self.bound.get(n), "terms", ())}
        left = [term for term in place.terms if term not in known]
        for n, c in pattern.terms:
            if n not in self.bound:
                mine = next((term for term in left if term[1] == c), None)
                if mine is not None:
                    left.remove(mine)
                    self.bound[n] = ir.plain(mine[0])
