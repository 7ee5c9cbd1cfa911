"""The host side: buffers, views and launches, in the order of the steps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from dslc.backends.triton.dots import dot_kernel
from dslc.backends.triton.frame import RESERVED
from dslc.backends.triton.kernels import KernelText, map_kernel
from dslc.backends.triton.linear import linear_kernel
from dslc.backends.triton.loops import Stack, begun, run_loop
from dslc.backends.triton.matrices import external_kernel
from dslc.backends.triton.others import along_kernel, results_of
from dslc.backends.triton.recurrence import recurrence_kernel, results
from dslc.backends.triton.registry import Registry, spec_lines, wrapped
from dslc.backends.triton.rows import rows_kernel
from dslc.backends.triton.scatter import atomic_kernel, segment_kernel, sorted_inputs
from dslc.backends.triton.stream import stream_text
from dslc.backends.triton.text import HOST, identifier, name_of, size_code, unused, word
from dslc.backends.triton.tiles import decided, tiled
from dslc.backends.triton.together import MOST_SUMS, can_join, joined

from dslc.ir import nodes as ir
from dslc.schedule.buffers import buffers
from dslc.schedule.form import AddUp, Call, Kernel, Loop, Recurrence, Region, Step, View
from dslc.schedule.kernels import kernel_of
from dslc.schedule.plan import Entry, Plan, Schedule, Slot
from dslc.schedule.segments import row_of, segments
from dslc.schedule.split import part_of, placed
from dslc.sizes import Size

PRINTERS: dict[str, Callable[[Kernel, str, Mapping[ir.Node, int]], KernelText]] = {
    "map": map_kernel, "rows": rows_kernel, "dot": dot_kernel, "stream": stream_text,
}  # fmt: skip


@dataclass(frozen=True)
class Launch:
    """A launch in a host function, and how often one call makes it."""

    name: str
    text: KernelText
    times: Size


@dataclass
class Around:
    """The loops around the present line."""

    indent: int = 0
    counters: list[str] = field(default_factory=list)
    #: the counters of scans by their numbers
    steps: dict[int, str] = field(default_factory=dict)
    #: how often the line runs
    times: Size = 1
    #: buffers that are there before the loop: a name of the loop is none of theirs
    before: frozenset[int] = frozenset()


@dataclass
class Host:
    """The text of one host function."""

    registry: Registry
    taken: set[str] = field(default_factory=lambda: set(RESERVED))
    names: dict[ir.Node, str] = field(default_factory=dict)
    #: what values should be called
    given: dict[ir.Node, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    last_comment: str = ""
    parts: dict[ir.Node, list[str]] = field(default_factory=dict)
    #: buffers in which a node is to be put
    targets: dict[ir.Node, str] = field(default_factory=dict)
    #: parameters of equal layers: how the one of a layer is written, and the number of loops around it
    layered: dict[ir.Node, tuple[str, int]] = field(default_factory=dict)
    launched: list[Launch] = field(default_factory=list)
    #: tensors that the function allocates
    buffers: list[tuple[str, tuple[Size, ...]]] = field(default_factory=list)
    random: bool = False
    around: Around = field(default_factory=Around)
    #: the steps and where their values lie, and what their buffers are called
    made: Schedule = field(default_factory=lambda: Schedule({}, []))
    slots: dict[int, list[str]] = field(default_factory=dict)
    #: the histories of carried values
    stacks: dict[tuple[ir.Scan, int], Stack] = field(default_factory=dict)
    #: results of scans that are one kernel: what they are in the plan
    planned: dict[ir.Node, ir.Node] = field(default_factory=dict)

    @property
    def plan(self) -> Plan:
        assert self.made.plan is not None
        return self.made.plan

    @property
    def depths(self) -> dict[ir.Node, int]:
        """The number of loops around the parameters of equal layers."""
        return {x: depth for x, (_, depth) in self.layered.items()}

    def fresh(self, wish: str) -> str:
        base = identifier(wish)
        if base in HOST or base.endswith("_kernel"):  # which is how kernels are called
            base = f"{base}_value"
        name = unused(base, self.taken)
        for names in self.slots.values():  # one of a loop that has ended may be given again
            names[:] = [x for x in names if x != name]
        return name

    def line(self, text: str) -> None:
        self.lines.append("    " * self.around.indent + text)

    def comment(self, nodes: Sequence[ir.Node]) -> None:
        lines = spec_lines(nodes)
        if lines and lines[-1] != self.last_comment:
            self.line(lines[-1])
            self.last_comment = lines[-1]

    def tensor(self, node: ir.Node) -> str:
        node = self.plan.same.get(placed(node), node)
        if node not in self.names:
            raise AssertionError(f"{type(node).__name__} {getattr(node, 'name', '')} is not computed yet")
        return self.names[node]

    def compute(self, made: Schedule, kept: Collection[str] = ()) -> None:
        """The lines that compute the results of a program."""
        steps = decided(made.steps, self.registry.dtype, self.layered)
        self.made = Schedule(made.results, steps, buffers(steps, made.results, kept))
        self.run(steps)

    def run(self, steps: Sequence[Step]) -> None:
        for step in steps:
            match step:
                case Kernel():
                    self.kernel(step)
                case AddUp():
                    self.add_up(step)
                case Loop():
                    run_loop(self, step)
                case Recurrence():
                    self.scan(step)
                case Call():
                    self.call(step.node)
                case View():
                    self.view(step.node)
                case Region():
                    raise AssertionError("a region has no tiles")
            self.free([x for k in self.plan.freed.get(step, ()) for x in self.slots.pop(k, ())])

    def free(self, names: Sequence[str]) -> None:
        """Give buffers back that nothing reads any more."""
        if names:
            inner = ", ".join(names)
            for line in [f"del {inner}"] if len(inner) < 100 else wrapped("del (", names, ")"):
                self.line(line)

    def add_up(self, step: AddUp) -> None:
        """Add up the parts of sums, in one launch where that can be."""
        texts = [rows_kernel(k, self.registry.dtype, self.depths) for k in step.kernels]
        able = [t for t in texts if can_join(t)]
        for t in texts:
            if t not in able or len(able) == 1:
                self.launch(t)
        for k in range(0, len(able) if len(able) > 1 else 0, MOST_SUMS):
            some = able[k : k + MOST_SUMS]
            self.launch(joined(some, self.registry.dtype, self.registry.function) if len(some) > 1 else some[0])

    def scan(self, step: Recurrence) -> None:
        """A scan as one kernel."""
        values = [x for group in results(step.scan) for x in group]
        self.planned |= {x: part_of(step.scan, k) for k, x in enumerate(values)}
        written = recurrence_kernel if step.linear is None else linear_kernel
        self.launch(written(step, self.registry.dtype, self.depths))
        self.parts[step.scan] = [self.names.get(x, "") for x in values]

    # ---- buffers and launches

    def shape(self, shape: Sequence[Size]) -> str:
        inner = ", ".join(size_code(s) for s in shape)
        return f"({inner},)" if len(shape) == 1 else f"({inner})"

    def allocate(self, node: ir.Tensor) -> None:
        """Let a value have its memory: a place where a loop keeps it, that of a value that dies, or a new buffer."""
        value = self.planned.get(node, node)
        home = self.plan.homes.get(value)
        if value in self.targets:
            self.names[node] = self.targets.pop(value)
        elif isinstance(home, Entry):  # the beginning of a history
            self.names[node] = begun(self, node, home).start
        elif isinstance(home, Slot) and self.slots.get(home.number):
            self.names[node] = name = self.fresh(self.wish(node))
            self.line(f"{name} = {self.slots[home.number][0]}  # is written over")
            self.slots[home.number].append(name)
        else:
            self.names[node] = name = self.empty(node, node.shape, self.wish(node))
            if isinstance(home, Slot):
                self.slots[home.number] = [name]

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
        made = kernel.split
        if made is None:
            self.launch(PRINTERS[kernel.kind](kernel, self.registry.dtype, self.depths))
            return
        self.given |= {x: f"{self.wish(n)}_parts" for n, x in made.parts.items()}
        first = rows_kernel if kernel.kind == "rows" else dot_kernel
        self.launch(first(made.first, self.registry.dtype, self.depths, made))

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
            self.layered[t][0].format(*(self.around.steps[n] for n in body.layers.steps[t]))
            if t in self.layered
            else self.tensor(t)
            for t in body.pointers
        ]
        arguments += [self.around.steps[s.scan] for s in body.counters.given]
        arguments += text.numbers()
        if body.random:
            arguments.append("seed")
            self.random = True
        arguments += [f"{k}={v}" for k, v in text.blocks.items()]
        arguments += [f"num_warps={text.warps}", f"num_stages={text.stages}"]
        grid = ", ".join(text.grid) + ("," if len(text.grid) == 1 else "")
        for line in wrapped(f"{name}[({grid})](", arguments, ")"):
            self.line(line)
        self.launched.append(Launch(name, text, self.around.times))

    # ---- calls and views

    def view(self, node: ir.Reshape | ir.Part) -> None:
        if isinstance(node, ir.Part):
            if placed(node) not in self.plan.same:
                self.names[node] = self.parts[node.of][node.number]
            return
        inner = ", ".join(size_code(s) for s in node.shape)
        name = self.fresh(self.given.get(node) or word(node.name or "view"))
        self.line(f"{name} = {self.tensor(node.of)}.view({inner})")
        self.names[node] = name
        home = self.plan.homes.get(self.plan.same.get(placed(node), placed(node)))
        if isinstance(home, Slot | Entry) and home.number not in self.around.before:
            self.slots.setdefault(home.number, []).append(name)

    def call(self, node: ir.Scatter | ir.Along | ir.External) -> None:
        if isinstance(node, ir.Scatter):
            self.scatter(node)
            return
        dtype = self.registry.dtype
        for text in along_kernel(node, dtype) if isinstance(node, ir.Along) else external_kernel(node, dtype):
            self.launch(text)
        self.parts[node] = [self.names[x] for x in results_of(node)]

    def scatter(self, node: ir.Scatter) -> None:
        """Sources are sorted by the row that they go to; or they are added in any order, if that is asked for."""
        found, dtype = segments(node), self.registry.dtype
        if self.registry.atomic and node.op == "+":
            self.targets[node] = name = self.fresh(self.wish(node))
            kind = self.registry.shown(node.dtype)
            self.line(f"{name} = torch.zeros({self.shape(node.shape)}, dtype={kind}, device=device)")
            self.launch(atomic_kernel(found, dtype, self.depths))
            return
        row = row_of(found)
        assert isinstance(row, ir.Comp)
        kernel = kernel_of(row)
        kernel.stored = [row]
        self.kernel(tiled(kernel, dtype))
        given, rows = sorted_inputs(found), self.fresh("rows")
        self.names[given.order], self.names[given.first] = (self.fresh(x.name) for x in (given.order, given.first))
        self.line(f"{rows}, {self.names[given.order]} = torch.sort({self.names[row]}.view(-1), stable=True)")
        places = f"torch.arange({size_code(found.row_count)} + 1, device=device)"
        self.line(f"{self.names[given.first]} = torch.searchsorted({rows}, {places})")
        self.launch(segment_kernel(found, given, dtype, self.depths))
