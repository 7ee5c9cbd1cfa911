"""Definitions: matching a call to a signature, instances, and the check of each definition by itself."""

from __future__ import annotations

from collections.abc import Mapping

from dslc.check import call_arguments, calls, equations, signatures, statements, static_values, where_clauses
from dslc.check.frame import MAX_PARAMETERS, CheckedAtCall, Checker, Frame
from dslc.check.indices import Scope, is_placeholder
from dslc.check.program import CustomBackward, Define, Instance, Tensor
from dslc.check.values import (
    DTYPES,
    FLOATS,
    POISON,
    Static,
    Val,
    is_float,
)
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Label
from dslc.resolve.files import Callable_, Defined, did_you_mean
from dslc.sizes import Facts, symbol
from dslc.source import Span
from dslc.syntax import tree as t


def instantiate(
    caller: Frame, defined: Defined, types: Mapping[str, signatures.ArgType], statics: Mapping[str, object], span: Span
) -> Instance | None:
    """The instance of a definition at these types; made and checked the first time it is asked for."""
    checker = caller.checker
    node = defined.node
    word = node.word if isinstance(node, t.Layer) else "fn"
    instance = Instance(node.name, word, span=node.span, statics=dict(statics))
    frame = Frame(checker, defined.file, word, instance, caller.facts.copy(), calls=caller.inside(node.name, span))
    frame.names.update(statics)  # type: ignore[arg-type]
    normal = {
        name: signatures.ArgType(
            x.dtype, tuple(caller.facts.normal(s) for s in x.shape), x.below, x.span, x.tensor, x.origins
        )
        for name, x in types.items()
    }
    for name, x in normal.items():
        if any(is_placeholder(s) for size in x.shape for s in getattr(size, "free_symbols", ())):
            caller.report(kinds.CARRIED_SIZE(Label(x.span), name=name, callee=node.name))
            return None
    if not signatures.bind_signature(frame, caller, defined, normal, span):
        return None
    if not where_clauses.prove_where(frame, caller, _where(node), span, node.name):
        return None
    key = (checker.root, id(node), _type_key(frame), _static_key(statics))
    if key not in checker.instances:
        checker.instances[key] = None  # while it is being made, and if it fails
        if check_body(frame, defined):
            checker.instances[key] = instance
    if checker.instances[key] is None:
        caller.errors += 1
    return checker.instances[key]


def _where(node: Callable_) -> tuple[t.Condition, ...]:
    return () if isinstance(node, t.Optimizer) else node.where


def _type_key(frame: Frame) -> object:
    return tuple((x.dtype, x.shape, x.below) for x in frame.instance.inputs)


def _static_key(statics: Mapping[str, object]) -> object:
    return tuple((k, repr(v.value) if isinstance(v, Static) else v) for k, v in sorted(statics.items()))


def check_body(frame: Frame, defined: Defined) -> bool:
    """Check the body of an instance whose signature is bound."""
    node = defined.node
    if isinstance(node, t.Fn) and node.expression is not None:
        made = equations.equation_value(
            frame, t.Target(node.name, None, span=node.expression.span), node.expression, None
        )
        if made is None:
            return False
        output = frame.new_tensor(
            node.name, made.expr.dtype, made.shape, span=node.expression.span, origins=made.origins
        )
        frame.emit(Define(output, made.axes, made.expr, node.expression.span))
        frame.instance.outputs = (output,)
        return finish(frame)
    assert isinstance(node, t.Fn | t.Layer)
    if not signatures.bind_outputs(frame, node.outputs):
        return False
    statements.block(frame, node.body)
    outputs: list[Tensor] = []
    for declared in node.outputs:
        binding = frame.names.get(declared.name)
        if isinstance(binding, Tensor):
            outputs.append(binding)
        elif binding is None and declared.name in frame.one_mode:
            frame.unknown(declared.name, declared.span)
        elif binding is None and not frame.had_error:
            frame.report(kinds.OUTPUT_UNDEFINED(Label(declared.span), name=declared.name, owner=node.name))
    frame.instance.outputs = tuple(outputs)
    if frame.had_error or len(outputs) != len(node.outputs):
        return False
    if frame.backward is not None:
        custom_backward(frame, frame.backward, node)
    return finish(frame)


