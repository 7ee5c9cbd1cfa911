"""Calls: scalar functions, casts, user functions and layers, derivatives, external operations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import sympy as sp

from dslc.check import axes as axis_ops
from dslc.check import definitions, derivatives, expressions, scans
from dslc.check.frame import MAX_INSTANCE_DEPTH, Frame, GiveUp, near_argument
from dslc.check.indices import Scope, interval
from dslc.check.program import Affine, Apply, CallFunction, Define, Index, Instance, Read, Tensor
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
    whole_tensor,
)
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Label
from dslc.ops.table import ALONG_AXIS, CASTS, DERIVATIVES, DRAWS, EXTERNALS, REDUCTIONS, SCALAR_OPS
from dslc.resolve.files import Defined
from dslc.sizes import Size, tidy
from dslc.source import Span
from dslc.syntax import tree as t

NOTHING = Val()


@dataclass(frozen=True)
class Given:
    """An argument of a call: its text, its name if it has one, its value if it is already known (a pipe)."""

    node: t.Expr
    name: str | None = None
    val: Val | None = None

    @property
    def span(self) -> Span:
        return self.node.span

    def value(self, scope: Scope) -> Val:
        return self.val if self.val is not None else expressions.expression(scope, self.node)


def call(scope: Scope, node: t.Call, piped: tuple[t.Expr, Val] | None = None) -> Val:
    """The value of a call. `piped` is the first argument when it comes from `|>`."""
    frame = scope.frame
    given = [Given(a.value, a.name) for a in node.arguments]
    if piped is not None:
        given.insert(0, Given(piped[0], None, piped[1]))
        if piped[1].poisoned:
            return NOTHING
    callee = node.callee
    if isinstance(callee, t.Access) and isinstance(callee.base, t.Name):
        return axis_ops.bracketed(scope, node, callee, given)
    if not isinstance(callee, t.Name):
        frame.report(kinds.NOT_CALLABLE(Label(callee.span), what=f"`{callee.span.text}`"))
        return NOTHING
    binding = frame.lookup_function(callee.id)
    match binding:
        case None:
            frame.unknown(callee.id, callee.span, "function")
            return NOTHING
        case Poison():
            return NOTHING
        case Shared():
            return call_defined(scope, node, binding.function, given, binding)
        case FunctionValue(defined=None):
            return call_builtin(scope, node, binding.builtin or "", given)
        case FunctionValue():
            return call_defined(scope, node, binding, given, None)
        case Val() if binding.function is not None:
            function = binding.function
            if isinstance(function, Shared):
                return call_defined(scope, node, function.function, given, function)
            if function.defined is None:
                return call_builtin(scope, node, function.builtin or "", given)
            return call_defined(scope, node, function, given, None)
        case Tensor():
            help = f"write brackets to read it: `{callee.id}[...]`"
            frame.report(kinds.NOT_CALLABLE(Label(callee.span), what=f"the tensor `{callee.id}`", help=help))
        case _:
            if not (isinstance(binding, Val) and binding.poisoned):
                what = binding.what if isinstance(binding, Static) else "number"
                frame.report(kinds.NOT_CALLABLE(Label(callee.span), what=f"the {what} `{callee.id}`"))
    return NOTHING


# ---- built-in functions ---------------------------------------------------------------------------------------------


def call_builtin(scope: Scope, node: t.Call, name: str, given: list[Given]) -> Val:
    frame = scope.frame
    if name == "einsum":
        return axis_ops.einsum(scope, node, given)
    if name in DERIVATIVES:
        return derivatives.derivative(scope, node, name, given)
    named = next((g for g in given if g.name is not None), None)
    if named is not None:
        frame.report(kinds.NO_NAMED_ARGUMENTS(Label(named.span), name=name))
        return NOTHING
    if name in EXTERNALS:
        return axis_ops.external(scope, node, name, given)
    if name in REDUCTIONS and not (name in ("min", "max") and len(given) == 2):
        return reduce_all(scope, node, name, given)
    if name in ALONG_AXIS or name in DRAWS or name in ("concat", "top_k", "one_hot", "prefix", "fft", "ifft"):
        frame.report(kinds.BRACKETS_NEEDED(Label(node.span), name=name, help=f"name the index: `{name}[i](...)`"))
        return NOTHING
    if name in ("wrap", "clamp"):
        frame.report(kinds.ONLY_IN_INDEX(Label(node.span), name=name))
        return NOTHING
    operands = [(g.node, g.value(scope)) for g in given]
    if any(v.poisoned for _, v in operands):
        return NOTHING
    arity = 1 if name in CASTS or name == "stop_grad" else SCALAR_OPS[name].arity
    if len(operands) != arity:
        expected = "1 argument" if arity == 1 else f"{arity} arguments"
        frame.report(kinds.ARITY(Label(node.span), name=name, expected=expected, found=len(operands)))
        return NOTHING
    if name in CASTS:
        return cast(scope, node, name, operands[0])
    if not expressions.numbers(scope, operands, name):
        return NOTHING
    if name == "stop_grad":
        return expressions.combine(scope, name, operands, operands[0][1].dtype, node.span)
    if name in ("min", "max") and all(v.static is not None for _, v in operands):
        folded = _fold_extreme(name, [v.static for _, v in operands])
        if folded is not None:
            return Val(static=folded)
    dtype = expressions.joint_dtype([v for _, v in operands])
    record = SCALAR_OPS[name]
    if record.gives == "bool":
        dtype = "bool"
    elif record.gives == "float" and not is_float(dtype):
        dtype = "float"
    return expressions.combine(scope, name, operands, dtype, node.span)


def _fold_extreme(name: str, values: Sequence[StaticValue | None]) -> StaticValue | None:
    """`min` and `max` of static numbers and sizes."""
    if any(isinstance(v, float | bool | str) or v is None for v in values):
        return None
    return tidy((sp.Min if name == "min" else sp.Max)(*values))


def cast(scope: Scope, node: t.Call, name: str, operand: tuple[t.Expr, Val]) -> Val:
    source, val = operand
    if val.function is not None or isinstance(val.static, str) or val.several:
        expressions.numbers(scope, [operand], name)
        return NOTHING
    if name in ("i32", "i64") and is_float(val.dtype):
        rounded = isinstance(val.expr, Apply) and val.expr.op in ("round", "floor", "ceil", "trunc")
        if not rounded and not isinstance(val.static, float):
            help = f"say how to round: `{name}(round({source.span.text}))`, or `floor`, `ceil`, `trunc`"
            scope.frame.report(kinds.ROUNDING_UNCLEAR(Label(node.span), name=name, help=help))
            return NOTHING
    aligned = expressions.combine(scope, name, [operand], name, node.span)
    return aligned


def reduce_all(scope: Scope, node: t.Call, name: str, given: list[Given]) -> Val:
    """`sum(x)`: over all positional axes."""
    if len(given) != 1:
        scope.frame.report(kinds.ARITY(Label(node.span), name=name, expected="1 argument", found=len(given)))
        return NOTHING
    val = given[0].value(scope)
    if val.poisoned:
        return NOTHING
    if not val.axes:
        help = f"name the index to reduce over: `{name}[i](...)`"
        scope.frame.report(kinds.BRACKETS_NEEDED(Label(node.span), name=name, help=help))
        return NOTHING
    return axis_ops.reduction(scope, name, val.axes, val, given[0].node, node.span)


# ---- user functions and layers ----------------------------------------------------------------------------------------


def is_static_kind(kind: str) -> bool:
    return kind in ("size", "int", "float", "bool", "string", "fn", "layer")


def call_defined(
    scope: Scope,
    node: t.Call,
    function: FunctionValue,
    given: list[Given],
    shared: Shared | None,
    axis: tuple[Index, ...] | None = None,
) -> Val:
    """Call a definition of a spec or of the library."""
    frame = scope.frame
    defined = function.defined
    assert defined is not None
    target = defined.node
    if isinstance(target, t.Optimizer):
        frame.report(
            kinds.NOT_CALLABLE(
                Label(node.callee.span), what=f"the optimizer `{target.name}`", help="optimizers stand after `using`"
            )
        )
        return NOTHING
    if isinstance(target, t.Fn) and target.axis is not None and axis is None:
        help = f"name the index: `{target.name}[{target.axis}](...)`"
        frame.report(kinds.BRACKETS_NEEDED(Label(node.span), name=target.name, help=help))
        return NOTHING
    bound = bind_arguments(scope, node, function, given, skip_tensors=False)
    if bound is None:
        return NOTHING
    if target in frame.checker.faulty and isinstance(target, t.Layer):
        return NOTHING
    if isinstance(target, t.Fn) and target.expression is not None and not _has_tensor_types(target):
        return inline(scope, node, defined, bound, axis)
    if isinstance(target, t.Layer) and frame.word == "fn":
        frame.report(kinds.LAYER_IN_FN(Label(node.span), name=target.name))
        return NOTHING
    return apply_instance(scope, node, defined, bound, shared)


def _has_tensor_types(target: t.Fn) -> bool:
    return any(isinstance(f.kind, t.Type) for f in target.formals)


BoundArgument = Val | Static | FunctionValue | Shared
Bound = dict[str, tuple[BoundArgument, Span]]


def bind_arguments(
    scope: Scope, node: t.Call, function: FunctionValue, given: list[Given], skip_tensors: bool
) -> Bound | None:
    """Match arguments to formals by place and by name, give defaults, and evaluate each as its formal asks.

    With `skip_tensors` the call is a layer value: its tensor arguments come later.
    """
    frame = scope.frame
    defined = function.defined
    assert defined is not None
    formals = defined.node.formals
    names = [f.name for f in formals]
    already = dict(function.bound)
    open_ = [f for f in formals if f.name not in already]
    if skip_tensors:
        open_ = [f for f in open_ if is_static_kind(definitions.formal_kind(frame, defined, f))]
    by_name: dict[str, Given] = {}
    good = True
    place = 0
    for argument in given:
        if argument.name is not None:
            if argument.name not in names:
                help = near_argument(argument.name, names)
                frame.report(
                    kinds.UNKNOWN_ARGUMENT(Label(argument.span), name=argument.name, callee=function.name, help=help)
                )
                good = False
                continue
            key = argument.name
        else:
            while place < len(open_) and open_[place].name in by_name:
                place += 1
            if place >= len(open_):
                shown = ", ".join(f"`{n}`" for n in names) or "none"
                label = Label(argument.span)
                frame.report(kinds.TOO_MANY_ARGUMENTS(label, callee=function.name, expected=len(open_), names=shown))
                return None
            key = open_[place].name
            place += 1
        if key in by_name:
            first = Label(by_name[key].span, "first given here")
            frame.report(kinds.ARGUMENT_TWICE(Label(argument.span), first, name=key, callee=function.name))
            good = False
        by_name[key] = argument
    bound: Bound = {}
    for formal in formals:
        if formal.name in by_name:
            value = evaluate_argument(scope, defined, formal, by_name[formal.name])
            if value is None:
                good = False
            else:
                bound[formal.name] = (value, by_name[formal.name].span)
        elif formal.name in already:
            bound[formal.name] = (already[formal.name], node.span)  # type: ignore[assignment]
        elif formal.default is not None:
            default = definitions.default_value(frame.checker, defined, formal)
            if default is None:
                good = False
            else:
                bound[formal.name] = (default, node.span)
        elif not skip_tensors:
            declared = Label(formal.span, "declared here")
            help = _missing_help(node, function, formal)
            frame.report(
                kinds.MISSING_ARGUMENT(Label(node.span), declared, name=formal.name, callee=function.name, help=help)
            )
            good = False
    return bound if good else None


def _missing_help(node: t.Call, function: FunctionValue, formal: t.Formal) -> str | None:
    if isinstance(formal.kind, t.Type):
        return f"write `x |> {node.span.text}` or pass it: `{function.name}({formal.name}, ...)`"
    return f"add `{formal.name} = ...`"


def evaluate_argument(scope: Scope, defined: Defined, formal: t.Formal, given: Given) -> BoundArgument | None:
    """The value of one argument, of the kind that its formal asks for."""
    frame = scope.frame
    kind = definitions.formal_kind(frame, defined, formal)
    if kind in ("fn", "layer"):
        return function_argument(scope, given, kind)
    val = given.value(scope)
    if val.poisoned:
        return None
    if val.function is not None:
        expected = "a tensor" if kind in ("tensor", "any") else _kind_words(kind)
        frame.report(kinds.ARGUMENT_KIND(Label(given.span), name=formal.name, expected=expected, found="a function"))
        return None
    if kind == "scalar":
        if isinstance(val.static, str) or val.several:
            expressions.numbers(scope, [(given.node, val)], formal.name)
            return None
        return val
    if kind in ("tensor", "any"):
        if isinstance(val.static, str):
            frame.report(
                kinds.ARGUMENT_KIND(Label(given.span), name=formal.name, expected="a tensor", found="a string")
            )
            return None
        if val.several:
            frame.report(kinds.SEVERAL_RESULTS(Label(given.span), found=len(val.several)))
            return None
        return val
    return static_argument(scope, formal, kind, given, val)


def _kind_words(kind: str) -> str:
    return {
        "size": "a size", "int": "a whole number", "float": "a number", "bool": "true or false",
        "string": "a string", "fn": "a function", "layer": "a layer",
    }.get(kind, kind)  # fmt: skip


def static_argument(scope: Scope, formal: t.Formal, kind: str, given: Given, val: Val) -> Static | None:
    frame = scope.frame
    if val.static is None:
        what = f"the argument `{formal.name}`"
        frame.report(kinds.STATIC_NEEDED(Label(given.span), what=what))
        return None
    value: StaticValue | None = val.static
    wrong = False
    if kind in ("size", "int"):
        if isinstance(value, bool | str):
            wrong = True
        else:
            value = expressions.check_size(frame, value, given.span, 1 if kind == "size" else None, f"`{formal.name}`")
    elif kind == "float":
        wrong = isinstance(value, bool | str)
    elif kind == "bool":
        wrong = not isinstance(value, bool)
    elif kind == "string":
        wrong = not isinstance(value, str)
    if wrong:
        found = expressions.describe(frame, val)
        frame.report(kinds.ARGUMENT_KIND(Label(given.span), name=formal.name, expected=_kind_words(kind), found=found))
        return None
    return None if value is None else Static(value, given.span, "argument")


def function_argument(scope: Scope, given: Given, kind: str) -> FunctionValue | Shared | None:
    """A function or layer passed as an argument: a name, or a call without its tensor."""
    frame = scope.frame
    node = given.node
    if isinstance(node, t.Call) and isinstance(node.callee, t.Name):
        binding = frame.lookup(node.callee.id)
        if isinstance(binding, FunctionValue) and binding.defined is not None:
            arguments = [Given(a.value, a.name) for a in node.arguments]
            bound = bind_arguments(scope, node, binding, arguments, skip_tensors=True)
            if bound is None:
                return None
            partial = {**dict(binding.bound), **{k: v for k, (v, _) in bound.items()}}
            return FunctionValue(binding.defined, None, tuple(partial.items()))
    val = given.value(scope)
    if val.poisoned:
        return None
    if val.function is None:
        found = expressions.describe(frame, val)
        frame.report(kinds.ARGUMENT_KIND(Label(given.span), name="", expected=_kind_words(kind), found=found))
        return None
    return val.function


def inline(scope: Scope, node: t.Call, defined: Defined, bound: Bound, axis: tuple[Index, ...] | None) -> Val:
    """A function given by one formula: its body is checked in place, with the arguments as values."""
    frame = scope.frame
    target = defined.node
    assert isinstance(target, t.Fn) and target.expression is not None
    inner_frame = replace(
        frame, file=defined.file, names={k: v for k, (v, _) in bound.items()}, word="fn", had_error=False
    )
    inner = Scope(inner_frame, reads=scope.reads, groups=scope.groups, soft=scope.soft, evidence=scope.evidence)
    if axis is not None and target.axis is not None:
        inner.levels.append({target.axis: axis})
        inner.axis_name = target.axis
    from dslc.check.sums import Placement, collect_index_names

    inner.index_names = collect_index_names(inner_frame, [target.expression]) - (
        {target.axis} if target.axis else set()
    )
    checker = frame.checker
    enter(checker, frame, target.name, node.span)
    try:
        Placement(inner).run(target.expression, {target.axis} if target.axis else set())
        val = expressions.expression(inner, target.expression)
    finally:
        leave(checker)
    scope.names.update({f"{n}@{id(i)}": i for n, i in inner.names.items()})
    frame.had_error = frame.had_error or inner_frame.had_error
    return val


def enter(checker: object, frame: Frame, name: str, span: Span) -> None:
    c = frame.checker
    c.calls.append((name, span))
    c.depth += 1
    if c.depth > MAX_INSTANCE_DEPTH:
        c.calls.pop()
        c.depth -= 1
        c.reporter.add(kinds.TOO_MUCH_WORK(Label(span), what="calls inside calls", limit=MAX_INSTANCE_DEPTH))
        raise GiveUp


def leave(checker: object) -> None:
    checker.calls.pop()  # type: ignore[attr-defined]
    checker.depth -= 1  # type: ignore[attr-defined]


def apply_instance(scope: Scope, node: t.Call, defined: Defined, bound: Bound, shared: Shared | None) -> Val:
    """Call a layer or a typed function: find its instance, map it over free indices, name the results."""
    frame = scope.frame
    target = defined.node
    steps = scans.active_indices(frame)
    tensors: dict[str, Val] = {}
    scalars: list[tuple[t.Expr, Val]] = []
    for formal in target.formals:
        value, span = bound[formal.name]
        if isinstance(value, Val):
            kind = definitions.formal_kind(frame, defined, formal)
            if value.static is not None:
                value = Val(lower(value))
            tensors[formal.name] = value
            if kind == "scalar":
                scalars.append((t.Name("", span=span), value))
    lifted_axes: tuple[Index, ...] = ()
    if scalars:
        aligned = expressions.align(scope, scalars, node.span)
        if aligned is None:
            return NOTHING
        vals, lifted_axes = aligned
        for formal, val in zip(
            (f for f in target.formals if definitions.formal_kind(frame, defined, f) == "scalar"), vals, strict=True
        ):
            tensors[formal.name] = Val(val.expr, (), val.free)
    mapped: dict[Index, None] = dict.fromkeys(lifted_axes)
    for val in tensors.values():
        own = set(val.axes)
        mapped.update({i: None for i in val.free if i not in own and i not in steps})
    order = tuple(mapped)
    if not resolved(scope, order):
        return NOTHING
    arguments: dict[str, Tensor] = {}
    lifted: dict[str, bool] = {}
    for name, val in tensors.items():
        own = set(val.axes)
        lifted[name] = any(i not in own and i not in steps for i in val.free)
        arguments[name] = materialise_over(scope, val, order if lifted[name] else (), bound[name][1], name)
    types = {
        name: definitions.ArgType(
            tensor.dtype, tensor.shape[len(order) if lifted[name] else 0 :],
            _value_bound(scope, tensor, tensors[name]), bound[name][1], tensor,
            tensor.origins[len(order) if lifted[name] else 0 :],
        )
        for name, tensor in arguments.items()
    }  # fmt: skip
    statics = {k: v for k, (v, _) in bound.items() if not isinstance(v, Val)}
    instance = definitions.instantiate(frame, defined, types, statics, node.span)
    if instance is None:
        return NOTHING
    path = ""
    if isinstance(target, t.Layer):
        path = shared.path if shared is not None else site_path(frame, node, target.name)
        if shared is None or shared.instance is None:
            frame.instance.param_count += instance.param_count
            definitions.limit_parameters(frame, node.span)
            if shared is not None:
                shared.instance = instance
        elif not same_parameters(shared.instance, instance):
            label = Label(node.span)
            frame.report(kinds.SHARED_DIFFERS(label, Label(shared.span, "named here"), name=node.callee.span.text))
            return NOTHING
        frame.instance.children[path] = instance
    sizes = tuple(i.size for i in order)
    outputs = tuple(
        frame.new_tensor(o.name, o.dtype, (*sizes, *o.shape), span=node.span, below=o.below,
                         origins=(*((node.span, "") for _ in order), *_result_origins(o, node.span)))
        for o in instance.outputs
    )  # fmt: skip
    frame.emit(
        CallFunction(
            instance, outputs, tuple(arguments[f.name] for f in target.formals if f.name in arguments), path,
            len(order), tuple(lifted[f.name] for f in target.formals if f.name in arguments),
            shared.frozen if shared is not None else False, node.span,
        )
    )  # fmt: skip
    results = tuple(read_result(scope, o, order, lifted_axes, node.span) for o in outputs)
    return results[0] if len(results) == 1 else Val(several=results)


def _result_origins(output: Tensor, span: Span) -> tuple[tuple[Span, str], ...]:
    return tuple((o if o.source.text else span, w) for o, w in output.origins) or tuple(
        (span, "") for _ in output.shape
    )


def same_parameters(a: Instance, b: Instance) -> bool:
    if a is b:
        return True
    shapes = [[(p.tensor.name, p.tensor.shape) for p in i.params] for i in (a, b)]
    return (
        shapes[0] == shapes[1]
        and a.children.keys() == b.children.keys()
        and all(same_parameters(a.children[k], b.children[k]) for k in a.children)
    )


def read_result(
    scope: Scope, tensor: Tensor, order: tuple[Index, ...], lifted_axes: tuple[Index, ...], span: Span
) -> Val:
    """The value of a call: its mapped axes are the indices it was mapped over, the others are positional."""
    own = tuple(scope.frame.new_index("", size, span) for size in tensor.shape[len(order) :])
    positions = tuple(Affine(((i, 1),), 0) for i in (*order, *own))
    read = Read(tensor, positions, tensor.dtype, span=span)
    return Val(read, (*lifted_axes, *own), dict.fromkeys((*order, *own)))


def _value_bound(scope: Scope, tensor: Tensor, val: Val) -> Size | None:
    if not is_int(tensor.dtype):
        return None
    if tensor.below is not None:
        return tensor.below
    if val.expr is None:
        return None
    low, high = interval(scope.frame, val.expr)
    if low is not None and high is not None and scope.frame.facts.nonnegative(low):
        return scope.frame.facts.normal(high + 1)
    return None


def resolved(scope: Scope, indices: Sequence[Index]) -> bool:
    """Are the ranges of indices known by now? (A call needs them at once.)"""
    good = True
    for index in indices:
        if index.size is None and index not in scope.failed:
            scope.failed.add(index)
            scope.frame.report(kinds.RANGE_UNKNOWN(Label(index.span), name=index.name or "..."))
        good = good and index.size is not None
    return good


def materialise_over(scope: Scope, val: Val, order: tuple[Index, ...], span: Span, name: str) -> Tensor:
    """Give a value a tensor of its own, over the indices `order` and then its positional axes."""
    frame = scope.frame
    existing = whole_tensor(val)
    if existing is not None and not order:
        return existing
    indices = (*order, *val.axes)
    expr = lower(val)
    below = None
    if is_int(val.dtype):
        low, high = interval(frame, expr)
        if low is not None and high is not None and frame.facts.nonnegative(low):
            below = frame.facts.normal(high + 1)
    shape = tuple(i.size for i in indices)
    origins = tuple((i.span if i.span.source.text else span, "") for i in indices)
    tensor = frame.new_tensor(name, val.dtype, shape, span=span, below=below, origins=origins)
    frame.emit(Define(tensor, tuple((i,) for i in indices), expr, span))
    return tensor


def site_path(frame: Frame, node: t.Call, name: str) -> str:
    """The name of a call in parameter paths: the layer's name, numbered from the second call on."""
    key = node.callee.span.start
    if key not in frame.site_names:
        count = frame.site_counts.get(name, 0) + 1
        frame.site_counts[name] = count
        frame.site_names[key] = name if count == 1 else f"{name}{count}"
    return ".".join([frame.site_names[key], *frame.loop])


def find_member(frame: Frame, node: t.Member, shared: Shared, parts: list[str]) -> Tensor | None:
    """Follow `layer.sub.0.W` to a parameter."""
    instance = shared.instance
    assert instance is not None
    rest = list(parts)
    while len(rest) > 1:
        for length in range(len(rest) - 1, 0, -1):
            child = instance.children.get(".".join(rest[:length]))
            if child is not None:
                instance, rest = child, rest[length:]
                break
        else:
            break
    params = {p.tensor.name: p.tensor for p in instance.params}
    if len(rest) == 1 and rest[0] in params:
        found = params[rest[0]]
        path = ".".join([shared.path, *parts]) if shared.path else ".".join(parts)
        if path not in frame.instance.member_params:
            frame.instance.member_params[path] = frame.new_tensor(
                path, found.dtype, found.shape, "param", found.span, origins=found.origins
            )
        return frame.instance.member_params[path]
    names = [*params, *instance.children]
    frame.report(
        kinds.NO_SUCH_MEMBER(
            Label(node.span),
            name=rest[0],
            owner=instance.name,
            help=near_argument(rest[0], names).replace("it takes", "it has"),
        )
    )
    return None
