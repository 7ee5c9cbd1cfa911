"""Training: losses, metrics, optimizers."""

from __future__ import annotations

from dslc.check import (
    blocks,
    call_arguments,
    definitions,
    elementwise,
    equations,
    materialise,
    rules,
    signatures,
    wording,
)
from dslc.check.frame import Checker, Frame
from dslc.check.indices import Scope
from dslc.check.program import Instance, Tensor
from dslc.check.sums import Placement
from dslc.check.values import POISON, FunctionValue, Val, is_float, lower
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Label
from dslc.resolve.files import Defined, did_you_mean
from dslc.sizes import Facts, symbol
from dslc.syntax import tree as t


def scalar_value(frame: Frame, node: t.Expr, what: str) -> Tensor | None:
    """A loss or a metric: one float."""
    scope = equations.open_scope(frame, [], node)
    val = rules.right_side(Placement(scope), node)
    if val.poisoned or not scope.finish():
        return None
    if val.function is not None or val.several or isinstance(val.static, str) or val.dtype == "bool":
        frame.report(kinds.NOT_A_VALUE(Label(node.span), found=elementwise.describe(frame, val)))
        return None
    if val.axes:
        shape = frame.show_shape(a.size for a in val.axes)
        help = f"reduce it, for example `mean({node.span.text})`"
        frame.report(kinds.LOSS_NOT_SCALAR(Label(node.span), what=what, found=shape, help=help))
        return None
    if what == "loss" and not is_float(val.dtype):
        frame.report(kinds.DIFFERENTIATE_INTEGER(Label(node.span), text=node.span.text, found=val.dtype))
        return None
    return materialise.materialise_over(scope, Val(lower(val), (), val.free), (), node.span, what)


def objective(frame: Frame, node: t.Objective) -> None:
    if frame.training.objective is not None:
        labels = (Label(node.span.word(node.sense)), Label(frame.training.objective.span, "first here"))
        both = {f"`{frame.training.objective.sense}`": None, f"`{node.sense}`": None}
        help = "keep one of them; losses may be added up"
        frame.report(kinds.OBJECTIVE_TWICE(*labels, word=" or ".join(both), help=help))
        return
    frame.training.objective = node
    frame.training.loss = scalar_value(frame, node.value, "loss")


def metric(frame: Frame, node: t.Metric) -> None:
    tensor = scalar_value(frame, node.value, "metric")
    if node.name == "loss" or any(node.name == name for name, _ in frame.training.metrics):
        why = "which is what is minimised" if node.name == "loss" else "which is another metric already"
        frame.report(kinds.METRIC_NAME(Label(node.span.word(node.name, len("metric"))), name=node.name, why=why))
    elif tensor is not None:
        frame.training.metrics.append((node.name, tensor))
        frame.names.setdefault(node.name, tensor)


def using(frame: Frame, node: t.Using) -> None:
    if frame.training.using is not None:
        labels = (Label(node.span.word("using")), Label(frame.training.using.span, "first here"))
        frame.report(kinds.OBJECTIVE_TWICE(*labels, word="`using`"))
        return
    frame.training.using = node
    optimizer_use(frame, node)


def freeze(frame: Frame, node: t.Freeze) -> None:
    frame.training.freezes.append(node)


def check_optimizer(checker: Checker, defined: Defined) -> Instance | None:
    """Check an optimizer: everything in it is elementwise over one parameter."""
    node = defined.node
    assert isinstance(node, t.Optimizer)
    instance = Instance(node.name, "optimizer", span=node.span)
    frame = Frame(checker, defined.file, "optimizer", instance, Facts())
    checker.new_root()
    if not definitions.check_formals(frame, defined):
        return None
    for formal in node.formals:
        if formal.name in ("grad", "step", "grad_norm"):
            what = "every optimizer is given under that name"
            frame.report(kinds.PYTHON_NAME(Label(formal.span), name=formal.name, what=what))
            return None
        kind = signatures.formal_kind(frame, defined, formal)
        if kind not in ("int", "float", "bool", "string"):
            found = wording.a(kind)
            frame.report(kinds.ARGUMENT_KIND(Label(formal.span), name=formal.name, expected="a number", found=found))
            return None
        default = call_arguments.default_value(checker, defined, formal) if formal.default is not None else None
        if formal.default is not None and default is None:
            return None
        instance.statics[formal.name] = default
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
    instance.inputs = tuple(x for x in frame.names.values() if isinstance(x, Tensor))
    blocks.block(frame, node.body)
    if not frame.had_error and "param" not in frame.states.updated:
        frame.report(kinds.OPTIMIZER_IDLE(Label(node.span.first_line), name=node.name))
    return instance if definitions.finish(frame) else None


def optimizer_use(frame: Frame, node: t.Using) -> None:
    """`using adamw(lr = 1e-3)`; its arguments may depend on `step`."""
    callee = node.optimizer.callee if isinstance(node.optimizer, t.Call) else node.optimizer
    arguments = node.optimizer.arguments if isinstance(node.optimizer, t.Call) else ()
    binding = frame.lookup_function(callee.id) if isinstance(callee, t.Name) else None
    if binding is POISON or (binding is None and frame.file.incomplete):
        frame.errors += 1
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
            label, expected = Label(argument.span), wording.count(len(names), "argument")
            frame.report(kinds.TOO_MANY_ARGUMENTS(label, callee=callee.span.text, expected=expected, names=shown))
            return
        if name not in formals:
            label, help = Label(argument.span.word(name)), wording.near(name, names)
            frame.report(kinds.UNKNOWN_ARGUMENT(label, name=name, callee=callee.span.text, help=help))
            return
        val = rules.expression(scope, argument.value)
        if val.poisoned:
            return
        if val.axes or val.function is not None or isinstance(val.static, str):
            frame.report(kinds.SCALAR_EXPECTED(Label(argument.value.span), name=name))
            return
        frame.training.arguments[name] = lower(val)
    missing = [n for place, n in enumerate(names) if formals[n].default is None and n not in frame.training.arguments]
    if missing:
        declared = Label(formals[missing[0]].span, "declared here")
        frame.report(
            kinds.MISSING_ARGUMENT(
                Label(node.span), declared, name=missing[0], callee=callee.span.text, help=f"add `{missing[0]} = ...`"
            )
        )
        return
    frame.training.optimizer = Instance(binding.defined.node.name, "optimizer", span=binding.defined.node.span)
