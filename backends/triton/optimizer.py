"""The optimiser as one kernel over the entries of all parameters, and the training step around it.

The kernel finds its tensors in a table of whole numbers: a row of addresses for each kind of tensor (parameters,
gradients, slots), then a row with the number of the first program of each parameter, and one with its length.
"""

from __future__ import annotations

from dataclasses import dataclass

from dslc.backends.triton.body import Axis, Body
from dslc.backends.triton.kernels import uncast
from dslc.backends.triton.numbers import number
from dslc.backends.triton.params import in_one_dtype
from dslc.backends.triton.registry import Registry, wrapped
from dslc.backends.triton.text import HALF, Text, argument

from dslc import long_lines
from dslc.builder.statements import Builder
from dslc.builder.unit import Unit, Value
from dslc.check import program as p
from dslc.check.dependence import tensors_in
from dslc.ir import nodes as ir
from dslc.ir.interning import within
from dslc.ir.rewrite import Put
from dslc.pipeline import trained
from dslc.program import Program, Update
from dslc.sizes import symbol

#: entries of a parameter that one program updates, and of which one adds up the squares
UPDATE_BLOCK, NORM_BLOCK = 1024, 4096

LOSS_AND_GRAD = '''
def loss_and_grad(params, *inputs, **options):
    """The loss of a batch and its gradients by parameter."""
    loss, grads, _, _ = loss_grad_metrics(params, *inputs, **options)
    return loss, grads
'''

NORM = f'''
def gradient_norm(grads):
    """The length of the whole gradient."""
    device = next(iter(grads.values())).device
    table, programs = addresses({NORM_BLOCK}, grads, grads)
    parts = torch.empty((programs,), dtype=FLOAT, device=device)
    norm = torch.empty((), dtype=FLOAT, device=device)
    squares[(programs,)](table, parts, len(grads), TENSORS=triton.next_power_of_2(len(grads)), BLOCK={NORM_BLOCK})
    length[(1,)](parts, norm, programs, BLOCK=1024)
    return norm
'''

ADDRESSES = '''
def addresses(block, order, *kinds):
    """Where the tensors of an update are: addresses by kind, the first program of each tensor, its length."""
    first, firsts, lengths = 0, [], [kinds[0][name].numel() for name in order]
    for length in lengths:
        firsts.append(first)
        first += triton.cdiv(length, block)
    rows = [[kind[name].data_ptr() for name in order] for kind in kinds]
    device = kinds[0][next(iter(order))].device
    return torch.as_tensor([*rows, firsts, lengths], dtype=torch.int64, device=device), first
'''


def whole_body(root: ir.Tensor) -> ir.Scalar:
    """The formula of a number with all numbers that it is made of put in."""
    done: dict[ir.Node, ir.Scalar] = {}

    def put(s: ir.Read) -> ir.Scalar:
        return Put(dict(enumerate(s.places))).scalar(done[s.tensor]) if s.tensor in done else s

    for node in ir.schedule((root,)):
        if isinstance(node, ir.Comp):
            done[node] = ir.with_reads(node.body, put)
    return done[root] if root in done else ir.whole(root)


@dataclass(frozen=True)
class Formulas:
    """One step of an optimiser as formulas of the entries of a parameter, its gradient and its slots."""

    kernel: str
    nodes: dict[str, ir.Input]
    bodies: dict[str, ir.Scalar]
    #: what there is an entry of for each entry of a parameter
    vectors: list[str]

    def reads(self) -> set[str]:
        """The names of what the formulas read."""
        return {s.tensor.name for b in self.bodies.values() for s in ir.scalars(b) if isinstance(s, ir.Read)}


def formulas_of(optimizer: p.Instance, update: Update) -> Formulas:
    bodies = {name: whole_body(node) for name, node in update.written.items()}
    nodes = {**update.inputs, **update.slots}
    return Formulas(f"{optimizer.name}_kernel", nodes, bodies, ["param", "grad", *update.slots])


