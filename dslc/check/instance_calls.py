"""Calls of layers and typed functions: mapping over free indices, results, parameter paths."""

from __future__ import annotations

import itertools
from dataclasses import replace

from dslc.check import call_arguments, definitions, elementwise, materialise, members, scan_state, signatures
from dslc.check.dependence import every_statement
from dslc.check.frame import Frame
from dslc.check.indices import Scope
from dslc.check.positions import value_bound
from dslc.check.program import CallFunction, Index, Instance, Read, Tensor, UpdateState
from dslc.check.values import NOTHING, Shared, Val, lower, shared_layers
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Label
from dslc.resolve.files import Defined
from dslc.sizes import Size
from dslc.source import Span
from dslc.syntax import tree as t


def apply_instance(
    scope: Scope, node: t.Call, defined: Defined, bound: call_arguments.Bound, shared: Shared | None
) -> Val:
    """Call a layer or a typed function: find its instance, map it over free indices, name the results."""
    frame = scope.frame
    target = defined.node
    assert isinstance(target, t.Fn | t.Layer)
    steps = scan_state.active_indices(frame)
    tensors: dict[str, Val] = {}
    scalars: list[tuple[t.Expr, Val]] = []
    for formal in target.formals:
        value, span = bound[formal.name]
        if isinstance(value, Val):
            kind = signatures.formal_kind(frame, defined, formal)
            if value.static is not None:
                value = Val(lower(value))
            tensors[formal.name] = value
            if kind == "scalar":
                scalars.append((t.Name("", span=span), value))
    lifted_axes: tuple[Index, ...] = ()
    if scalars:
        aligned = elementwise.align(scope, scalars)
        if aligned is None:
            return NOTHING
        vals, lifted_axes = aligned
        for formal, val in zip(
            (f for f in target.formals if signatures.formal_kind(frame, defined, f) == "scalar"), vals, strict=True
        ):
            tensors[formal.name] = Val(val.expr, (), val.free)
    mapped: dict[Index, None] = dict.fromkeys(lifted_axes)
    for val in tensors.values():
        own = set(val.axes)
        mapped.update({i: None for i in val.free if i not in own and i not in steps})
    order = tuple(mapped)
    if not materialise.resolved(scope, order):
        return NOTHING
    arguments: dict[str, Tensor] = {}
    lifted: dict[str, bool] = {}
    for name, val in tensors.items():
        own = set(val.axes)
        lifted[name] = any(i not in own and i not in steps for i in val.free)
        # a name that means something else here goes with that of the call; a part of a tensor is named by that
        ambiguous = name in frame.names and not isinstance(val.expr, Read)
        called = f"{_called(frame, node, target, shared)}.{name}" if ambiguous else name
        arguments[name] = materialise.materialise_over(
            scope, val, order if lifted[name] else (), bound[name][1], called
        )
    types = {
        name: signatures.ArgType(
            tensor.dtype, tensor.shape[len(order) if lifted[name] else 0 :],
            _bound_of(scope, tensor, tensors[name]), bound[name][1], tensor,
            tensor.origins[len(order) if lifted[name] else 0 :],
            tuple(i.name for i in order if i.name) if lifted[name] else (),
        )
        for name, tensor in arguments.items()
    }  # fmt: skip
    statics = {k: v for k, (v, _) in bound.items() if not isinstance(v, Val)}
    instance = definitions.instantiate(frame, defined, types, statics, node.span)
    if instance is None:
        return NOTHING
    state = _updated_state(instance) if frame.scans or order else None
    if state is not None:
        where = "in each step of a scan" if frame.scans else f"for each `{order[0].name}`"
        help = "call the layer once, on a whole value"
        frame.report(kinds.STATE_IN_STEPS(Label(node.span), name=f"{instance.name}.{state}", where=where, help=help))
        return NOTHING
    path = ""
    if isinstance(target, t.Layer):
        path = shared.path if shared is not None else site_path(frame, node, target.name)
        if shared is None or shared.instance is None:
            frame.instance.param_count += instance.param_count
            definitions.limit_parameters(frame, node.span)
            if shared is not None:
                shared.instance = instance
                shared.first_call = node.span
        elif (other := different_parameter(shared.instance, instance)) is not None:
            name, before, now = other
            layer = node.callee.span.text
            labels = [Label(node.span, f"`{layer}.{name}` would be {frame.show_shape(now)} here")]
            if shared.first_call is not None:
                labels.append(Label(shared.first_call, f"`{layer}.{name}` is {frame.show_shape(before)} here"))
            labels.append(Label(shared.span, "named here"))
            frame.report(kinds.SHARED_DIFFERS(*labels, name=layer))
            return NOTHING
        if members.is_foreign(frame, shared):
            frame.instance.borrowed.append(instance)
        (frame.instance if shared is None else shared.home.owner).children[path] = instance
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
            shared.home if shared is not None and members.is_foreign(frame, shared) else None,
            tuple(dict.fromkeys(home for value in statics.values() for home in shared_layers(value))),
        )
    )  # fmt: skip
    results = tuple(materialise.read_result(scope, o, order, lifted_axes, node.span) for o in outputs)
    names = tuple(o.name for o in instance.outputs)
    return replace(results[0], results=names) if len(results) == 1 else Val(several=results, results=names)


