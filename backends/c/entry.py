"""One entry as C text: a struct of pointers, the layout of its workspace, a function for each step, its body."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dslc.backends.c.blocks import Blocks
from dslc.backends.c.called import Called
from dslc.backends.c.calls import call_lines, pieces
from dslc.backends.c.checks import WORKSPACE, Checks
from dslc.backends.c.copies import copied
from dslc.backends.c.gathered import GatheredText
from dslc.backends.c.interface import Entry, Field
from dslc.backends.c.kernel import Kernel
from dslc.backends.c.packing import Pack, loops_left, pack_before
from dslc.backends.c.region import COLUMNS, PRODUCT_ROWS, WORTH, region_lines
from dslc.backends.c.saved import saved_lines, saved_text
from dslc.backends.c.text import Names, Types, broken, c_type

from dslc.ir import nodes as ir
from dslc.ir.naming import name_of
from dslc.schedule.form import Call, Gathered, Loop, Product, Region, Step, based
from dslc.schedule.plan import Carry, Kept, Plan, Result, Slot, Stacked
from dslc.sizes import Size, Symbol, about, product

#: a thread takes at least so many rows of a product
GRAIN = 64


@dataclass(frozen=True)
class History:
    """An entry of a cache that a step puts the newest element into."""

    #: how its memory is reached from the arguments, and its field
    access: str
    field: Field
    #: the axis of the positions, and the newest of them
    axis: int
    newest: Size
    #: the loops around it, outer first: those of layers have arrays of their own
    loops: tuple[ir.Scan, ...]


@dataclass
class EntryText:
    """What is known while an entry is written."""

    prefix: str
    interface: Entry
    steps: list[Step]
    plan: Plan
    types: Types
    #: names of the whole file
    names: Names
    #: how the memory of a result is reached from the arguments, and its field
    results: Mapping[str, tuple[str, Field]]
    #: the same for inputs, parameters and states
    inputs: Mapping[ir.Input, tuple[str, Field]]
    size_fields: Mapping[str, str]
    #: fields of the frame: type and name
    fields: dict[str, str] = field(default_factory=dict)
    counters: dict[int, str] = field(default_factory=dict)
    values: dict[ir.Node, str] = field(default_factory=dict)
    carries: dict[tuple[ir.Scan, int], str] = field(default_factory=dict)
    spare: dict[tuple[ir.Scan, int, str], str] = field(default_factory=dict)
    functions: list[str] = field(default_factory=list)
    #: matrices that are packed before a region runs
    packs: list[Pack] = field(default_factory=list)
    #: the loops around what is written, outer first, and the lines that stand before each of them
    around: list[tuple[ir.Scan, list[str]]] = field(default_factory=list)
    packed_sizes: dict[str, tuple[Size, Size, str]] = field(default_factory=dict)
    #: those of them, and of the sides below, that are gone when the region ends which they are written for
    passing: list[list[str]] = field(default_factory=list)
    #: sides of products that are written before a region runs: their sizes, and the functions that write them
    matrices: dict[str, tuple[Size, ...]] = field(default_factory=dict)
    before: list[tuple[str, Size]] = field(default_factory=list)
    written_sides: list[str] = field(default_factory=list)
    #: bytes that calls work in, and the functions whose sizes these are
    scratch: list[tuple[str, Kernel]] = field(default_factory=list)
    #: buffers for values of which each thread has some rows, region by region
    blocks: list[Blocks] = field(default_factory=list)
    #: can a step fail?
    fails: bool = False
    #: entries of a cache that grow in place, by name
    histories: Mapping[str, History] = field(default_factory=dict)
    #: inputs that are numbers of the struct of arguments
    numbers: dict[ir.Input, str] = field(default_factory=dict)
    #: what is asked of arguments
    checks: Checks | None = None
    #: values that are saved for another entry, or that another one has saved
    saved: tuple[Field, ...] = ()
    #: the entry that computes what this one begins with
    called: Called | None = None
    #: is told how long each step takes? then how many there are so far
    timed: bool = False
    ended: int = 0

    @property
    def frame(self) -> str:
        return f"{self.interface.name}_frame"

    def text(self) -> str:
        """All functions of the entry."""
        exported = f"{self.prefix}_{self.interface.name}"
        self.names.taken |= {self.frame, f"{self.interface.name}_layout"}
        self.names.taken |= {exported, *(f"{exported}_{x}" for x in ("arguments", "workspace", "saves"))}
        assert self.checks is not None
        self.names.taken |= {f"{self.interface.name}_{x}" for x in ("sizes", "refused", "saved")}
        called = self.called.fields(self.prefix) if self.called else {}
        local = self.names_of_fields = Names({"a", *(x.field for x in self.saved), *called})
        self.fields |= called
        const = "const " * (self.interface.saved == "read")
        self.fields |= {x.field: f"{const}{c_type(x.dtype)} *" for x in self.saved}
        self.name_counters(self.steps, local)
        self.name_fields(local)
        body = Kernel(self, self.names.inner(), "f.")
        body.names.taken |= {"f", "bytes", "wrong", "failed"}
        if self.timed:
            body.line("step_ended(-1);")
        self.body(body, self.steps)
        for name, node in self.plan.copies.items():
            self.copy(body, name, node)
        if self.scratch:
            self.fields["scratch"] = "char *"
        if self.blocks:
            self.fields |= {"blocks": "char *", "threads": "int64_t "}
        if self.fails:
            self.fields["error"] = "int32_t *"
        given = "{.a = a, .threads = most_threads()}" if self.blocks else "{.a = a}"
        size_kernel = Kernel(self, self.names.inner(), "f->")
        layout = self.layout_lines(size_kernel)
        arguments = f"{self.prefix}_{self.interface.name}_arguments"
        kind = self.frame
        lines = [
            f"// what the functions of {self.interface.name} share",
            "typedef struct {",
            f"    const {arguments} *a;",
            *(f"    {kind} {', '.join(names)};" for kind, names in self.by_type().items()),
            f"}} {kind};",
            "",
            *"\n\n".join(self.functions).splitlines(),
            "" if self.functions else None,
            "// values that are needed one after another share memory",
            f"static size_t {self.interface.name}_layout({kind} *f, char *w) {{",
            *size_kernel.declared("\n".join(layout)),
            "    size_t at = 0;",
            *(layout or ["    (void)f, (void)w;"]),
            "    return at;",
            "}",
            "",
            *self.checks.text(self.extents()),
            "",
            *saved_text(self),
            f"size_t {self.prefix}_{self.interface.name}_workspace(const {arguments} *a) {{",
            f"    if ({self.interface.name}_sizes(a)) return 0;",
            f"    {kind} f = {given};",
            f"    return {self.interface.name}_layout(&f, NULL);",
            "}",
            "",
            f"int32_t {self.prefix}_{self.interface.name}(const {arguments} *a, void *workspace, size_t bytes) {{",
            f"    const int32_t wrong = {self.interface.name}_refused(a);",
            "    if (wrong) return wrong;",
            f"    {kind} f = {given};",
            *(
                [f"    while (f.threads > 1 && {self.interface.name}_layout(&f, NULL) > bytes) f.threads--;"]
                if self.blocks
                else []
            ),
            f"    if (!has_room(workspace, bytes, {self.interface.name}_layout(&f, workspace)))"
            f" return {self.checks.codes.of(WORKSPACE)}; // workspace",
            *saved_lines(self),
            *(self.called.lines(self.prefix) if self.called else []),
            *(["    int32_t error = 0;", "    f.error = &error;"] if self.fails else []),
            *body.declared(),
            *body.lines,
            f"    return {'error' if self.fails else 0};",
            "}",
        ]
        return "\n".join(part for x in lines if x is not None for part in broken(x))

    def by_type(self) -> dict[str, list[str]]:
        """The fields of the frame by type, pointers with their stars."""
        found: dict[str, list[str]] = {}
        for name, ctype in self.fields.items():
            kind = ctype.rstrip(" *")
            found.setdefault(kind, []).append(ctype.removeprefix(kind).strip() + name)
        return found

    # ---- names

    def wish(self, node: ir.Node) -> str:
        name = str(getattr(node, "name", "")) or name_of(node)
        if isinstance(node, ir.Input) and node.role != "input":
            return self.end_of_path(name)
        if not name and isinstance(node, ir.Comp):
            reads = [s.tensor for s in ir.scalars(node.body) if isinstance(s, ir.Read)]
            of = next((str(x.name) for x in reads if getattr(x, "name", "")), "")
            word = node.op or (node.body.name if isinstance(node.body, ir.Op) and node.body.name.isidentifier() else "")
            name = f"{word}_{of}" if word and of else of or word
        return name or "value"

    def end_of_path(self, path: str) -> str:
        """The last two words of the path of a parameter, or as many as tell it from all others."""
        words = path.replace(".*", "").split(".")
        others = [f".{x.name.replace('.*', '')}" for x in self.inputs if x.name != path]
        ends = (".".join(words[k:]) for k in range(max(len(words) - 2, 0), -1, -1))
        return next((end for end in ends if not any(x.endswith(f".{end}") for x in others)), path)

    def shown(self, comment: str, width: int) -> str:
        text = comment.replace("\\", "/").replace("*/", "* /")
        return text if len(text) <= width else text[: width - 4] + " ..."

    def name_counters(self, steps: Sequence[Step], local: Names) -> None:
        for step in steps:
            if isinstance(step, Loop):
                name = local.fresh(ir.counter_of(step.scan))
                self.counters[step.scan.number] = name
                self.fields[name] = "int64_t "
                self.name_counters(step.steps, local)

    def name_fields(self, local: Names) -> None:
        for node, home in self.plan.homes.items():
            if isinstance(home, Slot):
                name = local.fresh(self.wish(node) + ("_all" if self.is_stack(node) else ""))
                self.values[node] = name
                self.fields[name] = f"{self.element_type(node)} *"
            elif isinstance(home, Carry) and (home.scan, home.number) not in self.carries:
                self.name_carry(home.scan, home.number, local)
        for scan, moves in self.plan.moves.items():
            for j, move in enumerate(moves):
                if (scan, j) not in self.carries:
                    self.name_carry(scan, j, local)
                for kind in ("first", "second"):
                    if getattr(move, kind) is not None:
                        name = local.fresh(f"{self.carries[scan, j]}_{'next' if kind == 'second' else 'start'}")
                        self.spare[scan, j, kind] = name
                        self.fields[name] = f"{self.types.of(scan.carries[j].dtype)} *"

    def name_carry(self, scan: ir.Scan, number: int, local: Names) -> None:
        steps = [x for x in ir.inside(scan)[0] if isinstance(x, ir.Step)]
        own = [x.name for x in steps if x.scan == scan.number and x.kind == "carry" and x.place == number]
        name = local.fresh((own[0] if own else "") or self.wish(scan.carries[number]) or "carry")
        self.carries[scan, number] = name
        ctype = self.types.of(scan.carries[number].dtype)
        self.fields[name] = f"const {ctype} *"

    def is_stack(self, node: ir.Node) -> bool:
        return isinstance(node, ir.Part) and isinstance(node.of, ir.Scan)

    # ---- memory

    def element_type(self, node: ir.Node) -> str:
        """The type of the elements of an array."""
        if isinstance(node, ir.Input):
            return self.input_type(node)
        home = self.plan.homes.get(node)
        if isinstance(home, Result):
            return c_type(self.results[home.name][1].dtype)
        if isinstance(home, Kept):
            return c_type(self.histories[home.name].field.dtype)
        return self.types.of(node.dtype)  # type: ignore[union-attr]

    def input_type(self, node: ir.Node) -> str:
        assert isinstance(node, ir.Input)
        return c_type(self.inputs[node][1].dtype)

    def table_axes(self, node: ir.Node) -> int:
        """How many first axes of a value lead to separate arrays: those of its layers."""
        node = based(node)
        if isinstance(node, ir.Input):
            return len(self.inputs[node][1].layers)
        home = self.plan.homes.get(node)
        return len(self.results[home.name][1].layers) if isinstance(home, Result) else 0

    def table_address(self, node: ir.Node, kernel: Kernel) -> str:
        node = based(node)
        if isinstance(node, ir.Input):
            return f"{kernel.frame}{self.inputs[node][0]}"
        home = self.plan.homes[node]
        assert isinstance(home, Result)
        return f"{kernel.frame}{self.results[home.name][0]}"

    def address(self, node: ir.Node, kernel: Kernel) -> str:
        """Where a value lies, as text."""
        if isinstance(node, ir.Input):
            return f"{kernel.frame}{self.inputs[node][0]}"
        if isinstance(node, ir.Step):
            scan = next(s for s, _ in self.carries if s.number == node.scan)
            return f"{kernel.frame}{self.carries[scan, node.place]}"
        match self.plan.homes[node]:
            case Slot():
                return f"{kernel.frame}{self.values[node]}"
            case Result(name):
                return f"{kernel.frame}{self.results[name][0]}"
            case Carry(scan=scan, number=j):
                if isinstance(node, ir.Part):
                    return f"{kernel.frame}{self.carries[scan, j]}"
                return f"{kernel.frame}{self.spare[scan, j, 'second']}"
            case Stacked(part=part):
                return self.entry_of_stack(part, kernel)
            case Kept(name):
                return self.entry_of_history(self.histories[name], node, kernel)
        raise AssertionError(node)

    def entry_of_history(self, history: History, node: ir.Node, kernel: Kernel) -> str:
        """The array of this pass of the loops around an entry of a cache."""
        counters = [kernel.counter(ir.Step("number", x.number, 0, "i64", ())) for x in history.loops]
        apart = len(history.field.layers)
        text = f"{kernel.frame}{history.access}"
        if apart:
            text += f"[{kernel.offset([x.length for x in history.loops[:apart]], counters[:apart])}]"
        if rest := counters[apart:]:
            shape = [*(x.length for x in history.loops[apart:]), *node.shape]  # type: ignore[union-attr]
            text += f" + {kernel.offset(shape, [*rest, *['0'] * len(node.shape)])}"  # type: ignore[union-attr]
        return text

    def entry_of_stack(self, part: ir.Part, kernel: Kernel) -> str:
        """The place of a step in the stack of the results of a scan."""
        assert isinstance(part.of, ir.Scan)
        counter = kernel.counter(ir.Step("number", part.of.number, 0, "i64", ()))
        base = self.address(part, kernel)
        if self.table_axes(part):
            return f"{base}[{counter}]"
        size: Size = 1
        for s in part.shape[1:]:
            size = size * s
        far = kernel.size(size)
        return f"{base} + {counter}" + ("" if far == "1" else f" * ({far})")

    # ---- the workspace

    def extents(self) -> list[Size]:
        """How many numbers the arrays in memory have."""
        shapes: list[Sequence[Size]] = [*self.matrices.values(), *(x.shape for x in self.saved)]
        shapes += [x.shape for x in self.called.results.values()] if self.called else []
        shapes += [node.shape for node, home in self.plan.homes.items() if isinstance(home, Slot)]  # type: ignore[union-attr]
        shapes += [scan.carries[j].shape for scan, j, _ in self.spare]
        shapes += [(x.rows, size) for x in self.blocks for _, size in x.own]
        shapes += [(K, N + 64) for K, N, _ in self.packed_sizes.values()]
        return [math.prod(x) for x in shapes]

    def layout_lines(self, kernel: Kernel) -> list[str]:
        lines: list[str] = self.called.layout(self, kernel) if self.called else []
        if self.scratch:
            most = ""
            for size, inner in self.scratch:
                text = size
                for symbol, name in inner.sizes.items():
                    text = re.sub(rf"\b{name}\b", kernel.symbol(Symbol(symbol)), text)
                most = f"larger({most}, {text})" if most else text
            lines.append(f"    f->scratch = taken(w, &at, {most});")
        if self.blocks:
            lines.append("    size_t blocks = 0;")
            rooms = dict.fromkeys(x.room(kernel) for x in self.blocks)
            lines += [f"    blocks = larger(blocks, {room});" for room in rooms]
            lines.append("    f->blocks = taken(w, &at, blocks);")
        written = {}
        for name, (K, N, suffix) in self.packed_sizes.items():
            size = f"sizeof *f->{name} * packed_size{suffix}({kernel.size(K)}, {kernel.size(N)})"
            written[name] = f"    f->{name} = taken(w, &at, {size});"
        for name, shape in self.matrices.items():
            written[name] = f"    f->{name} = taken(w, &at, sizeof *f->{name} * ({kernel.size(math.prod(shape))}));"
        passing = {name for names in self.passing for name in names}
        lines += [line for name, line in written.items() if name not in passing]
        if self.passing:
            lines.append("    const size_t shared = at;")
            lines.append("    size_t most = at;")
        for names in self.passing:
            lines += ["    at = shared;", *(written[name] for name in names), "    most = larger(most, at);"]
        if self.passing:
            lines.append("    at = most;")
        owners: dict[int, list[str]] = {}
        sizes: dict[int, list[str]] = {}
        for node, home in self.plan.homes.items():
            if isinstance(home, Slot):
                owners.setdefault(home.number, []).append(self.values[node])
                sizes.setdefault(home.number, []).append(self.bytes(node.shape, self.element_type(node), kernel))  # type: ignore[union-attr]
        for (scan, j, kind), name in self.spare.items():
            slot = getattr(self.plan.moves[scan][j], kind)
            owners.setdefault(slot, []).append(name)
            carry = scan.carries[j]
            sizes.setdefault(slot, []).append(self.bytes(carry.shape, self.types.of(carry.dtype), kernel))
        for slot in sorted(owners):
            different = list(dict.fromkeys(sizes[slot]))
            size = different[0]
            for other in different[1:]:
                size = f"larger({size}, {other})"
            names = owners[slot]
            lines.append(f"    {' = '.join(f'f->{x}' for x in names[:1])} = taken(w, &at, {size});")
            lines += [f"    f->{x} = (void *)f->{names[0]};" for x in names[1:]]
        return lines

    def bytes(self, shape: Sequence[Size], ctype: str, kernel: Kernel) -> str:
        text = kernel.size(product(shape))
        return f"sizeof({ctype})" if text == "1" else f"sizeof({ctype}) * ({text})"

    # ---- steps

    def rows(self, region: Region) -> int:
        """Rows that a region takes at once."""
        grain = self.grain(region)
        return PRODUCT_ROWS if grain == GRAIN and self.multiplies_rows(region) else grain

    def multiplies_rows(self, region: Region) -> bool:
        """Are the rows of a region those of a matrix product?"""
        return any(isinstance(x, Product | Gathered) and x.rows + 1 == region.depth for x in region.items)

    def grain(self, region: Region) -> int:
        """How many rows a thread takes at least."""
        if any(not isinstance(x, Product | Gathered) and x.kind == "columns" for x in region.items):
            return COLUMNS
        if self.multiplies_rows(region):
            return GRAIN
        if any(isinstance(x, Product | Gathered) for x in region.items):
            return 1
        return max(1, int(WORTH // self.work(region)))

    def work(self, region: Region) -> float:
        most = 1.0
        for node in region.nodes:
            most = max(most, about((*node.shape[region.depth :], *node.reduced)))
        return most

    def body(self, kernel: Kernel, steps: Sequence[Step]) -> None:
        for step in steps:
            match step:
                case Region():
                    self.region(kernel, step)
                case Call():
                    self.call(kernel, step)
                case Loop():
                    self.loop(kernel, step)
            if self.timed and not isinstance(step, Loop):
                kernel.line(f"step_ended({self.ended});")
                self.ended += 1

    def region(self, kernel: Kernel, region: Region) -> None:
        self.packs, self.before, self.written_sides = [], [], []
        named = [x for x in region.nodes if x.name and x in self.plan.homes] or region.nodes
        wish = f"{self.interface.name}_{self.wish(named[-1])}"
        name = self.names.fresh(wish)
        inner = Kernel(self, self.names.inner(), written={x for x in region.nodes if x in self.plan.homes})
        region_lines(inner, region)
        head = [
            f"static void {name}(void *context, long begin, long end) {{",
            f"    const {self.frame} *f = context;",
        ]
        if not region.depth:
            head.append("    (void)begin, (void)end;")
        self.functions.append("\n".join([*head, *inner.declared(), *inner.lines, "}"]))
        if not region.depth:
            kernel.line(f"{name}(&f, 0, 1);")
            return
        passing = [x.name for x in self.packs if not loops_left(self, x.product.right)]
        if names := [*passing, *self.written_sides]:
            self.passing.append(names)
        if self.packs:
            pack_before(self, kernel)
        for title, extent in self.before:
            kernel.line(f"parallel({title}, &f, {kernel.size(extent)}, 1);")
        pieces = kernel.size(math.prod(region.sizes))
        call = "parallel_on(f.threads, " if inner.blocks else "parallel("
        kernel.line(f"{call}{name}, &f, {pieces}, {self.grain(region)});")

    def written_side(self, kernel: Kernel, product: GatheredText) -> str:
        """The name of the right side of a product that is a formula, written before the region runs."""
        node = product.node
        reads = [s.tensor for s in ir.scalars(product.product.right) if isinstance(s, ir.Read)]
        name = self.names_of_fields.fresh(f"{self.wish(reads[0]) if reads else 'side'}_matrix")
        ctype = self.types.of(node.dtype)
        self.fields[name] = f"{ctype} *"
        sizes = [product.sizes[v] for v in product.product.inner] + list(node.shape[product.product.rows + 1 :])
        self.matrices[name] = tuple(sizes)
        self.written_sides.append(name)
        inner = Kernel(self, self.names.inner())
        target = inner.names.fresh(name)
        inner.head[target] = f"{ctype} *{target} = f->{name};"
        product.right_lines(inner, target)
        title = self.names.fresh(f"{self.interface.name}_{name}")
        head = [f"static void {title}(void *context, long begin, long end) {{", f"    const {self.frame} *f = context;"]
        self.functions.append("\n".join([*head, *inner.declared(), *inner.lines, "}"]))
        self.before.append((title, sizes[0]))
        local = kernel.names.fresh(name)
        kernel.head[local] = f"const {ctype} *{local} = f->{name};"
        return local

    def call(self, kernel: Kernel, step: Call) -> None:
        name = self.names.fresh(f"{self.interface.name}_{self.wish(step.node)}")
        inner = Kernel(self, self.names.inner(), written=self.values_of(step.node))
        call_lines(inner, step.node)
        cut = pieces(kernel, step.node)
        head = [
            f"static void {name}(void *context, long begin, long end) {{",
            f"    const {self.frame} *f = context;",
        ]
        if cut is None:
            head.append("    (void)begin, (void)end;")
        self.functions.append("\n".join([*head, *inner.declared(), *inner.lines, "}"]))
        if cut is None:
            kernel.line(f"{name}(&f, 0, 1);")
        else:
            kernel.line(f"parallel({name}, &f, {cut[0]}, {cut[1]});")

    def values_of(self, node: ir.Node) -> set[ir.Node]:
        return {x for x in self.plan.homes if x is node or (isinstance(x, ir.Part) and x.of is node)}

    def loop(self, kernel: Kernel, loop: Loop) -> None:
        scan, plan = loop.scan, self.plan
        step = ir.Step("number", scan.number, 0, "i64", ())
        counter = f"f.{self.counters[scan.number]}"
        kernel.comment(scan.span)
        moves = plan.moves[scan]
        for j, move in enumerate(moves):
            start, name = self.start(kernel, scan.starts[j]), self.carries[scan, j]
            if move.first is not None:
                own = self.spare[scan, j, "first"]
                if kernel.indent > 1:  # an odd number of steps has exchanged the two when the loop begins anew
                    ctype, other = self.types.of(scan.carries[j].dtype), self.spare[scan, j, "second"]
                    kernel.line(f"if (f.{other} == f.{own}) f.{other} = ({ctype} *)f.{name};")
                kernel.line(f"{copied(f'f.{own}', start, scan.carries[j], self, kernel, scan.starts[j])}")
                kernel.line(f"f.{name} = f.{own};")
            else:
                kernel.line(f"f.{name} = {start};")
        length = kernel.size(scan.length)
        at, before = len(kernel.lines), list[str]()
        self.around.append((scan, before))
        if scan.reverse:
            kernel.open(f"for ({counter} = {length} - 1; {counter} >= 0; {counter}--) {{")
        else:
            kernel.open(f"for ({counter} = 0; {counter} < {length}; {counter}++) {{")
        inside = Kernel(self, kernel.names.inner(), "f.", indent=kernel.indent)
        inside.sizes, inside.head = kernel.sizes, kernel.head
        self.body(inside, loop.steps)
        self.around.pop()
        ends: list[str] = []
        pointers = self.outside(kernel)
        for part, node in plan.stacked[scan]:
            target = self.entry_of_stack(part, pointers)
            ends.append(copied(target, self.start(pointers, node), node, self, pointers, node, part))
        swaps: list[str] = []
        for j, move in enumerate(moves):
            name, node = self.carries[scan, j], scan.carries[j]
            if move.second is not None:
                other = self.spare[scan, j, "second"]
                if move.copied:
                    ends.append(copied(f"f.{other}", self.start(pointers, node), node, self, pointers, node))
                old = self.names.inner().fresh("before")
                ctype = self.types.of(node.dtype)
                swaps.append(f"{{ {ctype} *{old} = ({ctype} *)f.{name}; f.{name} = f.{other}; f.{other} = {old}; }}")
            elif not isinstance(based(node), ir.Step):
                swaps.append(f"f.{name} = {self.start(pointers, node)};")
        for line in (*inside.lines, *("    " * kernel.indent + x for x in (*ends, *swaps))):
            kernel.lines.append(line)
        kernel.close()
        for line in reversed(before):
            kernel.lines.insert(at, "    " * kernel.indent + line)
        del step

    def outside(self, kernel: Kernel) -> Kernel:
        """What reaches values as the body of the entry does, where counters change."""
        found = Kernel(self, kernel.names.inner(), "f.", indent=kernel.indent)
        found.sizes, found.head = kernel.sizes, kernel.head
        found.counters = {number: f"f.{name}" for number, name in self.counters.items()}
        return found

    def start(self, kernel: Kernel, node: ir.Node) -> str:
        """The address of a value, in the body of the entry."""
        return self.address(based(node), kernel)

    def copy(self, kernel: Kernel, name: str, node: ir.Node) -> None:
        """A result whose value lies elsewhere."""
        access, target = self.results[name]
        at = based(node)
        if target.layers:
            count = product(node.shape[len(target.layers) :])  # type: ignore[union-attr]
            number = math.prod(target.layers)
            size = kernel.size(count)
            source = self.address(at, kernel)
            if self.table_axes(at):
                kernel.line(
                    f"for (long l = 0; l < {number}; l++)"
                    f" memcpy(f.{access}[l], {source}[l], sizeof **{source} * ({size}));"
                )
            else:
                kernel.line(f"for (long l = 0; l < {number}; l++)")
                kernel.line(f"    memcpy(f.{access}[l], {source} + l * ({size}), sizeof *{source} * ({size}));")
            return
        kernel.line(
            copied(f"f.{access}", self.address(at, kernel), node, self, kernel, node, ctype=c_type(target.dtype))
        )
