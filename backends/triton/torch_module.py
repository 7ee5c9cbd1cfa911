"""`Module`: the model as a torch.nn.Module, whose backward pass is the generated one."""

from __future__ import annotations

from collections.abc import Iterable

from dslc.backends.triton.functions import Function, bounds, dictionary, started, table
from dslc.backends.triton.host import Registry
from dslc.backends.triton.text import argument

from dslc import pipeline
from dslc.autodiff.reverse import gradients
from dslc.check import program as p
from dslc.ir import nodes as ir
from dslc.ir.build import build
from dslc.kernels.prepare import prepared
from dslc.kernels.sums import every_node

TEXT = '''
class Module(torch.nn.Module):
    """{name} with parameters that torch knows: `state_dict` has the names of the spec."""

    def __init__(self, seed=0, device=None):
        super().__init__()
        for name, value in init(seed, device).items():
            *path, last = name.split(".")
            owner = self
            for part in path:
                if part not in owner._modules:
                    owner.add_module(part, torch.nn.Module())
                owner = owner._modules[part]
            owner.register_parameter(last, torch.nn.Parameter(value))

    def forward(self, {inputs}):
        found = Apply.apply({call}, *self.parameters())
        return found[0] if len(found) == 1 else dict(zip(OUTPUTS, found))


def order_of(names):
    """Paths in the order of torch: what a module holds itself, then what its parts hold, in order of appearance."""
    own = [n for n in names if "." not in n]
    parts = {}
    for n in names:
        if "." in n:
            head, rest = n.split(".", 1)
            parts.setdefault(head, []).append(rest)
    return own + [f"{head}.{rest}" for head, below in parts.items() for rest in order_of(below)]


class Apply(torch.autograd.Function):
    """Outputs from inputs and parameters; the backward pass computes the forward one again."""

    @staticmethod
    def forward(ctx, {inputs}, *params):
        ctx.save_for_backward({inputs}, *params)
        found = forward(dict(zip(ORDER, params)), {inputs})
        return tuple(found.values()) if isinstance(found, dict) else (found,)

    @staticmethod
    def backward(ctx, {cotangents}):
        saved = ctx.saved_tensors
        {unpacked}, params = saved[:{count}], dict(zip(ORDER, saved[{count}:]))
        by_param, by_input = adjoint(params, {inputs}, {cotangents})
        return tuple(by_input.get(n) for n in INPUTS) + tuple(by_param.get(n) for n in ORDER)


#: the names of parameters in the order in which a Module holds them, of inputs and of outputs
ORDER = {order}
INPUTS = {input_names}
OUTPUTS = {output_names}
'''


def module_parts(registry: Registry, model: p.Instance) -> tuple[Function, str] | None:
    """The function of adjoints and the text of the class; None for a model with states or draws."""
    unit = build(model, "inference")
    floats = {k: x for k, x in unit.outputs.items() if x.dtype not in ("i32", "i64", "bool")}
    inputs = [n for n, x in unit.inputs.items() if x.role == "input"]
    if unit.states or not inputs or len(floats) != len(unit.outputs) or draws(unit.outputs.values()):
        return None
    outputs = dict(unit.outputs)
    for each in pipeline.EARLY.values():
        outputs = each(outputs)
    cotangents = {k: ir.intern(ir.Input(f"d_{k}", "input", x.dtype, x.shape)) for k, x in outputs.items()}
    wanted = [n for n, x in unit.inputs.items() if x.dtype not in ("i32", "i64", "bool")]
    found = gradients({outputs[k]: cotangents[k] for k in outputs}, [unit.inputs[n] for n in wanted])
    slopes = dict(zip(wanted, found, strict=True))
    for each in pipeline.LATE.values():
        slopes = each(slopes)
    roots, steps = prepared([slopes[n] for n in wanted])
    unit.inputs |= {x.name: x for x in cotangents.values()}
    host, arguments, prologue = started(registry, unit, roots)
    prologue += bounds(unit, model.inputs)
    host.run(steps)
    names = {n: host.tensor(r) for n, r in zip(wanted, roots, strict=True)}
    epilogue = table("by_param", unit, {n: t for n, t in names.items() if n in unit.params})
    epilogue.append(f"return by_param, {dictionary({n: t for n, t in names.items() if n in inputs})}")
    doc = "The adjoints of parameters and of inputs, by name, from those of the outputs."
    function = Function("adjoint", arguments, doc, host, prologue, epilogue)
    return function, class_text(model.name, inputs, list(cotangents.values()), list(outputs))


def draws(values: Iterable[ir.Tensor]) -> bool:
    nodes = every_node(list(values))
    return any(isinstance(s, ir.Rand) for n in nodes for body in ir.bodies(n) for s in ir.scalars(body))


def class_text(name: str, inputs: list[str], cotangents: list[ir.Input], outputs: list[str]) -> str:
    return (
        TEXT.strip()
        .replace("{name}", name)
        .replace("{order}", "order_of(PARAMS)")
        .replace("{inputs}", ", ".join(argument(n) for n in inputs))
        .replace("{call}", ", ".join(argument(n) for n in inputs))
        .replace("{cotangents}", ", ".join(c.name for c in cotangents))
        .replace("{unpacked}", f"({', '.join(argument(n) for n in inputs)},)")
        .replace("{count}", str(len(inputs)))
        .replace("{input_names}", repr(inputs).replace("'", '"'))
        .replace("{output_names}", repr(outputs).replace("'", '"'))
    )
