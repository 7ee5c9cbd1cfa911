"""Linear recurrences as kernel text: an associative scan over blocks of steps, and a carry from block to block."""

from __future__ import annotations

from collections.abc import Mapping

from dslc.backends.triton.body import Axis, Body
from dslc.backends.triton.kernels import KernelText, count_text, ragged, store
from dslc.backends.triton.recurrence import begun, loaded, placed, steps_of
from dslc.backends.triton.text import ATOM, Text, aligned, name_of, size_code, word
from dslc.backends.triton.tiles import tile_of

from dslc.ir import nodes as ir
from dslc.schedule.form import Affine, Linear, Member, Recurrence
from dslc.schedule.recurrences import is_one
from dslc.sizes import product

STEPS, ROWS = 0, 1
TILE = "BLOCK_STEPS, BLOCK"


class Writer:
    """The kernel of one linear recurrence while it is written: tiles of steps by elements of the state."""

    def __init__(self, scan: ir.Scan, form: Linear, members: Mapping[ir.Node, Member], body: Body) -> None:
        self.scan, self.form, self.members, self.body = scan, form, members, body
        self.carries: list[str] = []
        #: the state after each step of a block, by number
        self.after: dict[int, Text] = {}
        self.before: dict[int, Text] = {}
        self.back = ""

    def tile(self, s: ir.Scalar | None, neutral: str) -> str:
        """A coefficient over the whole tile; neutral where there is no step."""
        body = self.body
        text = Text("0.0") if s is None else body.scalar(s)
        text = body.exact(text)
        if neutral == "0.0" and isinstance(s, ir.Read) and s.outside is None and text.axes == (STEPS, ROWS):
            if s.tensor not in body.tiles:
                return text.code  # a load is 0 where there is no step
        mask = body.mask(STEPS)
        if mask is not None and not (s is None and neutral == "0.0"):
            parts, axes, _ = aligned([mask, text])
            if ROWS in axes:
                parts, axes, _ = aligned([mask, text, Text("", (STEPS, ROWS))])
            text = Text(f"tl.where({parts[0].code}, {parts[1].code}, {neutral})", axes, ATOM, 1)
        if text.axes == (STEPS, ROWS):
            return text.code
        if not text.axes:
            return f"tl.full(({TILE}), {text.code}, {body.float_type})"
        whole = aligned([text, Text("", (STEPS, ROWS))])[0][0]
        return f"tl.broadcast_to({whole.code}, {TILE})"

    def previous(self, k: int) -> Text:
        """The state before each step of a block: that after the step before it, and the carry at the first."""
        if k not in self.before:
            body, reverse = self.body, self.scan.reverse
            step, last = ("+ 1", "BLOCK_STEPS - 1") if reverse else ("- 1", "0")
            if not self.back:
                limit = f"tl.m{'in' if reverse else 'ax'}imum(tl.arange(0, BLOCK_STEPS) {step}, {last})"
                self.back = body.named("back", Text(f"tl.broadcast_to({limit}[:, None], {TILE})", (0, 1), ATOM, 1)).code
            first = f"(tl.arange(0, BLOCK_STEPS) == {last})[:, None]"
            code = f"tl.where({first}, {self.carries[k]}[None, :], tl.gather({self.after[k].code}, {self.back}, 0))"
            self.before[k] = body.named(f"{self.carries[k]}_before", Text(code, (STEPS, ROWS), ATOM, 1))
        return self.before[k]

    def outside(self, form: Affine, group: tuple[int, ...]) -> ir.Scalar | None:
        """What a value gets that does not come from its group: the shift, and multiples of values known already."""
        total = form.shift
        for k, a in form.coefficients.items():
            if k not in group:
                carry = ir.whole(step_of(self.scan, k))
                part = carry if is_one(a) else ir.op("*", (a, carry), a.dtype)
                total = part if total is None else ir.op("+", (total, part), a.dtype)
        return total

    def group(self, group: tuple[int, ...]) -> None:
        """One associative scan over the steps of a block."""
        body, forms = self.body, self.form.forms
        reverse = ", reverse=True" if self.scan.reverse else ""
        names = [self.carries[k] for k in group]
        matrix = [[forms[k].coefficients.get(j) for j in group] for k in group]
        shifts = [self.outside(forms[k], group) for k in group]
        if len(group) == 1 and matrix[0][0] is not None and is_one(matrix[0][0]):
            total = f"tl.cumsum({self.tile(shifts[0], '0.0')}, axis=0{reverse})"
            self.keep(group[0], f"{names[0]}[None, :] + {total}")
            return
        entries: list[str] = []
        for i, row in enumerate(matrix):
            for j, a in enumerate(row):
                wish = "decay" if len(group) == 1 else f"{names[j]}_to_{names[i]}"
                entries.append(self.named(wish, self.tile(a, "1.0" if i == j else "0.0")))
        for name, s in zip(names, shifts, strict=True):
            entries.append(self.named(f"{name}_input", self.tile(s, "0.0")))
        helper = "then" if len(group) == 1 else "then_pair"
        body.helpers.add(helper)
        given = ", ".join(entries)
        found = [body.fresh(f"all_{x}") for x in entries]
        given = f"({given})"
        if len(given) > 60:
            given = body.named("steps", Text(given, (STEPS, ROWS), ATOM, 1)).code
        body.line(f"{', '.join(found)} = tl.associative_scan({given}, 0, {helper}{reverse})")
        count = len(group)
        for i, k in enumerate(group):
            sums = [f"{found[i * count + j]} * {names[j]}[None, :]" for j in range(count)]
            self.keep(k, " + ".join([*sums, found[count * count + i]]))

    def named(self, wish: str, code: str) -> str:
        return code if code.isidentifier() else self.body.named(wish, Text(code, (STEPS, ROWS), ATOM, 1)).code

    def keep(self, k: int, code: str) -> None:
        wish = name_of(self.scan.carries[k], self.carries[k])
        self.after[k] = self.body.named(wish, Text(code, (STEPS, ROWS), ATOM, 1))


