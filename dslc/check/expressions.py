"""Expressions: from syntax to typed values, one case per node."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import sympy as sp

from dslc.check import calls, scans
from dslc.check.frame import Frame
from dslc.check.indices import PendingGroup, PendingRead, Scope, affine, reads_data
from dslc.check.program import (
    Affine,
    Apply,
    Constant,
    Data,
    Draw,
    Dtype,
    Expr,
    Index,
    IndexValue,
    Position,
    Read,
    Reduce,
    SizeValue,
    Tensor,
)
from dslc.check.sums import REST
from dslc.check.values import (
    FunctionValue,
    Poison,
    Shared,
    Static,
    StaticValue,
    Val,
    is_float,
    is_int,
    lower,
    promote,
    whole_tensor,
)
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Fix, Label
from dslc.sizes import MAX_AXIS, MAX_POWER_BITS, Size, floor_div, modulo, show, tidy
from dslc.source import Span
from dslc.syntax import tree as t

NOTHING = Val()


def expression(scope: Scope, node: t.Expr) -> Val:
    """The value of an expression; implied sums that belong to this node are put around it."""
    scope.frame.checker.step(node.span)
    val = _expression(scope, node)
    names = scope.sums.get(id(node))
    if not names or val.poisoned:
        return val
    indices = [i for name in names for i in (scope.rest or () if name == REST else scope.find(name, node.span))]
    return reduce(scope, "sum", indices, val, node.span)


def _expression(scope: Scope, node: t.Expr) -> Val:
    match node:
        case t.Number():
            return Val(static=node.value)
        case t.Bool() | t.String():
            return Val(static=node.value)
        case t.Name():
            return name(scope, node)
        case t.Access():
            return access(scope, node)
        case t.OrElse():
            return or_else(scope, node)
        case t.Member():
            tensor = member(scope.frame, node)
            return whole(scope, tensor, node.span) if tensor is not None else NOTHING
        case t.Call():
            return calls.call(scope, node)
        case t.Pipe():
            return pipe(scope, node)
        case t.Negative():
            return negative(scope, node)
        case t.Sum():
            return chain(scope, [(sign, term) for sign, term in node.terms])
        case t.Product():
            return chain(scope, [(op, factor) for op, factor in node.factors])
        case t.Binary():
            return arithmetic(
                scope, node.op, [(node.left, expression(scope, node.left)), (node.right, expression(scope, node.right))]
            )
        case t.Compare():
            return compare(scope, node)
        case t.Logic():
            return logic(scope, node)
        case t.Not():
            return negate(scope, node)
        case t.Choose():
            return choose(scope, node)


# ---- names and reads ----------------------------------------------------------------------------------------------


def name(scope: Scope, node: t.Name) -> Val:
    frame = scope.frame
    if scope.is_index(node.id):
        indices = scope.find(node.id, node.span)
        if len(indices) != 1:
            frame.report(kinds.NOT_A_NUMBER(Label(node.span), name=node.id))
            return NOTHING
        return Val(IndexValue(indices[0]), free={indices[0]: None})
    binding = frame.lookup(node.id)
    match binding:
        case None:
            frame.unknown(node.id, node.span)
            return NOTHING
        case Tensor():
            if scans.reads_unfinished(scope, binding, node.span):
                return NOTHING
            return whole(scope, frame.latest.get(binding, binding), node.span)
        case Static():
            return Val(static=binding.value)
        case Val():
            return binding
        case FunctionValue() | Shared():
            return Val(function=binding)
        case Poison():
            return NOTHING


def whole(scope: Scope, tensor: Tensor, span: Span) -> Val:
    """A tensor by its name alone: all its axes are positional."""
    axes = tuple(scope.frame.new_index("", size, span) for size in tensor.shape)
    read = Read(tensor, tuple(Affine(((a, 1),), 0) for a in axes), tensor.dtype, span=span)
    return Val(read, axes, dict.fromkeys(axes))


def accessed_tensor(scope: Scope, node: t.Access) -> Tensor | None:
    """The tensor that an access reads; reports what else it may be."""
    frame = scope.frame
    base = node.base
    if isinstance(base, t.Member):
        return member(frame, base)
    if not isinstance(base, t.Name):
        val = expression(scope, base)
        if val.poisoned:
            return None
        if val.expr is None or not val.axes:
            frame.report(kinds.NOT_INDEXABLE(Label(base.span), what=f"`{base.span.text}`"))
            return None
        return materialise(scope, val, base.span, "part")
    if scope.is_index(base.id) and not isinstance(frame.names.get(base.id), Tensor):
        frame.report(kinds.NOT_INDEXABLE(Label(base.span), what=f"the index `{base.id}`"))
        return None
    binding = frame.lookup(base.id)
    match binding:
        case Tensor():
            return frame.latest.get(binding, binding)
        case None:
            frame.unknown(base.id, base.span)
        case Val():
            tensor = whole_tensor(binding)
            if tensor is not None:
                return tensor
            if binding.expr is not None and binding.axes:
                return materialise(scope, binding, base.span, base.id)
            if not binding.poisoned:
                help = f"give the argument a type, for example `{base.id}: [N]`"
                frame.report(kinds.NOT_INDEXABLE(Label(base.span), what=f"the number `{base.id}`", help=help))
        case Static():
            frame.report(kinds.NOT_INDEXABLE(Label(base.span), what=f"the {binding.what} `{base.id}`"))
        case FunctionValue() | Shared():
            help = f"write the arguments after the brackets: `{node.span.text}(...)`"
            frame.report(kinds.NOT_INDEXABLE(Label(base.span), what=f"the function `{base.id}`", help=help))
        case Poison():
            pass
    return None


def access(scope: Scope, node: t.Access, outside: Val | None = None) -> Val:
    """`tensor[items]`."""
    frame = scope.frame
    tensor = accessed_tensor(scope, node)
    if tensor is None:
        return NOTHING
    if scans.is_carried(scope, tensor):
        return scans.read_carried(scope, node, tensor)
    items = expand_items(scope, node.items, len(tensor.shape), node, tensor)
    if items is None:
        return NOTHING
    positions: list[Position] = []
    axes: list[Index] = []
    free: dict[Index, None] = {}
    good = True
    for axis, item in enumerate(items):
        found = position(scope, node, tensor, axis, item, outside is not None)
        if found is None:
            good = False
            continue
        where, item_axes, item_free = found
        positions.append(where)
        axes.extend(item_axes)
        free.update(item_free)
    if not good:
        return NOTHING
    dtype = tensor.dtype
    if outside is not None and outside.expr is not None:
        free.update(outside.free)
    if outside is not None and not (outside.static is not None and is_float(dtype)):
        dtype = promote(dtype, outside.dtype)
    read = Read(tensor, tuple(positions), dtype, None if outside is None else lower(outside), node.span)
    return Val(read, tuple(axes), free)


def expand_items(
    scope: Scope, items: Sequence[t.Item], rank: int, node: t.Access, tensor: Tensor
) -> list[t.Item | Index] | None:
    """One item per axis: `...` becomes the indices of the statement's pack."""
    frame = scope.frame
    rests = [i for i in items if isinstance(i, t.Rest)]
    if len(rests) > 1:
        frame.report(kinds.REST_MISUSE(Label(rests[1].span), why="it stands twice in one pair of brackets"))
        return None
    count = len(items) - len(rests)
    if count > rank or (count < rank and not rests):
        shape = "[" + ", ".join(frame.show(s) for s in tensor.shape) + "]"
        labels = [Label(node.span, f"{count} given")]
        if tensor.span.source.text:
            labels.append(Label(tensor.span, f"`{tensor.name}` has the shape {shape}"))
        help = None
        if count < rank:
            help = f"name every axis; `:` keeps one whole: `{node.base.span.text}[{', '.join([i.span.text for i in items] + [':'] * (rank - count))}]`"
        frame.report(kinds.WRONG_INDEX_COUNT(*labels, name=tensor.name, expected=rank, found=count, help=help))
        return None
    if not rests:
        return list(items)
    pack = rest_pack(scope, rank - count, rests[0].span)
    if pack is None:
        return None
    place = list(items).index(rests[0])
    return [*items[:place], *pack, *items[place + 1 :]]


