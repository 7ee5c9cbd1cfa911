"""Declarations: parameters, states, slots, named layers and sizes."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from dslc.check import call_arguments, definitions, elementwise, equations, rules, signatures, static_values, wording
from dslc.check.dependence import tensors_in
from dslc.check.frame import Frame
from dslc.check.indices import Scope
from dslc.check.program import Define, Expr, Index, ParamDecl, SharedLayer, StateDecl, Stmt, Tensor
from dslc.check.renaming import rename
from dslc.check.values import POISON, FunctionValue, Shared, Static, is_float, lower
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Label
from dslc.ops.table import INITIALIZERS
from dslc.resolve.files import did_you_mean
from dslc.source import Span
from dslc.syntax import tree as t


def claim(frame: Frame, name: str, span: Span) -> bool:
    """May a declaration take this name? Reports what already has it."""
    binding = frame.names.get(name)
    place = frame.reserved.taken.get(name)
    if place is None and isinstance(binding, Tensor | Static | Shared):
        place = binding.span
    if place is not None or isinstance(binding, FunctionValue):
        first = [Label(place.first_line, "first defined here")] if place is not None else []
        frame.report(kinds.DEFINED_TWICE(Label(span), *first, name=name))
        frame.names[name] = POISON
        return False
    frame.reserved.taken[name] = span
    return True


def parameter(frame: Frame, node: t.Parameter) -> None:
    shape = signatures.declared_shape(frame, node.type)
    dtype = signatures.declared_dtype(frame, node.type)
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
        name = ".".join([target.name, *frame.paths.loop])
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
        made = equations.equation_value(frame, target, value, tensor.shape, tensor.origins, repeats=True)
    if made is None:
        return None
    known = initial_value(frame, value, made.expr, body)
    return None if known is None else (tuple(i for axis in made.axes for i in axis), known)


def initial_value(
    frame: Frame, node: t.Expr, value: Expr, body: Sequence[Stmt] = (), given: Collection[Tensor] = ()
) -> Expr | None:
    """A value over numbers, sizes and what is `given`, with the formulas of the values that it names; else a report.

    `body` are statements that it takes beside the formula.
    """
    formulas = {x.tensor: x.value for x in frame.so_far() if isinstance(x, Define) and not x.axes}
    while not body:
        read = {x for x in tensors_in([value]) if x not in given}
        if not read:
            return value
        if not read <= formulas.keys():
            break
        value = rename(value, {}, formulas)
    if frame.word == "optimizer":
        help: str | None = f"begin with 0, and take `{node.span.text}` where `step == 1`"
    else:
        help = wording.made_known(frame, node, "it is made of numbers and sizes, before there are data")
    frame.report(kinds.STATIC_NEEDED(Label(node.span), what="an initial value", help=help))
    return None


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
        expected = f"{least} to {most} arguments" if least != most else wording.count(least, "argument")
        deviation = arguments[1].value.span.text if callee.id == "normal" and len(arguments) == 2 else ""
        cure = f"its mean is 0; `normal({deviation})` tells the deviation" if deviation else None
        frame.report(kinds.ARITY(Label(node.span), name=callee.id, expected=expected, found=len(arguments), help=cure))
        return
    declaration.initializer = callee.id
    scope = Scope(frame)
    values = [rules.expression(scope, a.value) for a in arguments]
    if elementwise.numbers(scope, [(a.value, v) for a, v in zip(arguments, values, strict=True)], callee.id):
        known = [initial_value(frame, a.value, lower(v)) for a, v in zip(arguments, values, strict=True)]
        declaration.init_args = tuple(x for x in known if x is not None)
    rank = len(declaration.tensor.shape)
    if callee.id in ("orthogonal", "identity") and rank != 2:
        frame.report(kinds.INITIALIZER_RANK(Label(node.span), name=callee.id, found=rank))


def state(frame: Frame, node: t.State) -> None:
    shape = signatures.declared_shape(frame, node.type)
    dtype = signatures.declared_dtype(frame, node.type)
    if not claim(frame, node.name, node.span.word(node.name)):
        return
    if shape is None or dtype is None:
        frame.names[node.name] = POISON
        return
    tensor = frame.new_tensor(
        ".".join([node.name, *frame.paths.loop]), dtype, shape[0], "state", node.span, origins=shape[1]
    )
    scope = Scope(frame)
    with frame.collecting() as body:
        value = rules.expression(scope, node.value)
    frame.names[node.name] = tensor
    if value.poisoned or not elementwise.numbers(scope, [(node.value, value)], "="):
        return
    if value.axes:
        frame.report(kinds.SCALAR_EXPECTED(Label(node.value.span), name=node.name))
        return
    known = initial_value(frame, node.value, lower(value), body)
    if known is not None:
        frame.instance.states.append(StateDecl(tensor, known))


def slots(frame: Frame, node: t.Slots) -> None:
    like = frame.names["param"]
    assert isinstance(like, Tensor)
    data = ("param", "grad", "step", "grad_norm")
    hyper = [x for x in frame.names.values() if isinstance(x, Tensor) and x.role == "input" and x.name not in data]
    for part in node.values:
        if part.name in ("loss", "metrics", "seed"):
            place, what = Label(part.span.word(part.name)), "an optimizer keeps beside its slots"
            frame.report(kinds.PYTHON_NAME(place, name=part.name, what=what))
        if not claim(frame, part.name, part.span.word(part.name)):
            continue
        scope = Scope(frame)
        with frame.collecting() as body:
            value = rules.expression(scope, part.value)
        tensor = frame.new_tensor(part.name, "float", like.shape, "slot", part.span, origins=like.origins)
        frame.names[part.name] = tensor
        if not value.poisoned and elementwise.numbers(scope, [(part.value, value)], "="):
            known = initial_value(frame, part.value, lower(value), body, hyper)
            if known is not None:
                frame.instance.states.append(StateDecl(tensor, known))


def use(frame: Frame, node: t.Use) -> None:
    if not claim(frame, node.name, node.span.word(node.name)):
        return
    scope = Scope(frame)
    function = call_arguments.function_argument(scope, call_arguments.Given(node.value), "layer")
    if function is None or isinstance(function, Shared):
        frame.names[node.name] = POISON if function is None else function
        return
    path = ".".join([node.name, *frame.paths.loop])
    frame.names[node.name] = Shared(function, path, node.frozen, node.span, SharedLayer(path, frame.instance))


def size(frame: Frame, node: t.Size) -> None:
    value = static_values.as_size(Scope(frame), node.value, what=f"the size `{node.name}`")
    if claim(frame, node.name, node.span.word(node.name)):
        frame.names[node.name] = POISON if value is None else Static(value, node.span)
        if value is not None:
            frame.instance.sizes[node.name] = value
