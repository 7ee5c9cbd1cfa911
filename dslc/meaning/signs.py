"""Signs of formulas that are certain, whatever the data: larger than 0, not less than 0, not more than 0 in an exp."""

from __future__ import annotations

from dslc.ir import nodes as ir
from dslc.ops.record import REAL
from dslc.ops.table import having

#: operations whose results are certainly positive, or at least not negative, for all numbers
POSITIVE = having(lambda r: r.gives != "bool" and r.range[0] > 0 and set(r.domain) == {REAL})
NOT_NEGATIVE = having(lambda r: r.gives != "bool" and r.range[0] >= 0 and set(r.domain) == {REAL})
#: operations that keep their argument on its side of 0
KEEPS_SIGN = having(lambda r: r.keeps_sign)


def positive(s: ir.Scalar, depth: int = 10) -> bool:
    """Is a scalar certainly larger than 0, whatever the data? Looks `depth` operations deep."""
    if depth == 0:
        return False
    match s:
        case ir.Const():
            return s.value > 0
        case ir.SizeOf():
            return True
        case ir.Op("+", (a, b)):
            below = depth - 1
            return (positive(a, below) and not_negative(b, below)) or (not_negative(a, below) and positive(b, below))
        case ir.Op("*" | "/", (a, b)):
            return positive(a, depth - 1) and positive(b, depth - 1)
        case ir.Op(name) if name in POSITIVE:
            return True
        case ir.Op(name, (a,)) if name in KEEPS_SIGN:
            return positive(a, depth - 1)
        case ir.Read(ir.Comp(op=None) as tensor) if s.outside is None:
            return positive(tensor.body, depth - 1)
    return False


def not_negative(s: ir.Scalar, depth: int = 10) -> bool:
    """Is a scalar certainly 0 or more?"""
    if depth == 0:
        return False
    match s:
        case ir.Const():
            return s.value >= 0
        case ir.Op("*", (a, b)) if a is b:
            return True
        case ir.Op("^", (_, ir.Const() as power)) if power.value in (2, 4):
            return True
        case ir.Op("*" | "/" | "+", (a, b)):
            return not_negative(a, depth - 1) and not_negative(b, depth - 1)
        case ir.Op(name) if name in NOT_NEGATIVE:
            return True
        case ir.Op(name, (a,)) if name in KEEPS_SIGN:
            return not_negative(a, depth - 1)
        case ir.Read(ir.Comp() as tensor) if tensor.op in (None, "sum", "max") and s.outside is None:
            return not_negative(tensor.body, depth - 1)
    return positive(s, depth - 1)


def shifted(s: ir.Scalar) -> bool:
    """Is the argument of an exponential a value minus the largest of its kind? Then the exponential is at most 1."""
    return (
        isinstance(s, ir.Op)
        and s.name == "-"
        and any(isinstance(x, ir.Op) and x.name == "stop_grad" for x in ir.scalars(s.args[1]))
    )