def rest_pack(scope: Scope, length: int, span: Span) -> tuple[Index, ...] | None:
    """The indices behind `...`: as many in every place of a statement."""
    for level in reversed(scope.levels):
        if REST in level:
            pack = level[REST]
            break
    else:
        if scope.rest is None:
            scope.rest = tuple(scope.frame.new_index("", None, span) for _ in range(length))
            scope.rest_span = span
        pack = scope.rest
    if len(pack) != length:
        labels = [Label(span, f"{length} axes here")]
        if scope.rest_span is not None:
            labels.append(Label(scope.rest_span, f"{len(pack)} axes here"))
        scope.frame.report(
            kinds.REST_MISUSE(*labels, why=f"it stands for {length} axes here and for {len(pack)} elsewhere")
        )
        return None
    return pack


Found = tuple[Position, tuple[Index, ...], Mapping[Index, None]]


def position(
    scope: Scope, node: t.Access, tensor: Tensor, axis: int, item: t.Item | Index, guarded: bool
) -> Found | None:
    """The position that one item means, its positional axes, and the indices it depends on."""
    frame = scope.frame
    size = tensor.shape[axis]
    origin, written = tensor.origins[axis] if tensor.origins else (None, "")
    if isinstance(item, Index):
        scope.constrain(item, size, node.span, written, origin)
        return Affine(((item, 1),), 0), (), {item: None}
    if isinstance(item, t.Slice):
        return slice_position(scope, tensor, axis, item)
    if isinstance(item, t.Group):
        indices = tuple(i for n in item.names for i in scope.find(n.id, n.span))
        where = Affine((), 0)
        scope.groups.append(PendingGroup(item.span, indices, size, where))
        return where, (), dict.fromkeys(indices)
    if isinstance(item, t.Into | t.Rest):
        frame.report(kinds.NOT_A_POSITION(Label(item.span), what=f"`{item.span.text}`"))
        return None
    mode, inner = _mode(frame, item)
    if inner is None:
        return None
    val = expression(scope, inner)
    if val.poisoned:
        return None
    if val.function is not None or val.several or isinstance(val.static, str):
        frame.report(kinds.NOT_A_POSITION(Label(item.span), what=f"`{item.span.text}`"))
        return None
    if not is_int(val.dtype):
        shown = "a condition" if val.dtype == "bool" else f"a {_float_word(val.dtype)}"
        help = "round it and make it whole first: `i32(round(...))`" if is_float(val.dtype) else None
        frame.report(kinds.FLOAT_INDEX(Label(item.span), found=shown, help=help))
        return None
    lowered = lower(val)
    where_affine = affine(lowered)
    if where_affine is None and not reads_data(lowered):
        frame.report(kinds.NOT_AFFINE(Label(item.span), text=item.span.text))
        return None
    if where_affine is not None and not val.axes:
        where_affine.mode = mode  # type: ignore[assignment]
        plain = mode == "inside" and where_affine.offset == 0 and len(where_affine.terms) == 1
        if plain and where_affine.terms[0][1] == 1:
            index = where_affine.terms[0][0]
            if guarded and index in scope.explicit:
                pass  # a stated range may reach outside: that is what `else` is for
            else:
                scope.constrain(index, size, item.span, written, origin)
                return where_affine, (), val.free
    where: Position = where_affine if where_affine is not None else Data(lowered, mode)  # type: ignore[arg-type]
    scope.reads.append(PendingRead(node.span, item.span, tensor.name, axis, size, written, where, guarded))
    return where, val.axes, val.free


