"""Random spec files as syntax trees: every node kind of the grammar, in the shapes that the parser builds."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from dslc.diagnostics.report import Reporter
from dslc.source import Source
from dslc.syntax import tree as t
from dslc.syntax.parser import Parsed, parse

Strategy = st.SearchStrategy[Any]

ROOT = Path(__file__).parent.parent
#: every spec that ships with dslc
SPECS = sorted([*ROOT.glob("specs/**/*.dsl"), *ROOT.glob("dslc/std/*.dsl")])


def parse_text(text: str) -> Parsed:
    """Parse a text that must be good."""
    reporter = Reporter()
    parsed = parse(Source("test.dsl", text), reporter)
    assert not reporter.diagnostics, f"{[d.message for d in reporter.diagnostics]} in\n{text}"
    return parsed


def parse_expression(text: str) -> t.Expr:
    (definition,) = parse_text(f"fn f(x) = {text}\n").module.definitions
    assert isinstance(definition, t.Fn)
    assert definition.expression is not None
    return definition.expression


# ---- words ----------------------------------------------------------------------------------------------

#: Some begin with a reserved word, some look like the exponent of a number.
names = st.sampled_from(
    ["a", "b", "i", "n", "t", "x", "y", "W", "E", "e1", "h2", "format", "iff", "_in", "size_", "max"]
)
integers = st.sampled_from(["0", "1", "2", "10", "007", "9223372036854775807"])
numbers = st.one_of(integers, st.sampled_from(["0.5", "1e-5", "1E5", "2.5e+10", "3.0"]))
strings = st.text("abz ,->#[](){}é\\", max_size=6)


def _show(self: t.Node, printer: Any, cycle: bool) -> None:
    printer.text(repr(self))


t.Node._repr_pretty_ = _show  # type: ignore[attr-defined]  # for hypothesis: without the positions


# Plain functions that draw, and not `builds` and `map`: hypothesis remembers the calls of those to print a failing
# example, which takes it for ever on trees.
@st.composite
def node(draw: st.DrawFn, kind: Callable[..., Any], *args: Strategy, **named: Strategy) -> Any:
    return kind(*map(draw, args), **{name: draw(strategy) for name, strategy in named.items()})


@st.composite
def tuples(draw: st.DrawFn, strategy: Strategy, low: int, high: int) -> tuple[Any, ...]:
    return tuple(draw(st.lists(strategy, min_size=low, max_size=high)))


paths = node(lambda first, rest: ".".join([first, *rest]), names, st.lists(st.one_of(names, integers), max_size=3))

# ---- expressions ----------------------------------------------------------------------------------------


def operands(first: str, rest: str, children: Strategy) -> Strategy:
    """Two operands or more, each with its operator; the first one's is always the same."""
    pairs = tuples(st.tuples(st.sampled_from(rest), children), 1, 3)
    return node(lambda operand, others: ((first, operand), *others), children, pairs)


def piped(value: t.Expr, stages: tuple[t.Expr, ...]) -> t.Pipe:
    """`(x |> f) |> g` is `x |> f |> g`."""
    if isinstance(value, t.Pipe):
        return t.Pipe(value.value, (*value.stages, *stages))
    return t.Pipe(value, stages)


def items_of(children: Strategy) -> Strategy:
    name = node(t.Name, names)
    optional = st.none() | children
    item = st.one_of(
        children,
        name,
        node(t.Rest),
        node(t.Group, tuples(name, 2, 3)),
        node(t.Slice, optional, optional, optional),
        node(t.Slice, name, children, st.none()),
        node(t.Into, name, name, optional),
    )
    return tuples(item, 1, 3)


def compound(children: Strategy) -> Strategy:
    argument = node(t.Argument, children, st.none() | names)
    arguments = tuples(argument, 0, 3)
    access = node(t.Access, children, items_of(children))
    return st.one_of(
        access,
        node(t.Call, children | access, arguments),
        node(t.Member, children, names | integers),
        node(t.Negative, children),
        node(t.Not, children),
        node(t.Sum, operands("+", "+-", children)),
        node(t.Product, operands("*", "*/", children)),
        node(t.Binary, st.sampled_from(["^", "//", "%"]), children, children),
        node(t.Compare, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), children, children),
        node(t.Logic, st.sampled_from(["and", "or"]), tuples(children, 2, 3)),
        node(t.Choose, children, children, children),
        node(t.OrElse, children, children),
        node(piped, children, tuples(children, 1, 3)),
    )


leaves = st.one_of(
    node(t.Name, names | st.just("param")),
    node(t.Number, numbers),
    node(t.String, strings),
    node(t.Bool, st.booleans()),
)
expressions = st.recursive(leaves, compound, max_leaves=10)
small = st.recursive(leaves, compound, max_leaves=3)
items = items_of(small)

