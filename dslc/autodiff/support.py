"""Where an adjoint can be other than 0: the conditions of selects, carried over from one node to the node before.

    s = log(x);  y = s if x > 0 else 0      gives    ds = dy if x > 0 else 0      and    dx = ds / x,

which is 0 / 0 where x is 0. A branch that is not taken must contribute exactly 0, so ds is read as
`ds if x > 0 else 0` there: the quotient then sinks into the select.
"""

from __future__ import annotations

from dslc.autodiff import scalar as d
from dslc.ir import nodes as ir
from dslc.ir.rewrite import Change, Form, NotAffine, zero
from dslc.meaning.signs import positive, shifted
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
                if not shifted(s.args[0]):
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


#: what is known about scalars already, by scalar and depth
Known = dict[tuple[ir.Scalar, int], ir.Scalar | None]


def support(root: ir.Scalar, depth: int, known: Known | None = None) -> ir.Scalar | None:
    """A condition outside of which a scalar is 0; None when none is known. `known` may be shared by several calls."""
    known = {} if known is None else known
    stack = [(root, False)]
    while stack:
        s, ready = stack.pop()
        if (s, depth) in known:
            continue
        parts = _parts(s)
        if ready:
            known[s, depth] = _combined(s, [known[x, depth] for x in parts], depth)
        else:
            stack.append((s, True))
            stack.extend((x, False) for x in parts)
    return known[root, depth]


def _parts(s: ir.Scalar) -> tuple[ir.Scalar, ...]:
    """The operands that decide where a scalar is 0."""
    match s:
        case ir.Op("select", (_, x, y)):
            return (x,) if d.is_zero(y) else (y,) if d.is_zero(x) else ()
        case ir.Op("neg" | "cast" | "/"):
            return s.args[:1]
        case ir.Op("*" | "+" | "-"):
            return s.args
    return ()


def _combined(s: ir.Scalar, parts: list[ir.Scalar | None], depth: int) -> ir.Scalar | None:
    """The support of a scalar from those of its parts."""
    match s:
        case ir.Read():
            return _of_read(s, depth - 1) if depth else None
        case ir.Op("select", (condition, _, y)) if parts:
            return _and(condition if d.is_zero(y) else ir.op("not", (condition,), "bool"), parts[0])
        case ir.Op("neg" | "cast" | "/"):
            return parts[0]
        case ir.Op("*"):
            return _and(parts[0], parts[1])
        case ir.Op("+" | "-"):
            p, q = parts
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