def _mode(frame: Frame, item: t.Expr) -> tuple[str, t.Expr | None]:
    if isinstance(item, t.Call) and isinstance(item.callee, t.Name) and item.callee.id in ("wrap", "clamp"):
        if frame.names.get(item.callee.id) is None:
            if len(item.arguments) != 1:
                frame.report(
                    kinds.ARITY(Label(item.span), name=item.callee.id, expected="1 argument", found=len(item.arguments))
                )
                return "inside", None
            return item.callee.id, item.arguments[0].value
    return "inside", item


def _float_word(dtype: Dtype) -> str:
    return "float" if dtype == "float" else f"float ({dtype})"


def slice_position(scope: Scope, tensor: Tensor, axis: int, item: t.Slice) -> Found | None:
    """`low:high:step` keeps a positional axis."""
    frame = scope.frame
    size = tensor.shape[axis]
    step: Size = 1
    if item.step is not None:
        found = as_size(scope, item.step, least=None)
        if found is None:
            return None
        if not isinstance(found, int) or found == 0:
            frame.report(kinds.SLICE_STEP(Label(item.step.span), found=item.step.span.text))
            return None
        step = found
    low: Size | None = as_size(scope, item.low, least=None) if item.low is not None else 0
    high: Size | None = as_size(scope, item.high, least=None) if item.high is not None else size
    if low is None or high is None:
        return None
    facts = frame.facts
    if isinstance(step, int) and step < 0:
        if step != -1 or item.low is not None or item.high is not None:
            frame.report(kinds.SLICE_STEP(Label(item.span), found=item.span.text))
            return None
        index = frame.new_index("", size, item.span)
        return Affine(((index, -1),), tidy(size - 1)), (index,), {index: None}
    inside = facts.nonnegative(low) and facts.nonnegative(tidy(size - high))
    if not inside or not facts.nonnegative(tidy(high - low - 1)):
        a, b, n = frame.show(low), frame.show(high), frame.show(size)
        help = f"it must hold that 0 <= {a} < {b} <= {n}; state what makes it true in a `where`"
        frame.report(kinds.SLICE_RANGE(Label(item.span), name=tensor.name, low=a, high=b, size=n, help=help))
        return None
    length = tidy(floor_div(tidy(high - low + step - 1), step))
    index = frame.new_index("", length, item.span)
    return Affine(((index, step),), low), (index,), {index: None}


