"""Statements of the checked program as nodes of the IR: definitions, calls, scans, loops over layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dslc.autodiff.derivatives import derivative
from dslc.builder.expressions import Expressions, every_expression, size_of
from dslc.builder.layers import Layers, defined, equal_passes, loops_in, tensors_of
from dslc.builder.unit import CarriedSequence, Layer, Place, Refusal, Unit, Value
from dslc.check import program as p
from dslc.check.dependence import every_statement
from dslc.dtypes import alike, is_float
from dslc.ir import nodes as ir
from dslc.ir.index_names import note
from dslc.ir.rewrite import zero
from dslc.ir.steady import part_of
from dslc.sizes import Size, tidy


class Builder(Expressions):
    """Builds the body of one instance. Mapped axes come first in everything that it defines."""

    def __init__(self, unit: Unit, mode: str, path: str = "", mapped: tuple[Size, ...] = (), frozen: bool = False):
        self.unit = unit
        self.mode = mode
        self.path = path
        self.mapped = mapped
        self.frozen = frozen
        self.values: dict[p.Tensor, Value] = {}
        #: how often tensors are mentioned in the whole instance
        self.mentions: Counter[p.Tensor] = Counter()
        #: paths that a formula or `freeze` names alone, here or around, and tensors that outputs name
        self.fixed: list[str] = []
        self.kept: list[p.Tensor] = []
        #: the loops that are built once, the layers that the path stands for, and the stars of the calls inside
        self.layered: dict[p.Loop, Layers] = {}
        #: how many passes of a loop come before those that are built once, and these as a loop of their own
        self.rest: dict[p.Loop, tuple[int, p.Loop]] = {}
        self.path_layers: tuple[Layer, ...] = ()
        self.stars: dict[p.CallFunction, dict[int, Layer]] = {}
        self.in_scan = False
        self.state_paths: dict[p.Tensor, str] = {}
        self.declarations: dict[p.Tensor, p.ParamDecl | p.StateDecl] = {}
        self.tensor_stars: dict[p.Tensor, dict[int, Layer]] = {}
        self.scan_steps: dict[p.Index, ir.Step] = {}
        self.sequences: dict[p.Tensor, CarriedSequence] = {}
        #: what names of values begin with, and how many calls lead here
        self.label = ""
        self.depth = 0
        #: the layer that was called last
        self.called = ""
        #: the path of calls that leads here; other than in `path`, a second call of one layer or function is another
        self.calls = path
        #: the name of the definition
        self.definition = ""
        self.call_counts: dict[str, int] = {}
        #: tensors that a derivative is taken by. Equal values are one node, but a derivative by one of them is none
        #: by the others: until all is built, these are kept apart
        self.sources: set[p.Tensor] = set()
        self.apart: dict[ir.Part, ir.Tensor] = {}
        #: the layers that instances around this one have passed on: where the paths in these begin, and their layers
        self.shared: dict[p.SharedLayer, tuple[str, tuple[Layer, ...]]] = {}

    # ---- instances

    def instance(self, instance: p.Instance, args: Sequence[Value]) -> list[ir.Tensor]:
        self.definition = instance.name
        self.unit.note_sizes(instance.sizes)
        self.sources = {s.wrt for s in every_statement(instance.body) if isinstance(s, p.Derivative)}
        for tensor, value in zip(instance.inputs, args, strict=True):
            self.set(tensor, value)
        self.fixed = [*self.fixed, *(self.path + name for name in instance.named)]
        self.find_layers(instance)
        later: set[p.Tensor] = set()
        for layers in self.layered.values():
            later |= layers.repeated | layers.declared.keys()
        for declaration in instance.params:
            if declaration.tensor not in later:
                self.parameter(declaration)
        for state in instance.states:
            if state.tensor not in later:
                self.state(state)
        self.declarations.update({d.tensor: d for d in instance.params})
        self.declarations.update({d.tensor: d for d in instance.states})
        for name, tensor in instance.member_params.items():
            self.values[tensor] = Value(self.input(self.path + name, tensor), False)
        for tensor, (home, name) in instance.passed_params.items():
            path, around = self.shared[home]
            self.values[tensor] = Value(self.input(path + name, tensor, layers=around), False)
        self.statements(instance.body)
        for name, tensor in instance.exposed.items():
            p.add_result(self.unit.outputs, self.path + name, self.tensor(tensor))
        return [self.tensor(o) for o in instance.outputs]

    def find_layers(self, instance: p.Instance) -> None:
        loops = [] if self.in_scan else loops_in(instance.body)
        body = (instance.body, instance.outputs, [*instance.exposed.values()], instance.backward, self.kept)
        self.mentions = Counter(tensors_of(body))
        fixed = [f.removeprefix(self.path) for f in self.fixed if f.startswith(self.path)]
        for loop in loops:
            first, found = equal_passes(instance, loop, self.mentions, fixed)
            if found is not None:
                self.layered[found.loop] = found
                self.rest[loop] = first, found.loop

    def parameter(self, declaration: p.ParamDecl, stars: Mapping[int, Layer] | None = None) -> None:
        tensor = declaration.tensor
        path, layers = self.starred(tensor.name, stars)
        if path not in self.unit.params:
            self.unit.params[path] = declaration
            if declaration.frozen or self.frozen:
                self.unit.frozen.add(path)
        self.values[tensor] = Value(self.input(path, tensor, "param", layers), False)

    def state(self, declaration: p.StateDecl, stars: Mapping[int, Layer] | None = None) -> None:
        tensor = declaration.tensor
        path, layers = self.starred(tensor.name, stars)
        self.unit.states.setdefault(path, declaration)
        self.state_paths[tensor] = path
        # a layer that is called again goes on from its last update
        value = self.unit.updates.get(path) or self.input(path, tensor, "state", layers)
        self.values[tensor] = Value(value, False)

    def starred(self, name: str, stars: Mapping[int, Layer] | None) -> tuple[str, tuple[Layer, ...]]:
        """A path with stars for the numbers of layers, and those layers."""
        parts = name.split(".")
        for place in stars or ():
            parts[place] = "*"
        own = tuple(stars[k] for k in sorted(stars)) if stars else ()
        return self.path + ".".join(parts), (*self.path_layers, *own)

    def input(
        self, path: str, tensor: p.Tensor, role: str = "param", layers: tuple[Layer, ...] | None = None
    ) -> ir.Tensor:
        """An input of the program; one that holds a value for each layer is read at the layers around."""
        around = self.path_layers if layers is None else layers
        if path not in self.unit.inputs:
            shape = (*(layer.count for layer in around), *tensor.shape)
            self.unit.inputs[path] = ir.intern(ir.Input(path, role, tensor.dtype, shape))
            if around:
                self.unit.layers[path] = tuple((layer.first, layer.count) for layer in around)
        made = self.unit.inputs[path]
        if not around:
            return made
        places = tuple(ir.intern(ir.At(layer.step)) for layer in around)
        rest = tuple(ir.plain(i) for i in range(len(tensor.shape)))
        return ir.comp(tensor.shape, ir.read(made, (*places, *rest)), name=self.named(tensor.name.split(".")[0]))

    def define(self, tensor: p.Tensor, value: ir.Tensor) -> None:
        self.set(tensor, Value(value, bool(self.mapped)))

    def set(self, tensor: p.Tensor, value: Value) -> None:
        if tensor in self.sources:
            x = value.tensor
            part = ir.Part(ir.intern(ir.Custom((x,), (x,), ir.Apart())), 0, x.dtype, x.shape, tensor.name)
            self.apart[part] = x
            value = Value(part, value.lifted)
        self.values[tensor] = value

    # ---- statements

    def statements(self, body: Sequence[p.Stmt]) -> None:
        for statement in body:
            match statement:
                case p.Define():
                    self.define_statement(statement)
                case p.Scatter():
                    self.scatter(statement)
                case p.AlongAxis():
                    self.along(statement)
                case p.Join():
                    self.join(statement)
                case p.CallFunction():
                    self.call(statement)
                case p.External():
                    self.external(statement)
                case p.Derivative():
                    self.derivative(statement)
                case p.UpdateState():
                    path = self.state_paths.get(statement.state, self.path + statement.state.name)
                    self.unit.updates[path] = self.tensor(statement.value)
                case p.Scan():
                    self.scan(statement)
                case p.Modes():
                    self.statements(statement.training if self.mode == "training" else statement.inference)
                    for after, training, inference in statement.joined:
                        chosen = training if self.mode == "training" else inference
                        value = self.values[chosen]
                        self.set(after, Value(_cast(value.tensor, after.dtype), value.lifted))
                case p.Remat():
                    self.remat(statement)
                case p.Loop():
                    self.loop(statement)

    def define_statement(self, node: p.Define) -> None:
        indices = [i for axis in node.axes for i in axis]
        lift = len(self.mapped)
        flat = [i for i in indices if i not in self.scan_steps]
        env: dict[p.Index, Place] = {**self.scan_steps, **{i: lift + k for k, i in enumerate(flat)}}
        sizes = (*self.mapped, *(size_of(i) for i in flat))
        body = self.scalar(node.value, env)
        name = self.named(node.tensor.name)
        # a value of 16 bits rounds where it is named
        rounds = node.tensor.dtype in ("f16", "bf16") and isinstance(body, ir.Op) and body.name != "cast"
        if rounds or not alike(body.dtype, node.tensor.dtype):
            body = ir.op("cast", (body,), node.tensor.dtype)
        if isinstance(body, ir.Read):
            self.rename(body.tensor, name)
        value = ir.comp(sizes, body, span=node.span)
        note(value, [*("" for _ in range(lift)), *(i.name for i in flat)])
        if any(len(axis) != 1 for axis in node.axes):
            shape = (*self.mapped, *node.tensor.shape)
            value = ir.intern(ir.Reshape(value, shape, value.dtype, span=node.span))
        self.rename(value, name)
        self.define(node.tensor, value)

    def rename(self, value: ir.Tensor, name: str) -> None:
        """A value that several names stand for has the outermost one. Names are no part of what a node is."""
        if isinstance(value, ir.Comp | ir.Scatter | ir.Reshape | ir.Part):
            if not value.name or (value.name != name and self.depth < self.unit.depths.get(value, -1)):
                self.unit.names.value(value, name, self.called)
            self.unit.depths[value] = min(self.depth, self.unit.depths.get(value, self.depth))

    def scatter(self, node: p.Scatter) -> None:
        lift = len(self.mapped)
        env: dict[p.Index, Place] = {**self.scan_steps, **{i: lift + k for k, i in enumerate(node.indices)}}
        ranges = (*self.mapped, *(size_of(i) for i in node.indices))
        places = (*(ir.plain(k) for k in range(lift)), *(self.place(x, env) for x in node.positions))
        body = ir.cast(self.scalar(node.value, env), node.tensor.dtype)
        base = None if node.base is None else _cast(self.tensor(node.base), node.tensor.dtype)
        shape, dtype, name = (*self.mapped, *node.tensor.shape), node.tensor.dtype, self.named(node.tensor.name)
        onto = base if node.op == "+" else None
        value: ir.Tensor = ir.intern(ir.Scatter(shape, ranges, places, node.op, body, onto, dtype, name, node.span))
        note(value, [*("" for _ in range(lift)), *(i.name for i in node.indices)])
        if base is not onto and base is not None:  # the largest of what was there and of what comes
            value = ir.comp(shape, ir.op(node.op, (ir.whole(base), ir.whole(value)), dtype), name=name, span=node.span)
        self.define(node.tensor, value)

    def along(self, node: p.AlongAxis) -> None:
        if node.op == "prefix":
            self.prefix(node)
            return
        args = tuple(self.tensor(a) for a in node.args)
        shapes = tuple((*self.mapped, *o.shape) for o in node.outputs)
        dtypes = tuple(o.dtype for o in node.outputs)
        made = ir.intern(ir.Along(node.op, args, len(self.mapped) + node.axis, shapes, dtypes, span=node.span))
        for number, output in enumerate(node.outputs):
            part = ir.Part(made, number, output.dtype, shapes[number], self.named(output.name), node.span)
            self.define_operation(output, ir.intern(part))

    def prefix(self, node: p.AlongAxis) -> None:
        """All prefixes of an associative function: y[0] = x[0], y[t] = f(y[t-1], x[t])."""
        assert node.function is not None
        number = ir.fresh_number()
        step = ir.intern(ir.Step("number", number, 0, "i64", ()))
        args = [_cast(self.tensor(a), o.dtype) for a, o in zip(node.args, node.outputs, strict=True)]
        axis = len(self.mapped) + node.axis
        length = args[0].shape[axis]
        later = node.function.inputs[len(args) :]
        names = [self.named(f"prefix_{x.name}") for x in node.function.outputs]
        now: list[ir.Tensor] = []
        before: list[ir.Tensor] = []
        for k, x in enumerate(args):
            shape = (*x.shape[:axis], *x.shape[axis + 1 :])
            places: list[ir.Place] = [ir.plain(i) for i in range(len(shape))]
            places.insert(axis, ir.intern(ir.At(step)))
            now.append(ir.comp(shape, ir.read(x, tuple(places)), name=self.named(later[k].name)))
            before.append(ir.intern(ir.Step("carry", number, k, x.dtype, shape, names[k])))
        inner = self.child(self.path, now[0].shape[:axis])
        inner.in_scan = True
        values = inner.instance(node.function, [Value(x, bool(inner.mapped)) for x in (*before, *now)])
        first = ir.op("==", (ir.read(step, ()), ir.const(0, "i64")), "bool")
        after = tuple(
            ir.comp(x.shape, ir.op("select", (first, ir.whole(x), ir.whole(v)), x.dtype), name=name)
            for x, v, name in zip(now, values, names, strict=True)
        )
        starts = tuple(ir.comp(x.shape, zero(x.dtype)) for x in now)
        made = ir.intern(ir.Scan(number, length, False, starts, after, after, span=node.span))
        for k, (output, x) in enumerate(zip(node.outputs, now, strict=True)):
            stacked = part_of(made, k, self.named(output.name), node.span)
            shape = (*x.shape[:axis], length, *x.shape[axis:])
            rest = [ir.plain(i) for i in range(len(shape)) if i != axis]
            self.define(output, ir.comp(shape, ir.read(stacked, (ir.plain(axis), *rest)), name=self.named(output.name)))

    def join(self, node: p.Join) -> None:
        """Each argument is read at a shifted position, zero outside: their sum is the joined tensor."""
        shape = (*self.mapped, *node.output.shape)
        axis = len(self.mapped) + node.axis
        dtype = node.output.dtype
        total: ir.Scalar | None = None
        start: Size = 0
        for argument in node.args:
            tensor = self.tensor(argument)
            size = tensor.shape[axis]
            places = tuple(ir.affine(((i, 1),), tidy(-start)) if i == axis else ir.plain(i) for i in range(len(shape)))
            part: ir.Scalar = ir.read(tensor, places, zero(tensor.dtype))
            if tensor.dtype != dtype:
                part = ir.cast(part, dtype)
            total = part if total is None else ir.op("or" if dtype == "bool" else "+", (total, part), dtype)
            start = tidy(start + size)
        assert total is not None
        self.define(node.output, ir.comp(shape, total, name=self.named(node.output.name), span=node.span))

    def call(self, node: p.CallFunction) -> None:
        outer = self.mapped
        inner_sizes = node.outputs[0].shape[: node.mapped]
        args: list[Value] = []
        mapped = (*outer, *inner_sizes)
        for argument, lifted in zip(node.args, node.lifted, strict=True):
            value = self.values[argument]
            if lifted and node.mapped:
                args.append(Value(self.tensor(argument), True))
            elif value.lifted and node.mapped:
                args.append(Value(self.spread(value.tensor, len(outer), inner_sizes), True))
            else:
                args.append(value)
        path, layers = self.starred(node.path, self.stars.get(node))
        if node.shared is not None:
            outer_path, layers = self.shared[node.shared]
            path = outer_path + node.path
        inner = self.child(f"{path}." if node.path else self.path, mapped, node.frozen)
        inner.path_layers = layers
        named_here = dict.fromkeys(node.passed, (self.path, self.path_layers))
        inner.shared = {**named_here, **self.shared}
        inner.calls = self.next_call(node)
        if node.instance.word == "model":
            inner.label, inner.depth = self.label, self.depth
        else:
            again = self.call_counts[node.instance.name] if not node.path else 1
            own = node.instance.name if again == 1 else f"{node.instance.name}{again}"
            inner.label = self.unit.names.label(path if node.path else self.path + own)
            self.called = inner.label if node.path else self.called
        exposed = set(self.unit.outputs)
        outputs = inner.instance(node.instance, args)
        if node.instance.backward is not None:
            outputs = self.custom(node, inner, outputs)
        for output, result in zip(node.outputs, outputs, strict=True):
            self.define(output, result)
        if node.instance.word == "model" and not mapped:
            given = [self.unit.inputs.get(x.name) for x in node.instance.inputs]
            if all(value.tensor is x for value, x in zip(args, given, strict=True)):
                found = {k: x for k, x in self.unit.outputs.items() if k not in exposed}
                found.update(zip((x.name for x in node.instance.outputs), outputs, strict=True))
                self.unit.model_calls.append(found)

    def child(self, path: str, mapped: tuple[Size, ...], frozen: bool = False) -> Builder:
        """A builder for an instance that is called here."""
        inner = Builder(self.unit, self.mode, path, mapped, self.frozen or frozen)
        inner.scan_steps = self.scan_steps
        inner.apart = self.apart
        inner.fixed = self.fixed
        inner.path_layers = self.path_layers
        inner.in_scan = self.in_scan
        inner.label, inner.depth = self.label, self.depth + 1
        return inner

    def next_call(self, node: p.CallFunction) -> str:
        name = node.path or node.instance.name
        count = self.call_counts[name] = self.call_counts.get(name, 0) + 1
        return f"{self.calls}{name}." if count == 1 else f"{self.calls}{name}*{count}."

    def spread(self, tensor: ir.Tensor, lead: int, sizes: tuple[Size, ...]) -> ir.Tensor:
        """Put mapped axes between the leading ones and the rest."""
        count = len(sizes)
        shape = (*tensor.shape[:lead], *sizes, *tensor.shape[lead:])
        places = tuple(ir.plain(i if i < lead else i + count) for i in range(len(tensor.shape)))
        return ir.comp(shape, ir.read(tensor, places), name=tensor.name)

    def custom(self, node: p.CallFunction, inner: Builder, outputs: list[ir.Tensor]) -> list[ir.Tensor]:
        """A function with a derivative by hand."""
        tensors = tuple(inner.tensor(x) for x in node.instance.inputs)
        rule = CustomRule(node.instance, inner)
        made = ir.intern(ir.Custom(tensors, tuple(outputs), rule))
        return [ir.intern(ir.Part(made, i, o.dtype, o.shape, o.name, node.span)) for i, o in enumerate(outputs)]

    def external(self, node: p.External) -> None:
        shapes = tuple((*self.mapped, *o.shape) for o in node.outputs)
        dtypes = tuple(o.dtype for o in node.outputs)
        args = tuple(_cast(self.tensor(a), dtypes[0]) for a in node.args)
        made = ir.intern(ir.External(node.op, args, len(self.mapped) + node.mapped, shapes, dtypes, span=node.span))
        for number, output in enumerate(node.outputs):
            part = ir.Part(made, number, output.dtype, shapes[number], self.named(output.name), node.span)
            self.define_operation(output, ir.intern(part))

    def define_operation(self, tensor: p.Tensor, value: ir.Tensor) -> None:
        """A value that is called after an operation; the name of the statement that it stands in is the better one."""
        self.define(tensor, value)
        self.unit.depths.setdefault(value, self.depth + 1)

    def derivative(self, node: p.Derivative) -> None:
        """Derivatives inside a spec; over mapped axes each element has its own."""
        of, wrt = self.tensor(node.of), self.values[node.wrt]
        if self.mapped and not wrt.lifted and node.direction is not None:
            raise Refusal(f"`{node.kind}` by a value that all elements share, in a function that is mapped,", node.span)
        direction = None if node.direction is None else self.tensor(node.direction)
        made = derivative(node.kind, of, wrt.tensor, direction, len(self.mapped), not wrt.lifted)
        self.define_operation(node.output, made)

    def scan(self, node: p.Scan) -> None:
        """The body is built for one step; earlier steps of a sequence are carried values."""
        number = ir.fresh_number()
        step = ir.intern(ir.Step("number", number, 0, "i64", (), node.index.name))
        lags = _lags(node)
        sequences: dict[p.Tensor, CarriedSequence] = {}
        starts: list[ir.Tensor] = []
        for carried in node.carried:
            shape = tuple(s for a, s in enumerate(carried.tensor.shape) if a != carried.axis)
            full = (*self.mapped, *shape)
            sequence = CarriedSequence(carried.axis, node.reversed)
            for _ in range(lags.get(carried.tensor, 0)):
                assert carried.start is not None
                carry = ir.Step("carry", number, len(starts), carried.tensor.dtype, full, carried.tensor.name)
                sequence.carries.append(ir.intern(carry))
                start = self.tensor(carried.start)
                if start.dtype != carried.tensor.dtype:
                    body = ir.cast(ir.whole(start), carried.tensor.dtype)
                    start = ir.comp(start.shape, body, name=start.name)
                starts.append(start)
            sequences[carried.tensor] = sequence
        outer_steps, outer_sequences, outer = self.scan_steps, self.sequences, self.in_scan
        self.scan_steps = {**outer_steps, node.index: step}
        self.sequences = {**outer_sequences, **sequences}
        self.in_scan = True
        self.statements(node.body)
        self.in_scan = outer
        carries: list[ir.Tensor] = []
        results: list[ir.Tensor] = []
        for carried in node.carried:
            now = self.tensor(carried.tensor)
            previous = sequences[carried.tensor].carries
            carries += [now, *previous[:-1]] if previous else []
            results.append(now)
        self.scan_steps, self.sequences = outer_steps, outer_sequences
        length = size_of(node.index)
        made = ir.intern(
            ir.Scan(number, length, node.reversed, tuple(starts), tuple(carries), tuple(results), span=node.span)
        )
        lead = len(self.mapped)
        for k, (carried, result) in enumerate(zip(node.carried, results, strict=True)):
            stacked = part_of(made, k, self.named(carried.tensor.name), node.span)
            axis = lead + carried.axis
            shape = (*result.shape[:axis], length, *result.shape[axis:])
            places = [ir.plain(i) for i in range(len(shape)) if i != axis]
            self.define(
                carried.tensor,
                ir.comp(shape, ir.read(stacked, (ir.plain(axis), *places)), name=carried.tensor.name, span=node.span),
            )

    def loop(self, node: p.Loop) -> None:
        """Passes one after the other, or, when they are equal, one pass as the step of a scan over the layers."""
        count, rest = self.rest.get(node, (len(node.passes), None))
        for body in node.passes[:count]:
            self.statements(body)
        if rest is not None:
            self.layers(rest, self.layered[rest])

    def layers(self, node: p.Loop, layers: Layers) -> None:
        """Equal passes as one scan."""
        number = ir.fresh_number()
        step = ir.intern(ir.Step("number", number, 0, "i64", (), node.name))
        layer = Layer(step, node.first, len(node.passes))
        starts = tuple(self.tensor(first) for first, _ in layers.carried)
        pairs = zip(layers.carried, starts, strict=True)
        dtypes = [left.dtype if alike(left.dtype, start.dtype) else start.dtype for (_, left), start in pairs]
        outer_values, outer_steps, outer_updates = dict(self.values), self.scan_steps, dict(self.unit.updates)
        self.scan_steps = {**outer_steps, p.Index(node.name, layer.count): step}
        for k, ((first, _), start) in enumerate(zip(layers.carried, starts, strict=True)):
            carry = ir.intern(ir.Step("carry", number, k, dtypes[k], start.shape, self.named(first.name)))
            self.values[first] = Value(carry, bool(self.mapped))
        for call, place in layers.calls.items():
            self.stars.setdefault(call, {})[place] = layer
        for tensor, place in layers.declared.items():
            declaration = self.declarations[tensor]
            stars = {**self.tensor_stars.get(tensor, {}), place: layer}
            self.tensor_stars[tensor] = stars
            if isinstance(declaration, p.ParamDecl):
                self.parameter(declaration, stars)
            else:
                self.state(declaration, stars)
        self.statements(node.passes[0])
        carries = tuple(_cast(self.tensor(left), x) for (_, left), x in zip(layers.carried, dtypes, strict=True))
        left_over = [left for _, left in layers.carried]
        stacked = [(first, last) for first, last in layers.after if first not in left_over]
        updated = {k: v for k, v in self.unit.updates.items() if outer_updates.get(k) is not v}
        results = (*(self.tensor(first) for first, _ in stacked), *updated.values())
        made = ir.intern(ir.Scan(number, layer.count, False, starts, carries, results, "layers", node.span))
        self.values, self.scan_steps = outer_values, outer_steps
        for k, (_, last) in enumerate(stacked):
            x = results[k]
            whole = part_of(made, k, self.named(last.name))
            places = (ir.affine((), layer.count - 1), *(ir.plain(i) for i in range(len(x.shape))))
            self.define(last, ir.comp(x.shape, ir.read(whole, places), name=self.named(last.name)))
        for k, (path, x) in enumerate(updated.items(), len(stacked)):
            self.unit.updates[path] = part_of(made, k, getattr(x, "name", ""))
        for first, last in layers.after:
            if first in left_over:
                self.define(last, part_of(made, len(results) + left_over.index(first), self.named(last.name)))

    def remat(self, node: p.Remat) -> None:
        """What a `checkpoint:` defines is one node with the values that are used outside of it."""
        before = {v.tensor for v in self.values.values()}
        self.statements(node.body)
        inside = Counter(tensors_of(node.body))
        used = [x for x in defined(node.body) if self.mentions[x] > inside[x] and is_float(x.dtype)]
        values = [self.tensor(x) for x in used]
        args = _frontier(values, before)
        made = ir.intern(ir.Custom(tuple(args), tuple(values), ir.Recompute()))
        for k, (tensor, x) in enumerate(zip(used, values, strict=True)):
            self.define(tensor, ir.intern(ir.Part(made, k, x.dtype, x.shape, self.named(tensor.name), node.span)))


@dataclass(eq=False)
class CustomRule:
    """The derivative that a function gives for itself."""

    instance: p.Instance
    builder: Builder

    def __call__(self, cotangents: Sequence[ir.Tensor]) -> dict[int, ir.Tensor]:
        backward = self.instance.backward
        assert backward is not None
        lifted = bool(self.builder.mapped)
        for tensor, value in zip(backward.cotangents, cotangents, strict=True):
            self.builder.values[tensor] = Value(value, lifted)
        self.builder.statements(backward.body)
        floats = [k for k, x in enumerate(self.instance.inputs) if is_float(x.dtype)]
        return {k: self.builder.tensor(a) for k, a in zip(floats, backward.adjoints, strict=True)}


def _cast(x: ir.Tensor, dtype: str) -> ir.Tensor:
    return x if alike(x.dtype, dtype) else ir.comp(x.shape, ir.op("cast", (ir.whole(x),), dtype), name=x.name)


def _frontier(values: Sequence[ir.Tensor], known: set[ir.Tensor]) -> list[ir.Tensor]:
    """What values are computed from: known tensors, inputs, and slices of inputs."""
    found: dict[ir.Tensor, None] = {}
    seen: set[ir.Node] = set()
    stack: list[ir.Node] = list(reversed(values))
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node in known or isinstance(node, ir.Input | ir.Step) or ir.slice_of_input(node):
            if not (isinstance(node, ir.Step) and node.kind == "number"):
                found[node] = None  # type: ignore[index]
        else:
            stack.extend(reversed(ir.arguments(node)))
    return list(found)


def _lags(node: p.Scan) -> dict[p.Tensor, int]:
    """How many steps back each sequence of a scan is read."""
    axes = {c.tensor: c.axis for c in node.carried}
    lags: dict[p.Tensor, int] = {}
    for e in every_expression(node.body):
        if isinstance(e, p.Read) and e.tensor in axes:
            where = e.positions[axes[e.tensor]]
            assert isinstance(where, p.Affine) and isinstance(where.offset, int)
            lag = where.offset if node.reversed else -where.offset
            lags[e.tensor] = max(lags.get(e.tensor, 0), lag)
    return lags
