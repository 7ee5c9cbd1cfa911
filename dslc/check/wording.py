"""Counts, sizes and conditions in the words of messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from dslc.check.frame import Frame
from dslc.check.program import Tensor
from dslc.check.values import Static
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Diagnostic, Label
from dslc.polynomials import sole_function, surely_nonnegative
from dslc.sizes import Polynomial, Size, show, tidy
from dslc.syntax import tree as t


def a(noun: str) -> str:
    """A noun with its article.

    >>> a("argument"), a("size")
    ('an argument', 'a size')
    """
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


def count(number: int, one: str, many: str | None = None) -> str:
    """A number of things.

    >>> count(1, "axis", "axes"), count(2, "result")
    ('1 axis', '2 results')
    """
    return f"{number} {one if number == 1 else many or one + 's'}"


def listed(names: Iterable[str], joint: str = "and") -> str:
    """Names as they stand in a sentence.

    >>> listed(["n", "k", "t"])
    '`n`, `k` and `t`'
    """
    quoted = [f"`{name}`" for name in names]
    return f" {joint} ".join([", ".join(quoted[:-1]), quoted[-1]] if len(quoted) > 1 else quoted)


def near(name: str, names: Sequence[str], has: str = "it takes", none: str = "no arguments") -> str:
    """Advice for a name that is none of those that there are."""
    close = difflib.get_close_matches(name, names, 1)
    return f"did you mean `{close[0]}`?" if close else f"{has} {listed(names) if names else none}"


def indices(names: Sequence[str]) -> str:
    return f"the {'index' if len(names) == 1 else 'indices'} {listed(names)}"


def made_known(frame: Frame, node: t.Expr, first: str = "") -> str | None:
    """Advice, and how else an expression is known when the spec is compiled: sizes fixed, inputs hyper-parameters."""
    first = f"{first}; or " if first else ""
    for name in dict.fromkeys(x.id for x in node.walk() if isinstance(x, t.Name)):
        binding = frame.names.get(name)
        if isinstance(binding, Static) and isinstance(binding.value, Polynomial) and frame.word != "optimizer":
            return f"{first}fix the size: `--set {name}=8`, or a number in place of `{name}` in the type"
        if isinstance(binding, Tensor) and binding.entry and binding.shape == ():
            number = "4" if binding.dtype.startswith("i") else "0.5"
            return f"{first}make `{name}` a hyper-parameter: `{name} = {number}` in place of the input"
        if isinstance(binding, Tensor) and binding.shape == () and binding.role == "param":
            return f"{first}make `{name}` a hyper-parameter, `{name} = 0.5` in the signature: a `param` is trained"
    return first.removesuffix("; or ") or None


def how(equal: bool | None) -> str:
    return "are different" if equal is False else "are not known to be equal"


def always_equal(frame: Frame, x: Size, y: Size) -> str:
    first, second = (y, x) if isinstance(x, int) else (x, y)
    return f"if they are always equal, say so: `where {frame.show(first)} == {frame.show(second)}`"


def sized(frame: Frame, size: Size, written: str) -> str:
    """A size with the name that the spec gives it: `` `O = 64` ``."""
    value = frame.show(size)
    return f"`{written} = {value}`" if written and written != value and written.isidentifier() else f"`{value}`"


def named(frame: Frame, size: Size, written: str) -> str:
    """A size by the name of the argument that gives it, where it was written so, else as a formula."""
    binding = frame.names.get(written)
    return written if isinstance(binding, Static) and binding.what == "argument" else frame.show(size)


def not_divisible(*labels: Label, a: str, b: str, size: Size, help: str | None = None) -> Diagnostic:
    """The quotient `size`, written as `a / b`, is not a whole number, or not known to be one."""
    if isinstance(size, int) or size.is_number:
        return kinds.NOT_DIVISIBLE(*labels, a=a, b=b, how="is not whole", help=help)
    add = f"add `where {a} % {b} == 0`"
    return kinds.NOT_DIVISIBLE(*labels, a=a, b=b, how="may not be exact", help=f"{add}, or {help}" if help else add)


def letters(count_: int, frame: Frame, taken: Sequence[str] = ()) -> list[str]:
    """Names for indices that mean nothing else."""
    free = [c for c in "ijklmnpqrst" if c not in frame.names and c not in taken]
    return free[:count_]


def positions(frame: Frame, size: Size) -> str:
    """The places of an axis of this size."""
    last = frame.show(tidy(size - 1))
    return "only the position 0" if last == "0" else f"the positions 0 to {last}"


def inequality(frame: Frame, e: Size) -> str:
    """`e >= 0` with sums of positive terms on both sides: `T >= 10` for T - 10, or for T // 10 - 1."""
    expr = frame.facts.normal(e)
    parts = expr.parts() if isinstance(expr, Polynomial) else [expr]
    floors = [f for x in parts if (f := sole_function(x)) is not None and f.name == "floor"]
    if len(floors) == 1 and all(isinstance(x, int) or sole_function(x) == floors[0] for x in parts):
        argument = floors[0].args[0]  # floor(n / d) >= k exactly when n >= k d
        assert isinstance(argument, Polynomial)
        numerator, denominator = argument.as_numer_denom()
        expr = numerator + sum(x for x in parts if isinstance(x, int)) * denominator
        parts = expr.parts() if isinstance(expr, Polynomial) else [expr]
    more = sum((x for x in parts if surely_nonnegative(x)), 0)
    less = more - expr
    return f"{show(less)} <= {show(more)}" if isinstance(more, int) else f"{show(more)} >= {show(less)}"


def equation(target: str, value: t.Expr) -> str:
    """An equation as it stands in the spec, or its beginning when it is long."""
    text = value.span.text
    return f"`{target} = {text}`" if "\n" not in text and len(text) <= 60 else f"`{target} = ...`"