def or_else(scope: Scope, node: t.OrElse) -> Val:
    """`(x[n, t-1] else 0)`."""
    outside = expression(scope, node.value)
    if not isinstance(node.read, t.Access):
        scope.frame.report(kinds.ELSE_NEEDS_READ(Label(node.read.span)))
        return NOTHING
    if outside.poisoned:
        access(scope, node.read, Val(static=0))
        return NOTHING
    if outside.axes or outside.function is not None or isinstance(outside.static, str):
        scope.frame.report(kinds.ELSE_NEEDS_READ(Label(node.value.span)))
        return NOTHING
    return access(scope, node.read, outside)


def member(frame: Frame, node: t.Member) -> Tensor | None:
    """`layer.param`: a parameter below a layer that was named with `use`."""
    parts: list[str] = [node.name]
    base: t.Expr = node.base
    while isinstance(base, t.Member):
        parts.append(base.name)
        base = base.base
    if not isinstance(base, t.Name):
        frame.report(kinds.NO_MEMBERS(Label(base.span), what=f"`{base.span.text}`"))
        return None
    binding = frame.lookup(base.id)
    if binding is None:
        frame.unknown(base.id, base.span)
        return None
    if isinstance(binding, Poison):
        return None
    if not isinstance(binding, Shared):
        help = f"name the layer first: `use {base.id} = ...`" if isinstance(binding, FunctionValue) else None
        frame.report(kinds.NO_MEMBERS(Label(base.span), what=f"`{base.id}`", help=help))
        return None
    if binding.instance is None:
        if binding.frozen is not None and not frame.had_error:
            help = f"the sizes of its parameters follow from its input: call `{base.id}(...)` first"
            frame.report(kinds.NOT_CALLED_YET(Label(node.span), name=base.id, help=help))
        return None
    return calls.find_member(frame, node, binding, list(reversed(parts)))


# ---- operators ------------------------------------------------------------------------------------------------------


def pipe(scope: Scope, node: t.Pipe) -> Val:
    """`x |> f |> g(a)` is `g(f(x), a)`."""
    val = expression(scope, node.value)
    previous: t.Expr = node.value
    for stage in node.stages:
        if isinstance(stage, t.Call):
            call = t.Call(stage.callee, stage.arguments, span=stage.span)
        else:
            call = t.Call(stage, (), span=stage.span)
        val = calls.call(scope, call, piped=(previous, val))
        previous = stage
    return val


Operand = tuple[t.Expr, Val]


def negative(scope: Scope, node: t.Negative) -> Val:
    val = expression(scope, node.operand)
    if isinstance(val.static, int | float | sp.Basic) and not isinstance(val.static, bool):
        return Val(static=-val.static)
    if not numbers(scope, [(node.operand, val)], "-"):
        return NOTHING
    assert val.expr is not None
    return Val(Apply("neg", (val.expr,), val.dtype, node.span), val.axes, val.free)


def chain(scope: Scope, parts: list[tuple[str, t.Expr]]) -> Val:
    """`a + b - c` or `a * b / c`, from the left."""
    operands = [(op, node, expression(scope, node)) for op, node in parts]
    _, node, val = operands[0]
    so_far: Operand = (node, val)
    for op, right_node, right in operands[1:]:
        result = arithmetic(scope, op, [so_far, (right_node, right)])
        if result.poisoned:
            return NOTHING
        span = so_far[0].span.to(right_node.span)
        so_far = (t.Name("", span=span), result)
    return so_far[1]


def numbers(scope: Scope, operands: Sequence[Operand], op: str) -> bool:
    """Are all operands numbers? Functions, words and conditions are reported."""
    good = True
    for node, val in operands:
        if val.poisoned:
            good = False
        elif val.several:
            scope.frame.report(kinds.SEVERAL_RESULTS(Label(node.span), found=len(val.several)))
            good = False
        elif val.function is not None or isinstance(val.static, str):
            what = "a function" if val.function is not None else "a string"
            help = f"call it: `{node.span.text}(...)`" if val.function is not None else None
            scope.frame.report(kinds.NOT_A_VALUE(Label(node.span), found=what, help=help))
            good = False
        elif val.dtype == "bool":
            help = f"write `(1 if {node.span.text} else 0)`"
            scope.frame.report(kinds.BOOL_ARITHMETIC(Label(node.span), op=op, help=help))
            good = False
    return good


