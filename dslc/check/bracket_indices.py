"""Indices in the brackets of a call, `sum[i, j: 3](...)`: names, bounds, and what they bind."""

from __future__ import annotations

from collections.abc import Sequence

from dslc.check import static_values, wording
from dslc.check.call_arguments import Given
from dslc.check.indices import Scope
from dslc.check.program import Index
from dslc.check.sums import REST
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Label
from dslc.source import Span
from dslc.syntax import tree as t


def one_index(scope: Scope, callee: t.Access, name: str) -> tuple[str, t.Expr | None, Span] | None:
    names = bracket_names(scope, callee, name)
    if names is None:
        return None
    if len(names) != 1 or names[0][0] == REST:
        scope.frame.report(kinds.ONE_INDEX(Label(callee.span), name=name, found=len(names)))
        return None
    return names[0]


def arity(scope: Scope, node: t.Call, name: str, given: Sequence[Given], least: int, most: int) -> bool:
    if least <= len(given) <= most:
        return True
    expected = wording.count(least, "argument") if least == most else f"{least} to {most} arguments"
    scope.frame.report(kinds.ARITY(Label(node.span), name=name, expected=expected, found=len(given)))
    return False


def bracket_names(scope: Scope, callee: t.Access, what: str) -> list[tuple[str, t.Expr | None, Span]] | None:
    """Names and bounds between the brackets of a call; `...` is the name REST."""
    found: list[tuple[str, t.Expr | None, Span]] = []
    for item in callee.items:
        if isinstance(item, t.Name):
            found.append((item.id, None, item.span))
        elif isinstance(item, t.Slice) and isinstance(item.low, t.Name) and item.high is not None and item.step is None:
            found.append((item.low.id, item.high, item.low.span))
        elif isinstance(item, t.Rest):
            found.append((REST, None, item.span))
        else:
            help = f"write names, with a bound if needed: `{what}[i]`, `{what}[a: 2, b: 2]`"
            scope.frame.report(kinds.BRACKET_NAMES(Label(item.span), name=what, help=help))
            return None
    return found


class Bound:
    """Indices bound by a bracket while its arguments are checked (a context manager)."""

    def __init__(self, scope: Scope, names: list[tuple[str, t.Expr | None, Span]], given: Sequence[Given]):
        self.scope = scope
        self.names = names
        self.arguments = tuple(g.node for g in given)
        self.fresh: dict[str, tuple[Index, ...]] = {}
        self.good = True

    def __enter__(self) -> Bound:
        scope, frame = self.scope, self.scope.frame
        self.outer_rest = scope.rest, scope.rest_span
        for name, bound, span in self.names:
            if name == REST:
                if REST in scope.kept:
                    labels = [Label(span)] + ([Label(scope.rest_span, "in use here")] if scope.rest_span else [])
                    frame.report(kinds.INDEX_BOUND_TWICE(*labels, name=REST, help="name the axes of one of them"))
                    self.good = False
                scope.rest, scope.rest_span = None, None
                continue
            if name == scope.axis_name:
                self.fresh[name] = scope.find(name, span)
                continue
            if name in self.fresh:
                label = Label(self.fresh[name][0].span, "in use here")
                frame.report(kinds.INDEX_BOUND_TWICE(Label(span), label, name=name, help=_rename(scope, name)))
                self.good = False
            index = frame.new_index(name, None, span)
            scope.state(index)
            scope.ranges.within[index] = self.arguments
            if bound is not None:
                size = static_values.as_size(scope, bound, what=f"the range of `{name}`")
                self.good = self.good and size is not None
                scope.ranges.explicit.add(index)
                if size is not None:
                    scope.constrain(index, size, bound.span)
            self.fresh[name] = (index,)
        scope.levels.append(dict(self.fresh))
        return self

    def indices(self) -> list[Index]:
        """The bound indices, once the arguments have been seen."""
        found: list[Index] = []
        for name, _, _ in self.names:
            found.extend(self.scope.rest or () if name == REST else self.fresh[name])
        return found

    def __exit__(self, *_: object) -> None:
        self.scope.levels.pop()
        self.scope.require_bound(tuple(self.indices()))
        if any(name == REST for name, _, _ in self.names):
            self.scope.rest, self.scope.rest_span = self.outer_rest


def _rename(scope: Scope, name: str) -> str:
    """Advice to take another letter for an inner index."""
    letters = "ijklmnpqrstuvwxyz"
    place = letters.find(name) if len(name) == 1 else -1
    free = [x for x in letters[place + 1 :] + letters if not scope.is_index(x) and x not in scope.frame.names]
    return f"choose another name for the inner index, for example `{free[0]}`" if free else "rename the inner index"


def free_indices(scope: Scope, names: list[tuple[str, t.Expr | None, Span]]) -> list[Index] | None:
    """The indices of the statement that a bracket names without binding them; bounds fix their range."""
    found: list[Index] = []
    for name, bound, span in names:
        if name == REST:
            if scope.rest is None:
                scope.frame.report(
                    kinds.REST_MISUSE(Label(span), why="nothing before it says how many axes it stands for")
                )
                return None
            found.extend(scope.rest)
            continue
        indices = scope.find(name, span)
        if bound is not None:
            size = static_values.as_size(scope, bound, what=f"the range of `{name}`")
            if size is None:
                return None
            scope.ranges.explicit.update(indices)
            for index in indices:
                scope.constrain(index, size, bound.span)
        found.extend(indices)
    return found
