"""`Module` of a C module: the model as a torch.nn.Module on the CPU, whose forward and backward passes are C code."""

from __future__ import annotations

from dslc.backends.c.functions import (
    Names,
    Shell,
    prepared,
    results,
    states_written,
    text_of,
    updated_states,
)
from dslc.backends.c.interface import Entry
from dslc.backends.numpy.names import argument
from dslc.backends.numpy.results import dictionary

from dslc import program as built
from dslc.pipeline import GRADIENT, WHOLE
from dslc.quoting import literal, quoted

#: lines that begin with a mark stand in modules of such models alone
TEXT = '''
def __getattr__(name):
    """`Module` needs torch, and is made when it is first asked for."""
    if name != "Module":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()["Module"] = torch_module()
    return globals()["Module"]


def torch_module():
    """The model as a torch.nn.Module."""
    import torch

    inputs, outputs = {input_names}, {output_names}
    order = order_of(PARAMS)

    class Module(torch.nn.Module):
        """{name} with parameters that torch knows: `state_dict` has the names of the spec."""

        def __init__(self, seed=0, device=None):
            super().__init__()
            if device is not None and torch.device(device).type != "cpu":
                raise ValueError(f"C code runs on the CPU, not on {device}")
            # by hand: torch would refuse names that a torch.nn.Module has for other things, such as `half`
            self.__dict__["seed"] = seed  # of the next draws
            for name, value in init(seed).items():
                owner, last = Module.place(self, name)
{numbers}                owner._parameters[last] = torch.nn.Parameter(torch.from_numpy(value))
{bits}                value = torch.from_numpy(value.view(np.int16)).view(torch.bfloat16)
{bits}                owner._parameters[last] = torch.nn.Parameter(value)
{states}            for name, value in init_state().items():
{states}                owner, last = Module.place(self, name)
{states}                owner._buffers[last] = torch.from_numpy(value)

        def place(self, name):
            """The part of the module that holds what a path of the spec means, and its name there."""
            *path, last = name.split(".")
            owner = self
            for part in path:
                if part not in owner._modules:
                    owner._modules[part] = torch.nn.Module()
                owner = owner._modules[part]
            return owner, last

        def forward({self}, {inputs}{seed_argument}):
            return {call}({self}, ({inputs},){seed_given})

    def {call}(module, given{seed_argument}):
        """The outputs for some inputs; states go on where the model is trained."""
        given = [torch.as_tensor(x) for x in given]
{random}        if seed is None:
{random}            seed = module.__dict__["seed"]
{random}            module.__dict__["seed"] = seed + 1
{states}        places = {name: Module.place(module, name) for name in STATE}
{states}        state = {name: owner._buffers[last] for name, (owner, last) in places.items()}
{states}        before, after = {name: value.numpy().copy() for name, value in state.items()}, {}
        parameters = tuple(torch.nn.Module.parameters(module))
        differentiated = torch.is_grad_enabled() and any(x.requires_grad for x in (*given, *parameters))
        found = Apply.apply((module.training, differentiated), {options}*given, *parameters)
{states}        with torch.no_grad():
{states}            for name, value in after.items():
{states}                state[name].copy_(torch.from_numpy(value))
        return found[0] if len(found) == 1 else dict(zip(outputs, found))

    class Apply(torch.autograd.Function):
        """Outputs from inputs and parameters; the backward pass reads what the forward one has saved."""

        @staticmethod
        def forward(ctx, how, {options}*tensors):
            (ctx.training, differentiated), ctx.options = how, ({options})
            given, params = parts(tensors)
            saved = np.empty(0, np.uint8)
{modes}            if ctx.training:
{modes}                found, {states_name}, saved = forward_training(params, *given{state_given}{training_seed})
{updates}                after.update(states)
{modes}            elif differentiated:
{modes}                found, saved = forward_saving(params, *given{state_given}{saving_seed})
{one}            if differentiated:
{one}                found, saved = forward_saving(params, *given{state_given}{saving_seed})
            else:
                found = forward(params, *given{state_given}{forward_seed})
            ctx.save_for_backward(*tensors, torch.from_numpy(saved))
            found = found.values() if isinstance(found, dict) else (found,)
            found = tuple(torch.from_numpy(np.asarray(x)) for x in found)
{bits}            found = tuple(x.to(torch.bfloat16) if k in {narrow} else x for k, x in enumerate(found))
{whole}            ctx.mark_non_differentiable(*(x for x in found if not x.is_floating_point()))
            return found

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, *cotangents):
            *tensors, saved = ctx.saved_tensors
            given, params = parts(tensors)
{numbers}            given += [in_place(saved.numpy()), *(x.numpy() for x in {floats})]
{bits}            given += [in_place(saved.numpy()), *(x.float().numpy() for x in {floats})]
{unpack}            {options} = ctx.options
{modes}            if ctx.training:
{modes}                by_param, by_input = adjoint_training(params, *given{state_given}{back_training_seed})
{modes}            else:
{modes}                by_param, by_input = adjoint(params, *given{state_given}{back_seed})
{one}            by_param, by_input = adjoint(params, *given{state_given}{back_seed})
            by_place = [*(by_input.get(n) for n in inputs), *(by_param.get(n) for n in order)]
            gradients = [x if x is None else torch.from_numpy(np.asarray(x)) for x in by_place]
            return ({nones}*gradients,)

    def parts(tensors):
        """Inputs, and parameters by name, as arrays in the same memory."""
{numbers}        arrays = [x.detach().numpy() for x in tensors]
{bits}        kept = [x.detach() for x in tensors]
{bits}        arrays = [(x.float() if x.dtype == torch.bfloat16 else x).numpy() for x in kept[: len(inputs)]]
{bits}        for x in kept[len(inputs) :]:
{bits}            arrays.append(x.view(torch.int16).numpy().view(DTYPE) if x.dtype == torch.bfloat16 else x.numpy())
        return arrays[: len(inputs)], dict(zip(order, arrays[len(inputs) :]))

    Module.__qualname__, Module.__module__ = "Module", __name__
    return Module


def order_of(names):
    """Paths in the order of torch: what a module holds itself, then what its parts hold, in order of appearance."""
    own, parts = [n for n in names if "." not in n], {}
    for n in names:
        if "." in n:
            head, rest = n.split(".", 1)
            parts.setdefault(head, []).append(rest)
    return own + [f"{head}.{rest}" for head, below in parts.items() for rest in order_of(below)]
'''

