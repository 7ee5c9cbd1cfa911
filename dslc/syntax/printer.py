"""Syntax tree to text: the canonical form of a spec, with only the parentheses that the tree needs.

Newlines do not count inside brackets, so a line past WIDTH is broken there and nowhere else; an expression
outside all brackets is given a pair of parentheses when it has to break.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, IntEnum
from itertools import accumulate
from typing import cast, get_args

from dslc.syntax import tree as t
from dslc.syntax.document import LINE, SOFT, STEP, Broken, Doc, Group, Nest, bracket, join, parentheses, render
from dslc.syntax.layout import MAX_BRACKETS

WIDTH = 100

#: What is written inside a line.
Fragment = (
    t.Target | t.Type | t.KindWord | t.Formal | t.Output | t.NamedDim | t.IndexSize | t.SlotValue | t.Argument
    | t.Imported | t.Item
)  # fmt: skip


class Level(IntEnum):
    """How tightly a form binds, loosest first: the expression rules of the grammar in their order."""

    PIPE = 0
    SELECT = 1
    OR = 2
    AND = 3
    NOT = 4
    COMPARISON = 5
    SUM = 6
    PRODUCT = 7
    UNARY = 8
    POWER = 9
    POSTFIX = 10


class Spacing(Enum):
    """How much space stands around operators."""

    LOOSE = 0  # 2 * p + a
    SIZE = 1  # 2*p + a but 2 * p, (p + a) // 2
    INDEX = 2  # 2*p + a, 2*p, (p + a)//2
    TIGHT = 3  # 2*p+a: an end of a slice, a short offset


@dataclass(frozen=True)
class Part:
    """A line that a statement or definition writes, and the block below it (empty when it opens none)."""

    head: Doc
    body: tuple[t.Statement, ...] = ()


# ---- public --------------------------------------------------------------------------------------


def print_module(module: t.Module) -> str:
    """The text of a whole file; definitions of several lines stand apart."""
    text = ""
    before = ""
    for definition in module.definitions:
        here = print_node(definition)
        if text:
            text += "\n\n" if "\n" in before or "\n" in here else "\n"
        text += here
        before = here
    return text + "\n" if text else ""


def print_node(node: t.Node) -> str:
    """The text of any node: a definition or a statement with its block, anything smaller on one line.

    >>> print_node(t.Binary("^", t.Negative(t.Name("x")), t.Number("2")))
    '(-x)^2'
    """
    if isinstance(node, t.Module):
        return print_module(node)
    if isinstance(node, t.Branch):
        node = t.If((node,), ())
    if isinstance(node, (*get_args(t.Definition), *get_args(t.Statement))):
        return "\n".join(_lines(node, 0))
    return render(_fragment(cast(Fragment, node)), sys.maxsize)


def signature(node: t.Fn | t.Layer | t.Optimizer) -> str:
    """What a definition is called with and what it gives: its first line, on as many as it takes.

    >>> signature(t.Fn("gelu", None, (t.Formal("x", None, None),), t.Name("x"), (), (), ()))
    'fn gelu(x)'
    """
    if isinstance(node, t.Fn) and node.expression is not None:
        axis = f"[{node.axis}]" if node.axis else ""
        return render(("fn ", node.name, axis, _formals(node.formals)), sys.maxsize)
    return render(_opener(node), sys.maxsize)


def parts(node: t.Node) -> Iterator[Part]:
    """The lines of a definition or statement, without what stands in its blocks: one, but for `if`."""
    match node:
        case t.If(branches, otherwise):
            for position, branch in enumerate(branches):
                yield Part(("elif " if position else "if ", _bare(branch.condition), ":"), branch.body)
            if otherwise:
                yield Part("else:", otherwise)
        case t.Fn(expression=None) | t.Layer() | t.Optimizer() | t.Train() | t.For() | t.Scan() | t.Mode():
            yield Part((_opener(node), ":"), node.body)
        case t.Checkpoint() | t.Backward():
            yield Part((_opener(node), ":"), node.body)
        case _:
            yield Part(_simple(node))


def write(head: Doc, indent: int) -> str:
    """The text of the head of a part that stands `indent` columns in."""
    return " " * indent + render(head, WIDTH, indent)


def _lines(node: t.Node, indent: int) -> Iterator[str]:
    for part in parts(node):
        yield write(part.head, indent)
        for statement in part.body:
            yield from _lines(statement, indent + STEP)


# ---- definitions and statements ------------------------------------------------------------------


def _opener(node: t.Node) -> Doc:
    """What stands before the colon of a block."""
    match node:
        case t.Fn(name, axis, formals, _, outputs, where):
            axis_text = f"[{axis}]" if axis else ""
            return "fn ", name, axis_text, _formals(formals), " -> ", _outputs(outputs), _where(where)
        case t.Layer(word, name, formals, outputs, where):
            return word, " ", name, _formals(formals), " -> ", _outputs(outputs), _where(where)
        case t.Optimizer(name, formals):
            return "optimizer ", name, _formals(formals)
        case t.Train(model, formals, where):
            return "train ", model, _formals(formals), _where(where)
        case t.For(name, low, high):
            return "for ", name, " in ", _range(low, high)
        case t.Scan(name, low, high, backwards):
            bounds: Doc = (" in ", _range(low, high)) if low is not None and high is not None else ""
            return "scan ", name, bounds, " reversed" if backwards else ""
        case t.Mode(mode):
            return mode
        case t.Checkpoint():
            return "checkpoint"
        case t.Backward(cotangents, adjoints):
            given = ", ".join(adjoints)
            return f"backward ({', '.join(cotangents)}) -> {given if len(adjoints) == 1 else f'({given})'}"
    raise TypeError(f"{type(node).__name__} opens no block")


def _simple(node: t.Node) -> Doc:
    """A definition or statement without a block."""
    match node:
        case t.Import(path, None):
            return f'import "{path}"'
        case t.Import(path, names):
            return f'from "{path}" import ', join(", ", map(_fragment, names or ()))
        case t.Fn(name, axis, formals, expression) if expression is not None:
            axis_text = f"[{axis}]" if axis else ""
            return "fn ", name, axis_text, _formals(formals, first=False), " = ", _bare(expression)
        case t.Parameter(targets, type_, drawn, given, frozen):
            value: Doc = ""
            if drawn is not None:
                value = " ~ ", _bare(drawn)
            elif given is not None:
                value = " = ", _bare(given)
            return "frozen " if frozen else "", "param ", _targets(targets), ": ", _type(type_), value
        case t.State(name, type_, value_):
            return "state ", name, ": ", _type(type_), " = ", _bare(value_)
        case t.Slots(values):
            return "slot ", join(", ", map(_fragment, values))
        case t.Use(name, value_, frozen):
            return "use ", name, " = ", "frozen " if frozen else "", _bare(value_)
        case t.Size(name, value_):
            return "size ", name, " = ", _bare(value_, Level.SELECT, Spacing.SIZE)
        case t.Equation(targets, value_, where):
            return _targets(targets), " = ", _bare(value_), _where(where)
        case t.Accumulate(target, op, value_, where):
            sign = " += " if op == "+" else f" {op}= "
            return _fragment(target), sign, _bare(value_), _where(where)
        case t.Update(target, value_):
            return _fragment(target), " <- ", _bare(value_)
        case t.Start(target, value_):
            return "start ", _fragment(target), " = ", _bare(value_)
        case t.Objective(sense, value_):
            return sense, " ", _bare(value_)
        case t.Using(optimizer):
            return "using ", _bare(optimizer)
        case t.Metric(name, value_):
            return "metric ", name, " = ", _bare(value_)
        case t.Freeze(paths):
            # Without the space the lexer would read the two numbers of `a.0.1` as one.
            return "freeze ", ", ".join(re.sub(r"(?<=\.)([0-9]+)\.(?=[0-9])", r"\1 .", path) for path in paths)
        case t.Expose(names):
            return "expose ", ", ".join(names)
    raise TypeError(f"{type(node).__name__} is no statement")


def _formals(formals: tuple[t.Formal, ...], first: bool = True) -> Doc:
    return bracket("(", map(_fragment, formals), ")", first=first)


def _outputs(outputs: tuple[t.Output, ...]) -> Doc:
    if len(outputs) == 1:
        return _output(outputs[0], first=True)
    return bracket("(", map(_fragment, outputs), ")", first=True)


def _output(node: t.Output, first: bool = False) -> Doc:
    return node.name, (": ", _type(node.type, first)) if node.type is not None else ""


def _where(conditions: tuple[t.Condition, ...]) -> Doc:
    if not conditions:
        return ""
    return " where ", join(", ", map(_condition, conditions))


def _condition(node: t.Condition) -> Doc:
    match node:
        case t.IndexSize(name, value):
            return name, " = ", _bare(value, Level.SUM, Spacing.SIZE, first=False)
        case _:
            return _bare(node, spacing=Spacing.SIZE, first=False)


def _targets(targets: tuple[t.Target, ...]) -> Doc:
    return join(", ", map(_fragment, targets))


def _range(low: t.Expr, high: t.Expr) -> Doc:
    return _bare(low, Level.SUM, Spacing.SIZE), "..", _bare(high, Level.SUM, Spacing.SIZE)


def _type(node: t.Type, first: bool = False) -> Doc:
    words = " ".join(word for word in (node.refinement, node.dtype) if word)
    below: Doc = (" < ", _bare(node.below, Level.SUM, Spacing.SIZE)) if node.below is not None else ""
    return words, bracket("[", map(_dim, node.dims), "]", first=first), below


def _dim(node: t.Dim) -> Doc:
    match node:
        case t.Rest():
            return "..."
        case t.NamedDim(name, value):
            return name, " = ", _expression(value, Level.SUM, Spacing.SIZE)
        case _:
            return _expression(node, Level.SUM, Spacing.SIZE)


def _fragment(node: Fragment) -> Doc:
    match node:
        case t.Target(name, items):
            return name if items is None else (name, _items(items, binding=True))
        case t.Type():
            return _type(node)
        case t.KindWord(word):
            return word
        case t.Formal(name, kind, default):
            kind_doc: Doc = (": ", _fragment(kind)) if kind is not None else ""
            return name, kind_doc, (" = ", _expression(default)) if default is not None else ""
        case t.Output():
            return _output(node)
        case t.NamedDim():
            return _dim(node)
        case t.IndexSize():
            return _condition(node)
        case t.SlotValue(name, value):
            return name, " = ", _bare(value, first=False)
        case t.Argument(value, name_):
            return (name_, " = ", _expression(value)) if name_ else _expression(value)
        case t.Imported(name, alias):
            return f"{name} as {alias}" if alias else name
        case t.Rest() | t.Group() | t.Slice() | t.Into():
            return _item(node, binding=False)
        case _:
            return _expression(node)


# ---- items of an access --------------------------------------------------------------------------


def _items(items: Iterable[t.Item], binding: bool) -> Doc:
    return bracket("[", (_item(item, binding) for item in items), "]")


def _item(item: t.Item, binding: bool) -> Doc:
    """One item; where indices are bound `a: 2` is an index with its range, elsewhere `a:2` is a slice."""
    match item:
        case t.Rest():
            return "..."
        case t.Group(names):
            return "(" + " ".join(name.id for name in names) + ")"
        case t.Into(source, target, bound):
            return f"{source.id} -> {target.id}", (
                ": ",
                _expression(bound, spacing=Spacing.SIZE),
            ) if bound is not None else ""
        case t.Slice(t.Name() | t.Access() as index, bound, None) if binding and bound is not None:
            return _index(index), ": ", _expression(bound, spacing=Spacing.SIZE)
        case t.Slice(low, high, step):
            ends = [_expression(e, spacing=Spacing.TIGHT) if e is not None else "" for e in (low, high)]
            return join(":", ends if step is None else [*ends, _expression(step, spacing=Spacing.TIGHT)])
        case _:
            return _index(item)


def _index(node: t.Expr) -> Doc:
    """`t-1` and `T-1-t` read as one thing, `2*p + a - pad` does not."""
    spacing = Spacing.INDEX
    if isinstance(node, t.Sum):
        kinds = {type(term) for _, term in node.terms}
        if t.Number in kinds and kinds <= {t.Name, t.Number}:
            spacing = Spacing.TIGHT
    return _expression(node, spacing=spacing)


# ---- expressions ---------------------------------------------------------------------------------


def _level(node: t.Expr) -> Level:
    match node:
        case t.Pipe():
            return Level.PIPE
        case t.Choose():
            return Level.SELECT
        case t.Logic(op):
            return Level.OR if op == "or" else Level.AND
        case t.Not():
            return Level.NOT
        case t.Compare():
            return Level.COMPARISON
        case t.Sum():
            return Level.SUM
        case t.Product():
            return Level.PRODUCT
        case t.Negative():
            return Level.UNARY
        case t.Binary(op):
            return Level.POWER if op == "^" else Level.PRODUCT
    return Level.POSTFIX


def _bare(node: t.Expr, floor: Level = Level.PIPE, spacing: Spacing = Spacing.LOOSE, first: bool = True) -> Doc:
    """An expression outside all brackets: it may break only if it is given some."""
    doc = _expression(node, floor, spacing)
    if _level(node) < floor or _level(node) >= Level.UNARY:
        return doc  # has its own, or has no operator outside of them
    flat = render(doc, sys.maxsize)
    depth = max(accumulate((c in "([") - (c in ")]") for c in flat))
    if depth + 1 >= MAX_BRACKETS:
        return flat
    return Group((Broken("("), Nest((SOFT, doc)), SOFT, Broken(")")), first)


def _expression(node: t.Expr, floor: Level = Level.PIPE, spacing: Spacing = Spacing.LOOSE) -> Doc:
    """An expression where the grammar wants one that binds at least as tightly as `floor`."""
    doc = _form(node, spacing)
    return parentheses(doc) if _level(node) < floor else doc


def _form(node: t.Expr, spacing: Spacing) -> Doc:
    docs: list[tuple[str, Doc]]
    match node:
        case t.Number(text):
            return text
        case t.String(text):
            return f'"{text}"'
        case t.Bool(value):
            return "true" if value else "false"
        case t.Name(id):
            return id
        case t.Access(base, items):
            return _expression(base, Level.POSTFIX, spacing), _items(items, binding=False)
        case t.Call(t.Access(base, items), arguments):
            bound = _expression(base, Level.POSTFIX), _items(items, binding=True)
            return *bound, bracket("(", map(_fragment, arguments), ")")
        case t.Call(callee, arguments):
            return _expression(callee, Level.POSTFIX), bracket("(", map(_fragment, arguments), ")")
        case t.Member(base, name):
            return _expression(base, Level.POSTFIX, spacing), " ." if _joins(base, name) else ".", name
        case t.Negative(operand):
            return "-", _expression(operand, Level.UNARY, spacing)
        case t.Not(operand):
            return "not ", _expression(operand, Level.NOT, spacing)
        case t.Sum(terms):
            docs = [(sign, _expression(x, Level.PRODUCT, _in_sum(x, spacing))) for sign, x in terms]
            return _chain(docs, tight=spacing is Spacing.TIGHT)
        case t.Product(factors):
            (_, first), *rest = factors
            # `a // b * c` needs no parentheses, `(a * b) * c` would lose its nesting without.
            head = _expression(first, Level.UNARY if isinstance(first, t.Product) else Level.PRODUCT, spacing)
            docs = [("*", head), *((op, _expression(x, Level.UNARY, spacing)) for op, x in rest)]
            return _chain(docs, tight=spacing in (Spacing.INDEX, Spacing.TIGHT))
        case t.Binary("^", left, right):
            return _expression(left, Level.POSTFIX, spacing), "^", _expression(right, Level.UNARY, spacing)
        case t.Binary(op, left, right):
            docs = [(op, _expression(left, Level.PRODUCT, spacing)), (op, _expression(right, Level.UNARY, spacing))]
            return _chain(docs, tight=spacing in (Spacing.INDEX, Spacing.TIGHT))
        case t.Compare(op, left, right):
            return _chain([(op, _expression(x, Level.SUM, spacing)) for x in (left, right)])
        case t.Logic(op, operands):
            floor = Level.AND if op == "or" else Level.NOT
            return _chain([(op, _expression(x, floor, spacing)) for x in operands])
        case t.Choose(then, condition, otherwise):
            chosen = _expression(then, Level.OR, spacing), LINE, "if ", _expression(condition, Level.OR, spacing)
            return Group((*chosen, LINE, "else ", _expression(otherwise, Level.SELECT, spacing)))
        case t.OrElse(read, value):
            return parentheses(Group((_expression(read), LINE, "else ", _expression(value))))
        case t.Pipe(value, stages):
            stage_docs = (_expression(x, Level.POSTFIX, spacing) for x in stages)
            return _chain([("|>", doc) for doc in (_expression(value, spacing=spacing), *stage_docs)])


def _chain(operands: list[tuple[str, Doc]], tight: bool = False) -> Doc:
    """Operands with their operators, a break before each; the first operator is not written."""
    (_, first), *rest = operands
    return Group((first, *((op, doc) if tight else (LINE, op, " ", doc) for op, doc in rest)))


def _in_sum(term: t.Expr, spacing: Spacing) -> Spacing:
    match term:
        case t.Product(factors) if spacing is Spacing.SIZE and all(op == "*" for op, _ in factors):
            return Spacing.INDEX
    return spacing


def _joins(base: t.Expr, name: str) -> bool:
    """Whether the lexer would take the number `name` after the dot for the fraction of the one before it."""
    match base:
        case t.Number(text) | t.Member(_, text):
            return name.isdigit() and text.isdigit()
    return False
