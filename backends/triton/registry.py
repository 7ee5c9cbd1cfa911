"""The kernels of a module as text: equal texts are one kernel, with one name and one entry in the manifest."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypedDict

from dslc.backends.triton.kernels import Choice, KernelText
from dslc.backends.triton.text import HALF, POINTER, TORCH, size_code

from dslc import long_lines
from dslc.ir import nodes as ir
from dslc.long_lines import LONGEST_LINE
from dslc.passes.narrow import narrow_input
from dslc.quoting import literal
from dslc.source import NOWHERE, Span

#: what is said of a kernel that does the work of several
JOINED = "Adds up the parts of sums, always in the same order; each program has a block of one of them."


class About(TypedDict):
    """What the manifest of a module says of a kernel."""

    signature: dict[str, str]
    blocks: Mapping[str, int | str]
    warps: int
    stages: int
    lines: list[str]


@dataclass
class Registry:
    """The kernels of a module: equal texts are one kernel."""

    dtype: str
    #: may scatters add in any order?
    atomic: bool = False
    texts: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    about: dict[str, About] = field(default_factory=dict)
    helpers: set[str] = field(default_factory=set)
    #: constants for some kernels, in place of those that they come with
    choices: Mapping[str, Choice] = field(default_factory=dict)
    #: the launches of each kernel
    launched: dict[str, list[KernelText]] = field(default_factory=dict)

    @property
    def torch_dtype(self) -> str:
        return "torch.float64" if self.dtype == "f64" else "torch.float32"

    def storage(self, dtype: str) -> str:
        return TORCH.get(dtype, self.torch_dtype)

    @property
    def param_dtype(self) -> str:
        """What parameters are kept in: `DTYPE` of the module."""
        return self.storage(self.dtype)

    def shown(self, dtype: str) -> str:
        """The storage of a dtype as the module writes it."""
        storage = self.storage(dtype)
        return "DTYPE" if storage == self.param_dtype else storage

    def kept(self, node: ir.Input) -> ir.Input:
        """An argument with the dtype that it is kept in."""
        return narrow_input(node, self.dtype) if self.dtype in HALF else node

    def add(self, kernel: KernelText) -> tuple[str, KernelText]:
        """The name of the kernel with this text, and the kernel with the constants that were chosen for it."""
        name = self.named(kernel, self.text(kernel), "{}_kernel")
        self.launched.setdefault(name, []).append(kernel)
        if name in self.choices:
            kernel = kernel.chosen(self.choices[name])
        self.about.setdefault(name, self.described(kernel))
        return name, kernel

    def named(self, kernel: KernelText, text: str, form: str) -> str:
        """The name of a text, which it gets when it is new."""
        self.helpers |= kernel.body.helpers
        if text not in self.names:
            wishes = (kernel.wish, kernel.long_wish)
            name = next((x for wish in wishes if (x := form.format(wish)) not in self.texts), "")
            k = 2
            while not name or name in self.texts:
                name, k = form.format(f"{kernel.long_wish}_{k}"), k + 1
            self.names[text] = name
            self.texts[name] = "\n".join(y for x in text.splitlines() for y in named_kernel(x, name))
        return self.names[text]

    def function(self, kernel: KernelText) -> str:
        """A kernel as a function of the number of its program, for a launch that does the work of several."""
        body = kernel.body
        arguments = [
            "program",
            *body.pointers.values(),
            *kernel.numbers(),
            *(f"{b}: tl.constexpr" for b in kernel.blocks),
        ]
        lines = ["@triton.jit", *wrapped("def KERNEL(", arguments, "):")]
        lines += [f"    {x}" for x in (*spec_lines(kernel.spans), *shape_lines(kernel))]
        lines += [y for x in kernel.lines() for y in folded(f"    {x.replace('tl.program_id(0)', 'program')}")]
        wish = kernel.wish.removesuffix("_rows")
        return self.named(replace(kernel, wish=wish), "\n".join(lines), "add_up_{}")

    def text(self, kernel: KernelText) -> str:
        body = kernel.body
        numbers = [*body.counters.given.values(), *kernel.numbers()]
        arguments = [*body.pointers.values(), *(f"{n}: tl.int64" for n in numbers)]
        if body.random:
            arguments.append("seed")
            numbers.append("seed")
        arguments += [f"{b}: tl.constexpr" for b in kernel.blocks]
        same = f"(do_not_specialize={literal(numbers)})" if numbers else ""
        lines = [f"@triton.jit{same}", *wrapped("def KERNEL(", arguments, "):")]
        about = [f'"""{JOINED}"""'] if kernel.joined else [*spec_lines(kernel.spans), *shape_lines(kernel)]
        lines += [f"    {x}" for x in about]
        lines += [y for x in kernel.lines() for y in folded(f"    {x}")]
        return "\n".join(lines)

    def described(self, kernel: KernelText) -> About:
        body = kernel.body
        signature = {name: POINTER[self.storage(body.kept(t))] for t, name in body.pointers.items()}
        signature |= dict.fromkeys([*body.counters.given.values(), *kernel.numbers()], "i64")
        if body.random:
            signature["seed"] = "i64"
        lines = sorted({s.place for s in spans_of(kernel.spans)})
        return {
            "signature": signature,
            "blocks": kernel.blocks,
            "warps": kernel.warps,
            "stages": kernel.stages,
            "lines": lines,
        }


def spans_of(nodes: Sequence[ir.Node]) -> list[Span]:
    found = [getattr(n, "span", NOWHERE) for n in nodes]
    return [s for s in found if s.source.text]


def spec_lines(nodes: Sequence[ir.Node]) -> list[str]:
    """The lines of the spec that a kernel computes, as comments."""
    out: dict[str, None] = {}
    for node in nodes:
        span, name = getattr(node, "span", NOWHERE), str(getattr(node, "name", ""))
        if span.source.text:
            out[f"# {span.comment}"] = None
        elif name.startswith("d_"):
            out[f"# gradient of {name.removeprefix('d_')}"] = None
    return [line if len(line) <= 112 else line[:109] + "..." for line in out]


def shape_lines(kernel: KernelText) -> list[str]:
    """What a kernel reads and writes, with shapes, as a comment: `# x [N, 64], scale [64] -> y [N, 64]`."""
    body = kernel.body
    shapes: tuple[dict[str, list[str]], ...] = ({}, {})
    for tensor, pointer in body.pointers.items():
        shape = getattr(tensor, "shape", ())[body.layers.depths.get(tensor, 0) :]
        inner = ", ".join(size_code(s) for s in shape)
        shapes[tensor in kernel.outputs].setdefault(inner, []).append(re.sub(r"_ptr(?=_\d+$|$)", "", pointer))
    reads, writes = (", ".join(f"{' '.join(v)} [{k}]" for k, v in group.items()) for group in shapes)
    return textwrap.wrap(f"{reads} -> {writes}", 108, initial_indent="# ", subsequent_indent="#     ")


#: a call that is all of a statement, or all that it gives a name
CALL = re.compile(r" *(?:\w+ [-+*/]?= )?[\w.]+\(")


def folded(line: str) -> list[str]:
    """A long line broken at the arguments of its call, which fill their lines; or at its operators.

    >>> len(folded("    y = tl.load(" + "a" * 50 + ", mask=" + "b" * 50 + ")"))
    3
    """
    if len(line) <= LONGEST_LINE:
        return [line]
    call = CALL.match(line)
    if call is None or call.end() != call_at_end(line):
        return long_lines.folded(line)
    indent = line[: len(line) - len(line.lstrip())]
    return wrapped(call[0].lstrip(), arguments_of(line[call.end() : -1]), ")", indent)


def named_kernel(line: str, name: str) -> list[str]:
    """A line of a kernel that has got its name."""
    if not line.startswith("def KERNEL("):
        return [line]
    given = line.removeprefix("def KERNEL(")
    return wrapped(f"def {name}(", arguments_of(given[:-2]), "):") if given else [f"def {name}("]


def call_at_end(line: str) -> int | None:
    """Where the arguments begin of the call with which a line ends."""
    if not line.endswith(")"):
        return None
    depth = 0
    for k in range(len(line) - 1, -1, -1):
        depth += (line[k] in ")]") - (line[k] in "([")
        if depth == 0:
            return k + 1
    return None


def arguments_of(text: str) -> list[str]:
    """The arguments of a call, taken apart."""
    parts, depth = [""], 0
    for c in text:
        depth += (c in "([") - (c in ")]")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [p.strip() for p in parts]


def wrapped(head: str, items: Sequence[str], tail: str, indent: str = "") -> list[str]:
    """A call or a definition, on several lines where it is long."""
    line = f"{indent}{head}{', '.join(items)}{tail}"
    if len(line) <= 116:
        return [line]
    lines = [f"{indent}{head}"]
    row = ""
    for item in items:
        if row and len(row) + len(item) > 100:
            lines.append(f"{indent}    {row.rstrip()}")
            row = ""
        row += f"{item}, "
    return [*lines, f"{indent}    {row.rstrip()}", f"{indent}{tail}"]
