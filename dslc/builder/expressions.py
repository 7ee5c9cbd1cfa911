"""Expressions of the checked program as scalars of the IR: places, reads, reductions, draws."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dslc.builder.unit import CarriedSequence, Place, Value
from dslc.check import program as p
from dslc.check.dependence import every_statement
from dslc.dtypes import alike, is_float
from dslc.ir import nodes as ir
from dslc.ir.index_names import note
from dslc.sizes import Size, product, tidy


class Expressions:
    """What expressions need to know about the instance around them."""

    #: axes in front of everything
    mapped: tuple[Size, ...]
    values: dict[p.Tensor, Value]
    #: the steps of the scans around, and the sequences that they build
    scan_steps: dict[p.Index, ir.Step]
    sequences: dict[p.Tensor, CarriedSequence]
    #: what names of values begin with
    label: str
    #: the path of calls that leads here, and the name of the definition
    calls: str
    definition: str

    def named(self, name: str) -> str:
        """The name of a value, with the layer that it belongs to."""
        return f"{self.label}.{name}" if self.label and name else name

    def tensor(self, tensor: p.Tensor) -> ir.Tensor:
        """The value of a tensor with all mapped axes in front."""
        value = self.values[tensor]
        if value.lifted or not self.mapped:
            return value.tensor
        count = len(self.mapped)
        places = tuple(ir.plain(count + i) for i in range(len(tensor.shape)))
        return ir.comp((*self.mapped, *value.tensor.shape), ir.read(value.tensor, places), name=self.named(tensor.name))

    def place(self, position: p.Position, env: Mapping[p.Index, Place]) -> ir.Place:
        if isinstance(position, p.Data):
            return ir.intern(ir.Data(self.scalar(position.value, env), position.mode))
        steps = [(i, c) for i, c in position.terms if isinstance(env[i], ir.Step)]
        if not steps:
            terms = tuple((number, c) for i, c in position.terms if isinstance(number := env[i], int))
            return ir.affine(terms, position.offset, position.mode)
        index, coefficient = steps[0]
        step = env[index]
        if coefficient == 1 and len(position.terms) == 1 and position.mode == "inside" and isinstance(step, ir.Step):
            return ir.intern(ir.At(step, position.offset))
        total: ir.Scalar = ir.intern(ir.SizeOf(position.offset))
        for i, c in position.terms:
            part = ir.op("*", (ir.intern(ir.SizeOf(c)), self.index_value(env[i])), "i64")
            total = ir.op("+", (total, part), "i64")
        return ir.intern(ir.Data(total, position.mode))

    def index_value(self, place: Place) -> ir.Scalar:
        return ir.var(place) if isinstance(place, int) else ir.read(place, ())

    def scalar(self, root: p.Expr, env: Mapping[p.Index, Place]) -> ir.Scalar:
        """An expression as the body of a comprehension whose variables are `env`."""
        done: dict[int, ir.Scalar] = {}
        stack: list[tuple[p.Expr, bool]] = [(root, False)]
        while stack:
            e, ready = stack.pop()
            if id(e) in done:
                continue
            below = arguments(e)
            if not ready and below:
                stack.append((e, True))
                stack.extend((x, False) for x in below)
                continue
            done[id(e)] = self.one(e, env, done)
        return done[id(root)]

    def one(self, e: p.Expr, env: Mapping[p.Index, Place], done: Mapping[int, ir.Scalar]) -> ir.Scalar:
        match e:
            case p.Constant():
                return ir.const(e.value, e.dtype)
            case p.SizeValue():
                if is_float(e.dtype) and (isinstance(e.size, int) or e.size.is_number):
                    return ir.const(float(e.size), e.dtype)
                return ir.intern(ir.SizeOf(e.size, e.dtype))
            case p.IndexValue():
                return self.index_value(env[e.index])
            case p.Apply():
                return self.apply(e, tuple(done[id(a)] for a in e.args))
            case p.Reduce():
                return self.reduce(e, env)
            case p.Draw():
                return self.draw(e, env, tuple(done[id(a)] for a in e.args))
            case p.Read():
                return self.read(e, env, done)

    def apply(self, e: p.Apply, args: tuple[ir.Scalar, ...]) -> ir.Scalar:
        name = "cast" if e.op in ("float", "f16", "bf16", "f32", "f64", "i32", "i64", "bool") else e.op
        if e.op == "square":
            return ir.op("*", (args[0], args[0]), e.dtype)
        return ir.cast(args[0], e.dtype) if name == "cast" else ir.op(name, args, e.dtype)

    def read(self, e: p.Read, env: Mapping[p.Index, Place], done: Mapping[int, ir.Scalar]) -> ir.Scalar:
        if e.tensor in self.sequences:
            return self.read_step(e, env, done)
        value = self.values[e.tensor]
        tensor = value.tensor
        lead = tuple(ir.plain(k) for k in range(len(self.mapped))) if value.lifted else ()
        positions = list(e.positions)
        groups = [_radix(x, size) for x, size in zip(positions, tensor.shape[len(lead) :], strict=True)]
        if any(g is not None for g in groups) and e.outside is None:
            shape: list[Size] = list(tensor.shape[: len(lead)])
            split: list[p.Position] = []
            for axis, (position, group) in enumerate(zip(positions, groups, strict=True)):
                if group is None:
                    shape.append(tensor.shape[len(lead) + axis])
                    split.append(position)
                else:
                    shape.extend(size_of(i) for i in group)
                    split.extend(p.Affine(((i, 1),), 0) for i in group)
            tensor = ir.intern(ir.Reshape(tensor, tuple(shape), tensor.dtype, tensor.name))
            positions = split
        places = (*lead, *(self.place(x, env) for x in positions))
        return _read_as(e, tensor, places, done)

    def read_step(self, e: p.Read, env: Mapping[p.Index, Place], done: Mapping[int, ir.Scalar]) -> ir.Scalar:
        """A sequence inside its scan: the value of this step, or a carried one."""
        sequence = self.sequences[e.tensor]
        where = e.positions[sequence.axis]
        assert isinstance(where, p.Affine) and isinstance(where.offset, int)
        lag = where.offset if sequence.reverse else -where.offset
        tensor = self.tensor(e.tensor) if lag == 0 else sequence.carries[lag - 1]
        lead = tuple(ir.plain(k) for k in range(len(self.mapped)))
        rest = tuple(self.place(x, env) for a, x in enumerate(e.positions) if a != sequence.axis)
        return _read_as(e, tensor, (*lead, *rest), done)

    def reduce(self, e: p.Reduce, env: Mapping[p.Index, Place]) -> ir.Scalar:
        """A reduction is a comprehension over what it depends on; here it is read back."""
        bound = set(e.indices)
        outer = [i for i in _free(e.body) if i not in bound and not isinstance(env.get(i), ir.Step)]
        outer.sort(key=lambda i: n if isinstance(n := env[i], int) else -1)
        lift = len(self.mapped)
        inner: dict[p.Index, Place] = {i: s for i, s in env.items() if isinstance(s, ir.Step) and i not in bound}
        inner.update({i: lift + k for k, i in enumerate(outer)})
        inner.update({i: lift + len(outer) + k for k, i in enumerate(e.indices)})
        shape = (*self.mapped, *(size_of(i) for i in outer))
        reduced = tuple(size_of(i) for i in e.indices)
        body = self.scalar(e.body, inner)
        op = "sum" if e.op == "mean" else e.op
        if e.op == "mean" and body.dtype != e.dtype:
            body = ir.cast(body, e.dtype)
        made = ir.comp(shape, body, op, reduced, span=e.span)
        note(made, [*("" for _ in range(lift)), *(i.name for i in (*outer, *e.indices))])
        places = (*(ir.plain(k) for k in range(lift)), *(ir.plain(n) for i in outer if isinstance(n := env[i], int)))
        result: ir.Scalar = ir.read(made, places)
        if e.op == "mean":
            divisor = ir.intern(ir.SizeOf(product(reduced), "i64"))
            result = ir.op("/", (result, divisor), e.dtype)
        return result

    def draw(self, e: p.Draw, env: Mapping[p.Index, Place], args: tuple[ir.Scalar, ...]) -> ir.Scalar:
        """A draw in terms of uniform bits: the element is numbered row-major over mapped axes, steps and indices."""
        places: list[ir.Scalar] = [ir.var(k) for k in range(len(self.mapped))]
        sizes: list[Size] = list(self.mapped)
        for index, step in self.scan_steps.items():
            places.append(ir.read(step, ()))
            sizes.append(size_of(index))
        for index in e.indices:
            if index not in self.scan_steps:
                places.append(self.index_value(env[index]))
                sizes.append(size_of(index))
        site = _site(f"{self.calls}{self.definition}", e.site)

        def uniform(lane: int) -> ir.Scalar:
            return ir.intern(ir.Rand(site, tuple(places), tuple(sizes), lane))

        def number(x: float) -> ir.Scalar:
            return ir.const(x, "float")

        if e.op != "randint":
            args = tuple(x if is_float(x.dtype) else ir.op("cast", (x,), "float") for x in args)
        match e.op:
            case "uniform":
                if not args:
                    return uniform(0)
                low, high = args if len(args) == 2 else (number(0.0), args[0])
                spread = ir.op("-", (high, low), "float")
                return ir.op("+", (low, ir.op("*", (spread, uniform(0)), "float")), "float")
            case "bernoulli":
                below = ir.op("<", (uniform(0), args[0]), "bool")
                return ir.op("select", (below, number(1.0), number(0.0)), "float")
            case "gumbel":
                inner = ir.op("neg", (ir.op("log", (_open(uniform(0)),), "float"),), "float")
                return ir.op("neg", (ir.op("log", (inner,), "float"),), "float")
            case "randint":
                low, high = args
                spread = ir.op("-", (high, low), "i64")
                scaled = ir.op("*", (uniform(0), ir.op("cast", (spread,), "float")), "float")
                return ir.op("+", (low, ir.op("cast", (ir.op("floor", (scaled,), "float"),), "i64")), "i64")
        mean, deviation = (*args, number(1.0))[:2] if args else (number(0.0), number(1.0))
        log = ir.op("log", (_open(uniform(0)),), "float")
        radius = ir.op("sqrt", (ir.op("*", (number(-2.0), log), "float"),), "float")
        angle = ir.op("cos", (ir.op("*", (number(6.283185307179586), uniform(1)), "float"),), "float")
        normal = ir.op("*", (radius, angle), "float")
        return ir.op("+", (mean, ir.op("*", (deviation, normal), "float")), "float")


def _read_as(e: p.Read, tensor: ir.Tensor, places: tuple[ir.Place, ...], done: Mapping[int, ir.Scalar]) -> ir.Scalar:
    """A read at places that are known, with what stands outside of the tensor, in the dtype that it has in the spec."""
    if e.outside is None:
        return ir.cast(ir.read(tensor, places), e.dtype)
    if not alike(tensor.dtype, e.dtype):  # a whole number with one half outside is a float
        tensor = ir.comp(tensor.shape, ir.op("cast", (ir.whole(tensor),), e.dtype), name=tensor.name)
    return ir.read(tensor, places, ir.cast(done[id(e.outside)], e.dtype))


def _open(u: ir.Scalar) -> ir.Scalar:
    """A uniform draw kept away from 0, as Triton's normal draws do."""
    return ir.op("max", (u, ir.const(1.0e-7, "float")), "float")