def finish(frame: Frame) -> bool:
    """Put found-out sizes in place of placeholders."""
    if frame.fresh:
        for tensor in frame.tensors:
            tensor.shape = tuple(frame.facts.normal(s) for s in tensor.shape)
        for index in frame.indices:
            if index.size is not None:
                index.size = frame.facts.normal(index.size)
    frame.instance.body = frame.body
    return not frame.had_error


def custom_backward(frame: Frame, node: t.Backward, definition: t.Fn | t.Layer) -> None:
    """Check a derivative given by hand: cotangents like the outputs in, adjoints like the float inputs out."""
    inputs = [x for x in frame.instance.inputs if is_float(x.dtype)]
    outputs = frame.instance.outputs
    if len(node.cotangents) != len(outputs) or len(node.adjoints) != len(inputs):
        expected = f"({', '.join('d' + o.name for o in outputs)}) -> {', '.join('d' + x.name for x in inputs)}"
        frame.report(kinds.BACKWARD_SIGNATURE(Label(node.span.first_line), name=definition.name, expected=expected))
        return
    cotangents = []
    for name, output in zip(node.cotangents, outputs, strict=True):
        tensor = frame.new_tensor(name, output.dtype, output.shape, "input", node.span, origins=output.origins)
        frame.names[name] = tensor
        cotangents.append(tensor)
    with frame.collecting() as body:
        statements.block(frame, node.body)
    adjoints = []
    for name, tensor in zip(node.adjoints, inputs, strict=True):
        binding = frame.names.get(name)
        if binding is POISON:
            return
        if not isinstance(binding, Tensor):
            frame.report(kinds.OUTPUT_UNDEFINED(Label(node.span.first_line), name=name, owner="backward"))
            return
        if len(binding.shape) != len(tensor.shape) or any(
            frame.facts.equal(a, b) is not True for a, b in zip(binding.shape, tensor.shape, strict=True)
        ):
            a = "[" + ", ".join(frame.show(s) for s in tensor.shape) + "]"
            b = "[" + ", ".join(frame.show(s) for s in binding.shape) + "]"
            frame.report(kinds.OUTPUT_TYPE(Label(binding.span, f"shape {b}"), name=name, expected=a, found=b))
            return
        adjoints.append(binding)
    frame.instance.backward = CustomBackward(tuple(cotangents), tuple(adjoints), tuple(body))


def limit_parameters(frame: Frame, span: Span) -> None:
    if frame.instance.param_count > MAX_PARAMETERS:
        from dslc.check.frame import GiveUp

        frame.report(kinds.TOO_MUCH_WORK(Label(span), what="parameter tensors", limit=MAX_PARAMETERS))
        raise GiveUp


def own_statics(
    checker: Checker, frame: Frame, defined: Defined, settings: Mapping[str, object]
) -> dict[str, object] | None:
    """Values for the static arguments of a definition that is checked by itself; None when it cannot be."""
    statics: dict[str, object] = {}
    for formal in defined.node.formals:
        kind = signatures.formal_kind(frame, defined, formal)
        if formal.name in settings and kind in ("size", "int", "float", "bool", "string"):
            given = call_arguments.Given(t.Name(formal.name, span=formal.span))
            value = Val(static=settings[formal.name])
            setting = call_arguments.static_argument(Scope(frame), formal, kind, given, value)
            if setting is None:
                return None
            statics[formal.name] = setting
        elif kind == "tensor":
            continue
        elif formal.default is not None and kind not in ("scalar",):
            default = signatures.default_value(checker, defined, formal)
            if default is None:
                return None
            statics[formal.name] = default
        elif kind in ("size", "int"):
            statics[formal.name] = Static(symbol(formal.name), formal.span, "argument")
            frame.open_statics.add(symbol(formal.name))
        elif kind == "float":
            statics[formal.name] = Static(0.5, formal.span, "argument")
        elif kind == "scalar":
            continue
        else:
            return None
    return statics


