"""Signatures: kinds of arguments, declared types, and the match of a call to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dslc.check import call_arguments, expressions, static_values
from dslc.check.frame import Checker, Frame
from dslc.check.indices import Scope
from dslc.check.program import Instance, Tensor
from dslc.check.values import (
    DTYPES,
    POISON,
    FunctionValue,
    Shared,
    Static,
    Val,
    is_float,
    is_int,
)
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Label
from dslc.resolve.files import Callable_, Defined, did_you_mean
from dslc.sizes import Size, tidy
from dslc.source import Span
from dslc.syntax import tree as t

#: what other systems call our dtypes
DTYPE_ALIASES = {
    "float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "double": "f64", "half": "f16",
    "int": "i32", "int32": "i32", "int64": "i64", "long": "i64", "boolean": "bool",
}  # fmt: skip

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
    if in_fn and not any(isinstance(f.kind, t.Type) for f in defined.node.formals):
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
        return call_arguments.function_argument(scope, call_arguments.Given(formal.default), kind)
    val = expressions.expression(scope, formal.default)
    if val.poisoned:
        return None
    if kind == "scalar":
        return val
    if kind in ("tensor", "any"):
        frame.report(kinds.DEFAULT_OF_TENSOR(Label(formal.default.span), name=formal.name))
        return None
    return call_arguments.static_argument(scope, formal, kind, call_arguments.Given(formal.default), val)


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
        near = DTYPE_ALIASES.get(node.dtype)
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
            value = static_values.as_size(scope, dim.value, what=f"the size `{dim.name}`")
            if value is None:
                frame.names.setdefault(dim.name, POISON)
            elif not name_size(frame, dim.name, value, dim.span):
                value = None
            written = dim.name
        else:
            value = static_values.as_size(scope, dim)
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
                expected: Size | None = static_values.as_size(scope, dim.value)
                if expected is not None and not name_size(frame, dim.name, expected, dim.span):
                    return False
            else:
                assert not isinstance(dim, t.Rest)
                expected = static_values.as_size(scope, dim)
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
        limit = static_values.as_size(Scope(frame), kind.below)
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
                below = static_values.as_size(Scope(frame), formal.kind.below)
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
        tensor.entry = frame.word in ("model", "train") and not frame.calls
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
            below = static_values.as_size(Scope(frame), output.type.below)
        frame.output_shapes[output.name] = OutputType(dtype, shape[0], below, shape[1], output.type.span)
    return good