def _site(path: str, site: int) -> int:
    """A number for a draw that depends on the calls that lead to it and its place there, and on nothing else."""
    value = 2166136261
    for byte in f"{path}#{site}".encode():
        value = ((value ^ byte) * 16777619) & 0x7FFFFFFF
    return value


def size_of(index: p.Index) -> Size:
    assert index.size is not None
    return index.size


def _radix(position: p.Position, axis: Size) -> tuple[p.Index, ...] | None:
    """The indices of a grouped axis, slowest first, when a position is exactly that and covers the whole axis."""
    if not isinstance(position, p.Affine) or len(position.terms) < 2:
        return None
    if position.offset != 0 or position.mode != "inside":
        return None
    stride: Size = 1
    for index, coefficient in reversed(position.terms):
        if coefficient != stride:
            return None
        stride = tidy(stride * size_of(index))
    return tuple(i for i, _ in position.terms) if tidy(stride - axis) == 0 else None


def arguments(e: p.Expr) -> list[p.Expr]:
    if isinstance(e, p.Apply | p.Draw):
        return list(e.args)
    if isinstance(e, p.Read):
        return [] if e.outside is None else [e.outside]
    return []


def _free(e: p.Expr) -> list[p.Index]:
    """The indices that an expression depends on, in order of first use."""
    found: dict[p.Index, None] = {}
    seen: set[tuple[int, frozenset[p.Index]]] = set()
    stack: list[tuple[p.Expr, frozenset[p.Index]]] = [(e, frozenset())]
    while stack:
        node, bound = stack.pop()
        if (id(node), bound) in seen:
            continue
        seen.add((id(node), bound))
        match node:
            case p.IndexValue():
                if node.index not in bound:
                    found[node.index] = None
            case p.Apply():
                stack.extend((a, bound) for a in reversed(node.args))
            case p.Reduce():
                stack.append((node.body, bound | set(node.indices)))
            case p.Draw():
                found.update({i: None for i in node.indices if i not in bound})
                stack.extend((a, bound) for a in reversed(node.args))
            case p.Read():
                for position in node.positions:
                    if isinstance(position, p.Affine):
                        found.update({i: None for i, _ in position.terms if i not in bound})
                    else:
                        stack.append((position.value, bound))
                if node.outside is not None:
                    stack.append((node.outside, bound))
    return list(found)


def every_expression(body: Sequence[p.Stmt]) -> Iterator[p.Expr]:
    """All expressions of statements, those inside blocks too."""
    roots: list[p.Expr] = []
    for statement in every_statement(body):
        match statement:
            case p.Define():
                roots.append(statement.value)
            case p.Scatter():
                roots.append(statement.value)
                roots += [x.value for x in statement.positions if isinstance(x, p.Data)]
    seen: set[int] = set()
    while roots:
        e = roots.pop()
        if id(e) in seen:
            continue
        seen.add(id(e))
        yield e
        roots += arguments(e)
        if isinstance(e, p.Reduce):
            roots.append(e.body)
        if isinstance(e, p.Read):
            roots += [x.value for x in e.positions if isinstance(x, p.Data)]
