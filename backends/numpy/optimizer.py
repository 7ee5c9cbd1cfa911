"""The update of one parameter, the optimiser before its first step, and the training step around them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dslc.backends.numpy.body import Body
from dslc.backends.numpy.function import ModuleText, commented
from dslc.backends.numpy.lower import Line
from dslc.backends.numpy.names import argument
from dslc.backends.numpy.statement import Lowering

from dslc.check import program as p
from dslc.check.dependence import tensors_in
from dslc.ir import nodes as ir
from dslc.ir.build import Builder, Unit, Value
from dslc.passes.factors import gather_factors

#: what a number that the optimiser reads or writes counts, in operations of a matrix product
UPDATE = 100


def optimizer_functions(text: ModuleText, train: p.TrainProgram, optimizer: p.Instance, unit: Unit) -> list[str]:
    """The update of one parameter, elementwise, and the training step around it."""
    own = Unit()
    builder = Builder(own, "training")
    low = Lowering(text.dtype)
    slots = [s.tensor.name for s in optimizer.states]
    local: dict[str, str] = {}  # what the function calls its arguments: a slot may be called `np`
    for tensor in optimizer.inputs:
        node = ir.intern(ir.Input(tensor.name, "input", tensor.dtype, tensor.shape))
        builder.values[tensor] = Value(node, False)
        local[tensor.name] = low.names[node] = low.fresh(tensor.name)
    arguments = list(local)
    for state in optimizer.states:
        tensor = state.tensor
        node = ir.intern(ir.Input(tensor.name, "state", tensor.dtype, tensor.shape))
        builder.values[tensor] = Value(node, False)
        local[tensor.name] = low.names[node] = low.fresh(tensor.name)
    builder.statements(optimizer.body)
    updates = {local[name]: x for name, x in gather_factors(own.updates).items()}
    arrays = {name: node for node, name in low.names.items() if name in [local[s] for s in ("param", *slots)]}
    low.memory.targets = {node: x for name, node in updates.items() if isinstance(x := arrays[name], ir.Input)}
    low.may_block = False
    low.run(list(updates.values()))
    text.used |= low.used
    for name, updated in updates.items():  # what was there before is wanted after it is overwritten
        code = low.tensor(updated)
        if code != name and code in arrays and isinstance(_viewed(updated, low.memory.targets), ir.Input):
            low.lines.insert(0, Line(f"{name}_next = {code}.copy()"))
            low.names[updated] = f"{name}_next"
    used = "\n".join(line.text for line in low.lines)
    needed = [
        "param",
        "grad",
        *(a for a in arguments if a not in ("param", "grad") and re.search(rf"\b{local[a]}\b", used)),
    ]
    lines = [f"def {optimizer.name}_update({', '.join(local[x] for x in ('param', 'grad', *slots, *needed[2:]))}):"]
    lines.append(
        '    """One step of the optimiser for one parameter: its new value and those of the slots, in place."""'
    )
    lines += commented(low.lines)
    for name, updated in updates.items():
        if low.tensor(updated) != name:
            lines.append(f"    {name}[...] = {low.tensor(updated)}")
    hyper = {}
    for tensor in optimizer.inputs:
        if tensor.name in ("param", "grad", "step", "grad_norm"):
            continue
        given = train.optimizer_args.get(tensor.name)
        hyper[tensor.name] = repr(_default(optimizer, tensor.name)) if given is None else _stepped(text, given)
    inputs = [argument(n) for n, x in unit.inputs.items() if x.role == "input"]
    step = ["@in_space"] if text.spacious else []
    step.append(f"def train_step({', '.join(['params', 'opt', *inputs, *(['*', 'space'] if text.spacious else [])])}):")
    step.append('    """Loss, gradients and update in one, in place; `opt` also carries the loss and the metrics."""')
    if unit.params:
        held = "FLOAT" if text.half else "DTYPE"
        kept_slots = [*(["param"] if text.half else []), *slots]
        step += [f'    fitting(opt.get("{s}"), PARAMS, {held}, "opt.{s}.")' for s in kept_slots]
    counted = "step" in needed or text.random or any(re.search(r"\bstep\b", x) for x in hyper.values())
    step.append(f'    {"step = " if counted else ""}opt["step"] = opt["step"] + 1')
    call = ["params", *inputs]
    if unit.states:
        call.append('opt["state"]')
    if text.random:
        call.append('seed=opt["seed"] + step')
    if text.spacious:
        call.append("space=space")
    target = "state" if unit.states else "_"
    step.append(f'    opt["loss"], grads, opt["metrics"], {target} = loss_grad_metrics({", ".join(call)})')
    if unit.states:
        step.append('    opt["state"].update(state)')
    if train.wrt:
        step.append(
            "    grads = {name: grad for name, grad in grads.items() if name in params}  # those by inputs are none"
        )
    if "grad_norm" in needed:
        step.append("    grad_norm = math.sqrt(sum(float(np.sum(np.square(g))) for g in grads.values()))")
    keywords = [
        f"{local[n]}={n if n in ('step', 'grad_norm') else hyper[n]}" for n in needed if n not in ("param", "grad")
    ]
    # a gradient may be a transposed view, and is only read; the others are written to in place
    first = 'opt["param"][name]' if text.half else "params[name]"
    flat = [first, "np.ascontiguousarray(grad)", *(f'opt["{s}"][name]' for s in slots)]
    names = ["param", "grad", *slots]
    step += ["    arrays = {", f"        name: ({', '.join(flat)})", "        for name, grad in grads.items()", "    }"]
    step.append("    flat = {name: [x.reshape(-1) for x in held] for name, held in arrays.items()}")
    step += ["", "    def update(name, part):"]
    step += [f"        {optimizer.name}_update({', '.join(['*(x[part] for x in flat[name])', *keywords])})", ""]
    pieces = f"for part in {low.helper('row_blocks')}(x.size, 1)"
    step.append(f"    parts = [(name, part) for name, (x, *_) in flat.items() {pieces}]")
    work = f"{UPDATE * (len(names) + len(slots) + 1)} * sum(x.size for x, *_ in flat.values())"
    step.append(f"    {low.helper('divide')}(update, parts, {work})")
    step.append("    for name, held in arrays.items():  # what lies in another order was copied")
    step.append("        for x, new in zip(held, flat[name]):")
    step += ["            if not x.flags.c_contiguous:", "                x[...] = new.reshape(x.shape)"]
    if text.half:
        step += ["    for name in grads:", '        params[name][...] = opt["param"][name]']
    text.used |= low.used
    step.append("    return params, opt")
    start = ["def init_opt(params, seed=0):", '    """The optimiser before its first step."""']
    start += ["    fitting(params, PARAMS, DTYPE)"] if unit.params else []
    start.append("    return {")
    start.append('        "step": 0,')
    start.append('        "seed": seed,')
    if text.half:
        start.append("        # parameters as the update sees them: small steps would be lost in 16 bits")
        start.append('        "param": {name: value.astype(FLOAT) for name, value in params.items()},')
    kept = ", FLOAT" if text.half else ""
    plain = Lowering(text.dtype)
    for tensor in optimizer.inputs:
        plain.names[builder.values[tensor].tensor] = hyper.get(tensor.name, tensor.name)
    starts = {s.tensor.name: Body(plain, ()).scalar(builder.scalar(s.value, {})).code for s in optimizer.states}
    for s in slots:
        value = starts[s]
        made = f"np.zeros_like(value{kept})" if value in ("0", "0.0") else f"np.full_like(value, {value}{kept})"
        start.append(f'        "{s}": {{name: {made} for name, value in params.items()}},')
    if unit.states:
        start.append('        "state": init_state(),')
    start.append("    }")
    grad = [
        "def loss_and_grad(params, *inputs, **options):",
        '    """The loss of a batch and its gradients by parameter."""',
    ]
    grad.append("    loss, grads, _, _ = loss_grad_metrics(params, *inputs, **options)")
    grad.append("    return loss, grads")
    return ["\n".join(x) for x in (lines, start, grad, step)]


def _viewed(node: ir.Node, overwriting: Mapping[ir.Node, ir.Input]) -> ir.Node:
    """The array or the new value of one that a value is only another name of."""
    while isinstance(node, ir.Comp) and node not in overwriting:
        node = next(s.tensor for s in ir.scalars(node.body) if isinstance(s, ir.Read))
    return node


def _default(optimizer: p.Instance, name: str) -> object:
    return getattr(optimizer.statics[name], "value", None)


def _stepped(text: ModuleText, given: p.Expr) -> str:
    """An argument of the optimiser, which may depend on the number of the step."""
    builder = Builder(Unit(), "training")
    low = Lowering(text.dtype)
    for tensor in tensors_in([given]):
        node = ir.intern(ir.Input(tensor.name, "input", tensor.dtype, ()))
        builder.values[tensor] = Value(node, False)
        low.names[node] = tensor.name
    return Body(low, ()).scalar(builder.scalar(given, {})).code