def optimizer_functions(registry: Registry, program: Program, unit: Unit, random: bool) -> list[str]:
    train, optimizer, update = program.train, program.optimizer, program.update
    assert train is not None and optimizer is not None and update is not None
    with within(update.table):
        return update_functions(registry, train, optimizer, update, unit, random)


def update_functions(
    registry: Registry, train: p.TrainProgram, optimizer: p.Instance, update: Update, unit: Unit, random: bool
) -> list[str]:
    formulas = formulas_of(optimizer, update)
    nodes, slots = formulas.nodes, list(update.slots)
    hyper = hyper_parameters(train, optimizer)
    kernel, arguments = update_kernel(registry, formulas, hyper)
    used_norm = "grad_norm_ptr" in kernel
    if used_norm:
        registry.helpers |= {"squares", "length"}
    registry.texts[formulas.kernel] = kernel
    inputs = [argument(n) for n, x in unit.inputs.items() if x.role == "input"]
    step = [f"def train_step({', '.join(['params', 'opt', *inputs])}):"]
    step.append('    """Loss, gradients and update in one, in place; `opt` also carries the loss and the metrics."""')
    call = ["params", *inputs]
    if unit.states:
        call.append('opt["state"]')
    if random:
        call.append('seed=opt["seed"] + opt["step"] + 1')
    step += wrapped('opt["loss"], grads, opt["metrics"], state = loss_grad_metrics(', call, ")", "    ")
    if unit.states:
        step.append('    opt["state"].update(state)')
    step.append("    return update(params, opt, grads)")
    given = ["def update(params, opt, grads):"]
    given.append('    """One step of the optimiser, in place, by gradients that are given by name."""')
    half = registry.dtype in HALF
    if unit.params:
        held = "FLOAT" if half else "DTYPE"
        kept_slots = [*(["param"] if half else []), *(s.tensor.name for s in optimizer.states)]
        given += [f'    fitting(opt.get("{s}"), PARAMS, {held}, "opt.{s}.")' for s in kept_slots]
    if train.wrt:
        given.append(
            "    grads = {name: grad for name, grad in grads.items() if name in params}  # those by inputs are none"
        )
    if unit.params and not half:
        given.append('    fitting(grads, {name: PARAMS[name] for name in PARAMS if name in grads}, DTYPE, "grads.")')
    given.append('    step = opt["step"] = opt["step"] + 1')
    if not trained(unit, train):
        given += ["    if not grads:  # no parameter is trained", "        return params, opt"]
    if used_norm:
        given.append("    norm = gradient_norm(grads)")
    kinds = ["params", *(['opt["param"]'] if half else []), "grads", *(f'opt["{s}"]' for s in slots)]
    given.append(f"    table, programs = addresses({UPDATE_BLOCK}, grads, {', '.join(kinds)})")
    launch = ["table", *(["norm"] if used_norm else []), *arguments, "len(grads)"]
    launch += ["TENSORS=triton.next_power_of_2(len(grads))", f"BLOCK={UPDATE_BLOCK}"]
    given += wrapped(f"{formulas.kernel}[(programs,)](", launch, ")", "    ")
    given.append("    return params, opt")
    start = ["def init_opt(params, seed=0):", '    """The optimiser before its first step."""']
    start += ["    fitting(params, PARAMS, DTYPE)"] if unit.params else []
    start.append("    return {")
    start += ['        "step": 0,', '        "seed": seed,']
    if half:
        start.append("        # parameters as the update sees them: small steps would be lost in 16 bits")
        start.append('        "param": {name: value.to(FLOAT) for name, value in params.items()},')
    names: dict[ir.Node, str] = {nodes[t.name]: hyper.get(t.name, t.name) for t in optimizer.inputs}
    for state in optimizer.states:
        value = number(update.starts[state.tensor.name], names, nodes["param"])
        kept = ", dtype=FLOAT" if half else ""
        made = f"torch.zeros_like(value{kept})" if value in ("0", "0.0") else f"torch.full_like(value, {value}{kept})"
        start.append(f'        "{state.tensor.name}": {{name: {made} for name, value in params.items()}},')
    if unit.states:
        start.append(
            '        "state": init_state(next(iter(params.values())).device),'
            if unit.params
            else '        "state": init_state(),'
        )
    start.append("    }")
    blocks = ["\n".join(start), LOSS_AND_GRAD.strip(), ADDRESSES.strip()]
    if used_norm:
        blocks.append(NORM.strip() if half else in_one_dtype(NORM.strip()))
    return [*blocks, "\n".join(given), "\n".join(step)]


