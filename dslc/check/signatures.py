"""Signatures: kinds of arguments, and the types that they declare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dslc.check import static_values, wording
from dslc.check.frame import Frame
from dslc.check.indices import Scope
from dslc.check.program import Instance, Tensor
from dslc.check.values import DTYPES, POISON, FunctionValue, Shared, Static, exact, is_float
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Label
from dslc.resolve.files import Defined, did_you_mean
from dslc.sizes import Size
from dslc.source import Span
from dslc.syntax import tree as t

#: what other systems call our dtypes
DTYPE_ALIASES = {
    "float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "double": "f64", "half": "f16",
    "int": "i32", "int32": "i32", "int64": "i64", "long": "i64", "boolean": "bool",
}  # fmt: skip


KIND_WORDS = ("size", "int", "float", "bool", "string", "fn", "layer")


#: Where an axis gets its size: the place, and the size as it is written there.
Origin = tuple[Span, str]


@dataclass(frozen=True)
class ArgType:
    """The type of an argument at a call."""

    dtype: str
    shape: tuple[Size, ...]
    below: Size | None = None
    span: Span = field(default=None, compare=False, repr=False)  # type: ignore[assignment]
    tensor: Tensor | None = field(default=None, compare=False, repr=False)
    origins: tuple[Origin, ...] = field(default=(), compare=False, repr=False)
    #: the indices for each of which the call is made
    mapped: tuple[str, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True)
class OutputType:
    """The declared type of an output."""

    dtype: str
    shape: tuple[Size, ...]
    below: Size | None
    origins: tuple[Origin, ...]
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


def declared_dtype(frame: Frame, node: t.Type) -> str | None:
    """The dtype that a type names; `float` without one."""
    if node.refinement not in (None, "binary", "simplex"):
        help = (
            did_you_mean(node.refinement or "", ("binary", "simplex"))
            or "`binary` or `simplex` may stand before a dtype"
        )
        frame.report(kinds.UNKNOWN_TYPE(Label(node.span.word(node.refinement or "")), name=node.refinement, help=help))
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
        frame.report(kinds.UNKNOWN_TYPE(Label(node.span.word(node.dtype)), name=node.dtype, help=help))
        return None
    return node.dtype


Shape = tuple[tuple[Size, ...], tuple[Origin, ...]]


def declared_shape(frame: Frame, node: t.Type) -> Shape | None:
    """The shape of a type whose sizes must be known by now; `D = ...` names a new one."""
    sizes: list[Size] = []
    origins: list[Origin] = []
    scope = Scope(frame)
    good = True
    for dim in node.dims:
        if isinstance(dim, t.Rest):
            if frame.types.rest is None:
                frame.report(kinds.REST_MISUSE(Label(dim.span), why="no argument of the definition has a `...`"))
                good = False
                continue
            sizes.extend(frame.types.rest)
            origins.extend((dim.span, "") for _ in frame.types.rest)
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
        frame.reserved.taken.setdefault(name, span)
        frame.instance.sizes[name] = value
        return True
    if binding is POISON:
        return False
    if isinstance(binding, Static) and binding.what == "size" and (known := exact(binding.value)) is not None:
        equal = frame.facts.equal(known, value)
        if equal:
            return True
        a, b = f"`{frame.show(known)}`", f"`{frame.show(value)}`"
        labels = (Label(span, f"`{name}` is {b} here"), Label(binding.span, f"`{name}` is {a} here"))
        help = wording.always_equal(frame, known, value) if equal is None else None
        frame.report(kinds.SIZES_DIFFER(*labels, a=a, b=b, how=wording.how(equal), help=help))
        return False
    first = [Label(binding.span, "first defined here")] if isinstance(binding, Static | Tensor | Shared) else []
    frame.report(kinds.DEFINED_TWICE(Label(span), *first, name=name))
    return False


def declared_as(frame: Frame, name: str, dtype: str) -> str:
    """The dtype of a value under a name: that of the output, or, where a type names none, the float of the value."""
    fixed = frame.types.outputs.get(name)
    if fixed is None or (fixed.dtype == "float" and is_float(dtype)):
        return dtype
    return str(fixed.dtype)


def bind_outputs(frame: Frame, outputs: Sequence[t.Output]) -> bool:
    """Evaluate the declared types of the outputs; their named sizes become known."""
    good = True
    for output in outputs:
        if output.type is None:
            continue
        shape, dtype = declared_shape(frame, output.type), declared_dtype(frame, output.type)
        if shape is None or dtype is None:
            good = False
            continue
        below = None
        if output.type.below is not None:
            below = static_values.as_size(Scope(frame), output.type.below)
        frame.types.outputs[output.name] = OutputType(dtype, shape[0], below, shape[1], output.type.span)
    return good
