"""Definitions: matching a call to a signature, instances, and the check of each definition by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import sympy as sp

from dslc.check import calls, expressions, statements
from dslc.check.frame import MAX_PARAMETERS, CheckedAtCall, Checker, Frame, near_argument
from dslc.check.indices import Scope
from dslc.check.program import CustomBackward, Instance, Tensor
from dslc.check.values import (
    DTYPES,
    FLOATS,
    POISON,
    FunctionValue,
    Shared,
    Static,
    Val,
    is_float,
    is_int,
    lower,
)
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Label
from dslc.resolve.files import Callable_, Defined, did_you_mean
from dslc.sizes import Facts, Size, symbol, tidy
from dslc.source import Span
from dslc.syntax import tree as t

KIND_WORDS = ("size", "int", "float", "bool", "string", "fn", "layer")


@dataclass(frozen=True)
class ArgType:
    """The type of an argument at a call."""

    dtype: str
    shape: tuple[Size, ...]
    below: Size | None = None
    span: Span = field(default=None, compare=False, repr=False)  # type: ignore[assignment]
    tensor: Tensor | None = field(default=None, compare=False, repr=False)
    origins: tuple[tuple[Span, str], ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True)
class OutputType:
    """The declared type of an output."""

    dtype: str
    shape: tuple[Size, ...]
    below: Size | None
    origins: tuple[tuple[Span, str], ...]
    span: Span


# ---- formals ------------------------------------------------------------------------------------------------------------


def formal_kind(frame: Frame, defined: Defined, formal: t.Formal) -> str:
    """What an argument is: tensor, any, scalar, or one of the static kinds."""
    kind = formal.kind
    if isinstance(kind, t.Type):
        return "tensor"
    if isinstance(kind, t.KindWord):
        return kind.word if kind.word in KIND_WORDS else "any"
    in_fn = isinstance(defined.node, t.Fn)
    default = formal.default
    if default is None:
        return "scalar" if in_fn else "any"
    if isinstance(default, t.Name) and isinstance(
        Frame(frame.checker, defined.file, "fn", Instance("", "fn")).lookup_function(default.id), FunctionValue
    ):
        return "fn"
    if isinstance(default, t.Call):
        return "fn"
    if isinstance(default, t.Bool):
        return "bool"
    if isinstance(default, t.String):
        return "string"
    if in_fn:
        return "scalar"
    number = default.operand if isinstance(default, t.Negative) else default
    return "int" if isinstance(number, t.Number) and isinstance(number.value, int) else "float"


def default_value(checker: Checker, defined: Defined, formal: t.Formal) -> Val | Static | FunctionValue | Shared | None:
    """The default of an argument, evaluated where it is written."""
    assert formal.default is not None
    frame = Frame(checker, defined.file, "fn", Instance(defined.node.name, "fn", span=defined.node.span))
    scope = Scope(frame)
    kind = formal_kind(frame, defined, formal)
    if kind in ("fn", "layer"):
        return calls.function_argument(scope, calls.Given(formal.default), kind)
    val = expressions.expression(scope, formal.default)
    if val.poisoned:
        return None
    if kind == "scalar":
        return val
    if kind in ("tensor", "any"):
        frame.report(kinds.DEFAULT_OF_TENSOR(Label(formal.default.span), name=formal.name))
        return None
    return calls.static_argument(scope, formal, kind, calls.Given(formal.default), val)


def declared_dtype(frame: Frame, node: t.Type) -> str | None:
    """The dtype that a type names; `float` without one."""
    if node.refinement not in (None, "binary", "simplex"):
        help = (
            did_you_mean(node.refinement or "", ("binary", "simplex"))
            or "`binary` or `simplex` may stand before a dtype"
        )
        frame.report(kinds.UNKNOWN_TYPE(Label(node.span), name=node.refinement, help=help))
        return None
    if node.dtype is None:
        return "float"
    if node.dtype not in DTYPES:
        aliases = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "double": "f64",
                   "half": "f16", "int": "i32", "int32": "i32", "int64": "i64", "long": "i64", "boolean": "bool"}  # fmt: skip
        near = aliases.get(node.dtype)
        help = (
            f"write `{near}`"
            if near
            else did_you_mean(node.dtype, DTYPES) or "dtypes are " + ", ".join(f"`{d}`" for d in DTYPES)
        )
        frame.report(kinds.UNKNOWN_TYPE(Label(node.span), name=node.dtype, help=help))
        return None
    return node.dtype


Shape = tuple[tuple[Size, ...], tuple[tuple[Span, str], ...]]


def declared_shape(frame: Frame, node: t.Type) -> Shape | None:
    """The shape of a type whose sizes must be known by now; `D = ...` names a new one."""
    sizes: list[Size] = []
    origins: list[tuple[Span, str]] = []
    scope = Scope(frame)
    good = True
    for dim in node.dims:
        if isinstance(dim, t.Rest):
            if frame.rest is None:
                frame.report(kinds.REST_MISUSE(Label(dim.span), why="no argument of the definition has a `...`"))
                good = False
                continue
            sizes.extend(frame.rest)
            origins.extend((dim.span, "") for _ in frame.rest)
            continue
        if isinstance(dim, t.NamedDim):
            value = expressions.as_size(scope, dim.value, what=f"the size `{dim.name}`")
            if value is None:
                frame.names.setdefault(dim.name, POISON)
            elif not name_size(frame, dim.name, value, dim.span):
                value = None
            written = dim.name
        else:
            value = expressions.as_size(scope, dim)
            written = dim.span.text
        if value is None:
            good = False
            continue
        sizes.append(value)
        origins.append((dim.span, written))
    return (tuple(sizes), tuple(origins)) if good else None


def name_size(frame: Frame, name: str, value: Size, span: Span) -> bool:
    """Give a size a name, or check that the name already means it."""
    binding = frame.names.get(name)
    if binding is None:
        frame.names[name] = Static(value, span)
        frame.taken.setdefault(name, span)
        return True
    if binding is POISON:
        return False
    if isinstance(binding, Static) and not isinstance(binding.value, str | bool | float):
        equal = frame.facts.equal(binding.value, value)
        if equal:
            return True
        a, b = f"`{frame.show(binding.value)}`", f"`{frame.show(value)}`"
        labels = (Label(span, f"{name} is {b} here"), Label(binding.span, f"{name} is {a} here"))
        how = "are different" if equal is False else "are not known to be equal"
        frame.report(kinds.SIZES_DIFFER(*labels, a=a, b=b, how=how))
        return False
    frame.report(kinds.DEFINED_TWICE(Label(span), name=name))
    return False


# ---- signatures -----------------------------------------------------------------------------------------------------------


def bind_signature(
    frame: Frame, caller: Frame | None, defined: Defined, types: Mapping[str, ArgType], span: Span
) -> bool:
    """Match tensor arguments to their declared types: plain names are bound, everything else must agree."""
    report = frame.report if caller is None else caller.report
    node = defined.node
    tensors = [(f, f.kind) for f in node.formals if isinstance(f.kind, t.Type) and f.name in types]
    for formal, kind in tensors:  # first the sizes that are plain names
        split = split_dims(frame, caller, formal, kind, types[formal.name], span)
        if split is None:
            return False
        for dim, size, origin in split:
            if isinstance(dim, t.Name) and dim.id not in frame.names:
                frame.names[dim.id] = Static(size, dim.span)
                frame.taken.setdefault(dim.id, dim.span)
                frame.size_evidence[dim.id] = (types[formal.name].span, origin)
    for formal, kind in tensors:
        given = types[formal.name]
        split = split_dims(frame, caller, formal, kind, given, span)
        assert split is not None
        scope = Scope(frame)
        for dim, size, origin in split:
            if isinstance(dim, t.NamedDim):
                expected: Size | None = expressions.as_size(scope, dim.value)
                if expected is not None and not name_size(frame, dim.name, expected, dim.span):
                    return False
            else:
                expected = expressions.as_size(scope, dim)
            if expected is None:
                return False
            equal = frame.facts.equal(expected, size)
            if not equal:
                report_argument_size(report, frame, formal, dim, expected, size, given, origin, equal, node.name)
                return False
        if not fits_dtype(frame, report, formal, kind, given, node.name):
            return False
    return bind_tensors(frame, node, types)


def split_dims(
    frame: Frame, caller: Frame | None, formal: t.Formal, kind: t.Type, given: ArgType, span: Span
) -> list[tuple[t.Dim, Size, tuple[Span, str] | None]] | None:
    """Pair declared dims with sizes; `...` takes what is left and must be the same in every argument."""
    report = frame.report if caller is None else caller.report
    rests = [i for i, d in enumerate(kind.dims) if isinstance(d, t.Rest)]
    rank, declared = len(given.shape), len(kind.dims) - len(rests)
    if len(rests) > 1:
        frame.report(kinds.REST_MISUSE(Label(kind.dims[rests[1]].span), why="it stands twice in one type"))
        return None
    if rank < declared or (rank > declared and not rests):
        shape = "[" + ", ".join(frame.show(s) for s in given.shape) + "]"
        wanted = kind.span.text
        expected = f"{declared} axes or more" if rests else f"{declared} ax{'is' if declared == 1 else 'es'}"
        labels = (Label(given.span, f"shape {shape}"), Label(formal.span, f"declared as `{wanted}`"))
        help = None
        if given.tensor is not None and rank < declared:
            help = f"the call needs {declared} axes; write the missing ones out with an equation before it"
        report(kinds.ARGUMENT_RANK(*labels, name=formal.name, expected=expected, found=rank, help=help))
        return None
    origins: list[tuple[Span, str] | None] = list(given.origins) or [None] * rank
    if not rests:
        return list(zip(kind.dims, given.shape, origins, strict=True))
    start, length = rests[0], rank - declared
    pack = given.shape[start : start + length]
    if frame.rest is None:
        frame.rest = tuple(pack)
    elif len(frame.rest) != len(pack) or any(
        frame.facts.equal(a, b) is not True for a, b in zip(frame.rest, pack, strict=True)
    ):
        a = "[" + ", ".join(frame.show(s) for s in frame.rest) + "]"
        b = "[" + ", ".join(frame.show(s) for s in pack) + "]"
        label = Label(given.span, f"`...` is {b} here")
        report(
            kinds.REST_MISUSE(label, Label(formal.span), why=f"it is {a} in an earlier argument and {b} in this one")
        )
        return None
    dims = [*kind.dims[:start], *kind.dims[start + 1 :]]
    sizes = [*given.shape[:start], *given.shape[start + length :]]
    places = [*origins[:start], *origins[start + length :]]
    return list(zip(dims, sizes, places, strict=True))


def report_argument_size(
    report: object, frame: Frame, formal: t.Formal, dim: t.Dim, expected: Size, found: Size, given: ArgType,
    origin: tuple[Span, str] | None, equal: bool | None, callee: str,
) -> None:  # fmt: skip
    a, b = frame.show(expected), frame.show(found)
    written = dim.name if isinstance(dim, t.NamedDim) else dim.span.text
    wanted = f"{written} = {a}" if written != a else a
    labels = [Label(given.span, f"`{b}` here"), Label(dim.span, f"`{wanted}` asked for here")]
    earlier = frame.size_evidence.get(dim.id) if isinstance(dim, t.Name) else None
    if earlier is not None:
        place, source = earlier
        if place is not None and place != given.span:
            labels.append(Label(place, f"`{wanted}` comes from this argument"))
        if source is not None and source[0].source.text:
            labels.append(Label(source[0], f"`{a}` comes from here"))
    if origin is not None and origin[0].source.text and origin[0] != given.span:
        labels.append(Label(origin[0], f"`{b}` comes from here"))
    how = "are different" if equal is False else "are not known to be equal"
    help = f"if they are always equal, say so: `where {a} == {b}`" if equal is None else None
    unique = {(x.span.source.name, x.span.start, x.span.end): x for x in reversed(labels)}
    kept = [x for x in labels if unique[(x.span.source.name, x.span.start, x.span.end)] is x]
    report(kinds.ARGUMENT_SIZE(*kept, name=formal.name, callee=callee, expected=wanted, found=b, how=how, help=help))  # type: ignore[operator]


def fits_dtype(frame: Frame, report: object, formal: t.Formal, kind: t.Type, given: ArgType, callee: str) -> bool:
    dtype = declared_dtype(frame, kind)
    if dtype is None:
        return False
    found = given.dtype
    same = (
        dtype == found
        or (is_int(dtype) and is_int(found))
        or (is_float(dtype) and is_float(found) and (kind.dtype is None or "float" in (dtype, found)))
    )
    if not same:
        help = None
        if is_float(dtype) and found != "bool":
            text = given.span.text
            help = f"convert it: `{dtype if dtype != 'float' else 'float'}({text})`"
        elif is_int(dtype) and is_float(found):
            help = f"round it: `{dtype}(round({given.span.text}))`"
        labels = (Label(given.span), Label(formal.span, "declared here"))
        report(
            kinds.WRONG_DTYPE(*labels, what=f"`{formal.name}` of `{callee}`", expected=dtype, found=found, help=help)
        )  # type: ignore[operator]
        return False
    if kind.below is not None:
        limit = expressions.as_size(Scope(frame), kind.below)
        if limit is None:
            return False
        if given.below is None and given.tensor is not None and given.tensor.role == "input" and given.tensor.entry:
            given.tensor.below = limit
        elif given.below is None or not frame.facts.nonnegative(tidy(limit - given.below)):
            shown = "without a bound" if given.below is None else f"below {frame.show(given.below)}"
            help = f"declare the bound where the data enters: `i32[...] < {frame.show(limit)}`"
            labels = (Label(given.span), Label(kind.below.span, "asked for here"))
            report(kinds.VALUE_BOUND(*labels, name=formal.name, limit=frame.show(limit), found=shown, help=help))  # type: ignore[operator]
            return False
    return True


def bind_tensors(frame: Frame, node: Callable_, types: Mapping[str, ArgType]) -> bool:
    """Make the inputs of an instance."""
    inputs: list[Tensor] = []
    for formal in node.formals:
        if formal.name not in types:
            continue
        given = types[formal.name]
        below, refinement, origins = given.below, None, tuple((formal.span, "") for _ in given.shape)
        dtype = given.dtype
        if isinstance(formal.kind, t.Type):
            refinement = formal.kind.refinement
            if formal.kind.below is not None:
                below = expressions.as_size(Scope(frame), formal.kind.below)
            if formal.kind.dtype is not None and is_float(dtype):
                dtype = formal.kind.dtype
            if is_int(dtype) and formal.kind.dtype in ("i32", "i64"):
                dtype = formal.kind.dtype
            rests = [d for d in formal.kind.dims if isinstance(d, t.Rest)]
            spread = len(given.shape) - len(formal.kind.dims) + len(rests)
            places: list[tuple[Span, str]] = []
            for dim in formal.kind.dims:
                if isinstance(dim, t.Rest):
                    places.extend((dim.span, "") for _ in range(spread))
                else:
                    places.append((dim.span, dim.name if isinstance(dim, t.NamedDim) else dim.span.text))
            origins = tuple(places)
        tensor = frame.new_tensor(formal.name, dtype, given.shape, "input", formal.span, below, refinement, origins)
        tensor.entry = frame.word in ("model", "train") and not frame.checker.calls
        frame.names[formal.name] = tensor
        inputs.append(tensor)
    frame.instance.inputs = tuple(inputs)
    return True


def bind_outputs(frame: Frame, outputs: Sequence[t.Output]) -> bool:
    """Evaluate the declared types of the outputs; their named sizes become known."""
    good = True
    for output in outputs:
        frame.declared[output.name] = output
        if output.type is None:
            continue
        shape, dtype = declared_shape(frame, output.type), declared_dtype(frame, output.type)
        if shape is None or dtype is None:
            good = False
            continue
        below = None
        if output.type.below is not None:
            below = expressions.as_size(Scope(frame), output.type.below)
        frame.output_shapes[output.name] = OutputType(dtype, shape[0], below, shape[1], output.type.span)
    return good


# ---- where ------------------------------------------------------------------------------------------------------------------


def assume_where(frame: Frame, conditions: Sequence[t.Condition]) -> bool:
    """Take the conditions of a definition as given while it is checked by itself."""
    for condition in conditions:
        if not isinstance(condition, t.Compare):
            report_where_form(frame, condition)
            return False
        if not _assume(frame, condition):
            return False
    return True


def report_where_form(frame: Frame, condition: t.Condition) -> None:
    help = "write a comparison of sizes, such as `E % heads == 0` or `K <= T`"
    if isinstance(condition, t.IndexSize):
        help = f"`=` gives an index its range in the `where` of an equation; write `{condition.name} == {condition.value.span.text}` to compare"
    frame.report(kinds.WHERE_FORM(Label(condition.span), help=help))


def _assume(frame: Frame, node: t.Compare) -> bool:
    scope = Scope(frame)
    facts = frame.facts
    if node.op == "==" and isinstance(node.left, t.Binary) and node.left.op == "%" and _is_zero(node.right):
        a, b = expressions.as_size(scope, node.left.left, None), expressions.as_size(scope, node.left.right)
        if a is None or b is None:
            return False
        consistent = facts.assume_divides(b, a)
    else:
        a, b = expressions.as_size(scope, node.left, None), expressions.as_size(scope, node.right, None)
        if a is None or b is None:
            return False
        consistent = {
            "==": lambda: facts.assume_equal(a, b),
            "<=": lambda: facts.assume_nonnegative(tidy(b - a)),
            "<": lambda: facts.assume_nonnegative(tidy(b - a - 1)),
            ">=": lambda: facts.assume_nonnegative(tidy(a - b)),
            ">": lambda: facts.assume_nonnegative(tidy(a - b - 1)),
            "!=": lambda: facts.equal(a, b) is not True,
        }[node.op]()
    if not consistent:
        frame.report(kinds.WHERE_CONTRADICTS(Label(node.span), text=node.span.text))
    return consistent


def _is_zero(node: t.Expr) -> bool:
    return isinstance(node, t.Number) and node.value == 0


def prove_where(frame: Frame, caller: Frame, conditions: Sequence[t.Condition], span: Span, callee: str) -> bool:
    """At a call the conditions must hold, provably."""
    for condition in conditions:
        if not isinstance(condition, t.Compare):
            report_where_form(frame, condition)
            return False
        holds, left, right = _holds(frame, condition)
        if holds is None and left is None:
            return False
        if not holds:
            values = ", ".join(
                f"{name} = {frame.show(binding.value)}"
                for name in sorted({n.id for n in condition.walk() if isinstance(n, t.Name)})
                if isinstance(binding := frame.names.get(name), Static) and not isinstance(binding.value, str | float)
            )
            how = "does not hold" if holds is False else "is not known to hold"
            help = (
                f"add `where {condition.span.text}` (in the names of this definition) if it always holds"
                if holds is None
                else None
            )
            note = (f"here {values}",) if values else ()
            labels = (Label(span), Label(condition.span, f"`{callee}` needs this"))
            caller.report(
                kinds.WHERE_FAILS(*labels, callee=callee, text=condition.span.text, how=how, notes=note, help=help)
            )
            return False
    return True


def _holds(frame: Frame, node: t.Compare) -> tuple[bool | None, Size | None, Size | None]:
    scope = Scope(frame)
    facts = frame.facts
    if node.op == "==" and isinstance(node.left, t.Binary) and node.left.op == "%" and _is_zero(node.right):
        a, b = expressions.as_size(scope, node.left.left, None), expressions.as_size(scope, node.left.right)
        if a is None or b is None:
            return None, None, None
        if isinstance(a, int) and isinstance(b, int):
            return a % b == 0, a, b
        return (True if facts.whole(sp.sympify(a, strict=True) / b) else None), a, b
    a, b = expressions.as_size(scope, node.left, None), expressions.as_size(scope, node.right, None)
    if a is None or b is None:
        return None, None, None
    return expressions.fold_compare(frame, node.op, a, b), a, b


# ---- instances ------------------------------------------------------------------------------------------------------------------


def instantiate(
    caller: Frame, defined: Defined, types: Mapping[str, ArgType], statics: Mapping[str, object], span: Span
) -> Instance | None:
    """The instance of a definition at these types; made and checked the first time it is asked for."""
    checker = caller.checker
    node = defined.node
    word = node.word if isinstance(node, t.Layer) else "fn"
    instance = Instance(node.name, word, span=node.span, statics=dict(statics))
    frame = Frame(checker, defined.file, word, instance, caller.facts.copy())
    frame.names.update(statics)  # type: ignore[arg-type]
    normal = {
        name: ArgType(x.dtype, tuple(caller.facts.normal(s) for s in x.shape), x.below, x.span, x.tensor, x.origins)
        for name, x in types.items()
    }
    calls.enter(checker, caller, node.name, span)
    try:
        outer_calls = checker.calls[:]
        checker.calls[:] = outer_calls[:-1]
        try:
            if not bind_signature(frame, caller, defined, normal, span):
                return None
            if not prove_where(frame, caller, _where(node), span, node.name):
                return None
        finally:
            checker.calls[:] = outer_calls
        key = (checker.root, id(node), _type_key(frame), _static_key(statics))
        if key not in checker.instances:
            checker.instances[key] = None  # while it is being made, and if it fails
            if check_body(frame, defined):
                checker.instances[key] = instance
        caller.had_error = caller.had_error or checker.instances[key] is None
        return checker.instances[key]
    finally:
        calls.leave(checker)


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
        made = statements.equation_value(
            frame, t.Target(node.name, None, span=node.expression.span), node.expression, None
        )
        if made is None:
            return False
        output = frame.new_tensor(
            node.name, made.expr.dtype, made.shape, span=node.expression.span, origins=made.origins
        )
        from dslc.check.program import Define

        frame.emit(Define(output, made.axes, made.expr, node.expression.span))
        frame.instance.outputs = (output,)
        return finish(frame)
    assert isinstance(node, t.Fn | t.Layer)
    if not bind_outputs(frame, node.outputs):
        return False
    statements.block(frame, node.body)
    outputs: list[Tensor] = []
    for output in node.outputs:
        binding = frame.names.get(output.name)
        if isinstance(binding, Tensor):
            outputs.append(binding)
        elif binding is None and output.name in frame.one_mode:
            frame.unknown(output.name, output.span)
        elif binding is None and not frame.had_error:
            frame.report(kinds.OUTPUT_UNDEFINED(Label(output.span), name=output.name, owner=node.name))
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
        frame.report(kinds.BACKWARD_SIGNATURE(Label(_first_line(node.span)), name=definition.name, expected=expected))
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
            frame.report(kinds.OUTPUT_UNDEFINED(Label(_first_line(node.span)), name=name, owner="backward"))
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


def _first_line(span: Span) -> Span:
    end = span.text.find("\n")
    return span if end < 0 else Span(span.source, span.start, span.start + end)


def limit_parameters(frame: Frame, span: Span) -> None:
    if frame.instance.param_count > MAX_PARAMETERS:
        from dslc.check.frame import GiveUp

        frame.report(kinds.TOO_MUCH_WORK(Label(span), what="parameter tensors", limit=MAX_PARAMETERS))
        raise GiveUp


# ---- a definition by itself ---------------------------------------------------------------------------------------------------------


def own_statics(
    checker: Checker, frame: Frame, defined: Defined, settings: Mapping[str, object]
) -> dict[str, object] | None:
    """Values for the static arguments of a definition that is checked by itself; None when it cannot be."""
    statics: dict[str, object] = {}
    for formal in defined.node.formals:
        kind = formal_kind(frame, defined, formal)
        if formal.name in settings and kind in ("size", "int", "float", "bool", "string"):
            statics[formal.name] = Static(settings[formal.name], formal.span, "argument")  # type: ignore[arg-type]
        elif kind == "tensor":
            continue
        elif formal.default is not None and kind not in ("scalar",):
            default = default_value(checker, defined, formal)
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
    if not assume_where(frame, _where(node)) or not bind_signature(frame, None, defined, types, node.span):
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
        if isinstance(kind, t.KindWord) and kind.word not in KIND_WORDS:
            help = (
                f"write `{kind.word}[]` for a single number"
                if kind.word in (*FLOATS, "i32", "i64")
                else did_you_mean(kind.word, (*KIND_WORDS, *DTYPES))
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


def own_types(frame: Frame, defined: Defined) -> dict[str, ArgType] | None:
    """The tensor types of a definition at its own sizes: every new name is a size of its own."""
    types: dict[str, ArgType] = {}
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
        shape, dtype = declared_shape(frame, kind), declared_dtype(frame, kind)
        if shape is None or dtype is None:
            return None
        below = expressions.as_size(Scope(frame), kind.below) if kind.below is not None else None
        types[formal.name] = ArgType(dtype, shape[0], below, formal.span, None, shape[1])
    for formal in node.formals:
        if formal_kind(frame, defined, formal) == "scalar":
            types[formal.name] = ArgType("float", (), None, formal.span)
    return types


# ---- optimizers and training ----------------------------------------------------------------------------------------------------------


def check_optimizer(checker: Checker, defined: Defined) -> Instance | None:
    """Check an optimizer: everything in it is elementwise over one parameter."""
    node = defined.node
    assert isinstance(node, t.Optimizer)
    instance = Instance(node.name, "optimizer", span=node.span)
    frame = Frame(checker, defined.file, "optimizer", instance, Facts())
    checker.new_root()
    if not check_formals(frame, defined):
        return None
    for formal in node.formals:
        kind = formal_kind(frame, defined, formal)
        if kind not in ("int", "float", "bool", "string"):
            frame.report(
                kinds.ARGUMENT_KIND(Label(formal.span), name=formal.name, expected="a number", found="a " + kind)
            )
            return None
        default = default_value(checker, defined, formal) if formal.default is not None else None
        if formal.default is not None and default is None:
            return None
        if kind in ("bool", "string"):
            if default is None:
                return instance
            frame.names[formal.name] = default
        else:
            frame.names[formal.name] = frame.new_tensor(formal.name, "float", (), "input", formal.span)
    size = symbol("size of the parameter")
    origins = ((node.span, ""),)
    for name in ("param", "grad"):
        frame.names[name] = frame.new_tensor(
            name, "float", (size,), "param" if name == "param" else "input", node.span, origins=origins
        )
    for name in ("step", "grad_norm"):
        frame.names[name] = frame.new_tensor(name, "float", (), "input", node.span)
    statements.block(frame, node.body)
    if not frame.had_error and "param" not in frame.updated:
        frame.report(kinds.OPTIMIZER_IDLE(Label(_first_line(node.span)), name=node.name))
    return instance if finish(frame) else None


def optimizer_use(frame: Frame, node: t.Using) -> None:
    """`using adamw(lr = 1e-3)`; its arguments may depend on `step`."""
    callee = node.optimizer.callee if isinstance(node.optimizer, t.Call) else node.optimizer
    arguments = node.optimizer.arguments if isinstance(node.optimizer, t.Call) else ()
    binding = frame.lookup_function(callee.id) if isinstance(callee, t.Name) else None
    if binding is POISON:
        return
    if (
        not isinstance(binding, FunctionValue)
        or binding.defined is None
        or not isinstance(binding.defined.node, t.Optimizer)
    ):
        known = [
            n for n in frame.file.known_names() if isinstance(getattr(frame.file.lookup(n), "node", None), t.Optimizer)
        ]
        help = did_you_mean(callee.span.text, known) or "one of " + ", ".join(f"`{n}`" for n in sorted(known))
        frame.report(kinds.NOT_AN_OPTIMIZER(Label(callee.span), name=callee.span.text, help=help))
        return
    formals = {f.name: f for f in binding.defined.node.formals}
    names = list(formals)
    scope = Scope(frame)
    frame.names.setdefault("step", frame.new_tensor("step", "float", (), "input", node.span))
    for place, argument in enumerate(arguments):
        name = argument.name if argument.name is not None else names[place] if place < len(names) else None
        if name is None:
            shown = ", ".join(f"`{n}`" for n in names)
            frame.report(
                kinds.TOO_MANY_ARGUMENTS(
                    Label(argument.span), callee=callee.span.text, expected=len(names), names=shown
                )
            )
            return
        if name not in formals:
            frame.report(
                kinds.UNKNOWN_ARGUMENT(
                    Label(argument.span), name=name, callee=callee.span.text, help=near_argument(name, names)
                )
            )
            return
        val = expressions.expression(scope, argument.value)
        if val.poisoned:
            return
        if val.axes or val.function is not None or isinstance(val.static, str):
            frame.report(kinds.SCALAR_EXPECTED(Label(argument.span), name=name))
            return
        frame.optimizer_args[name] = lower(val)
    missing = [n for place, n in enumerate(names) if formals[n].default is None and n not in frame.optimizer_args]
    if missing:
        declared = Label(formals[missing[0]].span, "declared here")
        frame.report(
            kinds.MISSING_ARGUMENT(
                Label(node.span), declared, name=missing[0], callee=callee.span.text, help=f"add `{missing[0]} = ...`"
            )
        )
        return
    frame.optimizer = Instance(binding.defined.node.name, "optimizer", span=binding.defined.node.span)