def arithmetic(scope: Scope, op: str, operands: list[Operand]) -> Val:
    if not numbers(scope, operands, op):
        return NOTHING
    (left_node, left), (right_node, right) = operands
    span = left_node.span.to(right_node.span)
    if left.static is not None and right.static is not None:
        static = fold(scope, op, left.static, right.static, span)
        return NOTHING if static is None else Val(static=static)
    dtype = joint_dtype([left, right])
    if op == "/" and not is_float(dtype):
        dtype = "float"
    if op == "^" and not (isinstance(right.static, int) and right.static >= 0) and not is_float(dtype):
        dtype = "float"
    if op in ("//", "%") and is_float(dtype):
        node = left_node if is_float(left.dtype) else right_node
        help = "write `floor(a / b)`" if op == "//" else "write `a - b * floor(a / b)`"
        scope.frame.report(kinds.WHOLE_EXPECTED(Label(node.span), op=op, help=help))
        return NOTHING
    return combine(scope, op, operands, dtype, span)


def joint_dtype(vals: Sequence[Val]) -> Dtype:
    """The dtype of an operation: static numbers take the float dtype of what they meet."""
    found: Dtype | None = None
    for val in vals:
        if val.static is None:
            found = val.dtype if found is None else promote(found, val.dtype)
    for val in vals:
        if val.static is not None and (found is None or not is_float(found)):
            found = val.dtype if found is None else promote(found, val.dtype)
    assert found is not None
    return found


def combine(scope: Scope, op: str, operands: Sequence[Operand], dtype: Dtype, span: Span) -> Val:
    """Apply a scalar operation elementwise: positional axes must agree, scalars go with everything."""
    aligned = align(scope, operands, span)
    if aligned is None:
        return NOTHING
    vals, axes = aligned
    free: dict[Index, None] = {}
    for val in vals:
        free.update(val.free)
    return Val(Apply(op, tuple(lower(v) for v in vals), dtype, span), axes, free)


def align(scope: Scope, operands: Sequence[Operand], span: Span) -> tuple[list[Val], tuple[Index, ...]] | None:
    """Give all operands with positional axes the same ones, or report that their shapes differ."""
    leader = next(((n, v) for n, v in operands if v.axes), None)
    if leader is None:
        return [v for _, v in operands], ()
    node, lead = leader
    aligned: list[Val] = []
    for other_node, val in operands:
        if not val.axes or val is lead:
            aligned.append(val)
            continue
        same_rank = len(val.axes) == len(lead.axes)
        if not same_rank or not all(scope.unify(a, b, span) for a, b in zip(lead.axes, val.axes, strict=True)):
            report_shapes(scope, node, lead, other_node, val)
            return None
        aligned.append(replace_indices(val, dict(zip(val.axes, lead.axes, strict=True))))
    return aligned, lead.axes


def shape_text(frame: Frame, axes: Sequence[Index]) -> str:
    return "[" + ", ".join(frame.show(a.size) if a.size is not None else "?" for a in axes) + "]"


def report_shapes(scope: Scope, a_node: t.Expr, a: Val, b_node: t.Expr, b: Val) -> None:
    frame = scope.frame
    shape_a, shape_b = shape_text(frame, a.axes), shape_text(frame, b.axes)
    help = "sizes do not broadcast; write the indices to say which axes go together"
    if isinstance(a_node, t.Name) and isinstance(b_node, t.Name) and a_node.id and b_node.id:
        letters = "ijkl"
        if len(a.axes) == 2 and len(b.axes) == 1 and len(a.axes) <= 4:
            help += f", for example `z[i, j] = {a_node.id}[i, j] + {b_node.id}[j]`"
        elif len(a.axes) == len(b.axes) <= 4:
            help += ""
        elif len(b.axes) <= 4 and len(a.axes) <= 4:
            help += f", for example `{b_node.id}[{', '.join(letters[: len(b.axes)])}]`"
    labels = [Label(a_node.span, f"shape {shape_a}"), Label(b_node.span, f"shape {shape_b}")]
    for val in (a, b):
        tensor = whole_tensor(val)
        if tensor is not None and tensor.span.source.text:
            labels.append(Label(tensor.span, f"`{tensor.name}` is declared here"))
    frame.report(kinds.SHAPES_DIFFER(*labels, a=shape_a, b=shape_b, help=help))


def replace_indices(val: Val, table: Mapping[Index, Index]) -> Val:
    """The same value with some indices renamed."""
    if val.expr is None:
        return val
    free = {table.get(i, i): None for i in val.free}
    return Val(rename(val.expr, table), tuple(table.get(a, a) for a in val.axes), free)


