"""Where an adjoint can be other than 0: the conditions of selects, carried over from one node to the node before.

    s = log(x);  y = s if x > 0 else 0      gives    ds = dy if x > 0 else 0      and    dx = ds / x,

which is 0 / 0 where x is 0. A branch that is not taken must contribute exactly 0, so ds is read as
`ds if x > 0 else 0` there: the quotient then sinks into the select.
"""

from __future__ import annotations

from dslc.autodiff import scalar as d
from dslc.ir import nodes as ir
from dslc.ir.rewrite import Change, Form, NotAffine, zero
from dslc.ops.table import RECORDS

#: operations whose derivatives are finite wherever their arguments are; products count apart
TAME = frozenset(name for name, r in RECORDS.items() if r.tame)


def guarded(node: ir.Comp | ir.Scatter, seed: ir.Read) -> ir.Scalar:
    """The cotangent of a node, with its condition made visible where a derivative in the node may be infinite."""
    if not may_be_infinite(node.body):
        return seed
    condition = _of_read(seed, 2)
    return seed if condition is None else d.choose(condition, seed, zero(seed.dtype))


def may_be_infinite(body: ir.Scalar, depth: int = 3) -> bool:
    """Can a derivative in this body be infinite, or a factor that it is multiplied with?"""
    multiplied = False
    factors: list[ir.Comp] = []
    for s in ir.scalars(body):
        match s:
            case ir.Op("/"):
                if not positive(s.args[1]):
                    return True
            case ir.Op("sqrt"):
                if not positive(s.args[0]):
                    return True
            case ir.Op("exp"):
                if not _shifted(s.args[0]):
                    return True
            case ir.Op("^"):
                if not isinstance(s.args[1], ir.Const) or s.args[1].value not in (1, 2, 3, 4):
                    return True
            case ir.Op():
                if s.name not in TAME:
                    return True
                multiplied |= s.name == "*"
            case ir.Read(ir.Comp() as tensor) if tensor.op is None:
                factors.append(tensor)
    return multiplied and depth > 0 and any(may_be_infinite(x.body, depth - 1) for x in factors)


def _shifted(s: ir.Scalar) -> bool:
    """Is the argument of an exponential a value minus the largest of its kind? Then the exponential is at most 1."""
    return (
        isinstance(s, ir.Op)
        and s.name == "-"
        and any(isinstance(x, ir.Op) and x.name == "stop_grad" for x in ir.scalars(s.args[1]))
    )


def positive(s: ir.Scalar, depth: int = 4) -> bool:
    """Is a scalar certainly larger than 0, whatever the data?"""
    match s:
        case ir.Const():
            return s.value > 0
        case ir.SizeOf():
            return True
        case ir.Op("+", (a, b)):
            return (positive(a, depth) and not_negative(b, depth)) or (not_negative(a, depth) and positive(b, depth))
        case ir.Op("*" | "/", (a, b)):
            return positive(a, depth) and positive(b, depth)
        case ir.Op("sqrt" | "cast" | "stop_grad", (a,)):
            return positive(a, depth)
        case ir.Read(ir.Comp(op=None) as tensor) if depth and s.outside is None:
            return positive(tensor.body, depth - 1)
    return False


def not_negative(s: ir.Scalar, depth: int = 4) -> bool:
    """Is a scalar certainly 0 or more?"""
    match s:
        case ir.Const():
            return s.value >= 0
        case ir.Op("*", (a, b)) if a is b:
            return True
        case ir.Op("^", (_, ir.Const() as power)) if power.value in (2, 4):
            return True
        case ir.Op("*" | "/" | "+", (a, b)):
            return not_negative(a, depth) and not_negative(b, depth)
        case ir.Op("exp" | "abs" | "relu" | "softplus" | "sigmoid"):
            return True
        case ir.Op("sqrt" | "cast" | "stop_grad", (a,)):
            return not_negative(a, depth)
        case ir.Read(ir.Comp() as tensor) if depth and tensor.op in (None, "sum", "max") and s.outside is None:
            return not_negative(tensor.body, depth - 1)
    return positive(s, depth)


def support(s: ir.Scalar, depth: int) -> ir.Scalar | None:
    """A condition outside of which a scalar is 0; None when none is known."""
    if isinstance(s, ir.Read):
        return _of_read(s, depth - 1) if depth else None
    if not isinstance(s, ir.Op):
        return None
    match s.name:
        case "select" if d.is_zero(s.args[2]):
            return _and(s.args[0], support(s.args[1], depth))
        case "select" if d.is_zero(s.args[1]):
            return _and(ir.op("not", (s.args[0],), "bool"), support(s.args[2], depth))
        case "neg" | "cast" | "/":
            return support(s.args[0], depth)
        case "*":
            return _and(support(s.args[0], depth), support(s.args[1], depth))
        case "+" | "-":
            p, q = (support(x, depth) for x in s.args)
            return None if p is None or q is None else p if p is q else ir.op("or", (p, q), "bool")
    return None


def _of_read(read: ir.Read, depth: int) -> ir.Scalar | None:
    """The support of the tensor that is read, in the variables of the reader."""
    node = read.tensor
    if not isinstance(node, ir.Comp) or node.op not in (None, "sum") or read.outside is not None:
        return None
    found = support(node.body, depth)
    if found is None or any(isinstance(x, ir.Var) and x.number >= len(node.shape) for x in ir.scalars(found)):
        return None
    forms: dict[int, Form] = {}
    for axis, place in enumerate(read.places):
        if isinstance(place, ir.Affine) and place.mode == "inside":
            forms[axis] = Form(place.terms, place.offset, place.divisor)
    try:
        return Change(forms).scalar(found)
    except (KeyError, NotAffine):
        return None


def _and(p: ir.Scalar | None, q: ir.Scalar | None) -> ir.Scalar | None:
    if p is None or q is None or p is q:
        return p or q
    return ir.op("and", (p, q), "bool")