def check_by_itself(
    checker: Checker, defined: Defined, settings: Mapping[str, object] | None = None
) -> Instance | None:
    """Check a layer, model or function at its own symbolic sizes, taking its `where` as given.

    A definition that takes a layer, or a value of any shape, is checked where it is called.
    """
    node = defined.node
    assert isinstance(node, t.Fn | t.Layer)
    word = node.word if isinstance(node, t.Layer) else "fn"
    instance = Instance(node.name, word, span=node.span)
    frame = Frame(checker, defined.file, word, instance, Facts())
    checker.new_root()
    if not check_formals(frame, defined):
        return None
    statics = own_statics(checker, frame, defined, settings or {})
    if statics is None:
        return None
    frame.names.update(statics)  # type: ignore[arg-type]
    instance.statics = statics
    types = own_types(frame, defined)
    if types is None:
        return None
    if not where_clauses.assume_where(frame, _where(node)) or not signatures.bind_signature(
        frame, None, defined, types, node.span
    ):
        return None
    if isinstance(node, t.Fn) and node.axis is not None:
        return instance if not frame.had_error else None  # checked where it is called, with real indices
    try:
        return instance if check_body(frame, defined) else None
    except CheckedAtCall:
        return None


def check_formals(frame: Frame, defined: Defined) -> bool:
    """Names of arguments, their kinds and defaults."""
    seen: dict[str, Span] = {}
    good = True
    for formal in defined.node.formals:
        if formal.name in seen:
            frame.report(
                kinds.DEFINED_TWICE(Label(formal.span), Label(seen[formal.name], "first here"), name=formal.name)
            )
            good = False
        seen[formal.name] = formal.span
        kind = formal.kind
        if isinstance(kind, t.KindWord) and kind.word not in signatures.KIND_WORDS:
            help = (
                f"write `{kind.word}[]` for a single number"
                if kind.word in (*FLOATS, "i32", "i64")
                else did_you_mean(kind.word, (*signatures.KIND_WORDS, *DTYPES))
            )
            frame.report(kinds.UNKNOWN_TYPE(Label(kind.span), name=kind.word, help=help))
            good = False
    if isinstance(defined.node, t.Fn | t.Layer):
        for output in defined.node.outputs:
            if output.name in seen:
                frame.report(
                    kinds.DEFINED_TWICE(Label(output.span), Label(seen[output.name], "first here"), name=output.name)
                )
                good = False
            seen[output.name] = output.span
    return good


def own_types(frame: Frame, defined: Defined) -> dict[str, signatures.ArgType] | None:
    """The tensor types of a definition at its own sizes: every new name is a size of its own."""
    types: dict[str, signatures.ArgType] = {}
    node = defined.node
    tensors = [(f, f.kind) for f in node.formals if isinstance(f.kind, t.Type)]
    for _, kind in tensors:
        for dim in kind.dims:
            if isinstance(dim, t.Name) and dim.id not in frame.names:
                frame.names[dim.id] = Static(symbol(dim.id), dim.span)
                frame.taken.setdefault(dim.id, dim.span)
            elif isinstance(dim, t.Rest) and frame.rest is None:
                frame.rest = (symbol("..."),)
    for formal, kind in tensors:
        shape, dtype = signatures.declared_shape(frame, kind), signatures.declared_dtype(frame, kind)
        if shape is None or dtype is None:
            return None
        below = static_values.as_size(Scope(frame), kind.below) if kind.below is not None else None
        types[formal.name] = signatures.ArgType(dtype, shape[0], below, formal.span, None, shape[1])
    for formal in node.formals:
        if signatures.formal_kind(frame, defined, formal) == "scalar":
            types[formal.name] = signatures.ArgType("float", (), None, formal.span)
    return types