#: in the place of the class, where there is nothing to differentiate
NONE = '''
def Module(*options, **others):
    """There is none for {name}: {why}."""
    raise TypeError({message})
'''


def module_parts(shell: Shell, forward_draws: bool) -> list[str]:
    """The functions of a `Module` and the text that makes it, where the C file has adjoints."""
    program, back = shell.program, shell.entry("adjoint")
    model, unit = program.model, program.forward.lowered.unit
    inputs = [n for n, x in unit.inputs.items() if x.role == "input"]
    outputs = list(unit.outputs)
    floats = [k for k, x in unit.outputs.items() if x.dtype not in WHOLE]
    if not inputs or not floats:
        why = "it has no inputs" if not inputs else "its outputs are whole numbers, which have no gradient"
        message = literal(f"{model.name} has no torch.nn.Module, for {why}: call forward")
        return [NONE.strip().replace("{name}", model.name).replace("{why}", why).replace("{message}", message)]
    if back is None:
        return []
    saving = shell.entry("forward_saving")
    assert saving is not None
    blocks = [saving_function(shell, saving, program.forward), adjoint_function(shell, back, program.differentiable)]
    training, back_training = shell.entry("forward_training"), shell.entry("adjoint_training")
    modes = training is not None and back_training is not None
    if training is not None and back_training is not None:
        assert program.forward_training is not None and program.differentiable_training is not None
        blocks.append(training_function(shell, training, program.forward_training))
        blocks.append(adjoint_function(shell, back_training, program.differentiable_training))
    states = bool(unit.states)
    draws = [entry.seed for entry in (saving, back, training, back_training) if entry is not None]
    random = forward_draws or any(draws)
    options = (["seed"] if random else []) + (["before", "after"] if states else [])
    keep = {"modes": modes, "one": not modes, "random": random, "states": states, "unpack": bool(options)}
    keep |= {"updates": modes and states, "whole": len(floats) < len(outputs)}
    bits = shell.text.precision == "bf16"
    keep |= {"bits": bits, "numbers": not bits}
    lines = []
    for line in TEXT.strip().splitlines():
        mark = next((k for k in keep if line.startswith(f"{{{k}}}")), None)
        if mark is None or keep[mark]:
            lines.append(line if mark is None else line[len(mark) + 2 :])

    def seed(entry: Entry | None) -> str:
        return ", seed=seed" if entry is not None and entry.seed else ""

    names = Names({argument(n) for n in inputs})
    kept = "".join(f"{k}, " for k, name in enumerate(outputs) if name in floats)
    values = {
        "name": model.name, "inputs": ", ".join(argument(n) for n in inputs),
        "self": names.fresh("self"), "call": names.fresh("call"),
        "seed_argument": ", seed=None" if random else "", "seed_given": ", seed" if random else "",
        "options": "".join(f"{x}, " for x in options),
        "states_name": "states" if states else "_", "state_given": ", before" if states else "",
        "training_seed": seed(training), "saving_seed": seed(saving),
        "forward_seed": ", seed=seed" if forward_draws else "",
        "back_seed": seed(back), "back_training_seed": seed(back_training),
        "floats": "cotangents" if len(floats) == len(outputs) else f"(cotangents[k] for k in ({kept.strip()}))",
        "nones": "None, " * (1 + len(options)),
        "narrow": literal([k for k, x in enumerate(saving.results) if x.dtype == "bf16"]),
        "input_names": literal(inputs), "output_names": literal(outputs),
    }  # fmt: skip
    text = "\n".join(lines)
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return [*blocks, text]


