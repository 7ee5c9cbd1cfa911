"""`Module`: the model as a torch.nn.Module, whose backward pass is the generated one."""

from __future__ import annotations

from dslc.backends.triton.functions import Function, computed, dictionary, table
from dslc.backends.triton.registry import Registry
from dslc.backends.triton.text import argument

from dslc.check import program as p
from dslc.pipeline import GRADIENT, STATE, WHOLE, Lowered, cotangents_of
from dslc.program import Program
from dslc.quoting import literal

TEXT = '''
class Module(torch.nn.Module):
    """{name} with parameters that torch knows: `state_dict` has the names of the spec."""

    def __init__(self, seed=0, device=None):
        super().__init__()
        # by hand: torch would refuse names that a torch.nn.Module has for other things, such as `half`
{random}        self.__dict__["seed"] = seed  # of the next draws
        for name, value in init(seed, device).items():
            owner, last = self.place(name)
            owner._parameters[last] = torch.nn.Parameter(value)
{states}        for name, value in init_state(device).items():
{states}            owner, last = self.place(name)
{states}            owner._buffers[last] = value

    def place(self, name):
        """The part of the module that holds what a path of the spec means, and its name there."""
        *path, last = name.split(".")
        owner = self
        for part in path:
            if part not in owner._modules:
                owner._modules[part] = torch.nn.Module()
            owner = owner._modules[part]
        return owner, last

    def forward(self, {inputs}{seed_argument}):
{random}        if seed is None:
{random}            seed = self.__dict__["seed"]
{random}            self.__dict__["seed"] = seed + 1
{states}        places = {name: self.place(name) for name in STATE}
{states}        state = {name: owner._buffers[last] for name, (owner, last) in places.items()}
{states}        before, after = {name: value.clone() for name, value in state.items()}, {}
        found = Apply.apply({options}{inputs}, *self.parameters())
{states}        with torch.no_grad():
{states}            for name, value in after.items():
{states}                state[name].copy_(value)
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
    def forward(ctx, {formals}{inputs}, *params):
        ctx.save_for_backward({inputs}, *params)
        params = dict(zip(ORDER, params))
{modes}        ctx.training = training
{random}        ctx.seed = seed
{states}        ctx.state = before
{modes}        if training:
{modes}            found, states = {call_training}
{updates}            after.update(states)
{modes}        else:
{modes}            found = {call}
{one}        found = {call}
        found = tuple(found.values()) if isinstance(found, dict) else (found,)
{whole}        ctx.mark_non_differentiable(*(x for x in found if not x.is_floating_point()))
        return found

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, {backward_arguments}):
        saved = ctx.saved_tensors
        {unpacked}, params = saved[:{count}], dict(zip(ORDER, saved[{count}:]))
{modes}        if ctx.training:
{modes}            by_param, by_input = {back_training}
{modes}        else:
{modes}            by_param, by_input = {back}
{one}        by_param, by_input = {back}
        by_place = [*(by_input.get(n) for n in INPUTS), *(by_param.get(n) for n in ORDER)]
        return ({nones}*by_place,)


#: the names of parameters in the order in which a Module holds them, of inputs and of outputs
ORDER = order_of(PARAMS)
INPUTS = {input_names}
OUTPUTS = {output_names}
'''

#: in the place of the class, where there is nothing to differentiate
NONE = '''
def Module(*options, **others):
    """There is none for {name}: {why}."""
    raise TypeError({message})
'''


