"""Regions as C functions: loops over a piece of the parallel axes, with passes and matrix products inside."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dslc.backends.c.formula import Formula
from dslc.backends.c.kernel import Kernel
from dslc.backends.c.text import bare, factor

from dslc.dtypes import is_float
from dslc.ir import nodes as ir
from dslc.schedule.form import Gathered, Item, Pass, Product, Region
from dslc.schedule.group import along_result
from dslc.schedule.products import is_strided, stride
from dslc.sizes import Size, estimate

#: rows that a matrix product takes at once
ROWS = 64
#: matrices of so many entries are packed for products with at least so many rows
PACKED, FEW_ROWS = 4096, 48
#: about so many entries are worth waking a thread for
WORTH = 8192
#: columns that a thread sums up
COLUMNS = 64

LETTERS = "ijkmpqruvwxyzabcdegh"


def index_names(nodes: Sequence[ir.Comp], count: int, kernel: Kernel) -> dict[int, str]:
    """What the variables of some nodes are called: as the spec does in front of an equation, or by letters."""
    found: dict[int, str] = {}
    for node in nodes:
        span = node.span
        if not span.source.text or span.derived:
            continue
        m = re.match(r"\s*[A-Za-z_]\w*\s*\[([^\]]*)\]\s*(?:\+|\*|max|min)?=(?!=)", span.source.line(span.line))
        names = [x.strip().split(":")[0] for x in m[1].split(",")] if m else []
        if len(names) == len(node.shape) and all(re.fullmatch(r"[a-z]\w{0,7}", x) for x in names):
            for k, name in enumerate(names):
                found.setdefault(k, name)
            break
    out: dict[int, str] = {}
    letters = [x for x in LETTERS if x not in found.values()]
    for k in range(count):
        out[k] = kernel.names.fresh(found[k]) if k in found else kernel.names.fresh(*letters)
    return out


def region_lines(kernel: Kernel, region: Region) -> None:
    """The body of the function of a region, for the piece of its flattened parallel axes from `begin` to `end`."""
    RegionText(kernel, region).write()


class RegionText:
    """The text of one region."""

    def __init__(self, kernel: Kernel, region: Region) -> None:
        self.kernel = kernel
        self.region = region
        self.depth = kernel.depth = region.depth
        self.names = index_names(region.nodes, self.depth, kernel) if self.depth else {}
        self.row = self.names[0] if self.depth == 1 else kernel.names.fresh("row") if self.depth else ""

    def write(self) -> None:
        kernel, region = self.kernel, self.region
        groups = grouped(region.items)
        several = len(groups) > 1 and self.depth > 0
        self.first, self.end = "begin", "end"
        if several:
            self.first, self.end = kernel.names.fresh("first"), kernel.names.fresh("stop")
            rows = kernel.entry.rows(region)
            kernel.open(f"for (long {self.first} = begin; {self.first} < end; {self.first} += {rows}) {{")
            kernel.line(f"const long {self.end} = {self.first} + {rows} < end ? {self.first} + {rows} : end;")
        for group in groups:
            if isinstance(group, Product):
                ProductText(self, group).write()
            elif isinstance(group, Gathered):
                GatheredText(self, group).write()
            elif len(group) == 1 and group[0].kind == "columns":
                self.columns(group[0])
            else:
                self.rows(group)
        if several:
            kernel.close()

    # ---- rows

    def rows(self, passes: list[Pass]) -> None:
        """A loop over rows with passes in it."""
        kernel = self.kernel
        registers: dict[ir.Node, tuple[str, int]] = {}
        flat = all(p.kind == "map" and not p.extra for p in passes)
        if self.depth:
            if flat and self.depth == 1 and self.simple(passes):
                kernel.line("#pragma omp simd")
            kernel.comment(passes[0].members[0].span)
            kernel.open(f"for (long {self.row} = {self.first}; {self.row} < {self.end}; {self.row}++) {{")
            self.indices()
        for p in passes:
            PassText(self, p, registers).write()
        if self.depth:
            kernel.close()

    def simple(self, passes: list[Pass]) -> bool:
        return not any(isinstance(s, ir.Rand) for p in passes for m in p.members for s in ir.scalars(m.body))

    def indices(self) -> None:
        """The indices of a row from its number."""
        if self.depth < 2:
            return
        kernel, sizes = self.kernel, self.region.sizes
        rest = self.row
        for k in reversed(range(1, self.depth)):
            extent = factor(kernel.size(sizes[k]))
            kernel.line(f"const long {self.names[k]} = {rest} % {extent};")
            rest = f"{rest} / {extent}"
        kernel.line(f"const long {self.names[0]} = {rest};")

    def columns(self, p: Pass) -> None:
        """Sums over all but the parallel axis, along which they run."""
        kernel = self.kernel
        (node,) = p.members
        names = {0: self.row} | {1 + k: kernel.names.fresh(x) for k, x in enumerate(LETTERS[: len(p.extra)])}
        target = kernel.pointer(node)
        kernel.comment(node.span)
        kernel.line("#pragma omp simd")
        kernel.line(f"for (long {self.row} = {self.first}; {self.row} < {self.end}; {self.row}++)")
        kernel.line(f"    {target}[{self.row}] = {neutral(node, kernel)};")
        lines: list[list[str]] = [[] for _ in range(len(p.extra) + 2)]
        levels = {1 + k: 1 + k for k in range(len(p.extra))} | {0: len(p.extra) + 1}
        formula = Formula(kernel, names, levels, (*node.shape, *node.reduced), lines)
        formula.add([node.body])
        text = formula.text(node.body)
        for line in lines[0]:
            kernel.line(line)
        for k, size in enumerate(p.extra):
            name = names[1 + k]
            kernel.open(f"for (long {name} = 0; {name} < {kernel.size(size)}; {name}++) {{")
            for line in lines[1 + k]:
                kernel.line(line)
        kernel.line("#pragma omp simd")
        kernel.open(f"for (long {self.row} = {self.first}; {self.row} < {self.end}; {self.row}++) {{")
        for line in lines[-1]:
            kernel.line(line)
        kernel.line(combined(node, f"{target}[{self.row}]", text, kernel))
        kernel.close()
        for _ in p.extra:
            kernel.close()


def grouped(items: Sequence[Item]) -> list[Product | Gathered | list[Pass]]:
    """Passes that share a loop over rows, and products."""
    found: list[Product | Gathered | list[Pass]] = []
    for item in items:
        last = found[-1] if found else None
        if not isinstance(item, Pass):
            found.append(item)
        elif isinstance(last, list) and item.kind != "columns" and last[0].kind != "columns":
            last.append(item)
        else:
            found.append([item])
    return found


def neutral(node: ir.Comp, kernel: Kernel) -> str:
    ctype, whole = kernel.types.of(node.dtype), "INT32" if node.dtype == "i32" else "INT64"
    match node.op:
        case "max":
            return f"{whole}_MIN" if ctype == "int64_t" else "0" if ctype == "uint8_t" else "-INFINITY"
        case "min":
            return f"{whole}_MAX" if ctype == "int64_t" else "1" if ctype == "uint8_t" else "INFINITY"
        case "prod" | "all":
            return "1"
    return "0"


def combined(node: ir.Comp, target: str, text: str, kernel: Kernel) -> str:
    """The statement that takes one more value into a reduction."""
    match node.op:
        case "sum":
            return f"{target} += {bare(text)};"
        case "prod":
            return f"{target} *= {factor(text)};"
        case "any":
            return f"{target} |= {text};"
        case "all":
            return f"{target} &= {text};"
    kind = {"int64_t": "i64", "float": "f32", "double": "f64", "uint8_t": "i64"}[kernel.types.of(node.dtype)]
    return f"{target} = {LARGEST[node.op or '']}_{kind}({target}, {bare(text)});"


#: how loops in vectors take values together
TOGETHER = {"sum": "+", "prod": "*", "any": "|", "all": "&"}
LARGEST = {"max": "largest", "min": "smallest"}


class PassText:
    """The text of one pass, inside of the loop over rows."""

    def __init__(self, region: RegionText, p: Pass, registers: dict[ir.Node, tuple[str, int]]) -> None:
        self.region = region
        self.kernel = region.kernel
        self.p = p
        self.registers = registers
        self.depth = region.depth

    def write(self) -> None:
        if self.p.kind == "rows":
            self.kept_in_memory()
        else:
            self.mapped()

    def named(self, nodes: Sequence[ir.Comp], count: int) -> dict[int, str]:
        """The names of all variables."""
        names = dict(self.region.names)
        own = index_names(nodes, 0, self.kernel)
        del own
        spec = index_wishes(nodes)
        for k in range(self.depth, self.depth + count):
            taken = set(names.values())
            wishes = [spec[k]] if k in spec else []
            wishes += [x for x in LETTERS if x not in taken]
            names[k] = self.kernel.names.fresh(*wishes)
        return names

    def free(self, names: dict[int, str]) -> None:
        """Names of loops can be used again behind them."""
        for k in range(self.depth, len(names)):
            self.kernel.names.taken.discard(names[k])

    def mapped(self) -> None:
        kernel, p = self.kernel, self.p
        count = len(p.extra)
        names = self.named(p.members, count)
        lines: list[list[str]] = [[] for _ in range(count + 1)]
        levels = dict.fromkeys(range(self.depth), 0) | {self.depth + k: k + 1 for k in range(count)}
        sizes = (*self.region.region.sizes, *p.extra)
        formula = Formula(kernel, names, levels, sizes, lines, dict(self.registers))
        for member in p.members:
            if member.op is None:
                formula.registers[member] = ("", count)
        formula.add([m.body for m in p.members])
        before: list[str] = []
        after: list[str] = []
        clauses: dict[str, list[str]] = {}
        inner = lines[-1]
        kept = kernel.entry.plan.homes
        scalar_loops = False
        read_inside = {s.tensor for m in p.members for s in ir.scalars(m.body) if isinstance(s, ir.Read)}
        for member in p.members:
            comment = self.comment(member)
            if comment:
                inner.append(comment)
            text = formula.text(member.body)
            if member.op is None:
                text = self.converted(member, text)
                used = member in read_inside or not count
                if used and not text.isidentifier():
                    name = kernel.names.fresh(kernel.wish(member) + ("_here" if count else ""))
                    inner.append(f"const {kernel.types.of(member.dtype)} {name} = {bare(text)};")
                    text = name
                formula.registers[member] = (text, count)
                if not count:
                    self.registers[member] = (text, 0)
                if member in kept:
                    target = self.target(member, names)
                    inner.append(f"{target} = {bare(text)};")
                formula.texts.update(
                    {
                        s: text
                        for m in p.members
                        for s in ir.scalars(m.body)
                        if isinstance(s, ir.Read) and s.tensor is member
                    }
                )
                continue
            ctype = kernel.types.of(member.dtype)
            name = kernel.names.fresh(kernel.wish(member))
            if member.op in ("argmax", "argmin"):
                best = kernel.names.fresh("best", f"best_{name}")
                value = kernel.types.of(member.body.dtype)
                start = (
                    ("-INFINITY" if member.op == "argmax" else "INFINITY")
                    if value in ("float", "double")
                    else ("INT64_MIN" if member.op == "argmax" else "INT64_MAX")
                )
                before += [f"{value} {best} = {start};", f"int64_t {name} = 0;"]
                at = kernel.offset(p.extra, [names[self.depth + k] for k in range(count)])
                sign = ">" if member.op == "argmax" else "<"
                given = kernel.names.fresh("value")
                inner.append(f"const {value} {given} = {bare(text)};")
                inner.append(f"if ({given} {sign} {best} || ({given} != {given} && {best} == {best})) {{")
                inner += [f"    {best} = {given};", f"    {name} = {at};", "}"]
                scalar_loops = True
            else:
                before.append(f"{ctype} {name} = {neutral(member, kernel)};")
                inner.append(combined(member, name, text, kernel))
                kind = {"float": "f32", "double": "f64"}.get(ctype, "i64")
                together = TOGETHER.get(member.op or "") or f"{LARGEST[member.op or '']}_{kind}"
                clauses.setdefault(together, []).append(name)
            self.registers[member] = (name, 0)
            if member in kept:
                after.append(f"{self.target(member, names)} = {name};")
        for line in [*lines[0], *before] if count else lines[0]:
            kernel.line(line)
        if count:
            simd = not scalar_loops and self.region.simple([p])
            for k, size in enumerate(p.extra):
                name = names[self.depth + k]
                if k == count - 1 and simd:
                    text = "".join(f" reduction({op} : {', '.join(x)})" for op, x in clauses.items())
                    kernel.line(f"#pragma omp simd{text}")
                kernel.open(f"for (long {name} = 0; {name} < {kernel.size(size)}; {name}++) {{")
                for line in lines[k + 1]:
                    kernel.line(line)
            for _ in p.extra:
                kernel.close()
        for line in after:
            kernel.line(line)
        self.free(names)

    def comment(self, node: ir.Comp) -> str:
        span = node.span
        if not span.source.text or span.comment == self.kernel.last:
            return ""
        self.kernel.last = span.comment
        return f"// {self.kernel.entry.shown(span.comment, 100)}"

    def converted(self, node: ir.Comp, text: str) -> str:
        """A value in the dtype that it is kept in."""
        if node.dtype == node.body.dtype or not is_float(node.body.dtype) or is_float(node.dtype):
            return text
        return f"({self.kernel.types.of(node.dtype)}){factor(text)}"

    def target(self, node: ir.Comp, names: dict[int, str]) -> str:
        """Where a value is stored."""
        kernel = self.kernel
        if kernel.in_row(node):
            own = [names[k] for k in range(self.depth, len(node.shape))]
            return f"{kernel.pointer(node)}[{kernel.offset(node.shape[self.depth :], own)}]"
        return f"{kernel.pointer(node)}[{self.region_offset(node.shape, names)}]"

    def region_offset(self, shape: Sequence[Size], names: dict[int, str]) -> str:
        region = self.region
        if self.depth > 1:
            positions = [region.row, *(names[k] for k in range(self.depth, len(shape)))]
            return self.kernel.offset((1, *shape[self.depth :]), positions)
        return self.kernel.offset(shape, [names[k] for k in range(len(shape))])

    def kept_in_memory(self) -> None:
        """A reduction with axes of its own: it runs along its last axis, or along what it reduces."""
        kernel = self.kernel
        (node,) = self.p.members
        rank, total = len(node.shape), len(node.shape) + len(node.reduced)
        names = self.named([node], total - self.depth)
        sizes = (*node.shape, *node.reduced)
        beside = along_result(node) and node.op not in ("argmax", "argmin")
        own = list(range(self.depth, rank))
        order = [*own[:-1], *range(rank, total), own[-1]] if beside else [*own, *range(rank, total)]
        lines: list[list[str]] = [[] for _ in range(len(order) + 1)]
        levels = dict.fromkeys(range(self.depth), 0) | {v: k + 1 for k, v in enumerate(order)}
        formula = Formula(kernel, names, levels, sizes, lines, dict(self.registers))
        formula.add([node.body])
        text = formula.text(node.body)
        target = self.target(node, names)
        kernel.comment(node.span)
        for line in lines[0]:
            kernel.line(line)
        opened = 0

        def loop(k: int, pragma: str = "") -> None:
            nonlocal opened
            name = names[order[k]]
            if pragma:
                kernel.line(pragma)
            kernel.open(f"for (long {name} = 0; {name} < {kernel.size(sizes[order[k]])}; {name}++) {{")
            opened += 1
            for line in lines[k + 1]:
                kernel.line(line)

        simd = self.region.simple([self.p])
        if beside:
            outer = len(own) - 1
            for k in range(outer):
                loop(k)
            last = names[own[-1]]
            kernel.line("#pragma omp simd")
            kernel.line(f"for (long {last} = 0; {last} < {kernel.size(sizes[own[-1]])}; {last}++)")
            kernel.line(f"    {target} = {neutral(node, kernel)};")
            for k in range(outer, len(order)):
                loop(k, "#pragma omp simd" if k == len(order) - 1 and simd else "")
            kernel.line(combined(node, target, text, kernel))
            for _ in range(opened):
                kernel.close()
        else:
            for k in range(len(own)):
                loop(k)
            name = kernel.names.fresh(kernel.wish(node) + "_here")
            ctype = kernel.types.of(node.dtype)
            if node.op in ("argmax", "argmin"):
                best = kernel.names.fresh("best")
                value = kernel.types.of(node.body.dtype)
                low = value in ("float", "double")
                start = (
                    ("-INFINITY" if low else "INT64_MIN")
                    if node.op == "argmax"
                    else ("INFINITY" if low else "INT64_MAX")
                )
                kernel.line(f"{value} {best} = {start};")
                kernel.line(f"int64_t {name} = 0;")
                for k in range(len(own), len(order)):
                    loop(k)
                at = kernel.offset(node.reduced, [names[v] for v in order[len(own) :]])
                sign = ">" if node.op == "argmax" else "<"
                given = kernel.names.fresh("value")
                kernel.line(f"const {value} {given} = {bare(text)};")
                kernel.open(f"if ({given} {sign} {best} || ({given} != {given} && {best} == {best})) {{")
                kernel.line(f"{best} = {given};")
                kernel.line(f"{name} = {at};")
                kernel.close()
            else:
                kernel.line(f"{ctype} {name} = {neutral(node, kernel)};")
                kind = {"float": "f32", "double": "f64"}.get(ctype, "i64")
                together = TOGETHER.get(node.op or "") or f"{LARGEST[node.op or '']}_{kind}"
                for k in range(len(own), len(order)):
                    loop(k, f"#pragma omp simd reduction({together} : {name})" if k == len(order) - 1 and simd else "")
                kernel.line(combined(node, name, text, kernel))
            for _ in range(len(order) - len(own)):
                kernel.close()
            kernel.line(f"{target} = {name};")
            for _ in own:
                kernel.close()
        self.free(names)


def index_wishes(nodes: Sequence[ir.Comp]) -> dict[int, str]:
    """What the spec calls the indices of the results of some nodes, where it says so."""
    for node in nodes:
        span = node.span
        if not span.source.text or span.derived:
            continue
        m = re.match(r"\s*[A-Za-z_]\w*\s*\[([^\]]*)\]\s*(?:\+|\*|max|min)?=(?!=)", span.source.line(span.line))
        names = [x.strip().split(":")[0] for x in m[1].split(",")] if m else []
        if len(names) == len(node.shape) and all(re.fullmatch(r"[a-z]\w{0,7}", x) for x in names):
            return dict(enumerate(names))
    return {}


# ---- products ------------------------------------------------------------------------------------------


class ProductText:
    """A matrix product for a piece of the rows of a region."""

    def __init__(self, region: RegionText, product: Product) -> None:
        self.region = region
        self.kernel = region.kernel
        self.product = product
        self.node = product.node
        self.depth = region.depth
        self.names: dict[int, str] = {}

    def write(self) -> None:
        kernel, product, node, region = self.kernel, self.product, self.node, self.region
        kernel.comment(node.span)
        rank = len(node.shape)
        sizes = (*node.shape, *node.reduced)
        whole = product.rows + 1 == self.depth  # the rows are the last of the parallel axes
        wishes = index_wishes([node])
        opened = 0
        names = dict(region.names)
        start, count = "0", kernel.size(sizes[product.rows])
        if whole and self.uniform():
            start, count = region.first, f"{region.end} - {region.first}"
            names = dict.fromkeys(range(self.depth), "")
        elif whole:
            # rows that belong to one place of all axes before
            extent = factor(kernel.size(sizes[product.rows]))
            at, rows = kernel.names.fresh("row"), kernel.names.fresh("rows")
            kernel.open(f"for (long {at} = {region.first}, {rows}; {at} < {region.end}; {at} += {rows}) {{")
            opened += 1
            first = kernel.names.fresh(names[product.rows] + "_first")
            kernel.line(f"const long {first} = {at} % {extent};")
            rest = f"{at} / {extent}"
            for k in reversed(range(1, self.depth - 1)):
                size = factor(kernel.size(sizes[k]))
                names[k] = kernel.names.fresh(names[k])
                kernel.line(f"const long {names[k]} = {rest} % {size};")
                rest = f"{rest} / {size}"
            names[0] = kernel.names.fresh(names[0])
            kernel.line(f"const long {names[0]} = {rest};")
            kernel.line(
                f"{rows} = {extent} - {first} < {region.end} - {at} ? {extent} - {first} : {region.end} - {at};"
            )
            start, count = first, rows
        elif self.depth:
            kernel.open(f"for (long {region.row} = {region.first}; {region.row} < {region.end}; {region.row}++) {{")
            opened += 1
            region.indices()
        outer = [k for k in range(self.depth, rank) if k not in (product.rows, product.columns)]
        block, sums = self.inner()
        for k in outer:
            names[k] = kernel.names.fresh(wishes.get(k, "o"), *LETTERS)
            kernel.open(f"for (long {names[k]} = 0; {names[k]} < {kernel.size(sizes[k])}; {names[k]}++) {{")
            opened += 1
        for k in sums:
            names[k] = kernel.names.fresh(*LETTERS)
            kernel.open(f"for (long {names[k]} = 0; {names[k]} < {kernel.size(sizes[k])}; {names[k]}++) {{")
            opened += 1
        names[product.rows] = start
        names[product.columns] = "0"
        names |= dict.fromkeys(block, "0")
        suffix = kernel.types.suffix(node.dtype)
        accumulate = " || ".join(f"{names[k]} > 0" for k in sums) or "0"
        a, b = self.at(product.left, names), self.at(product.right, names)
        c = self.result(names)
        ai = kernel.size(stride(product.left, product.rows))
        ak = kernel.size(stride(product.left, block[-1]))
        bk = kernel.size(stride(product.right, block[-1]))
        bj = kernel.size(stride(product.right, product.columns))
        ci = kernel.size(self.own_stride(product.rows))
        N, K = kernel.size(sizes[product.columns]), factor(kernel.size(self.extent(block)))
        sides = f"{count}, {N}, {K}, {a}, {ai}, {ak}"
        end = f"{c}, {ci}, {accumulate});"
        b_strides = f"{bk}, {bj}" if bj != "1" else bk
        plain = f"gemm{'' if bj == '1' else '_bt'}{suffix}({sides}, {b}, {b_strides}, {end}"
        large = estimate(sizes[product.columns]) * estimate(self.extent(block)) >= PACKED
        if self.same_for_all(outer, sums) and ai != "1" and (large or bj != "1"):
            packed = kernel.entry.packed(kernel, self, b, N, K, bk, bj, suffix)
            kernel.line(f"if ({packed}) gemm_packed{suffix}({sides}, {packed}, {end}")
            kernel.line(f"else {plain}")
        else:
            kernel.line(plain)
        for _ in range(opened):
            kernel.close()

    def same_for_all(self, outer: Sequence[int], sums: Sequence[int]) -> bool:
        """Is the right side one matrix, wherever the product stands?"""
        moved = [*range(self.depth), *outer, *sums]
        return self.depth > 0 and all(stride(self.product.right, k) == 0 for k in moved if k != self.product.rows)

    def uniform(self) -> bool:
        """Do all rows of the parallel axes, flattened, lie equally far apart, and share the other side?"""
        product, node = self.product, self.node
        if self.depth == 1:
            return True
        for k in range(self.depth - 1):
            if stride(product.right, k) != 0:
                return False
            if stride(product.left, k) != stride(product.left, k + 1) * node.shape[k + 1]:
                return False
        return not any(stride(product.left, k) == 0 and node.shape[k] != 1 for k in range(self.depth))

    def inner(self) -> tuple[list[int], list[int]]:
        """The summed variables that are one axis of the product, outer first, and those that are loops around it.

        Axes that lie one inside of the other in both sides are one axis: (n, t) of x[n, t, i] and y[n, t, o].
        """
        rank = len(self.node.shape)
        found = list(range(rank, rank + len(self.node.reduced)))
        blocks = [self.merged(v, found) for v in found]
        best = min(
            blocks,
            key=lambda block: (
                -min(estimate(self.extent(block)), 512),
                estimate(stride(self.product.left, block[-1])),
                estimate(stride(self.product.right, block[-1])),
            ),
        )
        return best, [v for v in found if v not in best]

    def merged(self, variable: int, others: Sequence[int]) -> list[int]:
        """A summed variable with those that it lies in."""
        block = [variable]
        while True:
            size = self.extent(block)
            around = [
                v
                for v in others
                if v not in block
                and all(
                    stride(side, v) == stride(side, block[-1]) * size
                    for side in (self.product.left, self.product.right)
                )
            ]
            if not around:
                return block
            block.insert(0, around[0])

    def extent(self, block: Sequence[int]) -> Size:
        return _product([self.node.reduced[v - len(self.node.shape)] for v in block])

    def own_stride(self, axis: int) -> Size:
        step: Size = 1
        for size in self.node.shape[axis + 1 :]:
            step = step * size
        return step

    def at(self, read: ir.Read, names: dict[int, str]) -> str:
        """The address of the first element of a side."""
        kernel = self.kernel
        positions = []
        flat = names.get(0) == "" and self.depth > 0
        if flat:
            # rows of all parallel axes together: the last of them counts them
            offset: list[str] = []
            sizes = (*self.node.shape, *self.node.reduced)
            step = stride(read, self.product.rows)
            if step != 0 and names[self.product.rows] != "0":
                offset.append(f"{names[self.product.rows]} * {factor(kernel.size(step))}")
            constant: Size = 0
            for place, far in zip(read.places, strides_of(read), strict=True):
                if isinstance(place, ir.Affine):
                    constant = constant + place.offset * far
                else:
                    assert isinstance(place, ir.At)
            for v in range(self.depth, len(sizes)):
                if v not in (self.product.rows, self.product.columns) and names[v] not in ("0", ""):
                    move = stride(read, v)
                    if move != 0:
                        offset.append(f"{names[v]} * {factor(kernel.size(move))}")
            steps = [
                f"({self.position(p)}) * {factor(kernel.size(far))}"
                for p, far in zip(read.places, strides_of(read), strict=True)
                if isinstance(p, ir.At) and not kernel.entry.table_axes(read.tensor)
            ]
            if constant != 0:
                steps.append(kernel.size(constant))
            base = self.base(read)
            return " + ".join([base, *offset, *steps])
        formula = Formula(kernel, names, dict.fromkeys(names, 0), (*self.node.shape, *self.node.reduced), [[]])
        for place, size in zip(read.places, read.tensor.shape, strict=True):
            at, _ = formula.position(place, size, False)
            positions.append(simplified(at))
        text = kernel.element(read.tensor, read.places, positions)
        m = re.fullmatch(r"(\w+(?:->\w+)*)\[(.*)\]", text)
        assert m is not None, text
        return m[1] if m[2] == "0" else f"{m[1]} + {m[2]}"

    def position(self, place: ir.At) -> str:
        counter = self.kernel.counter(place.step)
        return counter if place.offset == 0 else f"{counter} + {self.kernel.size(place.offset)}"

    def base(self, read: ir.Read) -> str:
        kernel = self.kernel
        table = kernel.entry.table_axes(read.tensor)
        if table:
            row = kernel.offset(read.tensor.shape[:table], [self.position(p) for p in read.places[:table]])  # type: ignore[arg-type]
            return kernel.row(read.tensor, row, kernel.entry.table_address(read.tensor, kernel))
        return kernel.pointer(read.tensor)

    def result(self, names: dict[int, str]) -> str:
        kernel, node = self.kernel, self.node
        pointer = kernel.pointer(node)
        if names.get(0) == "" and self.depth:
            rows = f"{names[self.product.rows]} * {factor(kernel.size(self.own_stride(self.product.rows)))}"
            rest = [
                f"{names[k]} * {factor(kernel.size(self.own_stride(k)))}"
                for k in range(self.depth, len(node.shape))
                if k not in (self.product.rows, self.product.columns)
            ]
            return " + ".join([pointer, *([rows] if names[self.product.rows] != "0" else []), *rest])
        at = kernel.offset(node.shape, [names[k] for k in range(len(node.shape))])
        return pointer if at == "0" else f"{pointer} + {at}"


#: so many products are summed up before the next piece of the left side is written
DEEP = 1024


class GatheredText:
    """A matrix product with a formula as its left side, for a piece of its rows."""

    def __init__(self, region: RegionText, product: Gathered) -> None:
        self.region = region
        self.kernel = region.kernel
        self.product = product
        self.node = product.node
        self.depth = region.depth
        self.sizes = (*self.node.shape, *self.node.reduced)

    def write(self) -> None:
        kernel, product, node, region = self.kernel, self.product, self.node, self.region
        kernel.comment(node.span)
        ctype, suffix = kernel.types.of(node.dtype), kernel.types.suffix(node.dtype)
        rows, rank = product.rows + 1, len(node.shape)
        wide = kernel.size(_product(node.shape[rows:]))
        block, loops = self.pieces()
        deep = self.extent(block)
        buffer = kernel.names.fresh("gathered")
        kernel.line(f"{ctype} {buffer}[{ROWS} * {deep}] __attribute__((aligned(64)));")
        rest = _product(node.shape[self.depth : rows])
        first, end = region.first, region.end
        if rest != 1:
            extent = factor(kernel.size(rest))
            first, end = f"{first} * {extent}" if first != "0" else "0", f"{end} * {extent}"
        if not self.depth:
            first, end = "0", kernel.size(rest)
        at, count = kernel.names.fresh("row"), kernel.names.fresh("rows")
        kernel.open(f"for (long {at} = {first}; {at} < {end}; {at} += {ROWS}) {{")
        kernel.line(f"const long {count} = {ROWS} < {end} - {at} ? {ROWS} : {end} - {at};".replace("- 0", ""))
        names = dict.fromkeys(range(rank), "")
        sums = []
        for k in loops:
            names[k] = kernel.names.fresh(*LETTERS)
            kernel.open(f"for (long {names[k]} = 0; {names[k]} < {kernel.size(self.sizes[k])}; {names[k]}++) {{")
            sums.append(names[k])
        cut = len(block) == 1 and not self.short(self.sizes[block[0]])
        start, length = "0", deep
        if cut:
            start, length = kernel.names.fresh("deep"), kernel.names.fresh("depth")
            whole = kernel.size(self.sizes[block[0]])
            kernel.open(f"for (long {start} = 0; {start} < {whole}; {start} += {deep}) {{")
            kernel.line(f"const long {length} = {deep} < {whole} - {start} ? {deep} : {whole} - {start};")
            sums.append(start)
        across = self.across()
        self.gather(buffer, names, block, at, count, start, length, across)
        right, bk = self.right(names, loops, block, start)
        ai, ak = ("1", str(ROWS)) if across else (length, "1")
        accumulate = " || ".join(f"{x} > 0" for x in sums) or "0"
        target = f"{kernel.pointer(node)} + {at} * {factor(wide)}"
        kernel.line(
            f"gemm{suffix}({count}, {wide}, {length}, {buffer}, {ai}, {ak},"
            f" {right}, {bk}, {target}, {wide}, {accumulate});"
        )
        for _ in range(1 + len(loops) + cut):
            kernel.close()

    def short(self, size: Size) -> bool:
        return isinstance(size, int) and size <= DEEP

    def pieces(self) -> tuple[list[int], list[int]]:
        """The last summed variables, which are written at once, and those before, which are loops."""
        block: list[int] = []
        total = 1
        for v in reversed(self.product.inner):
            size = self.sizes[v]
            if not isinstance(size, int) or total * size > DEEP:
                break
            total *= size
            block.insert(0, v)
        block = block or [self.product.inner[-1]]
        return block, [v for v in self.product.inner if v not in block]

    def extent(self, block: Sequence[int]) -> str:
        total = 1
        for v in block:
            size = self.sizes[v]
            total *= size if isinstance(size, int) and size <= DEEP else DEEP // 2
        return str(total)

    def across(self) -> bool:
        """Do rows lie side by side in memory, and not what is summed?"""
        last, inner = self.product.rows, self.product.inner[-1]
        reads = [s for s in ir.scalars(self.product.left) if isinstance(s, ir.Read) and s.places]
        return sum((stride(s, last) == 1) - (stride(s, inner) == 1) for s in reads) > 0

    def gather(
        self,
        buffer: str,
        names: dict[int, str],
        block: list[int],
        at: str,
        count: str,
        start: str,
        length: str,
        across: bool,
    ) -> None:
        """Write rows of the left side to the buffer."""
        kernel, node = self.kernel, self.node
        rows = self.product.rows
        names = dict(names)
        wishes = index_wishes([node])
        own = []
        for k in range(rows + 1):
            names[k] = kernel.names.fresh(*([wishes[k]] if k in wishes else []), *LETTERS)
            own.append(names[k])
        for k in block:
            names[k] = kernel.names.fresh(*LETTERS)
            own.append(names[k])
        i = kernel.names.fresh("r")
        own.append(i)
        levels = {k: 0 for k in names if k > rows and k not in block} | dict.fromkeys(range(rows + 1), 1)
        levels |= {v: 2 + k for k, v in enumerate(block)}
        if across:
            levels = {**levels, **{v: 2 + k for k, v in enumerate(block)}, rows: 2 + len(block)}
        lines: list[list[str]] = [[] for _ in range(2 + len(block) + across)]
        formula = Formula(kernel, names, levels, self.sizes, lines)
        formula.add([self.product.left])
        text = formula.text(self.product.left)
        if self.product.left.dtype != node.dtype and kernel.types.of(self.product.left.dtype) != kernel.types.of(
            node.dtype
        ):
            text = f"({kernel.types.of(node.dtype)}){factor(text)}"
        for line in lines[0]:
            kernel.line(line)
        run = ""
        if across:
            run = kernel.names.fresh("run")
            own.append(run)
            extent = factor(kernel.size(self.sizes[rows]))
            begin = kernel.names.fresh(names[rows] + "_first")
            own.append(begin)
            kernel.open(f"for (long {i} = 0, {run}; {i} < {count}; {i} += {run}) {{")
            kernel.line(f"const long {begin} = ({at} + {i}) % {extent};")
            kernel.line(f"{run} = {extent} - {begin} < {count} - {i} ? {extent} - {begin} : {count} - {i};")
        else:
            kernel.open(f"for (long {i} = 0; {i} < {count}; {i}++) {{")
        rest = f"({at} + {i})"
        for k in reversed(range(rows + 1)):
            extent = factor(kernel.size(self.sizes[k]))
            if k == 0:
                kernel.line(f"const long {names[k]} = {rest};")
            elif not (across and k == rows):
                kernel.line(f"const long {names[k]} = {rest} % {extent};")
            rest = f"{rest} / {extent}"
            if across and rows == 0:
                kernel.lines.pop()
        for line in lines[1]:
            kernel.line(line)
        place = kernel.offset([self.sizes[v] for v in block], [names[v] for v in block])
        for k, v in enumerate(block):
            low, high = "0", kernel.size(self.sizes[v])
            if start != "0":
                low, high, place = start, f"{start} + {length}", f"{names[v]} - {start}"
            if k == len(block) - 1 and not across:
                kernel.line("#pragma omp simd")
            kernel.open(f"for (long {names[v]} = {low}; {names[v]} < {high}; {names[v]}++) {{")
            for line in lines[2 + k]:
                kernel.line(line)
        if across:
            c = names[rows]
            kernel.line("#pragma omp simd")
            kernel.open(f"for (long {c} = {begin}; {c} < {begin} + {run}; {c}++) {{")
            for line in lines[-1]:
                kernel.line(line)
            kernel.line(f"{buffer}[{factor(place)} * {ROWS} + {i} + {c} - {begin}] = {bare(text)};")
            kernel.close()
        else:
            kernel.line(f"{buffer}[{i} * {length} + {place}] = {bare(text)};")
        for _ in range(len(block) + 1):
            kernel.close()
        for name in own:
            kernel.names.taken.discard(name)

    def right(self, names: dict[int, str], loops: list[int], block: list[int], start: str) -> tuple[str, str]:
        """Where the rows of the right side begin, and how far they are apart."""
        kernel, product, node = self.kernel, self.product, self.node
        rank = len(node.shape)
        wide = _product(node.shape[product.rows + 1 :])
        right = product.right
        if isinstance(right, ir.Read) and is_strided(right) and self.lies(right, block):
            step = stride(right, block[-1])
            fixed = dict.fromkeys(range(rank + len(node.reduced)), "0")
            fixed |= {k: names[k] for k in loops}
            if start != "0":
                fixed[block[-1]] = start
            formula = Formula(kernel, fixed, dict.fromkeys(fixed, 0), self.sizes, [[]])
            positions = [
                simplified(formula.position(p, n, False)[0])
                for p, n in zip(right.places, right.tensor.shape, strict=True)
            ]
            text = kernel.element(right.tensor, right.places, positions)
            m = re.fullmatch(r"(\w+(?:->\w+)*)\[(.*)\]", text)
            assert m is not None, text
            return (m[1] if m[2] == "0" else f"{m[1]} + {m[2]}"), kernel.size(step)
        written = kernel.entry.written_side(kernel, self)
        place = kernel.offset([self.sizes[v] for v in loops], [names[v] for v in loops]) if loops else "0"
        inner = _product([self.sizes[v] for v in block])
        text = simplified(" + ".join([f"{factor(place)} * {factor(kernel.size(inner))}", start]))
        text = "0" if place == "0" and start == "0" else start if place == "0" else text
        far = kernel.size(wide)
        return (written if text == "0" else f"{written} + {factor(text)} * {factor(far)}"), far

    def lies(self, right: ir.Read, block: list[int]) -> bool:
        """Is the right side a matrix in memory, its rows equally far apart and its columns side by side?"""
        step: Size = stride(right, block[-1])
        for v in reversed(block):
            if stride(right, v) != step:
                return False
            step = step * self.sizes[v]
        step = 1
        for v in reversed(range(self.product.rows + 1, len(self.node.shape))):
            if stride(right, v) != step:
                return False
            step = step * self.sizes[v]
        return kernel_free(right)

    def right_lines(self, kernel: Kernel, target: str) -> None:
        """The loops that write the right side to memory, from row `begin` to row `end`."""
        product, node = self.product, self.node
        order = [*product.inner, *range(product.rows + 1, len(node.shape))]
        names = {v: kernel.names.fresh(*LETTERS) for v in order}
        first = order[0]
        lines: list[list[str]] = [[] for _ in range(len(order) + 1)]
        formula = Formula(kernel, names, {v: k + 1 for k, v in enumerate(order)}, self.sizes, lines)
        formula.add([product.right])
        text = formula.text(product.right)
        for line in lines[0]:
            kernel.line(line)
        for k, v in enumerate(order):
            low, high = ("begin", "end") if v == first else ("0", kernel.size(self.sizes[v]))
            if k == len(order) - 1:
                kernel.line("#pragma omp simd")
            kernel.open(f"for (long {names[v]} = {low}; {names[v]} < {high}; {names[v]}++) {{")
            for line in lines[k + 1]:
                kernel.line(line)
        place = kernel.offset([self.sizes[v] for v in order], [names[v] for v in order])
        kernel.line(f"{target}[{place}] = {bare(text)};")
        for _ in order:
            kernel.close()


def kernel_free(read: ir.Read) -> bool:
    return all(isinstance(x, ir.At | ir.Affine) for x in read.places)


def _product(sizes: Sequence[Size]) -> Size:
    total: Size = 1
    for size in sizes:
        total = total * size
    return total


def strides_of(read: ir.Read) -> list[Size]:
    from dslc.schedule.products import strides

    return strides(read.tensor.shape)


def simplified(at: str) -> str:
    """A sum without its zeros."""
    parts = [x for x in at.split(" + ") if x != "0" and not x.endswith("* 0")]
    return " + ".join(parts) or "0"
