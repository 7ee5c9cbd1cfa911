"""What is legal in the IR: a checker that tests run after every stage."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dslc.dtypes import alike, is_float, is_int
from dslc.ir import nodes as ir
from dslc.ops.table import RECORDS
from dslc.sizes import Size, product, tidy

REDUCTIONS = ("sum", "prod", "max", "min", "any", "all", "argmax", "argmin")
ALONG = ("cumsum", "cumprod", "cummax", "cummin", "sort", "argsort", "top_k", "fft", "ifft")
MODES = ("inside", "wrap", "clamp")


def verify(outputs: Iterable[ir.Tensor]) -> None:
    """Assert that everything that the outputs need is legal; the message names the node.

    >>> x = ir.intern(ir.Input("x", "input", "f64", (3,)))
    >>> verify([ir.comp((), ir.whole(x), "sum", (3,))])
    >>> verify([ir.comp((3,), ir.read(x, (ir.plain(1),)), name="y")])
    Traceback (most recent call last):
    ...
    AssertionError: Comp `y`: variable 1 of 1
    """
    roots = tuple(outputs)
    order = ir.schedule(roots)
    seen = set(order)
    for node in order:  # grows: what stands inside of scans comes behind
        if isinstance(node, ir.Scan):
            inner = [x for x in ir.inside(node)[0] if x not in seen]
            seen.update(inner)
            order.extend(inner)
    steps = _open_steps(order)
    for root in roots:
        _check(root, not steps[root], f"step of scan {sorted(steps[root])} outside of it")
    scans: dict[int, ir.Scan] = {}
    for node in order:
        _node(node)
        if isinstance(node, ir.Scan):
            _check(node, _one_loop(node, scans.setdefault(node.number, node)), "two scans with one number")
            for start in node.starts:
                _check(node, node.number not in steps[start], "a start depends on the steps")


def _check(node: ir.Node, good: bool, message: str) -> None:
    name = getattr(node, "name", "") or getattr(node, "op", "")
    assert good, f"{type(node).__name__} `{name}`: {message}"


def _open_steps(order: Sequence[ir.Node]) -> dict[ir.Node, frozenset[int]]:
    """For each node the scans whose steps it depends on."""
    found: dict[ir.Node, frozenset[int]] = {}
    for node in ir.schedule(tuple(order)):
        own = {node.scan} if isinstance(node, ir.Step) else set()
        found[node] = frozenset(own).union(*(found[a] for a in ir.arguments(node)))
    return found


def _same(a: Sequence[Size], b: Sequence[Size]) -> bool:
    return len(a) == len(b) and all(p == q or tidy(p - q) == 0 for p, q in zip(a, b, strict=True))


def kind(dtype: ir.Dtype) -> str:
    """float, int or bool."""
    assert is_float(dtype) or is_int(dtype) or dtype == "bool", f"no dtype: {dtype}"
    return "float" if is_float(dtype) else "int" if is_int(dtype) else "bool"


# ---- nodes ------------------------------------------------------------------------------------------


def _node(node: ir.Node) -> None:
    match node:
        case ir.Comp():
            _check(node, (node.op is None) == (not node.reduced), "reduced variables exactly with a reduction")
            _check(node, node.op is None or node.op in REDUCTIONS, f"no reduction `{node.op}`")
            _body(node, node.body, len(node.shape) + len(node.reduced))
            given = "int" if node.op in ("argmax", "argmin") else kind(node.body.dtype)
            _check(node, kind(node.dtype) == given, f"{node.dtype} of {node.body.dtype}")
        case ir.Scatter():
            _check(node, node.op in ("+", "max", "min"), f"no scatter `{node.op}`")
            _body(node, node.body, len(node.ranges))
            _places(node, node.places, len(node.shape), len(node.ranges))
            _check(node, kind(node.dtype) == kind(node.body.dtype), f"{node.dtype} of {node.body.dtype}")
            _check(node, node.base is None or _same(node.base.shape, node.shape), "a base of another shape")
        case ir.Reshape():
            _check(node, _same([product(node.shape)], [product(node.of.shape)]), "another number of elements")
        case ir.Along():
            _check(node, node.op in ALONG, f"no operation `{node.op}`")
            _check(node, len(node.shapes) == len(node.dtypes), "shapes and dtypes differ in number")
            for shape in (*node.shapes, *(a.shape for a in node.args)):
                _check(node, 0 <= node.axis < len(shape) == len(node.shapes[0]), f"axis {node.axis} of {len(shape)}")
        case ir.External():
            for shape in (*node.shapes, *(a.shape for a in node.args)):
                _check(node, _same(shape[: node.mapped], node.shapes[0][: node.mapped]), "mapped axes differ")
        case ir.Part():
            values = _values(node.of)
            _check(node, 0 <= node.number < len(values), f"value {node.number} of {len(values)}")
            dtype, shape = values[node.number]
            _check(node, dtype == node.dtype, f"{node.dtype} is {dtype}")
            _check(node, _same(shape, node.shape), f"shape {node.shape} is {shape}")
        case ir.Scan():
            _scan(node)
        case ir.Custom():
            _check(node, callable(node.rule), "a rule that cannot be called")


def _values(node: ir.Along | ir.External | ir.Scan | ir.Custom) -> list[tuple[ir.Dtype, tuple[Size, ...]]]:
    """Dtype and shape of each value of a node."""
    match node:
        case ir.Along() | ir.External():
            return list(zip(node.dtypes, node.shapes, strict=True))
        case ir.Custom():
            return [(v.dtype, v.shape) for v in node.values]
    stacked = [(r.dtype, (node.length, *r.shape)) for r in node.results]
    return stacked + [(c.dtype, c.shape) for c in node.carries]


def _scan(node: ir.Scan) -> None:
    _check(node, len(node.starts) == len(node.carries), "as many starts as carries")
    for start, carry in zip(node.starts, node.carries, strict=True):
        _check(node, _same(start.shape, carry.shape), f"a carry of shape {carry.shape} starts as {start.shape}")
        _check(node, alike(start.dtype, carry.dtype), f"a carry of {carry.dtype} starts as {start.dtype}")
    for x in ir.inside(node)[0]:
        if isinstance(x, ir.Step) and x.scan == node.number and x.kind == "carry":
            _check(node, 0 <= x.place < len(node.starts), f"no carry {x.place}")
            _check(node, _same(x.shape, node.starts[x.place].shape), f"carry {x.place} is read as {x.shape}")


def _one_loop(a: ir.Scan, b: ir.Scan) -> bool:
    """Can two scans with one number be one loop, of which different results are wanted, or two forms of its body?"""
    alike = all(_same(x.shape, y.shape) and x.dtype == y.dtype for x, y in zip(a.carries, b.carries, strict=False))
    return (a.length, a.reverse, len(a.carries)) == (b.length, b.reverse, len(b.carries)) and alike


# ---- bodies -----------------------------------------------------------------------------------------


def _places(node: ir.Node, places: tuple[ir.Place, ...], rank: int, variables: int) -> None:
    _check(node, len(places) == rank, f"{len(places)} places for {rank} axes")
    for place in places:
        match place:
            case ir.Affine():
                for number, _ in place.terms:
                    _check(node, 0 <= number < variables, f"variable {number} of {variables}")
            case ir.Data():
                _check(node, kind(place.value.dtype) == "int", f"a place of {place.value.dtype}")
            case ir.At():
                _check(node, place.step.kind == "number", "a place at a carried value")
        _check(node, isinstance(place, ir.At) or place.mode in MODES, "no mode of a place")


def _body(node: ir.Node, body: ir.Scalar, variables: int) -> None:
    for s in ir.scalars(body):
        match s:
            case ir.Var():
                _check(node, 0 <= s.number < variables, f"variable {s.number} of {variables}")
            case ir.Read():
                _places(node, s.places, len(s.tensor.shape), variables)
                _check(node, s.dtype == s.tensor.dtype, f"{s.tensor.dtype} read as {s.dtype}")
                if s.outside is not None:
                    _check(node, kind(s.outside.dtype) == kind(s.dtype), f"{s.dtype} else {s.outside.dtype}")
            case ir.Op():
                _op(node, s)
            case ir.Rand():
                _check(node, len(s.places) == len(s.sizes), "a draw with as many places as sizes")
                _check(node, all(kind(x.dtype) == "int" for x in s.places), "a draw at a place that is no whole number")


def _op(node: ir.Node, s: ir.Op) -> None:
    record = RECORDS.get(s.name)
    _check(node, record is not None, f"no operation `{s.name}`")
    assert record is not None
    _check(node, record.arity in (0, len(s.args)), f"`{s.name}` with {len(s.args)} arguments")
    kinds = [kind(a.dtype) for a in s.args]
    text = f"`{s.name}` of {', '.join(a.dtype for a in s.args)} gives {s.dtype}"
    _check(node, _result(s, kinds) == kind(s.dtype), text)


def _result(s: ir.Op, kinds: list[str]) -> str:
    """The kind of the result of an operation; empty where its arguments do not fit."""
    number = "float" if "float" in kinds else "int"
    numbers = "bool" not in kinds
    match s.name:
        case "cast":
            return kind(s.dtype)
        case "stop_grad":
            return kinds[0]
        case "and" | "or" | "not":
            return "bool" if set(kinds) == {"bool"} else ""
        case "==" | "!=":
            return "bool" if numbers or set(kinds) == {"bool"} else ""
        case "<" | "<=" | ">" | ">=" | "isnan" | "isinf" | "isfinite":
            return "bool" if numbers else ""
        case "select":
            branches = kinds[1:]
            if kinds[0] != "bool" or ("bool" in branches and set(branches) != {"bool"}):
                return ""
            return "bool" if "bool" in branches else "float" if "float" in branches else "int"
        case "//" | "%":
            return "int" if set(kinds) == {"int"} else ""
        case "+" | "-" | "*" | "neg":
            return number if numbers else ""
        case "^":
            return kind(s.dtype) if numbers and (number == "int" or s.dtype not in ("i32", "i64")) else ""
    return "" if not numbers else number if RECORDS[s.name].gives == "same" else "float"
