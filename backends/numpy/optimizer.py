"""The update of one parameter, the optimiser before its first step, and the training step around them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from dslc.backends.numpy.body import NUMBER, Body
from dslc.backends.numpy.function import ModuleText, commented
from dslc.backends.numpy.names import argument
from dslc.backends.numpy.statement import Lowering
from dslc.backends.numpy.text import bare

from dslc.builder.statements import Builder
from dslc.builder.unit import Unit, Value
from dslc.check import program as p
from dslc.check.dependence import tensors_in
from dslc.ir import nodes as ir
from dslc.ir.interning import compilation, within
from dslc.program import Program, Update
from dslc.quoting import quoted


@dataclass
class InPlace(Lowering):
    """Text in which new values take the place of arguments, where nothing reads the old ones after that."""

    targets: dict[ir.Node, ir.Input] = field(default_factory=dict)

    def assign(self, node: ir.Node, code: str) -> None:
        target = self.targets.get(node)
        if target is None or not isinstance(node, ir.Comp) or isinstance(node.body, ir.Read | ir.Const):
            super().assign(node, code)
            return
        name = self.names[node] = self.names[target]
        match node.body:
            case ir.Op("+" | "-" as sign, (ir.Read(tensor), rest)) if tensor is target:
                code = bare(Body(self, node.shape).scalar(rest).code)
                self.line(f"{name} {sign}= {code}", "", node.span)
            case _:
                self.line(f"{name}[...] = {bare(code)}", "", node.span)


def is_number(code: str) -> bool:
    """Is a hyper-parameter the same in every step?"""
    return re.fullmatch(NUMBER, code) is not None


@dataclass
class OneParameter:
    """The update of one parameter as text."""

    body: list[str]
    #: what gradient, slots and hyper-parameters are called there
    local: dict[str, str]
    #: those of the hyper-parameters and numbers of the step that are read
    read: list[str]


def one_parameter(text: ModuleText, update: Update) -> OneParameter:
    """The update of one parameter, elementwise."""
    low = InPlace(text.dtype, {"params", "opt", "grads", "name"})
    own = {**update.inputs, **update.slots}
    local = {key: low.fresh(key) for key in own}  # a slot may be called `np`
    low.names = {node: local[key] for key, node in own.items()}
    results = list(update.updates.values())
    order = ir.schedule(tuple(results))
    read_last = {a: k for k, x in enumerate(order) for a in ir.arguments(x)}
    for key, x in update.updates.items():
        if x in order and read_last.get(own[key], -1) <= order.index(x) and results.count(x) == 1:
            low.targets[x] = own[key]
    low.run(results)
    text.used |= low.used
    body = commented(low.lines)
    late = {key: low.tensor(x) for key, x in update.updates.items() if low.tensor(x) != local[key]}
    changed = {local[key] for key in update.updates}
    held = [code for code in late.values() if code in changed]  # what was there before is wanted after that
    body[:0] = [f"    {code}_before = {code}.copy()" for code in dict.fromkeys(held)]
    body += [f"    {local[key]}[...] = {f'{code}_before' if code in held else code}" for key, code in late.items()]
    words = set(re.findall(r"\w+", "\n".join(body)))
    read = [k for k in update.inputs if k not in ("param", "grad") and local[k] in words]
    return OneParameter(body, local, read)


LOSS_AND_GRAD = [
    "def loss_and_grad(params, *inputs, **options):",
    '    """The loss of a batch and its gradients by parameter."""',
    "    return loss_grad_metrics(params, *inputs, **options)[:2]",
]


def optimizer_functions(text: ModuleText, program: Program, unit: Unit) -> list[str]:
    """`update` of one parameter, `init_opt`, `loss_and_grad` and `train_step`, where the spec has a training."""
    train, optimizer, update = program.train, program.optimizer, program.update
    if train is None or optimizer is None or update is None:
        return []
    with within(update.table):
        hyper = hyperparameters(text, train, optimizer)
        one = one_parameter(text, update)
        start = init_opt(text, update, hyper, unit)
    inputs = [argument(n) for n, x in unit.inputs.items() if x.role == "input"]
    step = [f"def train_step({', '.join(['params', 'opt', *inputs])}):"]
    step.append('    """Loss, gradients and update in one, in place; `opt` also carries the loss and the metrics."""')
    call = ["params", *inputs, *(['opt["state"]'] if unit.states else [])]
    call += ['seed=opt["seed"] + opt["step"] + 1'] if text.random else []
    target = "state" if unit.states else "_"
    step.append(f'    opt["loss"], grads, opt["metrics"], {target} = loss_grad_metrics({", ".join(call)})')
    step += ['    opt["state"].update(state)'] if unit.states else []
    step.append("    return update(params, opt, grads)")
    return ["\n".join(x) for x in (start, LOSS_AND_GRAD, update_of_all(text, train, update, unit, hyper, one), step)]


def update_of_all(
    text: ModuleText, train: p.TrainProgram, update: Update, unit: Unit, hyper: dict[str, str], one: OneParameter
) -> list[str]:
    """`update`: the step of the optimiser for all parameters, by gradients that are given."""
    usual = [f"{one.local[k]}={hyper[k]}" for k in one.read if is_number(hyper.get(k, ""))]
    lines = [f"def update({', '.join(['params', 'opt', 'grads', *usual])}):"]
    lines.append('    """One step of the optimiser, in place, by gradients that are given by name."""')
    slots = [*(["param"] if text.half else []), *update.slots]
    if unit.params:
        lines += [
            f'    fitting(opt.get("{s}"), PARAMS, {"FLOAT" if text.half else "DTYPE"}, "opt.{s}.")' for s in slots
        ]
    if train.wrt:
        lines.append(
            "    grads = {name: grad for name, grad in grads.items() if name in params}  # not those by inputs"
        )
    if unit.params and not text.half:
        lines.append('    fitting(grads, {name: PARAMS[name] for name in PARAMS if name in grads}, DTYPE, "grads.")')
    counted = "step" in one.read or any(re.search(r"\bstep\b", x) for x in hyper.values())
    lines.append(f'    {"step = " if counted else ""}opt["step"] = opt["step"] + 1')
    if "grad_norm" in one.read:
        lines.append("    grad_norm = math.sqrt(sum(float(np.sum(np.square(g))) for g in grads.values()))")
    given = {one.local[k]: hyper.get(k, k) for k in one.read if not is_number(hyper.get(k, ""))}
    for name, code in given.items():  # those that change with the step
        if name != code:  # a number of Python: one of NumPy would make arrays of float64
            lines.append(f"    {name} = {f'float({code})' if 'np.' in code else code}")
    arrays = {one.local["param"]: 'opt["param"][name]' if text.half else "params[name]"}
    arrays |= {one.local[s]: f'opt["{s}"][name]' for s in update.slots}
    lines.append(f"    for name, {one.local['grad']} in grads.items():")
    lines.append(f"        {', '.join(arrays)} = {', '.join(arrays.values())}")
    lines += [f"    {line}" for line in one.body]
    lines += [f"        params[name][...] = {one.local['param']}"] if text.half else []
    return [*lines, "    return params, opt"]


def init_opt(text: ModuleText, update: Update, hyper: dict[str, str], unit: Unit) -> list[str]:
    """The optimiser before its first step."""
    lines = ["def init_opt(params, seed=0):", '    """The optimiser before its first step."""']
    lines += ["    fitting(params, PARAMS, DTYPE)"] if unit.params else []
    entries, zeros, kept = ['"step": 0', '"seed": seed'], "", ", FLOAT" if text.half else ""
    if text.half:
        lines.append("    # parameters as the update sees them: small steps would be lost in 16 bits")
        lines.append(f"    wide = {{name: {text.wide('value')} for name, value in params.items()}}")
        entries.append('"param": wide')
    low = Lowering(text.dtype)
    low.names = {node: hyper.get(name, name) for name, node in update.inputs.items()}
    starts = {slot: Body(low, ()).scalar(value).code for slot, value in update.starts.items()}
    zero = [slot for slot, code in starts.items() if code in ("0", "0.0")]
    if len(zero) > 1:
        value = f"{{n: np.zeros_like(x{kept}) for n, x in params.items()}}"
        zeros = f" | {{slot: {value} for slot in ({', '.join(map(quoted, zero))})}}"
    for slot, code in starts.items():
        if len(zero) < 2 or slot not in zero:
            made = f"np.zeros_like(value{kept})" if slot in zero else f"np.full_like(value, {code}{kept})"
            entries.append(f'"{slot}": {{name: {made} for name, value in params.items()}}')
    entries += ['"state": init_state()'] if unit.states else []
    return [*lines, f"    return {{{', '.join(entries)}}}{zeros}"]


def hyperparameters(text: ModuleText, train: p.TrainProgram, optimizer: p.Instance) -> dict[str, str]:
    """The arguments of the optimiser as text, by name: as the training gives them, or as they are by default."""
    found: dict[str, str] = {}
    for tensor in optimizer.inputs:
        if tensor.name not in ("param", "grad", "step", "grad_norm"):
            given = train.optimizer_args.get(tensor.name)
            default = getattr(optimizer.statics[tensor.name], "value", None)
            found[tensor.name] = repr(default) if given is None else _stepped(text, given)
    return found


def _stepped(text: ModuleText, given: p.Expr) -> str:
    """An argument of the optimiser, which may depend on the number of the step."""
    with compilation():
        builder = Builder(Unit(), "training")
        low = Lowering(text.dtype)
        for tensor in tensors_in([given]):
            node = ir.intern(ir.Input(tensor.name, "input", tensor.dtype, ()))
            builder.values[tensor] = Value(node, False)
            low.names[node] = tensor.name
        return Body(low, ()).scalar(builder.scalar(given, {})).code