def saving_function(shell: Shell, entry: Entry, made: built.Entry) -> str:
    """The outputs of a model for inference, with memory that its adjoint reads."""
    with made.open() as lowered:
        call = prepared(shell, entry, made, lowered)
        lines, found = results(shell, call, entry.results)
        saved = call.names.fresh("saved")
        lines += [f"{saved} = {call.line(shell, entry)}", f"return {dictionary(found)}, {saved}"]
        doc = f"The outputs of {shell.program.model.name} for inference, and memory that `adjoint` reads."
        return text_of(entry.name, doc, call, lines)


def training_function(shell: Shell, entry: Entry, made: built.Entry) -> str:
    """The outputs of a model as it is trained, with the next values of its states and memory that its adjoint reads."""
    with made.open() as lowered:
        call = prepared(shell, entry, made, lowered)
        lines, found = results(shell, call, entry.results)
        more, states = states_written(shell, entry, call, updated_states(lowered))
        saved = call.names.fresh("saved")
        lines += [*more, f"{saved} = {call.line(shell, entry)}", f"return {dictionary(found)}, {states}, {saved}"]
        doc = f"The outputs of {shell.program.model.name} as it is trained, the next values of its states, and memory"
        return text_of(entry.name, f"{doc} that `adjoint_training` reads.", call, lines)


def adjoint_function(shell: Shell, entry: Entry, made: built.Entry) -> str:
    """The adjoints of parameters and of inputs, from those of the outputs and what the forward pass has saved."""
    with made.open() as lowered:
        call = prepared(shell, entry, made, lowered)
        saved = call.names.fresh("saved")
        call.arguments.insert(1 + len(made.instance.inputs), saved)
        call.fields["saved"] = f"{shell.own('address')}({saved})"
        call.fields["saved_bytes"] = f"{saved}.nbytes"
        lines, found = results(shell, call, entry.results)
        by_param = "{}"
        unit, differentiated = lowered.unit, lowered.gradients()
        for table in entry.writes:
            names = [quoted(n) for path in unit.params if path in differentiated for n in unit.paths(path)]
            pointers, by_param = call.names.fresh("by_param_pointers"), call.names.fresh("by_param")
            wanted = "tuple(PARAMS)" if unit.params.keys() <= differentiated.keys() else f"({', '.join(names)},)"
            lines.append(f"{by_param}, {pointers} = {shell.own('GRADIENTS')}.fresh({wanted})")
            call.fields[f"write {table.field}"] = f"{pointers}.at"
        by_input = dictionary({k.removeprefix(GRADIENT): v for k, v in found.items()})
        lines += [call.line(shell, entry), f"return {by_param}, {by_input}"]
        doc = "The adjoints of parameters and of inputs, by name, from those of the outputs."
        return text_of(entry.name, doc, call, lines)
