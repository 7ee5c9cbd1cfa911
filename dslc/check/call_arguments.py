"""Arguments of calls: by place, by name, by default, each evaluated as its formal asks."""

from __future__ import annotations

from dataclasses import dataclass

from dslc.check import elementwise, rules, signatures, static_values, wording
from dslc.check.frame import Checker, Frame
from dslc.check.indices import Scope
from dslc.check.program import Instance
from dslc.check.values import FunctionValue, Shared, Static, StaticValue, Val
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Label
from dslc.resolve.files import Defined
from dslc.source import Span
from dslc.syntax import tree as t


@dataclass(frozen=True)
class Given:
    """An argument of a call: its text, its name if it has one, its value if it is already known (a pipe)."""

    node: t.Expr
    name: str | None = None
    val: Val | None = None
    #: all of it, with its name
    place: Span | None = None

    @property
    def span(self) -> Span:
        return self.node.span

    @property
    def name_span(self) -> Span:
        """The name of a named argument, else its value."""
        return self.span if self.name is None or self.place is None else self.place.word(self.name)

    def value(self, scope: Scope) -> Val:
        return self.val if self.val is not None else rules.expression(scope, self.node)


def is_static_kind(kind: str) -> bool:
    return kind in ("size", "int", "float", "bool", "string", "fn", "layer")


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
        open_ = [f for f in open_ if is_static_kind(signatures.formal_kind(frame, defined, f))]
    by_name: dict[str, Given] = {}
    good = True
    place = 0
    for argument in given:
        if argument.name is not None:
            if argument.name not in names:
                help = wording.near(argument.name, names)
                label = Label(argument.name_span)
                frame.report(kinds.UNKNOWN_ARGUMENT(label, name=argument.name, callee=function.name, help=help))
                good = False
                continue
            key = argument.name
        else:
            while place < len(open_) and open_[place].name in by_name:
                place += 1
            if place >= len(open_):
                shown = ", ".join(f"`{n}`" for n in names) or "none"
                expected = wording.count(len(open_), "argument")
                label = Label(argument.span)
                frame.report(kinds.TOO_MANY_ARGUMENTS(label, callee=function.name, expected=expected, names=shown))
                return None
            key = open_[place].name
            place += 1
        if key in by_name:
            first = Label(by_name[key].name_span, "first given here")
            frame.report(kinds.ARGUMENT_TWICE(Label(argument.name_span), first, name=key, callee=function.name))
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
            default = default_value(frame.checker, defined, formal)
            if default is None:
                good = False
            else:
                bound[formal.name] = (default, node.span)
        elif not skip_tensors:
            declared = Label(formal.span, "declared here")
            advice = _missing_help(node, function, formal)
            frame.report(
                kinds.MISSING_ARGUMENT(Label(node.span), declared, name=formal.name, callee=function.name, help=advice)
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
    kind = signatures.formal_kind(frame, defined, formal)
    if kind in ("fn", "layer"):
        return function_argument(scope, given, kind, formal)
    val = given.value(scope)
    if val.poisoned:
        return None
    labels = _places(given, formal)
    if val.function is not None:
        expected = "a tensor" if kind in ("tensor", "any") else _kind_words(kind)
        frame.report(kinds.ARGUMENT_KIND(*labels, name=formal.name, expected=expected, found="a function"))
        return None
    if kind == "scalar":
        if isinstance(val.static, str) or val.several:
            elementwise.numbers(scope, [(given.node, val)], formal.name)
            return None
        return val
    if kind in ("tensor", "any"):
        if isinstance(val.static, str):
            frame.report(kinds.ARGUMENT_KIND(*labels, name=formal.name, expected="a tensor", found="a string"))
            return None
        if val.several:
            frame.report(elementwise.several_results(given.node, val))
            return None
        return val
    return static_argument(scope, formal, kind, given, val)


def _places(given: Given, formal: t.Formal) -> list[Label]:
    """Where an argument is given, and where it is declared (a default is given where it is declared)."""
    default = formal.default is not None and given.span == formal.default.span
    return [Label(given.span)] + ([] if default else [Label(formal.span, "declared here")])


def _kind_words(kind: str) -> str:
    return {
        "size": "a size", "int": "a whole number", "float": "a number", "bool": "true or false",
        "string": "a string", "fn": "a function", "layer": "a layer",
    }.get(kind, kind)  # fmt: skip


def static_argument(scope: Scope, formal: t.Formal, kind: str, given: Given, val: Val) -> Static | None:
    frame = scope.frame
    if val.static is None:
        what = f"the argument `{formal.name}`"
        mixed = static_values.is_mixed(val.expr)
        point = static_values.without_point(frame, val.expr, kind != "float") if mixed else ""
        help = point or wording.made_known(frame, given.node)
        frame.report(kinds.STATIC_NEEDED(Label(given.span), what=what, help=help))
        return None
    value: StaticValue | None = val.static
    wrong = False
    if kind in ("size", "int"):
        if isinstance(value, bool | str):
            wrong = True
        else:
            least = 1 if kind == "size" else None
            value = static_values.check_size(scope, val.static, given.node, least, f"`{formal.name}`")
    elif kind == "float":
        wrong = isinstance(value, bool | str)
    elif kind == "bool":
        wrong = not isinstance(value, bool)
    elif kind == "string":
        wrong = not isinstance(value, str)
    if wrong:
        labels = _places(given, formal)
        found, expected = elementwise.describe(frame, val), _kind_words(kind)
        frame.report(kinds.ARGUMENT_KIND(*labels, name=formal.name, expected=expected, found=found))
        return None
    return None if value is None else Static(value, formal.span, "argument")


def function_argument(
    scope: Scope, given: Given, kind: str, formal: t.Formal | None = None
) -> FunctionValue | Shared | None:
    """A function or layer passed as an argument: a name, or a call without its tensor."""
    frame = scope.frame
    node = given.node
    if isinstance(node, t.Call) and isinstance(node.callee, t.Name):
        binding = frame.lookup(node.callee.id)
        if isinstance(binding, FunctionValue) and binding.defined is not None:
            arguments = [Given(a.value, a.name, place=a.span) for a in node.arguments]
            bound = bind_arguments(scope, node, binding, arguments, skip_tensors=True)
            if bound is None:
                return None
            partial = {**dict(binding.bound), **{k: v for k, (v, _) in bound.items()}}
            return FunctionValue(binding.defined, None, tuple(partial.items()))
    val = given.value(scope)
    if val.poisoned:
        return None
    if val.function is None:
        found, expected = elementwise.describe(frame, val), _kind_words(kind)
        if formal is None:
            frame.report(kinds.NOT_CALLABLE(Label(given.span), what=found))
        else:
            labels = _places(given, formal)
            frame.report(kinds.ARGUMENT_KIND(*labels, name=formal.name, expected=expected, found=found))
        return None
    return val.function


def function_setting(
    checker: Checker, defined: Defined, formal: t.Formal, kind: str, value: object
) -> FunctionValue | Shared | None:
    """A function or layer that is named from outside of the spec, as in `--set act=relu`."""
    frame = Frame(checker, defined.file, "fn", Instance(defined.node.name, "fn", span=defined.node.span))
    if not isinstance(value, str):
        found, expected = f"the value {value!r}", _kind_words(kind)
        frame.report(kinds.ARGUMENT_KIND(Label(formal.span), name=formal.name, expected=expected, found=found))
        return None
    return function_argument(Scope(frame), Given(t.Name(value, span=formal.span)), kind, formal)


def default_value(checker: Checker, defined: Defined, formal: t.Formal) -> Val | Static | FunctionValue | Shared | None:
    """The default of an argument, evaluated where it is written."""
    assert formal.default is not None
    frame = Frame(checker, defined.file, "fn", Instance(defined.node.name, "fn", span=defined.node.span))
    scope = Scope(frame)
    kind = signatures.formal_kind(frame, defined, formal)
    if kind in ("fn", "layer"):
        return function_argument(scope, Given(formal.default), kind)
    val = rules.expression(scope, formal.default)
    if val.poisoned:
        return None
    if kind == "scalar":
        return val
    if kind in ("tensor", "any"):
        frame.report(kinds.DEFAULT_OF_TENSOR(Label(formal.default.span), name=formal.name))
        return None
    return static_argument(scope, formal, kind, Given(formal.default), val)