def rename(e: Expr, table: Mapping[Index, Index]) -> Expr:
    """Replace indices in an expression (iteratively, sharing what is shared)."""
    done: dict[int, Expr] = {}
    stack: list[tuple[Expr, bool]] = [(e, False)]
    while stack:
        node, ready = stack.pop()
        if id(node) in done:
            continue
        inner = _operands(node)
        if not ready:
            stack.append((node, True))
            stack.extend((c, False) for c in inner)
            continue
        done[id(node)] = _renamed(node, table, done)
    return done[id(e)]


def _operands(e: Expr) -> list[Expr]:
    if isinstance(e, Apply | Draw):
        return list(e.args)
    if isinstance(e, Reduce):
        return [e.body]
    if isinstance(e, Read):
        found: list[Expr] = [p.value for p in e.positions if isinstance(p, Data)]
        return found + ([e.outside] if e.outside is not None else [])
    return []


def _renamed(e: Expr, table: Mapping[Index, Index], done: Mapping[int, Expr]) -> Expr:
    match e:
        case Constant() | SizeValue():
            return e
        case IndexValue():
            return IndexValue(table.get(e.index, e.index))
        case Apply():
            return Apply(e.op, tuple(done[id(a)] for a in e.args), e.dtype, e.span)
        case Reduce():
            return Reduce(e.op, e.indices, done[id(e.body)], e.dtype, e.span)
        case Draw():
            args = tuple(done[id(a)] for a in e.args)
            return Draw(e.op, tuple(table.get(i, i) for i in e.indices), args, e.dtype, e.site, e.span)
        case Read():
            positions = tuple(
                Data(done[id(p.value)], p.mode)
                if isinstance(p, Data)
                else Affine(tuple((table.get(i, i), c) for i, c in p.terms), p.offset, p.mode)
                for p in e.positions
            )
            outside = None if e.outside is None else done[id(e.outside)]
            return Read(e.tensor, positions, e.dtype, outside, e.span)


def compare(scope: Scope, node: t.Compare) -> Val:
    left, right = expression(scope, node.left), expression(scope, node.right)
    if left.poisoned or right.poisoned:
        return NOTHING
    if isinstance(left.static, str) or isinstance(right.static, str):
        both = isinstance(left.static, str) and isinstance(right.static, str) and node.op in ("==", "!=")
        if not both:
            scope.frame.report(
                kinds.CANNOT_COMPARE(Label(node.span), op=node.op, a=_kind_word(left), b=_kind_word(right))
            )
            return NOTHING
        return Val(static=(left.static == right.static) == (node.op == "=="))
    operands = [(node.left, left), (node.right, right)]
    booleans = left.dtype == "bool" and right.dtype == "bool" and node.op in ("==", "!=")
    if left.function or right.function or (not booleans and "bool" in (left.dtype, right.dtype)):
        scope.frame.report(kinds.CANNOT_COMPARE(Label(node.span), op=node.op, a=_kind_word(left), b=_kind_word(right)))
        return NOTHING
    if left.static is not None and right.static is not None:
        known = fold_compare(scope.frame, node.op, left.static, right.static)
        if known is not None:
            return Val(static=known)
    return combine(scope, node.op, operands, "bool", node.span)


def _kind_word(val: Val) -> str:
    if val.function is not None:
        return "a function"
    if isinstance(val.static, str):
        return "a string"
    return "a condition" if val.dtype == "bool" else "a number"


def fold_compare(frame: Frame, op: str, a: StaticValue, b: StaticValue) -> bool | None:
    """A comparison of static numbers, when it can be decided."""
    if isinstance(a, sp.Basic) or isinstance(b, sp.Basic):
        if isinstance(a, float | bool | str) or isinstance(b, float | bool | str):
            return None
        facts = frame.facts
        if op in ("==", "!="):
            equal = facts.equal(a, b)
            return None if equal is None else equal == (op == "==")
        if op in (">", "<="):
            flipped = fold_compare(frame, "<" if op == ">" else ">=", b, a)
            return flipped
        if op == "<":
            if facts.nonnegative(tidy(b - a - 1)):
                return True
            return False if facts.nonnegative(tidy(a - b)) else None
        less = fold_compare(frame, "<", a, b)
        return None if less is None else not less
    table = {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b, "==": a == b, "!=": a != b}  # type: ignore[operator]
    return table[op]


def condition(scope: Scope, node: t.Expr) -> Val:
    """An expression that must be true or false."""
    val = expression(scope, node)
    if not val.poisoned and (val.function is not None or isinstance(val.static, str) or val.dtype != "bool"):
        found = "a function" if val.function is not None else "a string" if isinstance(val.static, str) else "a number"
        help = f"compare it: `{node.span.text} != 0`" if found == "a number" else None
        scope.frame.report(kinds.CONDITION_EXPECTED(Label(node.span), found=found, help=help))
        return NOTHING
    return val


