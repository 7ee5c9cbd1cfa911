"""Statements: declarations, equations, loops, modes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dslc.check import calls, definitions, expressions, scans
from dslc.check.frame import MAX_ITERATIONS, Frame
from dslc.check.indices import Evidence, PendingRead, Scope, affine, interval, reads_data
from dslc.check.program import (
    Affine,
    Apply,
    Data,
    Define,
    Expr,
    Index,
    Modes,
    ParamDecl,
    Position,
    Remat,
    Scatter,
    StateDecl,
    Stmt,
    Tensor,
    UpdateState,
)
from dslc.check.sums import REST, Placement, collect_index_names
from dslc.check.values import POISON, Binding, FunctionValue, Shared, Static, Val, is_float, is_int, lower
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Label
from dslc.ops.table import INITIALIZERS
from dslc.resolve.files import did_you_mean
from dslc.sizes import Size, tidy
from dslc.source import Span
from dslc.syntax import tree as t

#: which statements may stand where (by the word of the definition)
PLACES: dict[type, tuple[str, ...]] = {
    t.Parameter: ("layer", "model"),
    t.State: ("layer", "model"),
    t.Use: ("layer", "model"),
    t.Expose: ("layer", "model"),
    t.Slots: ("optimizer",),
    t.Update: ("layer", "model", "optimizer"),
    t.Backward: ("fn",),
    t.Objective: ("train",),
    t.Using: ("train",),
    t.Metric: ("train",),
    t.Freeze: ("train",),
    t.Mode: ("layer", "model", "train"),
}


def block(frame: Frame, statements: Sequence[t.Statement]) -> None:
    """Check statements in order; `start` lines belong to the scan above them, modes go in pairs."""
    place = 0
    while place < len(statements):
        statement = statements[place]
        place += 1
        frame.checker.step(statement.span)
        if not _may_stand_here(frame, statement):
            continue
        if isinstance(statement, t.Scan):
            starts: list[t.Start] = []
            while place < len(statements) and isinstance(following := statements[place], t.Start):
                starts.append(following)
                place += 1
            scan(frame, statement, starts)
        elif isinstance(statement, t.Start):
            label = Label(statement.span)
            frame.report(
                kinds.START_UNKNOWN(label, name=statement.target.name, index="", names="no scan stands above it")
            )
        elif isinstance(statement, t.Mode):
            pair = [statement]
            if (
                place < len(statements)
                and isinstance(other := statements[place], t.Mode)
                and other.mode != statement.mode
            ):
                pair.append(other)
                place += 1
            modes(frame, pair)
        else:
            HANDLERS[type(statement)](frame, statement)


def _may_stand_here(frame: Frame, statement: t.Statement) -> bool:
    places = PLACES.get(type(statement))
    if places is None or frame.word in places:
        return True
    word = statement.span.text.split(maxsplit=1)[0]
    if frame.word == "fn" and isinstance(statement, t.Parameter | t.State):
        names = [x.name for x in statement.targets] if isinstance(statement, t.Parameter) else [statement.name]
        frame.report(kinds.PARAM_IN_FN(Label(statement.span), word=word, name=names[0], fn=frame.instance.name))
        frame.names.update(dict.fromkeys(names, POISON))
    else:
        allowed = " or ".join(f"`{p}`" for p in places)
        frame.report(kinds.NOT_HERE(Label(statement.span), word=word, here=frame.word, allowed=allowed))
    return False


# ---- declarations -----------------------------------------------------------------------------------------------------


def claim(frame: Frame, name: str, span: Span) -> bool:
    """May a declaration take this name? Reports what already has it."""
    if name in frame.taken:
        frame.report(kinds.DEFINED_TWICE(Label(span), Label(frame.taken[name], "first defined here"), name=name))
        return False
    if isinstance(frame.names.get(name), Tensor):
        old = frame.names[name]
        assert isinstance(old, Tensor)
        frame.report(kinds.DEFINED_TWICE(Label(span), Label(old.span, "first defined here"), name=name))
        return False
    frame.taken[name] = span
    return True


def parameter(frame: Frame, node: t.Parameter) -> None:
    shape = definitions.declared_shape(frame, node.type)
    dtype = definitions.declared_dtype(frame, node.type)
    for target in node.targets:
        if not claim(frame, target.name, target.span):
            continue
        if shape is None or dtype is None:
            frame.names[target.name] = POISON
            continue
        if not is_float(dtype):
            help = "only floats are trained; write a formula for whole numbers"
            frame.report(
                kinds.WRONG_DTYPE(
                    Label(node.type.span),
                    what=f"the parameter `{target.name}`",
                    expected="float",
                    found=dtype,
                    help=help,
                )
            )
            frame.names[target.name] = POISON
            continue
        sizes, origins = shape
        name = ".".join([target.name, *frame.loop])
        tensor = frame.new_tensor(name, dtype, sizes, "param", target.span, origins=origins)
        frame.names[target.name] = tensor
        declaration = ParamDecl(tensor, "", frozen=node.frozen)
        if node.given is not None:
            declaration.initializer = "given"
            value = given_value(frame, target, node.given, tensor)
            if value is not None:
                declaration.indices, declaration.value = value
        elif target.items is not None:
            frame.report(
                kinds.SYNTAX(
                    Label(target.span),
                    expected="`=` and a formula",
                    found="indices without a formula",
                    help=f"write `param {target.name}[...]: ... = formula`",
                )
            )
        elif node.drawn is not None:
            drawn_value(frame, node.drawn, declaration)
        else:
            declaration.initializer = "glorot" if len(sizes) >= 2 else "zeros"
        frame.instance.params.append(declaration)
        frame.instance.param_count += 1
    definitions.limit_parameters(frame, node.span)


def given_value(frame: Frame, target: t.Target, value: t.Expr, tensor: Tensor) -> tuple[tuple[Index, ...], Expr] | None:
    """`param A[n, k]: [N, K] = formula`: the indices and the formula, over sizes and index values only."""
    with frame.collecting() as body:
        made = equation_value(frame, target, value, tensor.shape, tensor.origins)
    if made is None:
        return None
    if len(body) or any(not x.shape == () or x.role != "value" for x in _reads(made.expr)):
        frame.report(kinds.STATIC_NEEDED(Label(value.span), what="an initial value"))
        return None
    return tuple(i for axis in made.axes for i in axis), made.expr


def _reads(e: Expr) -> list[Tensor]:
    from dslc.check.derivatives import tensors_in

    return tensors_in([e])


def drawn_value(frame: Frame, node: t.Expr, declaration: ParamDecl) -> None:
    """`~ glorot`, `~ normal(0.02)`."""
    callee = node.callee if isinstance(node, t.Call) else node
    arguments = node.arguments if isinstance(node, t.Call) else ()
    if not isinstance(callee, t.Name) or callee.id not in INITIALIZERS:
        name = callee.span.text
        help = did_you_mean(name, INITIALIZERS) or "one of " + ", ".join(f"`{n}`" for n in INITIALIZERS)
        frame.report(kinds.UNKNOWN_INITIALIZER(Label(node.span), name=name, help=help))
        return
    least, most = INITIALIZERS[callee.id]
    if not least <= len(arguments) <= most:
        expected = f"{least} to {most} arguments" if least != most else f"{least} argument{'s' * (least != 1)}"
        frame.report(kinds.ARITY(Label(node.span), name=callee.id, expected=expected, found=len(arguments)))
        return
    declaration.initializer = callee.id
    scope = Scope(frame)
    values = [expressions.expression(scope, a.value) for a in arguments]
    if expressions.numbers(scope, [(a.value, v) for a, v in zip(arguments, values, strict=True)], callee.id):
        declaration.init_args = tuple(lower(v) for v in values)
    rank = len(declaration.tensor.shape)
    if callee.id in ("orthogonal", "identity") and rank != 2:
        frame.report(kinds.INITIALIZER_RANK(Label(node.span), name=callee.id, found=rank))


def state(frame: Frame, node: t.State) -> None:
    shape = definitions.declared_shape(frame, node.type)
    dtype = definitions.declared_dtype(frame, node.type)
    if not claim(frame, node.name, node.span):
        return
    if shape is None or dtype is None:
        frame.names[node.name] = POISON
        return
    tensor = frame.new_tensor(".".join([node.name, *frame.loop]), dtype, shape[0], "state", node.span, origins=shape[1])
    scope = Scope(frame)
    value = expressions.expression(scope, node.value)
    frame.names[node.name] = tensor
    if value.poisoned or not expressions.numbers(scope, [(node.value, value)], "="):
        return
    if value.axes:
        frame.report(kinds.SCALAR_EXPECTED(Label(node.value.span), name="state"))
        return
    frame.instance.states.append(StateDecl(tensor, lower(value)))


def slots(frame: Frame, node: t.Slots) -> None:
    like = frame.names["param"]
    assert isinstance(like, Tensor)
    for part in node.values:
        if not claim(frame, part.name, part.span):
            continue
        scope = Scope(frame)
        value = expressions.expression(scope, part.value)
        tensor = frame.new_tensor(part.name, "float", like.shape, "slot", part.span, origins=like.origins)
        frame.names[part.name] = tensor
        if not value.poisoned and expressions.numbers(scope, [(part.value, value)], "="):
            frame.instance.states.append(StateDecl(tensor, lower(value)))


def use(frame: Frame, node: t.Use) -> None:
    if not claim(frame, node.name, node.span):
        return
    scope = Scope(frame)
    function = calls.function_argument(scope, calls.Given(node.value), "layer")
    if function is None or isinstance(function, Shared):
        frame.names[node.name] = POISON if function is None else function
        return
    path = ".".join([node.name, *frame.loop])
    frame.names[node.name] = Shared(function, path, node.frozen, node.span)


def size(frame: Frame, node: t.Size) -> None:
    value = expressions.as_size(Scope(frame), node.value, what=f"the size `{node.name}`")
    if claim(frame, node.name, node.span):
        frame.names[node.name] = POISON if value is None else Static(value, node.span)


# ---- equations ----------------------------------------------------------------------------------------------------------


@dataclass
class Made:
    """A right-hand side laid out along the axes of its target."""

    axes: tuple[tuple[Index, ...], ...]
    shape: tuple[Size, ...]
    expr: Expr
    origins: tuple[tuple[Span, str], ...]
    span: Span


Axis = tuple[str, object, Span]  # kind (index, rest, keep, group), payload, place


def left_side(scope: Scope, target: t.Target) -> list[Axis] | None:
    """The axes that the left-hand side names."""
    frame = scope.frame
    axes: list[Axis] = []
    seen: dict[str, Span] = {}
    for item in target.items or ():
        names: list[tuple[str, Span]] = []
        match item:
            case t.Name():
                names, kind, payload = [(item.id, item.span)], "index", (item.id, None)
            case t.Slice(low=t.Name() as low, high=bound, step=None) if bound is not None:
                names, kind, payload = [(low.id, low.span)], "index", (low.id, bound)
            case t.Slice(low=None, high=None, step=None):
                kind, payload = "keep", None
            case t.Group():
                names, kind, payload = [(n.id, n.span) for n in item.names], "group", item.names
            case t.Rest():
                names, kind, payload = [(REST, item.span)], "rest", None
            case _:
                help = "the left side names the axes of the result; to write into places, use `+=`"
                frame.report(kinds.LEFT_SIDE(Label(item.span), found=item.span.text, help=help))
                return None
        for name, span in names:
            if isinstance(frame.names.get(name), Static):
                binding = frame.names[name]
                assert isinstance(binding, Static)
                frame.report(
                    kinds.INDEX_SHADOWS(
                        Label(span), Label(binding.span, "declared here"), name=name, what=f"a {binding.what}"
                    )
                )
                return None
            if name in seen:
                help = "to read a diagonal, write it on the right: `d[i] = x[i, i]`"
                frame.report(kinds.INDEX_REPEATED(Label(span), Label(seen[name], "first here"), name=name, help=help))
                return None
            seen[name] = span
        axes.append((kind, payload, item.span))
    return axes


def open_scope(frame: Frame, targets: Sequence[t.Target], value: t.Expr, where: Sequence[t.Condition]) -> Scope:
    scope = Scope(frame)
    for state_ in frame.scans:
        scope.levels.append({state_.index.name: (state_.index,)})
        scope.kept.add(state_.index.name)
    scope.index_names = collect_index_names(frame, [*targets, value])
    scope.index_names |= {c.name for c in where if isinstance(c, t.IndexSize)}
    return scope


def equation_value(
    frame: Frame,
    target: t.Target,
    value: t.Expr,
    declared: Sequence[Size] | None,
    origins: Sequence[tuple[Span, str]] = (),
    where: Sequence[t.Condition] = (),
    several: int | None = None,
) -> Made | None:
    """Check one equation with one target."""
    made = equation_values(frame, [target], value, [None if declared is None else (declared, origins)], where)
    return made[0] if made else None


Declared = tuple[Sequence[Size], Sequence[tuple[Span, str]]]


def equation_values(
    frame: Frame,
    targets: Sequence[t.Target],
    value: t.Expr,
    declared: Sequence[Declared | None],
    where: Sequence[t.Condition] = (),
) -> list[Made] | None:
    """Check `targets = value`: ranges, sums, shapes. `declared` gives shapes that are already fixed."""
    scope = open_scope(frame, targets, value, where)
    sides: list[list[Axis]] = []
    for target in targets:
        side = left_side(scope, target)
        if side is None:
            return None
        sides.append(side)
    for side in sides:
        for kind, payload, _ in side:
            scope.kept.update(_names(kind, payload))
    if not index_sizes(scope, where):
        return None
    for target, side, fixed in zip(targets, sides, declared, strict=True):
        if not fix_left(scope, target, side, fixed):
            return None
    placement = Placement(scope)
    before = frame.had_error
    frame.had_error = False
    placement.run(value, scope.kept)
    val = expressions.expression(scope, value)
    failed = frame.had_error
    frame.had_error = before or failed
    if val.poisoned or failed:
        return None
    results = val.several or (val,)
    if len(results) != len(targets):
        label = Label(value.span, f"{len(results)} result{'s' * (len(results) != 1)}")
        frame.report(
            kinds.RESULT_COUNT(
                label,
                Label(targets[0].span.to(targets[-1].span), f"{len(targets)} names"),
                expected=len(targets),
                found=len(results),
            )
        )
        return None
    laid = []
    for target, side, result in zip(targets, sides, results, strict=True):
        axes = lay_out(scope, target, side, result, placement.uses(value), value)
        if axes is None:
            return None
        laid.append((target, axes, result))
    if not scope.finish():
        return None
    return [close(scope, target, axes, lower(result)) for target, axes, result in laid]


def _names(kind: str, payload: object) -> set[str]:
    if kind == "index":
        return {payload[0]}  # type: ignore[index]
    if kind == "group":
        return {n.id for n in payload}  # type: ignore[attr-defined]
    return {REST} if kind == "rest" else set()


def index_sizes(scope: Scope, where: Sequence[t.Condition]) -> bool:
    """`where a = 8, b = 8`."""
    for condition in where:
        if not isinstance(condition, t.IndexSize):
            scope.frame.report(kinds.WHERE_INDEX(Label(condition.span)))
            return False
        size_ = expressions.as_size(scope, condition.value, what=f"the range of `{condition.name}`")
        if size_ is None:
            return False
        for index in scope.find(condition.name, condition.span):
            scope.explicit.add(index)
            scope.constrain(index, size_, condition.span)
    return True


def fix_left(scope: Scope, target: t.Target, side: list[Axis], fixed: Declared | None) -> bool:
    """Ranges that the left-hand side fixes: explicit bounds, and the declared type of the target."""
    frame = scope.frame
    for kind, payload, span in side:
        if kind == "index" and payload[1] is not None:  # type: ignore[index]
            name, bound = payload  # type: ignore[misc]
            size_ = expressions.as_size(scope, bound, what=f"the range of `{name}`")
            if size_ is None:
                return False
            for index in scope.find(name, span):
                scope.explicit.add(index)
                scope.constrain(index, size_, span)
    if fixed is None or target.items is None:
        return True
    sizes, origins = fixed
    rest = [i for i, (kind, _, _) in enumerate(side) if kind == "rest"]
    if len(side) - len(rest) > len(sizes) or (not rest and len(side) != len(sizes)):
        shape = "[" + ", ".join(frame.show(s) for s in sizes) + "]"
        labels = [Label(target.span, f"{len(side)} axes")]
        if origins:
            labels.append(Label(origins[0][0].to(origins[-1][0]), f"declared as {shape}"))
        frame.report(kinds.TARGET_RANK(*labels, name=target.name, expected=len(sizes), found=len(side)))
        return False
    if rest:
        length = len(sizes) - len(side) + 1
        scope.rest = tuple(frame.new_index("", sizes[rest[0] + k], side[rest[0]][2]) for k in range(length))
        scope.rest_span = side[rest[0]][2]
        for k, index in enumerate(scope.rest):
            scope.evidence[index] = Evidence(side[rest[0]][2], sizes[rest[0] + k], "", None)
    place = 0
    for kind, payload, span in side:
        if kind == "rest":
            place += len(sizes) - len(side) + 1
            continue
        written, origin = (origins[place][1], origins[place][0]) if origins else ("", None)
        if kind == "index":
            for index in scope.find(payload[0], span):  # type: ignore[index]
                scope.constrain(index, sizes[place], span, written, origin)
        elif kind == "group":
            indices = tuple(i for n in payload for i in scope.find(n.id, n.span))  # type: ignore[attr-defined]
            from dslc.check.indices import PendingGroup

            scope.groups.append(PendingGroup(span, indices, sizes[place], Affine((), 0)))
        place += 1
    return True


def lay_out(
    scope: Scope, target: t.Target, side: list[Axis], val: Val, used: frozenset[str], value: t.Expr
) -> list[tuple[tuple[Index, ...], Span]] | None:
    """Bring the axes of a value into the order of the left-hand side."""
    frame = scope.frame
    if val.function is not None or isinstance(val.static, str):
        what = "a function" if val.function is not None else "a string"
        help = "to name a layer, write `use`" if val.function is not None else None
        frame.report(kinds.NOT_A_VALUE(Label(value.span), found=what, help=help))
        return None
    steps = scans.active_indices(frame)
    if target.items is None:
        named = [i for i in val.free if i not in set(val.axes) and i not in steps]
        if named:
            frame.report(
                kinds.INDICES_LEFT(
                    Label(target.span),
                    name=named[0].name or "...",
                    target=target.name,
                    help=f"name the axes: `{target.name}[{', '.join(i.name or '...' for i in named)}] = ...`",
                )
            )
            return None
        return [((a,), a.span) for a in val.axes]
    keeps = [a for a in side if a[0] == "keep"]
    if len(keeps) != len(val.axes):
        report_axes(scope, target, side, keeps, val, value)
        return None
    remaining = list(val.axes)
    axes: list[tuple[tuple[Index, ...], Span]] = []
    for kind, payload, span in side:
        if kind == "keep":
            axes.append(((remaining.pop(0),), span))
            continue
        if kind == "rest":
            if scope.rest is None:
                frame.report(
                    kinds.REST_MISUSE(Label(span), why="nothing on the right says how many axes it stands for")
                )
                return None
            axes.extend(((i,), span) for i in scope.rest)
            continue
        names = [payload[0]] if kind == "index" else [n.id for n in payload]  # type: ignore[index,attr-defined]
        indices = []
        for name in names:
            (index,) = scope.find(name, span)
            if name not in used and index not in scope.explicit and index not in steps and index not in val.free:
                scope.failed.add(index)
                help = f"if the value is meant to repeat along `{name}`, say how often: `{target.name}[..., {name}: SIZE, ...]`"
                frame.report(kinds.OUTPUT_INDEX(Label(span), name=name, help=help))
                return None
            indices.append(index)
        axes.append((tuple(indices), span))
    return axes


def report_axes(scope: Scope, target: t.Target, side: list[Axis], keeps: list[Axis], val: Val, value: t.Expr) -> None:
    frame = scope.frame
    shape = expressions.shape_text(frame, val.axes)
    found = f"a value of shape {shape}" if val.axes else "a single number"
    names = [payload[0] for kind, payload, _ in side if kind == "index"]  # type: ignore[index]
    help = None
    if not keeps and isinstance(value, t.Name | t.Call) and len(names) == len(val.axes):
        help = f"write `{target.name} = {value.span.text}`, or index it: `{value.span.text}[{', '.join(names)}]`"
    elif val.axes:
        help = "index the tensors on the right, or write `:` on the left for each axis that stays whole"
    labels = (
        Label(value.span, found),
        Label(target.span, f"{len(keeps)} whole ax{'is' if len(keeps) == 1 else 'es'} here"),
    )
    frame.report(kinds.AXES_LEFT(*labels, expected=len(keeps), found=len(val.axes), help=help))


def close(scope: Scope, target: t.Target, axes: list[tuple[tuple[Index, ...], Span]], expr: Expr) -> Made:
    frame = scope.frame
    shape: list[Size] = []
    origins: list[tuple[Span, str]] = []
    for indices, span in axes:
        total: Size = 1
        for index in indices:
            assert index.size is not None
            total = tidy(total * index.size)
        shape.append(frame.facts.normal(total))
        evidence = scope.evidence.get(indices[0]) if len(indices) == 1 else None
        place = evidence.origin or evidence.span if evidence is not None else span
        origins.append((place, evidence.written if evidence is not None else ""))
    return Made(tuple(indices for indices, _ in axes), tuple(shape), expr, tuple(origins), target.span)


def equation(frame: Frame, node: t.Equation) -> None:
    """`y[n, o] = ...`."""
    good = [_may_assign(frame, target) for target in node.targets]
    declared = [_declared_shape(frame, target) for target in node.targets]
    made = equation_values(frame, node.targets, node.value, declared, node.where) if all(good) else None
    if made is None:
        for target, ok in zip(node.targets, good, strict=True):
            if ok:
                poison(frame, target.name)
        return
    for target, result in zip(node.targets, made, strict=True):
        bind(frame, target, result, node.value.span)


def poison(frame: Frame, name: str) -> None:
    """A value whose equation failed: later uses are not complained about."""
    for state_ in frame.scans:
        if name in state_.sequences:
            state_.sequences[name].defined = True
            return
    frame.names[name] = POISON


def _may_assign(frame: Frame, target: t.Target) -> bool:
    binding = frame.names.get(target.name)
    if isinstance(binding, Tensor) and binding.role != "value":
        word = {"param": "a parameter", "input": "an argument", "state": "a state", "slot": "a slot"}[binding.role]
        help = (
            f"write `{target.name} <- ...` to update it" if binding.role in ("state", "slot") else "choose another name"
        )
        if binding.role == "param" and frame.word == "optimizer":
            help = f"write `{target.name} <- ...` to update it"
        frame.report(
            kinds.REBINDS(
                Label(target.span), Label(binding.span, "declared here"), name=target.name, what=word, help=help
            )
        )
        return False
    if isinstance(binding, Static):
        label = Label(binding.span, "declared here")
        frame.report(
            kinds.REBINDS(
                Label(target.span), label, name=target.name, what=f"a {binding.what}", help="choose another name"
            )
        )
        return False
    if isinstance(binding, Shared):
        label = Label(binding.span, "declared here")
        frame.report(
            kinds.REBINDS(Label(target.span), label, name=target.name, what="a layer", help="choose another name")
        )
        return False
    return True


def _declared_shape(frame: Frame, target: t.Target) -> Declared | None:
    fixed = frame.output_shapes.get(target.name)
    return None if fixed is None else (fixed.shape, fixed.origins)


def bind(frame: Frame, target: t.Target, made: Made, span: Span) -> None:
    """Give a checked value its name."""
    below = None
    if is_int(made.expr.dtype):
        low, high = interval(frame, made.expr)
        if low is not None and high is not None and frame.facts.nonnegative(low):
            below = frame.facts.normal(tidy(high + 1))
    for state_ in frame.scans:
        sequence = state_.sequences.get(target.name)
        if sequence is not None:
            bind_sequence(frame, sequence, made, below)
            return
    dtype = made.expr.dtype
    fixed = frame.output_shapes.get(target.name)
    if fixed is not None:
        if not fits_declared(frame, target, made, fixed, span):
            frame.names[target.name] = POISON
            return
        dtype = fixed.dtype if fixed.dtype != "float" else dtype
        below = fixed.below if fixed.below is not None else below
    tensor = frame.new_tensor(target.name, dtype, made.shape, span=target.span, below=below, origins=made.origins)
    frame.names[target.name] = tensor
    frame.one_mode.pop(target.name, None)
    frame.emit(Define(tensor, made.axes, made.expr, target.span.to(span)))


def fits_declared(frame: Frame, target: t.Target, made: Made, fixed: definitions.OutputType, span: Span) -> bool:
    """Does a value have the declared type of the output that it defines?"""
    if len(made.shape) != len(fixed.shape):
        a = "[" + ", ".join(frame.show(s) for s in fixed.shape) + "]"
        b = "[" + ", ".join(frame.show(s) for s in made.shape) + "]"
        frame.report(
            kinds.OUTPUT_TYPE(
                Label(span, f"shape {b}"), Label(fixed.span, f"shape {a}"), name=target.name, expected=a, found=b
            )
        )
        return False
    for actual, wanted, (place, written) in zip(made.shape, fixed.shape, fixed.origins, strict=True):
        equal = frame.facts.equal(actual, wanted)
        if not equal:
            a, b = frame.show(wanted), frame.show(actual)
            name = f"{written} = {a}" if written and written != a and written.isidentifier() else a
            shape_a = "[" + ", ".join(frame.show(s) for s in fixed.shape) + "]"
            shape_b = "[" + ", ".join(frame.show(s) for s in made.shape) + "]"
            help = f"if `{a}` and `{b}` are always equal, say so: `where {a} == {b}`" if equal is None else None
            frame.report(
                kinds.OUTPUT_TYPE(
                    Label(span, f"shape {shape_b}"),
                    Label(place, f"`{name}` declared here"),
                    name=target.name,
                    expected=shape_a,
                    found=shape_b,
                    help=help,
                )
            )
            return False
    found = made.expr.dtype
    if fixed.dtype != found and not (is_float(fixed.dtype) and (is_float(found) or is_int(found))):
        if not (is_int(fixed.dtype) and is_int(found)):
            frame.report(
                kinds.WRONG_DTYPE(
                    Label(span),
                    Label(fixed.span, "declared here"),
                    what=f"`{target.name}`",
                    expected=fixed.dtype,
                    found=found,
                )
            )
            return False
    return True


def bind_sequence(frame: Frame, sequence: scans.Sequence_, made: Made, below: Size | None) -> None:
    tensor = sequence.tensor
    for axis, (placeholder, actual) in enumerate(zip(tensor.shape, made.shape, strict=True)):
        if not frame.facts.assume_equal(placeholder, actual):
            a, b = frame.show(placeholder), frame.show(actual)
            frame.report(
                kinds.SIZES_DIFFER(
                    Label(made.span), Label(made.origins[axis][0]), a=f"`{a}`", b=f"`{b}`", how="are different"
                )
            )
            break
    if is_float(tensor.dtype) and is_float(made.expr.dtype):
        tensor.dtype = made.expr.dtype
    elif (
        tensor.dtype != made.expr.dtype
        and not (is_int(tensor.dtype) and is_int(made.expr.dtype))
        and not (is_float(tensor.dtype) and is_int(made.expr.dtype))
    ):
        if sequence.earlier is None and sequence.start is None:
            tensor.dtype = made.expr.dtype
        else:
            found = made.expr.dtype
            frame.report(
                kinds.WRONG_DTYPE(
                    Label(made.span), what=f"`{tensor.name}`, as its start says,", expected=tensor.dtype, found=found
                )
            )
    elif sequence.start is None and sequence.earlier is None:
        tensor.dtype = made.expr.dtype
    tensor.shape = tuple(frame.facts.normal(s) for s in tensor.shape)
    tensor.origins = made.origins
    tensor.below = below
    sequence.defined = True
    frame.names[tensor.name] = tensor
    frame.emit(Define(tensor, made.axes, made.expr, made.span))


def define_value(
    frame: Frame, target: t.Target, value: t.Expr, name: str, shape: Sequence[Size], origins: Sequence[tuple[Span, str]]
) -> Tensor | None:
    """A value of a given shape (a start, the next value of a state); a plain number fills all of it."""
    if target.items is None:
        scope = open_scope(frame, [], value, ())
        Placement(scope).run(value, scope.kept)
        val = expressions.expression(scope, value)
        if val.poisoned or not scope.finish():
            return None
        if val.function is not None or val.several or isinstance(val.static, str):
            frame.report(kinds.NOT_A_VALUE(Label(value.span), found="a function" if val.function else "something else"))
            return None
        if val.axes and (
            len(val.axes) != len(shape)
            or any(
                frame.facts.equal(a.size if a.size is not None else 1, s) is not True
                for a, s in zip(val.axes, shape, strict=True)
            )
        ):
            expected = "[" + ", ".join(frame.show(s) for s in shape) + "]"
            found = expressions.shape_text(frame, val.axes)
            frame.report(
                kinds.OUTPUT_TYPE(Label(value.span, f"shape {found}"), name=target.name, expected=expected, found=found)
            )
            return None
        axes = val.axes or tuple(frame.new_index("", s, value.span) for s in shape)
        tensor = frame.new_tensor(name, val.dtype, tuple(shape), span=value.span, origins=tuple(origins))
        frame.emit(Define(tensor, tuple((a,) for a in axes), lower(val), value.span))
        return tensor
    made = equation_value(frame, target, value, shape, origins)
    if made is None:
        return None
    tensor = frame.new_tensor(name, made.expr.dtype, made.shape, span=value.span, origins=made.origins)
    frame.emit(Define(tensor, made.axes, made.expr, value.span))
    return tensor


# ---- accumulation and updates ---------------------------------------------------------------------------------------------


def accumulate(frame: Frame, node: t.Accumulate) -> None:
    """`y[dst[m], o] += ...`: scatter where a place is data or an affine expression, plain addition elsewhere."""
    if not _may_assign(frame, node.target):
        return
    plain = all(
        isinstance(i, t.Name | t.Rest | t.Group)
        or (isinstance(i, t.Slice) and (i.low is None or isinstance(i.low, t.Name)))
        for i in node.target.items or ()
    )
    previous = frame.names.get(node.target.name)
    if plain:
        accumulate_plain(frame, node, previous if isinstance(previous, Tensor) else None)
        return
    tensor = scatter(frame, node, previous if isinstance(previous, Tensor) else None)
    frame.names[node.target.name] = POISON if tensor is None else tensor


def accumulate_plain(frame: Frame, node: t.Accumulate, previous: Tensor | None) -> None:
    if previous is None:
        equation(frame, t.Equation((node.target,), node.value, node.where, span=node.span))
        return
    made = equation_value(frame, node.target, node.value, previous.shape, previous.origins, node.where)
    if made is None:
        poison(frame, node.target.name)
        return
    if node.target.items is None and len(made.shape) != len(previous.shape):
        a = "[" + ", ".join(frame.show(s) for s in previous.shape) + "]"
        b = "[" + ", ".join(frame.show(s) for s in made.shape) + "]"
        frame.report(
            kinds.OUTPUT_TYPE(
                Label(node.value.span, f"shape {b}"),
                Label(previous.span, f"shape {a}"),
                name=node.target.name,
                expected=a,
                found=b,
            )
        )
        poison(frame, node.target.name)
        return
    if node.target.items is None:
        for a_, b_ in zip(previous.shape, made.shape, strict=True):
            if frame.facts.equal(a_, b_) is not True:
                a = "[" + ", ".join(frame.show(s) for s in previous.shape) + "]"
                b = "[" + ", ".join(frame.show(s) for s in made.shape) + "]"
                frame.report(
                    kinds.OUTPUT_TYPE(
                        Label(node.value.span, f"shape {b}"),
                        Label(previous.span, f"shape {a}"),
                        name=node.target.name,
                        expected=a,
                        found=b,
                    )
                )
                poison(frame, node.target.name)
                return
    if any(len(axis) != 1 for axis in made.axes):
        frame.report(
            kinds.LEFT_SIDE(Label(node.target.span), found=node.target.span.text, help="write groups with `=`")
        )
        return
    from dslc.check.program import Read

    old = Read(previous, tuple(Affine(((axis[0], 1),), 0) for axis in made.axes), previous.dtype, span=node.target.span)
    op = "+" if node.op == "+" else node.op
    dtype = calls.promote(previous.dtype, made.expr.dtype)
    made.expr = Apply(op, (old, made.expr), dtype, node.span)
    bind(frame, node.target, made, node.value.span)


def scatter(frame: Frame, node: t.Accumulate, previous: Tensor | None) -> Tensor | None:
    scope = open_scope(frame, [node.target], node.value, node.where)
    placement = Placement(scope)
    items = list(node.target.items or ())
    for item in items:
        part: t.Node | None = item
        if isinstance(item, t.Slice):
            part = item.low
        if part is None or isinstance(part, t.Rest):
            frame.report(kinds.LEFT_SIDE(Label(item.span), found=item.span.text, help="name every axis of a scatter"))
            return None
        scope.kept |= placement.uses(part)
    if not index_sizes(scope, node.where):
        return None
    placement = Placement(scope)
    placement.run(node.value, scope.kept)
    fixed = frame.output_shapes.get(node.target.name)
    shape: Sequence[Size] | None = (
        previous.shape if previous is not None else fixed.shape if fixed is not None else None
    )
    if shape is not None and len(shape) != len(items):
        frame.report(
            kinds.TARGET_RANK(Label(node.target.span), name=node.target.name, expected=len(shape), found=len(items))
        )
        return None
    val = expressions.expression(scope, node.value)
    if val.poisoned:
        return None
    if val.axes:
        report_axes(scope, node.target, [], [], val, node.value)
        return None
    if not expressions.numbers(scope, [(node.value, val)], f"{node.op}="):
        return None
    positions: list[Position] = []
    sizes: list[Size | None] = []
    used: dict[Index, None] = dict(val.free)
    for place, item in enumerate(items):
        known = None if shape is None else shape[place]
        found = scatter_position(scope, node, item, known)
        if found is None:
            return None
        position, size_, free = found
        positions.append(position)
        sizes.append(size_)
        used.update(free)
    if not scope.finish():
        return None
    final: list[Size] = []
    for place, (position, size_) in enumerate(zip(positions, sizes, strict=True)):
        if size_ is None:
            assert isinstance(position, Affine)
            size_ = position.terms[0][0].size
            assert size_ is not None
        final.append(frame.facts.normal(size_))
    steps = scans.active_indices(frame)
    indices = tuple(i for i in used if i not in steps)
    origins = tuple((i.span, "") for i in items)
    dtype = val.dtype if previous is None else calls.promote(previous.dtype, val.dtype)
    tensor = frame.new_tensor(node.target.name, dtype, tuple(final), span=node.target.span, origins=origins)
    frame.emit(Scatter(tensor, previous, node.op, indices, tuple(positions), lower(val), node.span))
    return tensor


def scatter_position(
    scope: Scope, node: t.Accumulate, item: t.Item, known: Size | None
) -> tuple[Position, Size | None, dict[Index, None]] | None:
    """Where one axis of a scatter is written, and how long that axis is (None: as long as its plain index)."""
    frame = scope.frame
    expr: t.Expr
    if isinstance(item, t.Slice):
        assert item.low is not None
        expr = item.low
        if item.high is None:
            frame.report(kinds.LEFT_SIDE(Label(item.span), found=item.span.text, help="write `place: size`"))
            return None
        stated = expressions.as_size(scope, item.high)
        if stated is None:
            return None
        known = stated
    elif isinstance(item, t.Group | t.Rest | t.Into):
        frame.report(kinds.LEFT_SIDE(Label(item.span), found=item.span.text, help="name every axis of a scatter"))
        return None
    else:
        expr = item
    val = expressions.expression(scope, expr)
    if val.poisoned:
        return None
    if val.axes or not is_int(val.dtype) or val.function is not None:
        frame.report(kinds.FLOAT_INDEX(Label(expr.span), found=expressions.describe(frame, val)))
        return None
    lowered = lower(val)
    where = affine(lowered)
    free = dict(val.free)
    if where is not None and len(where.terms) == 1 and where.terms[0][1] == 1 and where.offset == 0:
        if known is not None:
            scope.constrain(where.terms[0][0], known, expr.span)
        return where, known, free
    if where is None and not reads_data(lowered):
        frame.report(kinds.NOT_AFFINE(Label(expr.span), text=expr.span.text))
        return None
    position: Position = where if where is not None else Data(lowered)
    if known is None and where is None:
        low, high = interval(frame, lowered)
        if low is not None and high is not None and frame.facts.nonnegative(low):
            known = tidy(high + 1)
    if known is None:
        help = f"say how long the axis is: `{node.target.name}[{expr.span.text}: V, ...] {node.op}= ...`, or declare the bound of the data (`i32[M] < V`)"
        frame.report(kinds.SCATTER_SIZE(Label(expr.span), name=node.target.name, help=help))
        return None
    scope.reads.append(PendingRead(node.target.span, expr.span, node.target.name, 0, known, "", position, False))
    return position, known, free


def update(frame: Frame, node: t.Update) -> None:
    """`mean <- ...`."""
    binding = frame.names.get(node.target.name)
    updatable = isinstance(binding, Tensor) and (
        binding.role in ("state", "slot") or (frame.word == "optimizer" and node.target.name == "param")
    )
    if not updatable:
        if binding is not POISON:
            known = [n for n, b in frame.names.items() if isinstance(b, Tensor) and b.role in ("state", "slot")]
            help = did_you_mean(node.target.name, known)
            if help is None:
                declare = "slot" if frame.word == "optimizer" else "state"
                help = f"declare it: `{declare} {node.target.name}{' = 0' if declare == 'slot' else ': [...] = 0'}`"
            frame.report(kinds.UPDATE_TARGET(Label(node.target.span), name=node.target.name, help=help))
        return
    assert isinstance(binding, Tensor)
    value = define_value(frame, node.target, node.value, f"{node.target.name}_next", binding.shape, binding.origins)
    if value is not None:
        frame.emit(UpdateState(binding, value, node.span))
        frame.latest[binding] = value
        frame.updated.add(node.target.name)


# ---- blocks -----------------------------------------------------------------------------------------------------------


def for_(frame: Frame, node: t.For) -> None:
    scope = Scope(frame)
    low = expressions.as_size(scope, node.low, least=None, what="the first value")
    high = expressions.as_size(scope, node.high, least=None, what="the end")
    if low is None or high is None:
        poison_all(frame, node.body)
        return
    if not isinstance(low, int) or not isinstance(high, int):
        bound = node.high if not isinstance(high, int) else node.low
        frame.settle_at_call(bound)
        help = "a size that is only known at run time cannot repeat layers; use `scan` for steps along an axis"
        frame.report(kinds.STATIC_NEEDED(Label(bound.span), what="the range of a `for`", help=help))
        poison_all(frame, node.body)
        return
    if high - low > MAX_ITERATIONS:
        frame.report(kinds.TOO_MUCH_WORK(Label(node.high.span), what="passes of a `for`", limit=MAX_ITERATIONS))
        poison_all(frame, node.body)
        return
    if (node.name in frame.names and not isinstance(frame.names[node.name], Static)) or node.name in frame.taken:
        frame.report(kinds.INDEX_SHADOWS(Label(node.span), name=node.name, what="a value"))
        return
    outer = frame.names.get(node.name)
    for value in range(low, high):
        taken = dict(frame.taken)
        kept = dict(frame.names)
        frame.names[node.name] = Static(value, node.span, "loop variable")
        frame.loop.append(str(value))
        before = frame.had_error
        frame.had_error = False
        block(frame, node.body)
        failed = frame.had_error
        frame.had_error = before or failed
        frame.loop.pop()
        for name in frame.taken.keys() - taken.keys():
            frame.names.pop(name, None)
            if name in kept:
                frame.names[name] = kept[name]
        frame.taken = taken
        if failed:
            break
    if outer is None:
        frame.names.pop(node.name, None)
    else:
        frame.names[node.name] = outer


def poison_all(frame: Frame, body: Sequence[t.Statement]) -> None:
    """Everything that a block would have defined has an error already."""
    for statement in body:
        for node in statement.walk():
            if isinstance(node, t.Equation):
                for target in node.targets:
                    frame.names[target.name] = POISON
            elif isinstance(node, t.Accumulate):
                frame.names[node.target.name] = POISON


def if_(frame: Frame, node: t.If) -> None:
    for branch in node.branches:
        value = expressions.condition(Scope(frame), branch.condition)
        if value.poisoned:
            poison_all(frame, (node,))
            return
        if not isinstance(value.static, bool):
            frame.settle_at_call(branch.condition)
            help = "`if` chooses when the spec is compiled; write `a if condition else b` for a choice by data"
            frame.report(kinds.STATIC_NEEDED(Label(branch.condition.span), what="the condition of an `if`", help=help))
            poison_all(frame, (node,))
            return
        if value.static:
            block(frame, branch.body)
            return
    block(frame, node.otherwise)


def scan(frame: Frame, node: t.Scan, starts: list[t.Start]) -> None:
    state_ = scans.open_scan(frame, node, starts)
    if state_ is None:
        poison_all(frame, node.body)
        return
    outer = dict(frame.names)
    for name, sequence in state_.sequences.items():
        frame.names[name] = sequence.tensor
    frame.scans.append(state_)
    before = frame.had_error
    frame.had_error = False
    with frame.collecting() as body:
        block(frame, node.body)
    failed = frame.had_error
    frame.had_error = before or failed
    frame.scans.pop()
    for name in frame.names.keys() - outer.keys() - state_.sequences.keys():
        binding = frame.names[name]
        if isinstance(binding, Tensor):
            frame.step_locals[name] = (binding.span, node.name)
    frame.names = outer
    if failed:
        for name in state_.sequences:
            frame.names[name] = POISON
        return
    scans.close_scan(frame, state_, body, starts)


def modes(frame: Frame, pair: Sequence[t.Mode]) -> None:
    """`training:` and `inference:`: both start from the same names, and what they define is joined."""
    outer, outer_latest = dict(frame.names), dict(frame.latest)
    bodies: dict[str, list[Stmt]] = {"training": [], "inference": []}
    names: dict[str, dict[str, Binding]] = {"training": outer, "inference": outer}
    latest = {"training": outer_latest, "inference": outer_latest}
    for node in pair:
        frame.names, frame.latest = dict(outer), dict(outer_latest)
        with frame.collecting() as body:
            block(frame, node.body)
        bodies[node.mode] = list(body)
        names[node.mode], latest[node.mode] = dict(frame.names), dict(frame.latest)
    frame.names, frame.latest = dict(outer), dict(outer_latest)
    joined = []
    for state_ in latest["training"].keys() | latest["inference"].keys():
        after = [latest[mode].get(state_, state_) for mode in ("training", "inference")]
        if after[0] is not after[1]:
            tensor = frame.new_tensor(state_.name, state_.dtype, state_.shape, span=state_.span, origins=state_.origins)
            joined.append((tensor, after[0], after[1]))
            frame.latest[state_] = tensor
    for name in sorted(names["training"].keys() | names["inference"].keys()):
        a, b = names["training"].get(name), names["inference"].get(name)
        if a is b:
            continue
        if a is POISON or b is POISON:
            frame.names[name] = POISON
        elif isinstance(a, Tensor) and isinstance(b, Tensor):
            same = len(a.shape) == len(b.shape) and all(
                frame.facts.equal(x, y) is True for x, y in zip(a.shape, b.shape, strict=True)
            )
            if not same:
                show = [f"{x.dtype}[{', '.join(frame.show(s) for s in x.shape)}]" for x in (a, b)]
                labels = (Label(b.span, f"{show[1]} in inference"), Label(a.span, f"{show[0]} in training"))
                frame.report(kinds.MODES_DIFFER(*labels, name=name, a=show[0], b=show[1]))
                frame.names[name] = POISON
                continue
            tensor = frame.new_tensor(name, calls.promote(a.dtype, b.dtype), a.shape, span=a.span, origins=a.origins)
            joined.append((tensor, a, b))
            frame.names[name] = tensor
        else:
            present, mode = (a, "training") if b is None else (b, "inference")
            if isinstance(present, Tensor):
                frame.one_mode[name] = (mode, present.span)
    frame.emit(Modes(tuple(bodies["training"]), tuple(bodies["inference"]), tuple(joined), pair[0].span))


def checkpoint(frame: Frame, node: t.Checkpoint) -> None:
    with frame.collecting() as body:
        block(frame, node.body)
    frame.emit(Remat(tuple(body), node.span))


def backward(frame: Frame, node: t.Backward) -> None:
    frame.backward = node


def expose(frame: Frame, node: t.Expose) -> None:
    for name in node.names:
        binding = frame.names.get(name)
        if isinstance(binding, Tensor):
            frame.instance.exposed.append(binding)
        elif binding is None:
            frame.unknown(name, node.span)
        elif binding is not POISON:
            frame.report(kinds.NOT_A_VALUE(Label(node.span), found=f"`{name}`, which is no tensor"))


# ---- training ---------------------------------------------------------------------------------------------------------


def scalar_value(frame: Frame, node: t.Expr, what: str) -> Tensor | None:
    """A loss or a metric: one float."""
    scope = open_scope(frame, [], node, ())
    Placement(scope).run(node, scope.kept)
    val = expressions.expression(scope, node)
    if val.poisoned or not scope.finish():
        return None
    if val.function is not None or val.several or isinstance(val.static, str) or val.dtype == "bool":
        frame.report(kinds.NOT_A_VALUE(Label(node.span), found=expressions.describe(frame, val)))
        return None
    if val.axes:
        shape = expressions.shape_text(frame, val.axes)
        help = f"reduce it, for example `mean({node.span.text})`"
        frame.report(kinds.LOSS_NOT_SCALAR(Label(node.span), what=what, found=shape, help=help))
        return None
    if what == "loss" and not is_float(val.dtype):
        frame.report(kinds.DIFFERENTIATE_INTEGER(Label(node.span), text=node.span.text, found=val.dtype))
        return None
    return calls.materialise_over(scope, Val(lower(val), (), val.free), (), node.span, what)


def objective(frame: Frame, node: t.Objective) -> None:
    if frame.objective is not None:
        first = Label(frame.objective.span, "first here")
        frame.report(kinds.OBJECTIVE_TWICE(Label(node.span), first))
        return
    frame.objective = node
    frame.loss = scalar_value(frame, node.value, "loss")


def metric(frame: Frame, node: t.Metric) -> None:
    tensor = scalar_value(frame, node.value, "metric")
    if tensor is not None:
        frame.metrics.append((node.name, tensor))
        frame.names.setdefault(node.name, tensor)


def using(frame: Frame, node: t.Using) -> None:
    if frame.using is not None:
        frame.report(kinds.OBJECTIVE_TWICE(Label(node.span), Label(frame.using.span, "first here")))
        return
    frame.using = node
    definitions.optimizer_use(frame, node)


def freeze(frame: Frame, node: t.Freeze) -> None:
    frame.freezes.append(node)


Handler = Callable[[Frame, object], None]

HANDLERS: dict[type, Handler] = {  # type: ignore[assignment]
    t.Parameter: parameter,
    t.State: state,
    t.Slots: slots,
    t.Use: use,
    t.Size: size,
    t.Equation: equation,
    t.Accumulate: accumulate,
    t.Update: update,
    t.For: for_,
    t.If: if_,
    t.Checkpoint: checkpoint,
    t.Backward: backward,
    t.Objective: objective,
    t.Using: using,
    t.Metric: metric,
    t.Freeze: freeze,
    t.Expose: expose,
}

__all__ = ["FunctionValue", "block", "define_value", "equation_value"]