def _updated_state(instance: Instance) -> str | None:
    """The name of a state that a layer updates, itself or in a layer that it calls."""
    for statement in every_statement(instance.body):
        if isinstance(statement, UpdateState):
            return statement.state.name
        below = _updated_state(statement.instance) if isinstance(statement, CallFunction) else None
        if below is not None:
            return f"{statement.instance.name}.{below}"  # type: ignore[union-attr]
    return None


def _result_origins(output: Tensor, span: Span) -> tuple[tuple[Span, str], ...]:
    return tuple((o if o.source.text else span, w) for o, w in output.origins) or tuple(
        (span, "") for _ in output.shape
    )


def different_parameter(a: Instance, b: Instance) -> tuple[str, tuple[Size, ...], tuple[Size, ...]] | None:
    """A parameter that two instances of a layer have at different shapes: its path, and both shapes."""
    stack = [("", a, b)]
    while stack:
        path, x, y = stack.pop()
        if x is y:
            continue
        first, second = ({p.tensor.name: p.tensor.shape for p in i.params} for i in (x, y))
        for name in {**first, **second}:
            if first.get(name) != second.get(name):
                return path + name, first.get(name, ()), second.get(name, ())
        for name in {**x.children, **y.children}:
            nothing = Instance(name, "layer")
            stack.append((f"{path}{name}.", x.children.get(name, nothing), y.children.get(name, nothing)))
    return None


def _bound_of(scope: Scope, tensor: Tensor, val: Val) -> Size | None:
    if tensor.below is not None or val.expr is None:
        return tensor.below
    return value_bound(scope.frame, val.expr)


def _called(frame: Frame, node: t.Call, target: t.Fn | t.Layer, shared: Shared | None) -> str:
    """What a call is called among values, whichever pass of a loop it is in."""
    if shared is not None:
        return shared.path.rpartition(".")[2]
    return site_path(frame, node, target.name).partition(".")[0] if isinstance(target, t.Layer) else target.name


def site_path(frame: Frame, node: t.Call, name: str) -> str:
    """The name of a call in parameter paths: the layer's name, numbered from the second call on."""
    key = node.callee.span.start
    if key not in frame.paths.sites:
        taken = frame.paths.taken | set(frame.paths.sites.values())
        numbered = (name if k == 1 else f"{name}{k}" for k in itertools.count(1))
        frame.paths.sites[key] = next(path for path in numbered if path not in taken)
    return ".".join([frame.paths.sites[key], *frame.paths.loop])