def logic(scope: Scope, node: t.Logic) -> Val:
    vals = [(operand, condition(scope, operand)) for operand in node.operands]
    if any(v.poisoned for _, v in vals):
        return NOTHING
    decides = node.op == "or"  # `true` decides an `or`, `false` an `and`
    if any(v.static is decides for _, v in vals):
        return Val(static=decides)
    open_ = [(n, v) for n, v in vals if v.static is None]
    if not open_:
        return Val(static=not decides)
    return open_[0][1] if len(open_) == 1 else combine(scope, node.op, open_, "bool", node.span)


def negate(scope: Scope, node: t.Not) -> Val:
    val = condition(scope, node.operand)
    if val.poisoned:
        return NOTHING
    if val.static is not None:
        return Val(static=not val.static)
    return combine(scope, "not", [(node.operand, val)], "bool", node.span)


def choose(scope: Scope, node: t.Choose) -> Val:
    """`a if c else b`; a condition known at compile time picks one side for good."""
    test = condition(scope, node.condition)
    if isinstance(test.static, bool):
        return expression(scope, node.then if test.static else node.otherwise)
    then, otherwise = expression(scope, node.then), expression(scope, node.otherwise)
    if test.poisoned or then.poisoned or otherwise.poisoned:
        return NOTHING
    both_conditions = then.dtype == "bool" and otherwise.dtype == "bool" and not (then.function or otherwise.function)
    if not both_conditions and not numbers(scope, [(node.then, then), (node.otherwise, otherwise)], "if"):
        return NOTHING
    dtype = "bool" if both_conditions else joint_dtype([then, otherwise])
    return combine(
        scope, "select", [(node.condition, test), (node.then, then), (node.otherwise, otherwise)], dtype, node.span
    )


# ---- static arithmetic ----------------------------------------------------------------------------------------------


def fold(scope: Scope, op: str, a: StaticValue, b: StaticValue, span: Span) -> StaticValue | None:
    """Arithmetic on numbers known at compile time: exact on whole numbers and sizes, bounded in size."""
    frame = scope.frame
    assert not isinstance(a, str) and not isinstance(b, str)
    if op in ("/", "//", "%") and not isinstance(b, sp.Basic) and b == 0:
        frame.report(kinds.DIVISION_BY_ZERO(Label(span)))
        return None
    if op == "^":
        return _power(scope, a, b, span)
    exact = not isinstance(a, float) and not isinstance(b, float)
    if op in ("//", "%") and not exact:
        frame.report(kinds.WHOLE_EXPECTED(Label(span), op=op))
        return None
    if not exact:
        x, y = _as_float(a), _as_float(b)
        if x is None or y is None:  # a float with a symbolic size: left to run time
            frame.report(kinds.STATIC_NEEDED(Label(span), what="this mix of a float and a size"))
            return None
        value = {"+": lambda: x + y, "-": lambda: x - y, "*": lambda: x * y, "/": lambda: x / y}[op]()
        return value
    if op == "+":
        return tidy(a + b)
    if op == "-":
        return tidy(a - b)
    if op == "*":
        result = tidy(a * b)
        if isinstance(result, int) and abs(result) > 2**80:
            frame.report(kinds.SIZE_BOUND(Label(span), found=_shortened(result), limit=MAX_AXIS))
            return None
        return result
    if op == "//":
        return floor_div(a, b)
    if op == "%":
        return modulo(a, b)
    value = sp.Rational(a, b) if isinstance(a, int) and isinstance(b, int) else sp.sympify(a, strict=True) / b
    return tidy(value)


def _as_float(value: StaticValue) -> float | None:
    if isinstance(value, sp.Basic):
        return float(value) if value.is_number else None
    assert not isinstance(value, str)
    return float(value)


def _power(scope: Scope, a: StaticValue, b: StaticValue, span: Span) -> StaticValue | None:
    frame = scope.frame
    if isinstance(a, float) or isinstance(b, float) or (isinstance(b, int) and b < 0) or isinstance(b, sp.Rational):
        x, y = _as_float(a), _as_float(b)
        if x is None or y is None:
            frame.report(kinds.STATIC_NEEDED(Label(span), what="this power"))
            return None
        try:
            value = math.pow(x, y)
        except (ValueError, OverflowError, ZeroDivisionError):
            frame.report(kinds.NUMBER_TOO_LARGE(Label(span), limit="1.797e308", found=span.text))
            return None
        return value
    if not isinstance(b, int) or (isinstance(a, sp.Basic) and b > 8):
        frame.report(kinds.STATIC_NEEDED(Label(span), what="this power"))
        return None
    if isinstance(a, int) and abs(a).bit_length() * b > MAX_POWER_BITS:
        frame.report(kinds.SIZE_BOUND(Label(span), found=span.text, limit=MAX_AXIS))
        return None
    return tidy(a**b)


