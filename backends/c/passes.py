"""A pass as C text: a nest of loops, inside of that over rows, whose members see one another in registers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dslc.backends.c.formula import Formula
from dslc.backends.c.indices import LETTERS, index_wishes
from dslc.backends.c.reductions import LARGEST, TOGETHER, Sides, combined, neutral
from dslc.backends.c.text import bare, factor

from dslc.dtypes import is_float
from dslc.ir import nodes as ir
from dslc.schedule.form import Pass
from dslc.schedule.group import along_result
from dslc.sizes import Size

if TYPE_CHECKING:
    from dslc.backends.c.region import RegionText


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
        sums = [m for m in p.members if m.op is not None]
        sides: Sides | None = None
        if sums and count and self.region.simple([p]) and Sides.fit(kernel, sums, p.extra[-1]):
            targets = [kernel.names.fresh(kernel.wish(m)) for m in sums]
            sides = Sides(kernel, sums, targets, [m.body for m in p.members])
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
            name = sides.targets[sums.index(member)] if sides else kernel.names.fresh(kernel.wish(member))
            if sides:
                inner += sides.taken(sums.index(member), text)
            elif member.op in ("argmax", "argmin"):
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
        if sides:
            for line in sides.begin():
                kernel.line(line)
            for k, size in enumerate(p.extra[:-1]):
                name = names[self.depth + k]
                kernel.open(f"for (long {name} = 0; {name} < {kernel.size(size)}; {name}++) {{")
                for line in lines[k + 1]:
                    kernel.line(line)
            last = self.depth + count - 1
            sides.loops(names[last], p.extra[-1], self.region.bound(last, p.extra[-1], names, p), inner)
            for _ in p.extra[:-1]:
                kernel.close()
            for line in sides.end():
                kernel.line(line)
        elif count:
            simd = not scalar_loops and self.region.simple([p])
            for k, size in enumerate(p.extra):
                name = names[self.depth + k]
                if k == count - 1 and simd:
                    text = "".join(f" reduction({op} : {', '.join(x)})" for op, x in clauses.items())
                    kernel.line(f"#pragma omp simd{text}")
                bound = self.region.bound(self.depth + k, size, names, p)
                kernel.open(f"for (long {name} = 0; {name} < {bound}; {name}++) {{")
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
            bound = self.region.bound(order[k], sizes[order[k]], names, self.p)
            kernel.open(f"for (long {name} = 0; {name} < {bound}; {name}++) {{")
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
