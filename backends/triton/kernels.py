"""What all kernels have in common as text: blocks, index lines, stores; and maps, the simplest of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dslc.backends.triton.body import Axis, Body, conjunction
from dslc.backends.triton.frame import Layers
from dslc.backends.triton.text import BIT, HALF, Text, aligned, atom, name_of, size_code
from dslc.backends.triton.tiles import power_of_two, tile_of, warps_of_map

from dslc.ir import nodes as ir
from dslc.ir.namespace import identifier
from dslc.ir.rewrite import plain_variable
from dslc.schedule.form import Kernel, Member
from dslc.sizes import Size, product


@dataclass(frozen=True)
class Along:
    """What blocks of one name are along, so that they may have another length."""

    extent: Size
    #: is the last block cut off by a mask? Else blocks must divide the extent
    ragged: bool
    #: the axis of the grid that counts them, for each of so many; None: a program runs over them
    place: int | None = None
    times: Size = 1

    def allows(self, block: int) -> bool:
        """May blocks be of this length? Those twice as long as all there is would be idle."""
        if not isinstance(self.extent, int):
            return self.ragged
        return block <= power_of_two(self.extent) and (self.ragged or self.extent % block == 0)

    def count(self, block: int | str) -> str:
        """How many there are, as host text."""
        count = count_text(self.extent, block)
        return count if self.times == 1 else f"{atom(size_code(self.times))} * {count}"


@dataclass(frozen=True)
class Choice:
    """Constants of a launch."""

    blocks: Mapping[str, int]
    warps: int
    stages: int


@dataclass
class KernelText:
    """A kernel ready to be printed and launched."""

    wish: str
    body: Body
    #: block sizes by the name of their argument
    blocks: dict[str, int | str]
    #: how many programs, along each axis of the grid, as host text
    grid: list[str]
    warps: int = 4
    stages: int = 2
    outputs: Sequence[ir.Tensor] = field(default_factory=list)
    spans: list[ir.Node] = field(default_factory=list)
    #: what it computes, where that is comprehensions
    form: Kernel | None = None
    #: tiles of a streaming kernel, once for each run over the columns that computes them
    tiles: list[Member] = field(default_factory=list)
    #: an estimate of the words of all tiles that are alive at a time, where warps are chosen by it
    words: int = 0
    #: blocks that may have another length
    along: dict[str, Along] = field(default_factory=dict)
    #: the kernels that this one does the work of
    joined: list[KernelText] = field(default_factory=list)

    @property
    def long_wish(self) -> str:
        """The name with the layer of a value that it stores: for a kernel whose name another one has."""
        for node in reversed(self.outputs):
            whole = identifier(str(getattr(node, "name", "")))
            longer = re.sub(rf"(^|_){name_of(node)}_", rf"\1{whole}_", f"{self.wish}_", count=1).rstrip("_")
            if whole and longer != self.wish:
                return longer
        return self.wish

    def chosen(self, choice: Choice) -> KernelText:
        """The same kernel, launched with other constants."""
        grid = list(self.grid)
        for name, block in choice.blocks.items():
            place = self.along[name].place
            if place is not None:
                grid[place] = self.along[name].count(block)
        blocks = {**self.blocks, **choice.blocks}
        return replace(self, blocks=blocks, grid=grid, warps=choice.warps, stages=choice.stages)

    def lines(self) -> list[str]:
        return self.body.scopes[0].lines

    def numbers(self) -> list[str]:
        """The sizes that the lines use, which the host passes."""
        words = set(re.findall(r"\w+", "\n".join(self.lines())))
        return [n for n in self.body.numbers if n in words]


def ragged(extent: Size, block: int | str) -> bool:
    return not (isinstance(extent, int) and isinstance(block, int) and extent % block == 0)


def count_text(extent: Size, block: int | str) -> str:
    if isinstance(extent, int) and isinstance(block, int):
        return str(-(-extent // block))
    return f"triton.cdiv({size_code(extent)}, {block})"


def wide(sizes: Sequence[Size]) -> bool:
    """May an index pass 2^31?"""
    total = product(list(sizes))
    return not isinstance(total, int) or total >= 2**31


def axis_of(
    body: Body, kernel: Kernel, number: int, wish: str, variables: tuple[int, ...], block: int | str | None,
    depth: int = 0,
) -> Axis:  # fmt: skip
    """A new axis of a tile, in blocks; without a block a program has one value of it."""
    sizes = tuple(kernel.sizes[v] for v in variables)
    cut_off = block is not None and ragged(product(sizes), block)
    body.axes.append(Axis(number, body.fresh(wish), variables, sizes, depth, cut_off, block is None))
    return body.axes[-1]


def index_line(name: str, pid: str, block: str, is_wide: bool) -> str:
    start = f"{pid}.to(tl.int64)" if is_wide else pid
    return f"{name} = {start} * {block} + tl.arange(0, {block})"


def new_body(kernel: Kernel, dtype: str, layered: Mapping[ir.Node, int]) -> Body:
    first = next(iter(kernel.members))
    body = Body(dtype, first, layers=Layers(dict(layered)))
    contracted = {d.node for d in kernel.dots}
    bodies = [m.body for m in kernel.members.values() if m.node not in contracted]
    bodies += [s for d in kernel.dots for s in (d.left, d.right)]
    body.count(bodies)
    body.formulas.wishes = {uncast(m.body): name_of(m.node) for m in kernel.members.values() if m.node.op is None}
    for m in kernel.members.values():  # names of inputs come first, so that they keep the spec's names
        for s in ir.scalars(m.body):
            if isinstance(s, ir.Read) and s.tensor not in kernel.members:
                if not (isinstance(s.tensor, ir.Step) and s.tensor.kind == "number"):
                    body.pointer(s.tensor)
    return body


def uncast(s: ir.Scalar) -> ir.Scalar:
    while isinstance(s, ir.Op) and s.name == "cast":
        s = s.args[0]
    return s


def output_pointers(kernel: Kernel, body: Body) -> None:
    for node in kernel.stored:
        if f"{name_of(node)}_ptr" in body.taken:  # the kernel reads another value of that name
            body.pointers[node] = body.fresh(f"{name_of(node)}_out_ptr")
        body.pointer(node)


def wish_of(kernel: Kernel) -> str:
    names = [name_of(n) for n in kernel.stored]
    return "_".join(dict.fromkeys(names[-2:])) or "value"


def store(body: Body, member: Member, value: Text) -> None:
    offset, _ = body.offset([ir.plain(v) for v in member.axes], member.node.shape)
    masks = [m for a in offset.axes if (m := body.mask(a)) is not None]
    if member.node.dtype in HALF and body.dtype == "f64":
        value = body.cast(value, "tl.float32")
    parts, _, _ = aligned([offset, body.exact(value), *masks])
    place = body.pointer(member.node) + ("" if offset.code == "0" else f" + {parts[0].at(BIT + 1)}")
    guard = "" if not masks else ", mask=" + conjunction(parts[2:])
    body.line(f"tl.store({place}, {parts[1].code}{guard})")


def finish(body: Body, kernel: Kernel, member: Member, text: Text) -> Text:
    """The value of a member, for others and for memory."""
    body.values[member.node] = text = keep_value(body, member.node, text)
    if member.node in kernel.stored:
        if member.node in kernel.over and reads_elsewhere(kernel, member.axes):
            body.line("tl.debug_barrier()  # all threads have read what is written over")
        store(body, member, text)
    return text


def reads_elsewhere(kernel: Kernel, axes: tuple[int, ...]) -> bool:
    """Does a kernel read a value at a place that another thread may write?"""
    reads = (s for m in kernel.members.values() for s in ir.scalars(m.body) if isinstance(s, ir.Read))
    return any(tuple(map(plain_variable, s.places)) != axes for s in reads if len(s.places) == len(axes))


def keep_value(body: Body, node: ir.Comp, text: Text) -> Text:
    """A value that others read gets a name."""
    text = body.exact(text, node.dtype)
    if text.code.isidentifier():
        return text
    name = name_of(node)
    return body.named(f"{name}_out" if name in body.taken else name, text)


# ---- maps ------------------------------------------------------------------------------------------------


def map_kernel(kernel: Kernel, dtype: str, layered: Mapping[ir.Node, int]) -> KernelText:
    """Every element by itself."""
    tile = tile_of(kernel)
    body = new_body(kernel, dtype, layered)
    output_pointers(kernel, body)
    sizes = tuple(kernel.sizes[v] for v in kernel.rows)
    extent = product(sizes)
    blocks: dict[str, int | str] = {}
    along: dict[str, Along] = {}
    grid = ["1"]
    if kernel.rows and extent != 1:
        block = tile.rows
        blocks["BLOCK"] = block
        along["BLOCK"] = Along(extent, ragged(extent, block), 0)
        axis = axis_of(body, kernel, 0, "i", kernel.rows, block)
        body.line(index_line(axis.name, "tl.program_id(0)", "BLOCK", wide(sizes)))
        grid = [along["BLOCK"].count(block)]
    else:
        body.axes.append(Axis(0, "0", kernel.rows, sizes, 0, False, True))
    for member in kernel.members.values():
        finish(body, kernel, member, body.scalar(member.body))
    divides = wide(sizes) and any("//" in line or "%" in line for line in body.scopes[0].lines)  # 64 bits: a subroutine
    warps = warps_of_map(tile.rows, True) if divides else tile.warps
    outputs, spans = list(kernel.stored), list(kernel.members)
    return KernelText(wish_of(kernel) + "_map", body, blocks, grid, warps, 1, outputs, spans, kernel, along=along)