def argument_name(s: ir.Scalar) -> str:
    """What a number is called that the host computes of hyper-parameters and the step.

    `1 - beta1` is the rest of `beta1`, `1 - beta1^step` the correction of a mean that began as 0.
    """
    names = [x.tensor.name for x in ir.scalars(s) if isinstance(x, ir.Read) and x.tensor.name]
    if isinstance(s, ir.Read) or not names:
        return names[0] if names else "factor"
    name = next((x for x in names if x != "step"), "step")
    first = uncast(s.args[0]) if isinstance(s, ir.Op) and s.name == "-" else None
    if isinstance(first, ir.Const) and first.value == 1:
        return f"correction_of_{name}" if "step" in names else f"rest_of_{name}"
    return f"factor_of_{name}"


def hyper_parameters(train: p.TrainProgram, optimizer: p.Instance) -> dict[str, str]:
    """What each hyper-parameter is on the host; it may depend on the number of the step."""
    found = {}
    for tensor in optimizer.inputs:
        if tensor.name in ("param", "grad", "step", "grad_norm"):
            continue
        given = train.optimizer_args.get(tensor.name)
        if given is None:
            found[tensor.name] = repr(getattr(optimizer.statics[tensor.name], "value", None))
            continue
        builder = Builder(Unit(), "training")
        names: dict[ir.Node, str] = {}
        for t in tensors_in([given]):
            node = ir.intern(ir.Input(t.name, "input", t.dtype, ()))
            builder.values[t] = Value(node, False)
            names[node] = t.name
        text = number(builder.scalar(given, {}), names, ir.intern(ir.Input("step", "input", "i64", ())))
        found[tensor.name] = text if text.replace(".", "").replace("e-", "").isalnum() else f"({text})"
    return found