def _shortened(value: int) -> str:
    text = str(value)
    return text if len(text) < 30 else f"{text[:12]}... ({len(text)} digits)"


def static(scope: Scope, node: t.Expr, what: str) -> StaticValue | None:
    """An expression that must be known at compile time."""
    val = expression(scope, node)
    if val.poisoned:
        return None
    if val.static is None:
        scope.frame.report(kinds.STATIC_NEEDED(Label(node.span), what=what))
        return None
    return val.static


def as_size(scope: Scope, node: t.Expr, least: int | None = 1, what: str = "a size") -> Size | None:
    """An expression that must be a whole number known at compile time, or made of sizes."""
    val = expression(scope, node)
    if val.poisoned:
        return None
    if val.static is None and isinstance(val.expr, SizeValue):
        val = Val(static=val.expr.size)
    if val.static is None or isinstance(val.static, str | bool):
        scope.frame.report(kinds.SIZE_EXPECTED(Label(node.span), what=what, found=describe(scope.frame, val)))
        return None
    return check_size(scope.frame, val.static, node.span, least, what)


def check_size(
    frame: Frame, value: StaticValue, span: Span, least: int | None = 1, what: str = "a size"
) -> Size | None:
    """Is a static number a whole number within bounds?"""
    if isinstance(value, float):
        if not value.is_integer() or abs(value) > 2**53:
            frame.report(kinds.SIZE_EXPECTED(Label(span), what=what, found=f"the number {value}"))
            return None
        help = f"write `{int(value)}`"
        frame.report(kinds.SIZE_EXPECTED(Label(span), what=what, found=f"the float {value}", help=help))
        return None
    assert not isinstance(value, str)
    size: Size = value if isinstance(value, int) else tidy(value)
    facts = frame.facts
    if not facts.whole(size):
        numerator, denominator = sp.together(sp.sympify(size, strict=True)).as_numer_denom()
        a, b = frame.show(numerator), frame.show(denominator)
        known = numerator.is_number and denominator.is_number
        help = (
            f"write `{a} // {b}` to round down" if known else f"add `where {a} % {b} == 0`, or write `//` to round down"
        )
        frame.report(kinds.NOT_DIVISIBLE(Label(span), a=a, b=b, help=help))
        return None
    size = facts.normal(size)
    if isinstance(size, int):
        if abs(size) > MAX_AXIS:
            frame.report(kinds.SIZE_BOUND(Label(span), found=_shortened(size), limit=MAX_AXIS))
            return None
        if least is not None and size < least:
            frame.report(kinds.SIZE_TOO_SMALL(Label(span), what=what, found=size, least=least))
            return None
    elif least is not None and not facts.nonnegative(tidy(size - least)):
        shown = show(size)
        help = f"state it: `where {shown} >= {least}`"
        frame.report(kinds.SIZE_MAY_BE_SMALL(Label(span), what=what, found=shown, least=least, help=help))
        return None
    return size


def describe(frame: Frame, val: Val) -> str:
    """What a value is, in words."""
    if val.function is not None:
        return "a function"
    if isinstance(val.static, str):
        return "a string"
    if val.dtype == "bool":
        return "a condition"
    if val.static is not None:
        return f"the number {show(val.static) if isinstance(val.static, sp.Basic) else val.static}"
    if val.axes:
        return f"a tensor of shape {shape_text(frame, val.axes)}"
    return "a value that is only known when the module runs"


# ---- reductions and named intermediate values ----------------------------------------------------------------------------


def reduce(scope: Scope, op: str, indices: Sequence[Index], val: Val, span: Span) -> Val:
    """Reduce a value over indices; they are no longer free in the result."""
    dtype = val.dtype
    if op in ("argmax", "argmin"):
        dtype = "i64"
    elif op == "mean" and not is_float(dtype):
        dtype = "float"
    bound = set(indices)
    free = {i: None for i in val.free if i not in bound}
    axes = tuple(a for a in val.axes if a not in bound)
    return Val(Reduce(op, tuple(indices), lower(val), dtype, span), axes, free)


def materialise(scope: Scope, val: Val, span: Span, name: str) -> Tensor:
    """Give a value without free named indices a tensor of its own (or the tensor that it already is)."""
    tensor = whole_tensor(val)
    if tensor is not None:
        return tensor
    return calls.materialise_over(scope, val, (), span, name)


__all__ = [
    "Fix", "access", "align", "arithmetic", "as_size", "check_size", "combine", "condition", "describe",
    "expression", "materialise", "member", "reduce", "shape_text", "static", "whole",
]  # fmt: skip
