"""The host side: buffers, views and launches, in the order of the steps."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypedDict

from dslc.backends.triton.dots import dot_kernel, dot_programs
from dslc.backends.triton.frame import RESERVED, CannotLower
from dslc.backends.triton.kernels import Choice, KernelText, map_kernel
from dslc.backends.triton.loops import Stack, run_loop, stack_of, starts
from dslc.backends.triton.matrices import external_kernel
from dslc.backends.triton.others import along_kernel, results_of
from dslc.backends.triton.recurrence import recurrence_kernel, results
from dslc.backends.triton.rows import row_programs, rows_kernel
from dslc.backends.triton.scatter import atomic_kernel, segment_kernel, sorted_inputs
from dslc.backends.triton.stream import stream_text
from dslc.backends.triton.text import HALF, HOST, POINTER, TORCH, name_of, size_code, word
from dslc.backends.triton.together import MOST_SUMS, can_join, joined

from dslc import long_lines
from dslc.ir import nodes as ir
from dslc.kernels.form import Kernel, Loop, Other, Step
from dslc.kernels.group import kernel_of, step_reads
from dslc.kernels.narrow import narrow_input
from dslc.kernels.segments import row_of, segments
from dslc.kernels.split import Split, split
from dslc.long_lines import LONGEST_LINE
from dslc.quoting import literal
from dslc.sizes import Size
from dslc.source import NOWHERE, Span

PRINTERS: dict[str, Callable[[Kernel, str, Mapping[ir.Node, int]], KernelText]] = {
    "map": map_kernel, "rows": rows_kernel, "dot": dot_kernel, "stream": stream_text,
}  # fmt: skip
#: how many programs run over the axes that kernels sum over
PROGRAMS = {"rows": row_programs, "dot": dot_programs}


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
        numbers = [*body.steps.values(), *kernel.numbers()]
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
        signature |= dict.fromkeys([*body.steps.values(), *kernel.numbers()], "i64")
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
        shape = getattr(tensor, "shape", ())[body.layered.get(tensor, 0) :]
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


def memory(place: str) -> str:
    """The tensor that a place is a part of.

    >>> memory("d_W_steps[l + 1]")
    'd_W_steps'
    """
    return place.partition("[")[0]


@dataclass(frozen=True)
class Launch:
    """A launch in a host function, and how often one call makes it."""

    name: str
    text: KernelText
    times: Size


@dataclass
class Host:
    """The text of one host function."""

    registry: Registry
    taken: set[str] = field(default_factory=lambda: set(RESERVED))
    names: dict[ir.Node, str] = field(default_factory=dict)
    #: what values should be called
    given: dict[ir.Node, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    indent: int = 0
    steps: dict[int, str] = field(default_factory=dict)
    parts: dict[ir.Node, list[str]] = field(default_factory=dict)
    #: which parts of a node are read
    read: dict[ir.Node, set[int]] = field(default_factory=dict)
    #: buffers in which a node is to be put
    targets: dict[ir.Node, str] = field(default_factory=dict)
    #: scans that are one kernel
    recurrences: dict[ir.Scan, KernelText] = field(default_factory=dict)
    #: values with which loops begin that keep their histories: the loop, and which of its carried values
    starts: dict[ir.Node, tuple[ir.Scan, int]] = field(default_factory=dict)
    #: kernels whose parts are added up after the loop that they are in
    waiting: dict[int, Split] = field(default_factory=dict)
    #: sums of parts that are still to be added up
    late: list[Kernel] = field(default_factory=list)
    #: histories that were begun before their loop
    stacks: dict[tuple[ir.Scan, int], Stack] = field(default_factory=dict)
    #: parameters of equal layers: how the one of a layer is written, and the number of loops around it
    layered: dict[ir.Node, tuple[str, int]] = field(default_factory=dict)
    launches: int = 0
    launched: list[Launch] = field(default_factory=list)
    #: tensors that the function allocates
    buffers: list[tuple[str, tuple[Size, ...]]] = field(default_factory=list)
    #: how often the lines at hand run
    times: Size = 1
    random: bool = False
    #: the counters of the loops around the present line
    counters: list[str] = field(default_factory=list)
    last_comment: str = ""

    def fresh(self, wish: str) -> str:
        base = re.sub(r"\W+", "_", wish).strip("_") or "value"
        if base[0].isdigit() or base.endswith("_kernel"):  # which is how kernels are called
            base = f"v_{base}" if base[0].isdigit() else f"{base}_value"
        if base in HOST:
            base = f"{base}_value"
        name, k = base, 2
        while name in self.taken:
            name, k = f"{base}_{k}", k + 1
        self.taken.add(name)
        return name

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def comment(self, nodes: Sequence[ir.Node]) -> None:
        lines = spec_lines(nodes)
        if lines and lines[-1] != self.last_comment:
            self.line(lines[-1])
            self.last_comment = lines[-1]

    def tensor(self, node: ir.Node) -> str:
        if node not in self.names:
            raise AssertionError(f"{type(node).__name__} {getattr(node, 'name', '')} is not computed yet")
        return self.names[node]

    def run(self, steps: Sequence[Step]) -> None:
        for step in steps:
            if isinstance(step, Other) and isinstance(step.node, ir.Part):
                self.read.setdefault(step.node.of, set()).add(step.node.number)
        layered = {x: depth for x, (_, depth) in self.layered.items()}
        for loop in (s for s in steps if isinstance(s, Loop)):
            text = recurrence_kernel(loop, self.registry.dtype, layered, self.read.get(loop.scan, set()))
            if text is not None:
                self.recurrences[loop.scan] = text
        self.starts |= starts([s for s in steps if not isinstance(s, Loop) or s.scan not in self.recurrences])
        before, self.late = self.late, []
        for step in steps:
            if any(self.waits(x) for x in step_reads(step)):
                self.add_up()
            match step:
                case Kernel():
                    self.kernel(step)
                case Loop():
                    self.loop(step)
                case Other():
                    self.other(step.node)
        self.add_up()
        self.late = before

    def waits(self, node: ir.Node) -> bool:
        """Is a value one of those whose parts are still to be added up, or does it lie where one of them will?"""
        waiting = [x for k in self.late for x in k.stored]
        return node in waiting or memory(self.names.get(node, "")) in {
            memory(self.targets.get(x, " ")) for x in waiting
        }

    def add_up(self) -> None:
        """Add up the parts of all sums that wait for it, in one launch where that can be."""
        layered = {x: depth for x, (_, depth) in self.layered.items()}
        texts = [rows_kernel(k, self.registry.dtype, layered) for k in self.late]
        self.late = []
        able = [t for t in texts if can_join(t)]
        for t in texts:
            if t not in able or len(able) == 1:
                self.launch(t)
        for k in range(0, len(able) if len(able) > 1 else 0, MOST_SUMS):
            some = able[k : k + MOST_SUMS]
            self.launch(joined(some, self.registry.dtype, self.registry.function) if len(some) > 1 else some[0])

    # ---- buffers and launches

    def shape(self, shape: Sequence[Size]) -> str:
        inner = ", ".join(size_code(s) for s in shape)
        return f"({inner},)" if len(shape) == 1 else f"({inner})"

    def allocate(self, node: ir.Tensor) -> str:
        if node in self.targets:
            name = self.targets.pop(node)
            self.names[node] = name
            return name
        if node in self.starts:
            scan, place = self.starts.pop(node)
            stack = self.stacks[scan, place] = stack_of(self, scan, place)
            self.names[node] = stack.start
        else:
            self.names[node] = self.empty(node, node.shape, self.wish(node))
        return self.names[node]

    def wish(self, node: ir.Node) -> str:
        """What a value should be called."""
        return self.given.get(node) or name_of(node)

    def empty(self, node: ir.Tensor, shape: tuple[Size, ...], wish: str) -> str:
        """Memory for values of a node."""
        name = self.fresh(wish)
        self.buffers.append((node.dtype, shape))
        dtype = self.registry.shown(node.dtype)
        self.line(f"{name} = torch.empty({self.shape(shape)}, dtype={dtype}, device=device)")
        return name

    def kernel(self, kernel: Kernel) -> None:
        made = self.waiting.get(id(kernel)) or self.in_parts(kernel)
        layered = {x: depth for x, (_, depth) in self.layered.items()}
        if made is None:
            self.launch(PRINTERS[kernel.kind](kernel, self.registry.dtype, layered))
            return
        first = rows_kernel if kernel.kind == "rows" else dot_kernel
        self.launch(first(made.first, self.registry.dtype, layered, made))
        if id(kernel) not in self.waiting:
            self.late.append(made.second)

    def in_parts(self, kernel: Kernel) -> Split | None:
        """A kernel as two, where it has few programs that run over long axes."""
        if kernel.kind not in PROGRAMS:
            return None
        programs = PROGRAMS[kernel.kind](kernel, self.registry.dtype)
        made = split(kernel, programs, {n: name_of(n) for n in kernel.members}) if programs is not None else None
        if made is not None:
            self.given |= {x: f"{self.wish(n)}_parts" for n, x in made.parts.items()}
        return made

    def launch(self, text: KernelText) -> None:
        if text.joined:
            self.line("# the parts of sums are added up")
            self.last_comment = ""
        else:
            self.comment(text.spans)
        for node in text.outputs:
            self.allocate(node)
        name, text = self.registry.add(text)
        body = text.body
        arguments = [
            self.layered[t][0].format(*(self.steps[n] for n in body.layer_steps[t]))
            if t in self.layered
            else self.tensor(t)
            for t in body.pointers
        ]
        arguments += [self.steps[s.scan] for s in body.steps]
        arguments += text.numbers()
        if body.random:
            arguments.append("seed")
            self.random = True
        arguments += [f"{k}={v}" for k, v in text.blocks.items()]
        arguments += [f"num_warps={text.warps}", f"num_stages={text.stages}"]
        grid = ", ".join(text.grid) + ("," if len(text.grid) == 1 else "")
        for line in wrapped(f"{name}[({grid})](", arguments, ")"):
            self.line(line)
        self.launches += 1
        self.launched.append(Launch(name, text, self.times))

    # ---- other nodes

    def other(self, node: ir.Node) -> None:
        match node:
            case ir.Reshape():
                inner = ", ".join(size_code(s) for s in node.shape)
                name = self.fresh(self.given.get(node) or word(node.name or "view"))
                self.line(f"{name} = {self.tensor(node.of)}.view({inner})")
                self.names[node] = name
            case ir.Part():
                self.part(node)
            case ir.Scatter():
                self.scatter(node)
            case ir.Along() | ir.External():
                dtype = self.registry.dtype
                made = along_kernel(node, dtype) if isinstance(node, ir.Along) else external_kernel(node, dtype)
                for text in made:
                    self.launch(text)
                self.parts[node] = [self.names[x] for x in results_of(node)]
            case _:
                raise CannotLower(f"{type(node).__name__}", node)

    def scatter(self, node: ir.Scatter) -> None:
        """Sources are sorted by the row that they go to; or they are added in any order, if that is asked for."""
        found, dtype = segments(node), self.registry.dtype
        layered = {x: depth for x, (_, depth) in self.layered.items()}
        if self.registry.atomic and node.op == "+":
            self.targets[node] = name = self.fresh(self.wish(node))
            kind = self.registry.shown(node.dtype)
            self.line(f"{name} = torch.zeros({self.shape(node.shape)}, dtype={kind}, device=device)")
            self.launch(atomic_kernel(found, dtype, layered))
            return
        row = row_of(found)
        assert isinstance(row, ir.Comp)
        kernel = kernel_of(row)
        kernel.stored = [row]
        self.kernel(kernel)
        given, rows = sorted_inputs(found), self.fresh("rows")
        self.names[given.order], self.names[given.first] = (self.fresh(x.name) for x in (given.order, given.first))
        self.line(f"{rows}, {self.names[given.order]} = torch.sort({self.names[row]}.view(-1), stable=True)")
        places = f"torch.arange({size_code(found.row_count)} + 1, device=device)"
        self.line(f"{self.names[given.first]} = torch.searchsorted({rows}, {places})")
        self.launch(segment_kernel(found, given, dtype, layered))

    def part(self, node: ir.Part) -> None:
        if node.of in self.parts:
            self.names[node] = self.parts[node.of][node.number]
        else:
            raise AssertionError("a part of a node that is not computed")

    # ---- loops

    def loop(self, step: Loop) -> None:
        """A scan as one kernel where its steps are elementwise, else as a Python loop."""
        text = self.recurrences.pop(step.scan, None)
        if text is None:
            run_loop(self, step)
            return
        self.launch(text)
        self.parts[step.scan] = [self.names.get(x, "") for group in results(step.scan) for x in group]
