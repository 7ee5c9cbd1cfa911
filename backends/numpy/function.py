"""One generated function as text: its arguments, their checks, and its lines with the spec lines they come from."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from dslc.backends.numpy.lower import Line
from dslc.backends.numpy.statement import Lowering

from dslc.passes.narrow import HALVES

#: lines are as long as those of dslc itself, where they can be broken
LONGEST_LINE = 120

#: numbers that are not finite are values like others
QUIET = '@np.errstate(all="ignore")'


@dataclass
class Function:
    """One generated function."""

    name: str
    arguments: list[str]
    doc: str
    lowering: Lowering
    #: checks of the arguments, and names for what they hold
    prologue: list[str] = field(default_factory=list)
    epilogue: list[str] = field(default_factory=list)

    def text(self) -> str:
        head = [QUIET, f"def {self.name}({', '.join(self.arguments)}):", f'    """{self.doc}"""']
        lines = [*commented(self.lowering.lines), *(f"    {x}" for x in self.epilogue)]
        return "\n".join([*head, *joined(used([f"    {x}" for x in self.prologue], lines)), *lines])


#: a line that names a size or an entry of a table
NAMING = re.compile(r" *(\w+) = (?:\w+\.shape\[\d+\]|\w+\[\"[^\"]*\"\].*|[a-z_]+|(?P<size>[\w +*/(),-]+))")


#: a line that names the size of an axis
AXIS = re.compile(r" *(\w+) = (\w+)\.shape\[(\d+)\]")
#: the axes that an argument is to have
RANK = re.compile(r"entry\(.*?, \((.*?),?\)(?:, \d+)?\)")


def joined(prologue: Sequence[str]) -> list[str]:
    """Lines in which the sizes of an input's first axes are named together.

    >>> joined(["N = x.shape[0]", "T = x.shape[1]", "K = y.shape[1]"])
    ['N, T = x.shape[:2]', 'K = y.shape[1]']
    >>> joined(['x = entry("x", x, np.int64, ("N", "T"))', "N = x.shape[0]", "T = x.shape[1]"])[1]
    'N, T = x.shape'
    """
    out: list[str] = []
    group: list[re.Match[str]] = []
    for line in (*prologue, ""):
        found = AXIS.fullmatch(line)
        if found and int(found[3]) == len(group) and (not group or group[0][2] == found[2]):
            group.append(found)
            continue
        if len(group) > 1:
            indent = group[0][0][: -len(group[0][0].lstrip())]
            names = ", ".join(m[1] for m in group)
            axes = RANK.search("\n".join(x for x in prologue if x.lstrip().startswith(f"{group[0][2]} = entry(")))
            whole = axes is not None and len(axes[1].split(", ")) == len(group)
            out.append(f"{indent}{names} = {group[0][2]}.shape{'' if whole else f'[:{len(group)}]'}")
        else:
            out += [m[0] for m in group]
        restart = found if found and found[3] == "0" else None
        group = [restart] if restart else []
        out += [line] if not restart and line else []
    return out


#: a text in quotes
QUOTED = re.compile(r'f?"[^"]*"')


def _read_in(text: re.Match[str]) -> str:
    """What a text in quotes reads."""
    return " ".join(re.findall(r"\{([^{}]*)\}", text[0])) if text[0].startswith("f") else ""


def used(prologue: list[str], lines: Sequence[str]) -> list[str]:
    """The first lines of a function without those that name what no other line speaks of."""
    while True:
        whole = [x for x in (*prologue, *lines) if not x.lstrip().startswith("#")]
        code = [x.split("  # ")[0] for x in whole]
        words, told = ([set(re.findall(r"\w+", QUOTED.sub(_read_in, x))) for x in texts] for texts in (code, whole))
        named = [(x, m) for x in prologue if (m := NAMING.fullmatch(x))]
        dead = [x for x, m in named if sum(m[1] in w for w in (told if m["size"] else words)) < 2]
        if not dead:
            return prologue
        prologue = [x for x in prologue if x not in dead]


def commented(lines: Sequence[Line]) -> list[str]:
    """Lines with the spec line that they come from above them, once."""
    out: list[str] = []
    last = ""
    for line in lines:
        span = line.span
        if span is not None and span.source.text:
            if span.comment != last:
                indent = "    " + line.text[: len(line.text) - len(line.text.lstrip())]
                out.append(shorten(f"{indent}# {span.comment}"))
                last = span.comment
        comment = f"  # {line.comment}" if line.comment else ""
        out.append(f"    {line.text}{comment}")
    return out


def shorten(comment: str) -> str:
    """A comment in one line: a long spec line is cut, and found by its number.

    >>> shorten("# a.dsl:1  " + "x + " * 40)[-11:]
    '+ x + x ...'
    """
    if len(comment) <= LONGEST_LINE:
        return comment
    return f"{comment[: comment.rindex(' ', 0, LONGEST_LINE - 3)]} ..."


@dataclass
class ModuleText:
    """What a module is made of, before it is joined."""

    name: str
    source: str
    dtype: str
    #: what floats are kept in
    precision: str = "f32"
    #: does the gradient draw at random?
    random: bool = False
    #: outputs of the model that are finite where its parameters are
    numbers: set[str] = field(default_factory=set)
    #: functions of the runtime that the module calls
    used: set[str] = field(default_factory=set)

    @property
    def half(self) -> bool:
        """Are parameters, inputs and outputs kept in 16 bits?"""
        return self.precision in HALVES

    def wide(self, code: str) -> str:
        """An array of parameters in 16 bits as one that is computed with."""
        return f"from_bf16({code})" if self.precision == "bf16" else f"{code}.astype(FLOAT)"
