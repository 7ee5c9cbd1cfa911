"""Definitions: matching a call to a signature, instances, and the check of each definition by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import cast

from dslc.check import blocks, call_arguments, equations, matching, signatures, static_values, where_clauses, wording
from dslc.check.frame import INSTANCE_STEPS, MAX_PARAMETERS, CheckedAtCall, Checker, Frame, GiveUp
from dslc.check.indices import Scope, is_placeholder
from dslc.check.program import Affine, CustomBackward, Define, Index, Instance, SizeValue, Tensor
from dslc.check.values import DTYPES, FLOATS, POISON, Static, StaticValue, Val, is_float
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Label
from dslc.resolve.files import Callable_, Defined, did_you_mean
from dslc.sizes import Facts, Size, symbol
from dslc.source import Span
from dslc.syntax import tree as t


def instantiate(
    caller: Frame, defined: Defined, types: Mapping[str, signatures.ArgType], statics: Mapping[str, object], span: Span
) -> Instance | None:
    """The instance of a definition at these types; made and checked the first time it is asked for."""
    checker = caller.checker
    checker.step(span, INSTANCE_STEPS)
    node = defined.node
    word = node.word if isinstance(node, t.Layer) else "fn"
    instance = Instance(node.name, word, span=node.span, statics=dict(statics))
    frame = Frame(checker, defined.file, word, instance, caller.facts.copy(), calls=caller.inside(node.name, span))
    frame.names.update(statics)  # type: ignore[arg-type]
    normal = {name: replace(x, shape=tuple(caller.facts.normal(s) for s in x.shape)) for name, x in types.items()}
    for x in normal.values():
        if any(is_placeholder(s) for size in x.shape for s in getattr(size, "free_symbols", ())):
            caller.report(kinds.CARRIED_SIZE(Label(x.span), text=x.span.text, callee=node.name))
            return None
    if not matching.bind_signature(frame, caller, defined, normal):
        return None
    if not where_clauses.prove_where(frame, caller, _where(node), span, node.name):
        return None
    key = (checker.root, id(node), _type_key(frame), _static_key(statics))
    if key in checker.making:  # through a layer or function that was passed as an argument
        names = [name for name, _ in frame.calls]
        steps = " -> ".join(names[names.index(node.name) :])
        caller.report(kinds.RECURSION(Label(span), name=node.name, steps=steps))
        return None
    if key not in checker.instances:
        checker.instances[key] = None  # if it fails
        checker.making.add(key)
        if check_body(frame, defined):
            checker.instances[key] = instance
        checker.making.discard(key)
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
            frame, t.Target(node.name, None, span=node.expression.span), node.expression, None, nameless=True
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
    frame.paths.taken |= {inner.name for inner in node.walk() if isinstance(inner, t.Use)}
    blocks.block(frame, node.body)
    outputs: list[Tensor] = []
    for declared in node.outputs:
        binding = frame.names.get(declared.name)
        if isinstance(binding, Tensor):
            outputs.append(binding)
        elif binding is None and declared.name in frame.reserved.one_mode:
            frame.unknown(declared.name, declared.span)
        elif binding is None and not frame.had_error:
            frame.report(kinds.OUTPUT_UNDEFINED(Label(declared.span), name=declared.name, owner=node.name))
    frame.instance.outputs = tuple(outputs)
    for output in outputs if frame.word == "model" else ():
        seen = frame.instance.exposed.get(output.name)
        if seen is not None and seen is not output:
            labels = (Label(seen.span, "exposed"), Label(output.span, "the output"))
            help = f"give the exposed value another name: `{output.name}_before = ...`, `expose {output.name}_before`"
            frame.report(kinds.DEFINED_TWICE(*labels, name=output.name, help=help))
    if frame.had_error or len(outputs) != len(node.outputs):
        return False
    if frame.code.backward is not None:
        custom_backward(frame, frame.code.backward, node)
    return finish(frame)


def finish(frame: Frame) -> bool:
    """Put found-out sizes in place of placeholders."""
    if frame.code.fresh:
        for tensor in frame.code.tensors:
            tensor.shape = tuple(frame.facts.normal(s) for s in tensor.shape)
        for index in frame.code.indices:
            if index.size is not None:
                index.size = frame.facts.normal(index.size)
    if frame.code.fresh or any(condition.op == "==" for condition in frame.instance.where):
        _put_in_sizes(frame)
    frame.instance.body = frame.code.body
    return not frame.had_error


def _put_in_sizes(frame: Frame) -> None:
    """Put what is known of sizes in formulas and positions: with `where T == 2*S`, no input has the size T."""
    seen: set[int] = set()
    stack: list[object] = [frame.code.body]
    while stack:
        node = stack.pop()
        if isinstance(node, list | tuple):
            stack.extend(node)
        elif is_dataclass(node) and not isinstance(node, Instance | Span | Tensor | Index) and id(node) not in seen:
            seen.add(id(node))
            if isinstance(node, SizeValue):
                node.size = frame.facts.normal(node.size)
            elif isinstance(node, Affine):
                node.offset = frame.facts.normal(node.offset)
                node.terms = tuple((i, frame.facts.normal(c)) for i, c in node.terms)
            stack.extend(getattr(node, f.name) for f in fields(node))


def custom_backward(frame: Frame, node: t.Backward, definition: t.Fn | t.Layer) -> None:
    """Check a derivative given by hand: cotangents like the outputs in, adjoints like the float inputs out."""
    inputs = [x for x in frame.instance.inputs if is_float(x.dtype)]
    outputs = frame.instance.outputs
    node = without_whole_numbers(frame, node, definition)
    if len(node.cotangents) != len(outputs) or len(node.adjoints) != len(inputs):
        report_backward(frame, node, definition, inputs, outputs)
        return
    cotangents = []
    for name, output in zip(node.cotangents, outputs, strict=True):
        tensor = frame.new_tensor(name, output.dtype, output.shape, "input", node.span, origins=output.origins)
        frame.names[name] = tensor
        cotangents.append(tensor)
    with frame.collecting() as body:
        blocks.block(frame, node.body)
    adjoints = []
    for name, tensor in zip(node.adjoints, inputs, strict=True):
        binding = frame.names.get(name)
        if binding is POISON:
            return
        if not isinstance(binding, Tensor):
            frame.report(kinds.OUTPUT_UNDEFINED(Label(node.span.first_line), name=name, owner="backward"))
            return
        if not frame.same_shape(binding.shape, tensor.shape):
            expected, found = frame.show_shape(tensor.shape), frame.show_shape(binding.shape)
            like = Label(tensor.span, f"the adjoint of `{tensor.name}` has its shape {expected}")
            here = Label(binding.span, f"shape {found}")
            frame.report(kinds.OUTPUT_TYPE(here, like, name=name, expected=expected, found=found))
            return
        adjoints.append(binding)
    frame.instance.backward = CustomBackward(tuple(cotangents), tuple(adjoints), tuple(body))


def without_whole_numbers(frame: Frame, node: t.Backward, definition: t.Fn | t.Layer) -> t.Backward:
    """A derivative by hand at a call that gives a whole number, such as 2, for an argument without a type.

    Its adjoint is written, since other calls give a float there, and has nowhere to go.
    """
    untyped = {f.name for f in definition.formals if f.kind is None}
    wanted = [x for x in frame.instance.inputs if is_float(x.dtype) or x.name in untyped]
    if len(node.adjoints) != len(wanted):
        return node
    floats = (name for name, x in zip(node.adjoints, wanted, strict=True) if is_float(x.dtype))
    return replace(node, adjoints=tuple(floats))


def report_backward(
    frame: Frame, node: t.Backward, definition: t.Fn | t.Layer, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> None:
    """A derivative by hand with another number of cotangents or adjoints than its function asks for."""
    results = [f"d{x.name}" for x in inputs]
    right = results[0] if len(results) == 1 else f"({', '.join(results)})"
    help = f"write `backward ({', '.join(f'd{o.name}' for o in outputs)}) -> {right}:`"
    if len(node.cotangents) != len(outputs):
        expected, found = wording.count(len(outputs), "cotangent"), len(node.cotangents)
        why = f"one for {'the output' if len(outputs) == 1 else 'each output'}"
    else:
        expected, found = wording.count(len(inputs), "adjoint"), len(node.adjoints)
        why = f"one for {'the float argument' if len(inputs) == 1 else 'each float argument'}"
    name, label = definition.name, Label(node.span.first_line)
    frame.report(kinds.BACKWARD_SIGNATURE(label, name=name, expected=expected, why=why, found=found, help=help))


def limit_parameters(frame: Frame, span: Span) -> None:
    if frame.instance.param_count > MAX_PARAMETERS:
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
            value = Val(static=cast(StaticValue, settings[formal.name]))
            setting = call_arguments.static_argument(Scope(frame), formal, kind, given, value)
            if setting is None:
                return None
            statics[formal.name] = setting
        elif formal.name in settings and kind in ("fn", "layer"):
            function = call_arguments.function_setting(checker, defined, formal, kind, settings[formal.name])
            if function is None:
                return None
            statics[formal.name] = function
        elif kind == "tensor":
            continue
        elif formal.default is not None and kind not in ("scalar",):
            default = call_arguments.default_value(checker, defined, formal)
            if default is None:
                return None
            statics[formal.name] = default
        elif kind in ("size", "int"):
            statics[formal.name] = Static(symbol(formal.name), formal.span, "argument")
            frame.types.open_statics.add(symbol(formal.name))
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
    frame.types.body_sizes = {s.name: s.value.span.text for s in node.body or () if isinstance(s, t.Size)}
    for declared in (s for s in node.body or () if isinstance(s, t.Parameter)):
        frame.types.body_sizes |= {x.name: x.value.span.text for x in declared.walk() if isinstance(x, t.NamedDim)}
    types = own_types(frame, defined, _where(node), settings or {})
    if types is None:
        for output in node.outputs:  # what can be told about the outputs without the sizes of the inputs
            if output.type is not None:
                signatures.declared_dtype(frame, output.type)
        return None
    if not matching.bind_signature(frame, None, defined, types):
        return None
    if isinstance(node, t.Fn) and node.axis is not None:
        if node.expression is None:
            frame.report(kinds.AXIS_OF_BLOCK(Label(node.span.word(node.axis)), name=node.name, axis=node.axis))
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


def own_types(
    frame: Frame, defined: Defined, where: Sequence[t.Condition], settings: Mapping[str, object]
) -> dict[str, signatures.ArgType] | None:
    """The tensor types of a definition at its own sizes: every new name is a size of its own, or has a setting.

    Its `where` is taken as given, before the types where it does not speak of sizes that they define.
    """
    types: dict[str, signatures.ArgType] = {}
    node = defined.node
    tensors = [(f, f.kind) for f in node.formals if isinstance(f.kind, t.Type)]
    for _, kind in tensors:
        for dim in kind.dims:
            if isinstance(dim, t.Name) and dim.id not in frame.names:
                size: Size = symbol(dim.id)
                if dim.id in settings:
                    what = f"the size `{dim.id}`"
                    given = static_values.check_setting(Scope(frame), settings[dim.id], dim, what)
                    if given is None:
                        return None
                    size = given
                frame.names[dim.id] = Static(size, dim.span)
                frame.reserved.taken.setdefault(dim.id, dim.span)
            elif isinstance(dim, t.Rest) and frame.types.rest is None:
                frame.types.rest = (symbol("..."),)
    defined_later = {dim.name for _, kind in tensors for dim in kind.dims if isinstance(dim, t.NamedDim)}
    defined_later -= frame.names.keys()
    late = [c for c in where if any(isinstance(n, t.Name) and n.id in defined_later for n in c.walk())]
    good = where_clauses.assume_where(frame, [c for c in where if c not in late])
    for formal, kind in tensors:
        shape, dtype = signatures.declared_shape(frame, kind), signatures.declared_dtype(frame, kind)
        below = static_values.as_size(Scope(frame), kind.below) if kind.below is not None else None
        if shape is None or dtype is None or (below is None and kind.below is not None):
            good = False
        else:
            types[formal.name] = signatures.ArgType(dtype, shape[0], below, formal.span, None, shape[1])
    for formal in node.formals:
        if signatures.formal_kind(frame, defined, formal) == "scalar":
            types[formal.name] = signatures.ArgType("float", (), None, formal.span)
    return types if good and where_clauses.assume_where(frame, late) else None