def step_of(scan: ir.Scan, place: int) -> ir.Step:
    """The node that stands for a carried value inside a scan."""
    return next(x for x in steps_of(scan) if x.kind == "carry" and x.place == place)


def linear_kernel(step: Recurrence, dtype: str, layered: Mapping[ir.Node, int]) -> KernelText:
    """The kernel of a linear recurrence: blocks of steps at a time."""
    scan, members, form = step.scan, step.members, step.linear
    assert form is not None
    formulas = [x for f in form.forms for x in (*f.coefficients.values(), f.shift) if x is not None]
    formulas += (m.body for n, m in members.items() if n not in scan.carries)
    body, stacks, lasts = begun(step, dtype, layered, formulas)
    shape = scan.carries[0].shape
    own = tuple(range(len(shape)))
    extent, length = product(shape), body.size(scan.length)
    tile = tile_of(step)
    block = tile.rows
    steps_block: int | str = tile.columns
    if not isinstance(scan.length, int):
        steps_block = f"min({tile.columns}, triton.next_power_of_2({size_code(scan.length)}))"
    counter = body.fresh(ir.counter_of(scan))
    rows = Axis(ROWS, body.fresh("i"), own, shape, 0, ragged(extent, block))
    body.axes = [Axis(STEPS, counter, (len(shape),), (scan.length,), 1, ragged(scan.length, steps_block)), rows]
    body.counters.axes = (STEPS,)
    writer = Writer(scan, form, members, body)
    writer.carries = loaded(step, body, rows, (*shape, scan.length))
    first = body.fresh("start")
    body.open(f"for {first} in range(0, {length}, BLOCK_STEPS):")
    if scan.reverse:  # blocks from the end; the last one of them is filled up with steps that change nothing
        end = f"(tl.cdiv({length}, BLOCK_STEPS) - 1) * BLOCK_STEPS"
        body.line(f"{counter} = {end} - {first} + tl.arange(0, BLOCK_STEPS)")
    else:
        body.line(f"{counter} = {first} + tl.arange(0, BLOCK_STEPS)")
    for x in steps_of(scan):
        if x.kind == "number":
            body.counters.counted[x] = counter
        else:
            body.tiles[x] = lambda place=x.place: writer.previous(place)  # type: ignore[misc]
    for group in form.groups:
        writer.group(group)
    for node, m in members.items():
        if node in scan.carries:
            body.values[node] = writer.after[scan.carries.index(node)]
        else:
            body.formulas.lazy[node] = m.body
    for stack, result in zip(stacks, scan.results, strict=True):
        value = body.scalar(ir.whole(result))
        if value.axes != (STEPS, ROWS):
            value = aligned([value, Text("", (STEPS, ROWS))])[0][0]
            value = Text(f"tl.broadcast_to({value.code}, {TILE})", (STEPS, ROWS), ATOM, 1)
        store(body, placed(stack, (len(shape), *own)), value)
    last = "0" if scan.reverse else "BLOCK_STEPS - 1"
    for k, carry in enumerate(writer.carries):
        chosen = f"tl.where((tl.arange(0, BLOCK_STEPS) == {last})[:, None], {writer.after[k].code}, 0.0)"
        body.line(f"{carry} = tl.sum({chosen}, axis=0)")
    body.close()
    for k, tensor in lasts.items():
        store(body, placed(tensor, own), Text(writer.carries[k], (ROWS,)))
    wish = "_".join(dict.fromkeys(word(c) for c in writer.carries)) + "_linear"
    blocks: dict[str, int | str] = {"BLOCK_STEPS": steps_block, "BLOCK": block}
    outputs = [*stacks, *lasts.values()]
    grid, spans = [count_text(extent, block)], [scan, *members]
    return KernelText(wish, body, blocks, grid, tile.warps, tile.stages, outputs, spans)
