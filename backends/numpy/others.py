"""Nodes that are no comprehensions as NumPy text: scatters, operations along an axis and on matrices, their parts."""

from __future__ import annotations

from dslc.backends.numpy.lower import Comprehensions
from dslc.backends.numpy.sums import Sums
from dslc.backends.numpy.text import RESULTS, TIMES, UNARY, Text, atom, bare, size_code

from dslc.ir import nodes as ir
from dslc.ops.dtypes import is_float


class Others(Comprehensions):
    """The part of a lowering that writes nodes other than comprehensions and scans."""

    def scatter(self, node: ir.Scatter) -> None:
        body = Sums(self, node.ranges, out=tuple(range(len(node.ranges))))
        value = body.scalar(node.body)
        everything = tuple(range(len(node.ranges)))
        positions = [body.position(x, n) for x, n in zip(node.places, node.shape, strict=True)]
        reached = {a for x in positions for a in x.axes}
        alone = [a for a in value.axes if a not in reached]
        if alone and node.op == "+":
            value = body.presum(value, alone)
        elif alone:
            where = tuple(value.axes.index(a) for a in alone)
            value = Text(f"np.{node.op}({value.code}, axis={where})", tuple(a for a in value.axes if a not in alone))
        for n in everything if node.op == "+" else ():
            if n not in reached and n not in alone:
                value = Text(f"{value.at(UNARY)} * {atom(size_code(node.ranges[n]))}", value.axes, TIMES)
        if node.op == "+" and node.base is None and self.add_rows(node, body, value, positions):
            return
        shape = ", ".join(size_code(s) for s in node.shape) + ("," if len(node.shape) == 1 else "")
        name = self.fresh(self.wish(node))
        self.names[node] = name
        dtype = self.numpy_dtype(node.dtype)
        comment = f"[{shape.rstrip(',')}]"
        if node.base is not None:
            self.line(f"{name} = {self.tensor(node.base)}.copy()", comment, node.span)
        elif node.op == "+":
            self.line(f"{name} = np.zeros(({shape}), {dtype})", comment, node.span)
        else:
            limits = f"np.iinfo({RESULTS.get(node.dtype, dtype)})"
            lowest, highest = ("-np.inf", "np.inf") if is_float(node.dtype) else (f"{limits}.min", f"{limits}.max")
            neutral = lowest if node.op == "max" else highest
            self.line(f"{name} = np.full(({shape}), {neutral}, {dtype})", comment, node.span)
        places = ", ".join(self.expand(x, everything).code for x in positions)
        shown = self.expand(value, everything).code
        single = [x for x in node.places if isinstance(x, ir.Affine) and len(x.terms) == 1 and x.mode == "inside"]
        plain = {x.terms[0][0] for x in single}
        if node.op == "+" and reached <= plain:  # no two elements meet
            self.line(f"{name}[{places}] {'=' if node.base is None else '+='} {shown}")
        else:
            ufunc = {"+": "np.add", "max": "np.maximum", "min": "np.minimum"}[node.op]
            index = f"({places})" if len(positions) > 1 else f"({places},)"
            self.line(f"{ufunc}.at({name}, {index}, {shown})")

    def add_rows(self, node: ir.Scatter, body: Sums, value: Text, positions: list[Text]) -> bool:
        """Rows that are added up by data in the first place: sorted and summed, which np.add.at would do one by one."""
        first, *rest = node.places
        if not isinstance(first, ir.Data) or first.mode != "inside":
            return False
        tail = [
            x.terms[0][0]
            for x in rest
            if isinstance(x, ir.Affine) and len(x.terms) == 1 and x is ir.plain(x.terms[0][0])
        ]
        if len(tail) != len(rest) or tail != sorted(set(tail)) or set(tail) & set(positions[0].axes):
            return False
        sizes = [node.ranges[n] for n in tail]
        index = positions[0]
        if sizes != list(node.shape[1:]) or value.axes != (*index.axes, *tail) or not index.axes:
            return False
        count = size_code(node.shape[0])
        self.assign(node, f"{self.helper('add_rows')}({count}, {index.code}, {value.code})")
        return True

    def along(self, node: ir.Along) -> None:
        args = [self.tensor(a) for a in node.args]
        axis = node.axis
        x = f"np.flip({args[0]}, {axis})" if node.reverse else args[0]
        match node.op:
            case "cumsum" | "cumprod":
                code = f"np.{node.op}({x}, axis={axis})"
            case "cummax" | "cummin":
                code = f"np.{'maximum' if node.op == 'cummax' else 'minimum'}.accumulate({x}, axis={axis})"
            case "sort" | "argsort":
                code = f'np.{node.op}({x}, axis={axis}, kind="stable")'
            case "top_k":
                code = f"{self.helper('top_k')}({x}, {axis}, {size_code(node.shapes[0][axis])})"
            case _:
                code = f"{self.helper('fourier')}({node.op == 'ifft'}, {axis}, {', '.join(args)})"
        if node.reverse:
            code = f"np.flip({code}, {axis})"
        self.names[node] = code

    def external(self, node: ir.External) -> None:
        args = ", ".join(self.tensor(a) for a in node.args)
        if node.op.startswith("team "):  # what members of a team do together
            self.names[node] = f"team.{node.op.removeprefix('team ')}({bare(args)})"
            return
        own = {"solve": "solve", "logdet": "logdet", "matexp": "matexp"}
        code = f"{self.helper(own[node.op])}({args})" if node.op in own else f"np.linalg.{node.op}({args})"
        self.names[node] = code

    def part(self, node: ir.Part) -> None:
        of = node.of
        if isinstance(of, ir.Custom):
            self.names[node] = self.tensor(of.values[node.number])
            return
        if isinstance(of, ir.Scan):
            name = self.scan_names[of][node.number]
            if name and node not in self.kept:
                self.names[node] = name
            return
        shapes = of.shapes
        if len(shapes) == 1:
            self.assign(node, self.names[of])
            return
        if of not in self.several:
            parts = self.parts[of]
            names = [self.fresh(self.wish(parts[k])) if k in parts else "_" for k in range(len(shapes))]
            self.line(f"{', '.join(names)} = {self.names[of]}", self.place(of).strip())
            self.several[of] = names
        self.names[node] = self.several[of][node.number]