def update_kernel(registry: Registry, formulas: Formulas, hyper: dict[str, str]) -> tuple[str, list[str]]:
    """The kernel of one step, and the host's values of its numbers."""
    nodes, bodies, vectors = formulas.nodes, formulas.bodies, formulas.vectors
    body = Body(registry.dtype, nodes["param"])
    body.taken |= {
        "table",
        "tensor",
        "tensors",
        "first",
        "i",
        "inside",
        "BLOCK",
        "TENSORS",
        *(f"{v}_at" for v in vectors),
    }
    local = {v: body.fresh(v) for v in vectors}  # a slot may be called `tl`
    tensors = {nodes[v] for v in vectors} | ({nodes["grad_norm"]} if "grad_norm" in nodes else set())
    names: dict[ir.Node, str] = {nodes[n]: text for n, text in hyper.items()}
    if "step" in nodes:
        names[nodes["step"]] = "step"
    body.axes = [Axis(0, "i", (0,), (symbol("count"),))]
    arguments: dict[str, str] = {}
    plain: dict[ir.Scalar, bool] = {}
    order = [s for b in bodies.values() for s in ir.scalars(b)]
    for s in order:
        own = isinstance(s, ir.Read) and s.tensor not in tensors
        below = ir.operands(s)
        plain[s] = own or (
            isinstance(s, ir.Op)
            and all(plain[x] or isinstance(x, ir.Const) for x in below)
            and any(plain[x] for x in below)
        )
    tops = {x for s in order if not plain[s] for x in ir.operands(s) if plain[x]} | {
        b for b in bodies.values() if plain[b]
    }
    casts = []
    put: dict[ir.Scalar, ir.Scalar] = {}
    for s in order:
        if s in put:
            continue
        if s in tops:
            name = body.fresh(argument_name(s))
            arguments[name] = number(s, names, nodes["param"])
            given = ir.intern(ir.Input(f"argument {name}", "input", s.dtype, ()))
            body.values[given] = Text(name)
            casts.append(f"{name} = tl.cast({name}, {body.float_type})")
            put[s] = ir.read(given, ())
        else:
            put[s] = ir.rebuild(s, lambda x: put[x])
    bodies = {name: put[formula] for name, formula in bodies.items()}
    body.count(list(bodies.values()))
    body.formulas.wishes = {formula: f"{name}_next" for name, formula in bodies.items()}
    guard = "mask=inside"
    loads = []
    used = {s.tensor for s in order if isinstance(s, ir.Read)}
    half = registry.dtype in HALF
    rows = ["param_kept", *vectors] if half else vectors
    for k, v in enumerate(rows):
        if v != "param_kept" and nodes[v] not in used and v not in bodies:
            continue
        kind = HALF[registry.dtype] if v == "param_kept" else body.float_type
        row = "table_ptr + tensor" if k == 0 else f"table_ptr + {f'{k} * ' if k > 1 else ''}tensors + tensor"
        loads.append(f"{v}_at = tl.load({row}).to(tl.pointer_type({kind})) + i")
    for v in vectors:
        body.values[nodes[v]] = Text(local[v], (0,))
        if nodes[v] in used:
            loads.append(f"{local[v]} = tl.load({v}_at, {guard}, other=0.0)")
    norm = "grad_norm" in nodes and nodes["grad_norm"] in used
    if norm:
        body.values[nodes["grad_norm"]] = Text("grad_norm")
        loads.append("grad_norm = tl.load(grad_norm_ptr)")
    stores = []
    for name, formula in bodies.items():
        value = body.scalar(formula)
        value = value if value.code.isidentifier() else body.named(f"{name}_next", value)
        stores.append(f"tl.store({name}_at, {value.code}, {guard})")
        if half and name == "param":
            stores.append(f"tl.store(param_kept_at, {value.code}, {guard})")
    pointers = ["table_ptr"] + (["grad_norm_ptr"] if norm else [])
    kind = ": tl.float64" if registry.dtype == "f64" else ""
    head = [*pointers, *(f"{a}{kind}" for a in arguments), "tensors: tl.int64"]
    head += ["TENSORS: tl.constexpr", "BLOCK: tl.constexpr"]
    same = ", ".join(f'"{a}"' for a in (*arguments, "tensors"))
    lines = long_lines.folded(f"@triton.jit(do_not_specialize=[{same}])")
    lines += wrapped(f"def {formulas.kernel}(", head, "):")
    lines.append('    """One step of the optimiser for a block of one of the parameters."""')
    inner = [
        *([] if kind else casts),
        f"tensor, i, inside = own_block(table_ptr, {len(rows)}, tensors, TENSORS, BLOCK)",
    ]
    inner += [*loads, *body.scopes[0].lines, *stores]
    registry.helpers |= {*body.helpers, "own_block"}
    float_kind = "fp64" if registry.dtype == "f64" else "fp32"
    signature = {a: "*i64" if a == "table_ptr" else f"*{float_kind}" for a in pointers}
    registry.about[formulas.kernel] = {
        "signature": signature | dict.fromkeys(arguments, float_kind) | {"tensors": "i64"},
        "blocks": {"TENSORS": 64, "BLOCK": UPDATE_BLOCK}, "warps": 4, "stages": 1, "lines": [],
    }  # fmt: skip
    return "\n".join([*lines, *(f"    {x}" for x in inner)]), list(arguments.values())
