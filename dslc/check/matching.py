"""The match of a call to a signature: sizes are bound or compared, dtypes and bounds of values must fit."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from dslc.check import static_values, wording
from dslc.check.frame import Frame
from dslc.check.indices import Scope, declare_bound
from dslc.check.program import Tensor
from dslc.check.signatures import ArgType, Origin, declared_dtype, name_size
from dslc.check.values import Static, is_float, is_int
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Diagnostic, Label
from dslc.resolve.files import Callable_, Defined
from dslc.sizes import Size, tidy
from dslc.source import Span
from dslc.syntax import tree as t

Report = Callable[[Diagnostic], None]


def bind_signature(frame: Frame, caller: Frame | None, defined: Defined, types: Mapping[str, ArgType]) -> bool:
    """Match tensor arguments to their declared types: plain names are bound, everything else must agree."""
    report = frame.report if caller is None else caller.report
    node = defined.node
    tensors = [(f, f.kind, types[f.name]) for f in node.formals if isinstance(f.kind, t.Type) and f.name in types]
    paired = []
    for formal, kind, given in tensors:  # first the sizes that are plain names
        pairs = pair_dims(frame, report, formal, kind, given, node.name)
        if pairs is None:
            return False
        paired.append(pairs)
        for dim, size, origin in pairs:
            if isinstance(dim, t.Name) and dim.id not in frame.names:
                frame.names[dim.id] = Static(size, dim.span)
                frame.reserved.taken.setdefault(dim.id, dim.span)
                frame.types.size_evidence[dim.id] = (given.span, origin)
    for (formal, kind, given), pairs in zip(tensors, paired, strict=True):
        scope = Scope(frame)
        for dim, size, origin in pairs:
            if isinstance(dim, t.NamedDim):
                expected: Size | None = static_values.as_size(scope, dim.value)
                if expected is not None and not name_size(frame, dim.name, expected, dim.span):
                    return False
            else:
                assert not isinstance(dim, t.Rest)
                expected = static_values.as_size(scope, dim)
            if expected is None:
                return False
            if frame.facts.equal(expected, size) is not True:
                earlier = frame.types.size_evidence.get(dim.id) if isinstance(dim, t.Name) else None
                sizes = (expected, size)
                report(argument_size(frame, formal, dim, sizes, given.span, origin, earlier, node.name))
                return False
        if not fits_dtype(frame, report, formal, kind, given, node.name):
            return False
    bind_tensors(frame, node, types)
    return True


def pair_dims(
    frame: Frame, report: Report, formal: t.Formal, kind: t.Type, given: ArgType, callee: str
) -> list[tuple[t.Dim, Size, Origin | None]] | None:
    """Pair declared dims with sizes; `...` takes what is left and must be the same in every argument."""
    rests = [i for i, d in enumerate(kind.dims) if isinstance(d, t.Rest)]
    rank, declared = len(given.shape), len(kind.dims) - len(rests)
    if len(rests) > 1:
        frame.report(kinds.REST_MISUSE(Label(kind.dims[rests[1]].span), why="it stands twice in one type"))
        return None
    if rank < declared or (rank > declared and not rests):
        axes = wording.count(declared, "axis", "axes")
        shape = f"shape {frame.show_shape(given.shape)}"
        labels = (Label(given.span, shape), Label(formal.span, f"declared as `{kind.span.text}`"))
        help = None
        if given.mapped and rank < declared:
            names = ", ".join(x.strip("`") for x in given.mapped)
            help = f"name it in an equation before, `part[{names}] = {given.span.text}`, and pass `part` alone"
            if re.fullmatch(r"\w+\[[^][()]*\]", given.span.text):
                each = f"`{callee}` is called for each {wording.listed(given.mapped)} here"
                help = f"{each}; write `:` for an axis of the call itself, on the left too"
        elif given.tensor is not None and rank < declared:
            help = f"the call needs {axes}; write the missing ones out with an equation before it"
            if given.span.text.isidentifier() and declared <= 6:
                here = ", ".join("ijklmn"[:rank])
                left = ", ".join("ijklmn"[:rank]) + "".join(f", {letter}: 1" for letter in "ijklmn"[rank:declared])
                read = f"{given.span.text}[{here}]" if here else given.span.text
                help += f", as in `part[{left.removeprefix(', ')}] = {read}`, and pass `part`"
        expected = f"{axes} or more" if rests else axes
        report(kinds.ARGUMENT_RANK(*labels, name=formal.name, expected=expected, found=rank, help=help))
        return None
    origins: list[Origin | None] = list(given.origins) or [None] * rank
    if not rests:
        return list(zip(kind.dims, given.shape, origins, strict=True))
    start, end = rests[0], rests[0] + rank - declared
    if frame.types.rest is None:
        frame.types.rest = given.shape[start:end]
        frame.types.rest_evidence = (formal.name, given.span, origins[start:end])
    elif not frame.same_shape(frame.types.rest, given.shape[start:end]):
        report(rest_differs(frame, formal, kind, given, slice(start, end), callee))
        return None
    dims = [*kind.dims[:start], *kind.dims[start + 1 :]]
    sizes, places = [*given.shape[:start], *given.shape[end:]], [*origins[:start], *origins[end:]]
    return list(zip(dims, sizes, places, strict=True))


def rest_differs(frame: Frame, formal: t.Formal, kind: t.Type, given: ArgType, rest: slice, callee: str) -> Diagnostic:
    """`...` stands for other axes in this argument than in an earlier one."""
    assert frame.types.rest is not None and frame.types.rest_evidence is not None
    other, place, origins = frame.types.rest_evidence
    pack = given.shape[rest]
    dim = next(d for d in kind.dims if isinstance(d, t.Rest))
    for axis, sizes in enumerate(zip(frame.types.rest, pack, strict=False)):
        if len(pack) == len(frame.types.rest) and frame.facts.equal(*sizes) is not True:
            origin = given.origins[rest][axis] if given.origins else None
            return argument_size(frame, formal, dim, sizes, given.span, origin, (place, origins[axis]), callee)
    wanted, found = frame.show_shape(frame.types.rest), frame.show_shape(pack)
    whole = len(kind.dims) == 1
    labels = (
        Label(given.span, f"shape {frame.show_shape(given.shape)}"),
        Label(place, f"shape {wanted}" if whole else f"`...` is {wanted} here"),
        Label(formal.span, "declared here"),
    )
    help = _drop_last(frame, place, frame.types.rest, pack) or _drop_last(frame, given.span, pack, frame.types.rest)
    expected = f"the shape {wanted} of `{other}`" if whole else f"the axes {wanted} of `{other}` in place of `...`"
    return kinds.ARGUMENT_RANK(*labels, name=formal.name, expected=expected, found=found, help=help if whole else None)


def _drop_last(frame: Frame, place: Span, longer: Sequence[Size], shorter: Sequence[Size]) -> str | None:
    """Advice for a shape that is another one with an axis of size 1 behind it."""
    if not longer or longer[-1] != 1 or not frame.same_shape(longer[:-1], shorter):
        return None
    places = ", ".join([":"] * len(shorter) + ["0"])
    return f"its last axis has one element only; read that: `{place.text}[{places}]`"


def argument_size(
    frame: Frame, formal: t.Formal, dim: t.Dim, sizes: tuple[Size, Size], span: Span, origin: Origin | None,
    earlier: tuple[Span, Origin | None] | None, callee: str,
) -> Diagnostic:  # fmt: skip
    """An axis of an argument has another size than the signature asks for; `earlier` is what fixed that."""
    expected, found = sizes
    equal = frame.facts.equal(expected, found)
    a, b = frame.show(expected), frame.show(found)
    written = dim.name if isinstance(dim, t.NamedDim) else dim.span.text
    wanted = a if written in (a, "...") else f"{written} = {a}"
    labels = [Label(span, f"`{b}` here"), Label(dim.span, f"`{wanted}` asked for here")]
    if earlier is not None:
        place, source = earlier
        if place != span:
            labels.append(Label(place, f"`{wanted}` comes from this argument"))
        if source is not None and source[0].source.text:
            labels.append(Label(source[0], f"`{a}` comes from here"))
    if origin is not None and origin[0].source.text and origin[0] != span:
        labels.append(Label(origin[0], f"`{b}` comes from here"))
    once = {label.span: label for label in reversed(labels)}
    kept = [label for label in labels if once[label.span] is label]
    help = wording.always_equal(frame, expected, found) if equal is None else None
    how, name = wording.how(equal), formal.name
    return kinds.ARGUMENT_SIZE(*kept, name=name, callee=callee, expected=wanted, found=b, how=how, help=help)


def fits_dtype(frame: Frame, report: Report, formal: t.Formal, kind: t.Type, given: ArgType, callee: str) -> bool:
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
            help = f"convert it: `{dtype}({given.span.text})`"
        elif is_int(dtype) and is_float(found):
            help = f"round it: `{dtype}(round({given.span.text}))`"
        labels = (Label(given.span), Label(formal.span, "declared here"))
        what = f"`{formal.name}` of `{callee}`"
        report(kinds.WRONG_DTYPE(*labels, what=what, expected=dtype, found=found, help=help))
        return False
    return kind.below is None or fits_bound(frame, report, formal, kind.below, given)


def fits_bound(frame: Frame, report: Report, formal: t.Formal, below: t.Expr, given: ArgType) -> bool:
    """Are the values of whole-number data below their declared bound? An input of the module may promise it."""
    limit = static_values.as_size(Scope(frame), below)
    if limit is None:
        return False
    tensor = given.tensor
    if given.below is None and tensor is not None and tensor.role == "input" and tensor.entry:
        tensor.below = limit
        return True
    if given.below is not None and frame.facts.nonnegative(tidy(limit - given.below)):
        return True
    shown = "without a bound" if given.below is None else f"below {frame.show(given.below)}"
    labels = [Label(given.span), Label(below.span, "asked for here")]
    if tensor is not None and tensor.span.source.text and tensor.span != given.span:
        verb = "declared" if tensor.role == "input" else "computed"
        labels.append(Label(tensor.span, f"`{tensor.name}` is {verb} here, {shown}"))
    help = declare_bound(frame, tensor, limit)
    if tensor is None or tensor.role != "input":
        help += f", or keep it below: `clip({given.span.text}, 0, {frame.show(tidy(limit - 1))})`"
    report(kinds.VALUE_BOUND(*labels, name=formal.name, limit=frame.show(limit), found=shown, help=help))
    return False


def bind_tensors(frame: Frame, node: Callable_, types: Mapping[str, ArgType]) -> None:
    """Make the inputs of an instance."""
    inputs: list[Tensor] = []
    for formal in node.formals:
        if formal.name not in types:
            continue
        given = types[formal.name]
        below, refinement, origins = given.below, None, tuple((formal.span, "") for _ in given.shape)
        # in a layer of no particular dtype a float32 is a float like others, so that one instance serves both
        dtype = "float" if given.dtype == "f32" and frame.calls else given.dtype
        if isinstance(formal.kind, t.Type):
            refinement = formal.kind.refinement
            if formal.kind.below is not None:
                below = static_values.as_size(Scope(frame), formal.kind.below)
            if formal.kind.dtype is not None and is_float(dtype):
                dtype = formal.kind.dtype
            if is_int(dtype) and formal.kind.dtype in ("i32", "i64"):
                dtype = formal.kind.dtype
            origins = _dim_origins(formal.kind, len(given.shape))
        tensor = frame.new_tensor(formal.name, dtype, given.shape, "input", formal.span, below, refinement, origins)
        tensor.entry = frame.word in ("model", "train") and not frame.calls
        frame.names[formal.name] = tensor
        inputs.append(tensor)
    frame.instance.inputs = tuple(inputs)


def _dim_origins(kind: t.Type, rank: int) -> tuple[Origin, ...]:
    """Where each axis of an input gets its size in the declared type."""
    rests = [d for d in kind.dims if isinstance(d, t.Rest)]
    places: list[Origin] = []
    for dim in kind.dims:
        if isinstance(dim, t.Rest):
            places.extend((dim.span, "") for _ in range(rank - len(kind.dims) + len(rests)))
        else:
            places.append((dim.span, dim.name if isinstance(dim, t.NamedDim) else dim.span.text))
    return tuple(places)
