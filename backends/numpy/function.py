"""One generated function as text: its lines with the spec lines that they come from, without what nothing reads."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from dslc.backends.numpy.lower import Line
from dslc.backends.numpy.names import argument
from dslc.backends.numpy.sharing import Sharing, texts
from dslc.backends.numpy.statement import Lowering


@dataclass
class Function:
    """One generated function."""

    name: str
    arguments: list[str]
    doc: str
    lowering: Lowering
    #: checks of the arguments, and names for what they hold
    checks: list[str] = field(default_factory=list)
    prologue: list[str] = field(default_factory=list)
    epilogue: list[str] = field(default_factory=list)
    in_space: bool = False
    #: are its rows shared among threads?
    sharing: Sharing | None = None

    def text(self) -> str:
        ignored = '@np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore")'
        lines = ["@in_space"] if self.in_space else []
        lines_of_values = alive(self.lowering.lines, self.epilogue)
        given = [x.split("=")[0] for x in self.arguments]
        given = [x for x in given if x not in ("*", "space", "seed")]
        if self.sharing is None:
            self.epilogue[-1] = with_results_apart(self.epilogue[-1], given)
        rest = [*commented(lines_of_values), *(f"    {x}" for x in self.epilogue)]
        if self.sharing is None:
            lines += [ignored, f"def {self.name}({', '.join(self.arguments)}):", f'    """{self.doc}"""']
            return "\n".join([*lines, *used([f"    {x}" for x in (*self.checks, *self.prologue)] + rest)])
        whole, member = texts(self.name, self.arguments, self.doc, self.checks, self.sharing)
        whole[-1] = "    " + with_results_apart(whole[-1].lstrip(), given)
        shared = self.sharing.shared
        sizes = [x for x in self.checks if SIZE.fullmatch(x)] + [f"{argument(shared.all_rows.name)} = team.rows"]
        doc = f'    """What one member of a team computes of {self.name}: its rows, `{shared.rows.name}` of all."""'
        own = used([f"    {x}" for x in (*sizes, *self.prologue)] + rest)
        return "\n".join([*lines, *used(whole), "", "", ignored, member, doc, *own])


def with_results_apart(line: str, given: Sequence[str]) -> str:
    """The last line of a function, which gives results that share no memory with its arguments.

    >>> with_results_apart("return loss, grads", ["params", "x"])
    'return apart((loss, grads), params, x)'
    """
    results = line.removeprefix("return ")
    several = isinstance(ast.parse(results, mode="eval").body, ast.Tuple)
    return f"return apart({f'({results})' if several else results}, {', '.join(given)})"


#: a line that gives a size a name
SIZE = re.compile(r" *(\w+) = (?:\w+\.shape\[\d+\]|team\.rows)")


def used(lines: list[str]) -> list[str]:
    """Lines without those that name a size which no other line speaks of."""
    code = [re.sub(r'"[^"]*"', "", x.split("  # ")[0]) for x in lines if not x.lstrip().startswith("#")]
    found = [x for x in lines if (m := SIZE.fullmatch(x)) and sum(bool(re.search(rf"\b{m[1]}\b", y)) for y in code) < 2]
    return [x for x in lines if x not in found]


#: a line that gives a value a name, and what such a line may do besides
ASSIGNMENT = re.compile(r"( *)(\w+) = (.*)")
EFFECT = re.compile(r"\.pop\(|out=(?!space\()")


def alive(lines: Sequence[Line], epilogue: Sequence[str]) -> list[Line]:
    """Lines without the names that nothing reads: a rule by hand, or a loop, may not need all that it is given."""
    left = _without_empty_loops(lines)
    while True:
        words = Counter(w for text in (*(x.text for x in left), *epilogue) for w in set(re.findall(r"\w+", text)))
        dead = {k: m for k, x in enumerate(left) if (m := ASSIGNMENT.fullmatch(x.text)) and words[m[2]] == 1}
        if not dead:
            return left
        bare = {k: replace(left[k], text=m[1] + m[3]) for k, m in dead.items() if EFFECT.search(m[3])}
        left = _without_empty_loops([bare.get(k, x) for k, x in enumerate(left) if k in bare or k not in dead])


def _without_empty_loops(lines: Sequence[Line]) -> list[Line]:
    """Lines without the heads of loops in which no line is left."""
    left: list[Line] = []
    for line in reversed(lines):
        text = line.text
        inside = bool(left) and _depth(left[-1].text) > _depth(text)
        if inside or not (text.lstrip().startswith("for ") and text.endswith(":")):
            left.append(line)
    return left[::-1]


def _depth(text: str) -> int:
    return len(text) - len(text.lstrip())


def commented(lines: Sequence[Line]) -> list[str]:
    """Lines with the spec line that they come from above them, once."""
    out: list[str] = []
    last = ""
    for line in lines:
        span = line.span
        if span is not None and span.source.text:
            if span.comment != last:
                out.append("    " + " " * _depth(line.text) + f"# {span.comment}")
                last = span.comment
        comment = f"  # {line.comment}" if line.comment else ""
        out.append(f"    {line.text}{comment}")
    return out


@dataclass
class ModuleText:
    """What a module is made of, before it is joined."""

    name: str
    source: str
    dtype: str
    #: what floats are kept in
    precision: str = "f32"
    random: bool = False
    #: does the training step pass a space on?
    spacious: bool = False
    used: set[str] = field(default_factory=lambda: {"apart"})

    @property
    def half(self) -> bool:
        """Are parameters, inputs and outputs kept in 16 bits?"""
        return self.precision == "f16"