def module_parts(registry: Registry, program: Program, forward_draws: bool) -> tuple[list[Function], str]:
    """The functions of a Module and the text of its class."""
    model, unit = program.model, program.forward.lowered.unit
    inputs = [n for n, x in unit.inputs.items() if x.role == "input"]
    floats = [k for k, x in unit.outputs.items() if x.dtype not in WHOLE]
    if not inputs or not floats:
        why = "it has no inputs" if not inputs else "its outputs are whole numbers, which have no gradient"
        message = literal(f"{model.name} has no torch.nn.Module, for {why}: call forward")
        return [], NONE.strip().replace("{name}", model.name).replace("{why}", why).replace("{message}", message)
    outputs = list(unit.outputs)
    with program.adjoint.open() as lowered:
        functions = [adjoint_function(registry, model, lowered, "adjoint")]
    if program.forward_training is not None and program.adjoint_training is not None:
        with program.forward_training.open() as lowered:
            functions.append(training_function(registry, model, lowered))
        with program.adjoint_training.open() as lowered:
            functions.append(adjoint_function(registry, model, lowered, "adjoint_training"))
    modes = len(functions) > 1
    in_order = ", ".join(argument(n) for n in inputs)
    by_output = cotangents_of(unit)
    cotangents = ", ".join(by_output.values())
    has_states = bool(unit.states)
    at_random = forward_draws or any(f.host.random for f in functions)

    def call(name: str, random: bool, *given: str) -> str:
        rest = [*given, *(["ctx.state" if name.startswith("adjoint") else "before"] if has_states else [])]
        if random:
            rest.append("seed=ctx.seed" if name.startswith("adjoint") else "seed=seed")
        return f"{name}({', '.join(['params', in_order, *rest])})"

    by_name = {f.name: f for f in functions}
    given = ["training"] if modes else []
    given += (["seed"] if at_random else []) + (["before", "after"] if has_states else [])
    keep = {"modes": modes, "one": not modes, "random": at_random, "states": has_states}
    keep |= {"updates": modes and has_states, "whole": len(floats) < len(outputs)}
    lines = []
    for line in TEXT.strip().splitlines():
        mark = next((k for k in keep if line.startswith(f"{{{k}}}")), None)
        if mark is None or keep[mark]:
            lines.append(line if mark is None else line[len(mark) + 2 :])
    values = {
        "name": model.name, "inputs": in_order, "unpacked": f"({in_order},)",
        "count": str(len(inputs)), "seed_argument": ", seed=None" if at_random else "",
        "options": "".join(f"{'self.training' if x == 'training' else x}, " for x in given),
        "formals": "".join(f"{x}, " for x in given), "nones": "None, " * len(given),
        "backward_arguments": ", ".join(by_output.get(k, f"_whole{i}") for i, k in enumerate(outputs)),
        "call": call("forward", forward_draws),
        "back": call("adjoint", by_name["adjoint"].host.random, cotangents),
        "input_names": literal(inputs), "output_names": literal(outputs),
    }  # fmt: skip
    if modes:
        values["call_training"] = call("forward_training", by_name["forward_training"].host.random)
        values["back_training"] = call("adjoint_training", by_name["adjoint_training"].host.random, cotangents)
    text = "\n".join(lines)
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return functions, text


def training_function(registry: Registry, model: p.Instance, program: Lowered) -> Function:
    """The outputs of a model as it is trained, with the next values of its states."""
    states = program.states()
    made = computed(registry, program.unit, program.outputs, [STATE + k for k in states], model)
    epilogue = table("states", program.unit, {k: made.values[STATE + k] for k in states})
    epilogue.append(f"return {dictionary({k: made.values[k] for k in program.values()})}, states")
    doc = f"The outputs of {model.name} as it is trained, and the next values of its states."
    return made.function("forward_training", doc, epilogue)


def adjoint_function(registry: Registry, model: p.Instance, program: Lowered, name: str) -> Function:
    """The adjoints of parameters and of inputs, from those of the outputs."""
    unit = program.unit
    made = computed(registry, unit, program.outputs, (), model)
    by_name = {n: made.values[GRADIENT + n] for n in program.gradients()}
    epilogue = table("by_param", unit, {n: x for n, x in by_name.items() if n in unit.params})
    epilogue.append(f"return by_param, {dictionary({n: x for n, x in by_name.items() if n not in unit.params})}")
    return made.function(
        name, "The adjoints of parameters and of inputs, by name, from those of the outputs.", epilogue
    )