# ---- types and what stands in the head of a definition ----------------------------------------------------

_dims = tuples(st.one_of(small, node(t.Rest), node(t.NamedDim, names, small)), 0, 3)
_dtypes = st.sampled_from(["f32", "i32", "bool"])
_refinements = st.sampled_from(["binary", "simplex"])
_below = st.none() | small
types = st.one_of(
    node(t.Type, st.none(), st.none() | _dtypes, _dims, _below),
    node(t.Type, _refinements, st.none() | _dtypes, _dims, _below),
)
kind_words = node(t.KindWord, st.sampled_from(["size", "int", "float", "bool", "string", "fn", "layer"]))
formals = tuples(node(t.Formal, names, st.one_of(st.none(), types, kind_words), st.none() | small), 0, 3)
outputs = tuples(node(t.Output, names, st.none() | types), 1, 3)
where = tuples(small | node(t.IndexSize, names, small), 0, 2)

# ---- statements -----------------------------------------------------------------------------------------

target = node(t.Target, names | st.just("param"), st.none() | items)
named_target = node(t.Target, names, st.none() | items)  # `param max= 0` would declare a parameter
targets = tuples(target, 1, 3)
some_names = tuples(names, 1, 3)
simple_statements = st.one_of(
    node(t.Parameter, targets, types, frozen=st.booleans()),
    node(t.Parameter, targets, types, drawn=small, frozen=st.booleans()),
    node(t.Parameter, targets, types, given=small, frozen=st.booleans()),
    node(t.State, names, types, small),
    node(t.Slots, tuples(node(t.SlotValue, names, small), 1, 3)),
    node(t.Use, names, small, st.booleans()),
    node(t.Size, names, small),
    node(t.Equation, targets, expressions, where),
    node(t.Accumulate, target, st.just("+"), small, where),
    node(t.Accumulate, named_target, st.sampled_from(["max", "min"]), small, where),
    node(t.Update, target, small),
    node(t.Start, target, small),
    node(t.Objective, st.sampled_from(["minimize", "maximize"]), small),
    node(t.Using, small),
    node(t.Metric, names, small),
    node(t.Freeze, tuples(paths, 1, 3)),
    node(t.Expose, some_names),
)


def blocks_of(children: Strategy) -> Strategy:
    """Statements with a block, from a strategy for statements."""
    body = tuples(children, 1, 2)
    return st.one_of(
        node(t.For, names, small, small, body),
        node(t.Scan, names, st.none(), st.none(), st.booleans(), body),
        node(t.Scan, names, small, small, st.booleans(), body),
        node(t.If, tuples(node(t.Branch, small, body), 1, 2), st.just(()) | body),
        node(t.Mode, st.sampled_from(["training", "inference"]), body),
        node(t.Checkpoint, body),
        node(t.Backward, some_names, some_names, body),
    )


statements = st.recursive(simple_statements, blocks_of, max_leaves=4)

# ---- definitions ----------------------------------------------------------------------------------------

body = tuples(statements, 1, 2)
axis = st.none() | names
definitions = st.one_of(
    node(t.Import, strings),
    node(t.Import, strings, tuples(node(t.Imported, names, st.none() | names), 1, 3)),
    node(t.Fn, names, axis, formals, expressions),
    node(t.Fn, names, axis, formals, st.none(), outputs, where, body),
    node(t.Layer, st.sampled_from(["layer", "model"]), names, formals, outputs, where, body),
    node(t.Optimizer, names, formals, body),
    node(t.Train, names, formals, where, body),
)
modules = node(t.Module, tuples(definitions, 1, 3))


# ---- comments -------------------------------------------------------------------------------------------


@st.composite
def commented(draw: st.DrawFn, text: str) -> str:
    """A text with comments, blank lines and stray indentation of comments put in where the language allows them."""
    lines: list[str] = []
    extras = st.sampled_from(["", "", "", "", "end", "own", "blank", "own blank", "blank own", "own own", "end own"])
    for number, line in enumerate(text.splitlines()):
        for extra in re.findall(r"\w+", draw(extras)):
            if extra == "end":
                line += f"{' ' * draw(st.integers(0, 3))}# end {number}"
            elif extra == "blank":
                lines.append(draw(st.sampled_from(["", "", "  "])))
            else:
                lines.append(" " * draw(st.integers(0, 13)) + f"# own {number}")
        lines.append(line)
    if draw(st.booleans()):
        lines.append(" " * draw(st.integers(0, 9)) + '# the "end')
    return "\n".join(lines) + draw(st.sampled_from(["", "\n", "\n\n\n"]))
