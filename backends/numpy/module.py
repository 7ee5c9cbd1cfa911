"""A whole NumPy module as text: parameters, forward, gradients, training step, weights on disk."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from dslc.backends.numpy.arguments import prepare
from dslc.backends.numpy.function import LONGEST_LINE, Function, ModuleText
from dslc.backends.numpy.manifest import manifest, manifest_entry
from dslc.backends.numpy.names import HELPERS, SINGLE, argument
from dslc.backends.numpy.optimizer import optimizer_functions
from dslc.backends.numpy.parameters import init_function, one_of, parameter_table
from dslc.backends.numpy.passes import prepared
from dslc.backends.numpy.peaks import numbers_among
from dslc.backends.numpy.results import dictionary, given_away
from dslc.backends.numpy.sharing import owners
from dslc.backends.numpy.stepping import step_functions
from dslc.backends.numpy.weights import functions as weight_functions

from dslc.ir import nodes as ir
from dslc.long_lines import folded_text
from dslc.passes.recompute import recomputed, tiles_and_cheap
from dslc.pipeline import Lowered
from dslc.program import Entry, Program
from dslc.quoting import docstring
from dslc.weights.text import IMPORTS as FILE_IMPORTS

#: what floats are computed with
FLOATS = {"f16": "np.float32", "f32": "np.float32", "f64": "np.float64"}


def generate(program: Program, source: str, dtype: str = "f32") -> str:
    """The text of the module of a model, with training when the spec has a `train` for it."""
    text = ModuleText(program.model.name, source, FLOATS[dtype], dtype)
    functions, costs = [], {}
    with program.forward.open() as lowered:
        functions.append(forward_function(text, program.forward, lowered).text())
        costs["forward"] = manifest_entry(lowered, dtype)
        unit = lowered.unit
        tables, init = parameter_table(text, unit), init_function(text, unit)
    if program.gradient is not None:
        with program.gradient.open() as lowered:
            gradient = gradient_function(text, program.gradient, lean(lowered), program.evaluated_in_training)
            functions.append(gradient.text())
            costs["loss_grad_metrics"] = manifest_entry(lowered, dtype)
            unit = lowered.unit
            tables, init = parameter_table(text, unit), init_function(text, unit)
        if program.evaluated_in_training:
            functions.append(evaluation_in_training(gradient))
        elif program.evaluation_by_forward is not None:
            with program.evaluation_by_forward.open() as lowered:
                functions.append(evaluation_function(text, program, lowered).text())
    functions += step_functions(text, program)
    functions += optimizer_functions(text, program, unit)
    save, files = weight_functions(bool(unit.states))
    save = save if text.half else save.replace("FLOAT", "DTYPE")  # states are never kept in 16 bits
    blocks = [tables, init, *functions, save, f"{manifest(costs)}\n\n# ---- what the functions above are made of ----"]
    called = {name for name in HELPERS if any(f"{name}(" in block for block in blocks)}
    short = SINGLE if text.dtype == "np.float32" and not any("np.float64" in block for block in blocks) else {}
    blocks += helper_texts(text.used | called, short)
    body = folded_text("\n\n\n".join(b.strip("\n") for b in blocks), LONGEST_LINE)
    standard = [f"import {name}" for name in sorted({*FILE_IMPORTS, *(["math"] if "math." in body else [])})]
    title = docstring(f"{text.name}, compiled by dslc from {source}: needs numpy alone.")
    numpy = ["import numpy as np"]
    if "sliding_window_view(" in body:
        numpy.append("from numpy.lib.stride_tricks import sliding_window_view")
    head = "\n".join([title, "", *standard, "", *numpy])
    return f"{head}\n\n" + "\n\n\n".join([body, files]) + "\n"


def lean(program: Lowered) -> Lowered:
    """The gradient of layers computes matrices of two long axes again (attention weights), as the forward pass does."""
    roots = recomputed(list(program.outputs.values()), tiles_and_cheap)
    return replace(program, outputs=dict(zip(program.outputs, roots, strict=True)))


def helper_texts(used: set[str], short: Mapping[str, str] = {}) -> list[str]:
    """The sources of the functions that a module uses, and of those that they use; `short` forms come first."""
    found: dict[str, str] = {}
    stack = sorted(used)
    while stack:
        name = stack.pop()
        if name not in found:
            found[name] = short.get(name, HELPERS[name])
            words = set(re.findall(r"\w+", re.sub(r'"""[^"]*"""|#.*', "", found[name])))
            stack += [x for x in HELPERS if x != name and x in words]
    return [found[name] for name in HELPERS if name in found]


def forward_function(text: ModuleText, entry: Entry, program: Lowered) -> Function:
    outputs = prepared(program.outputs)
    made = prepare(text, entry, replace(program, outputs=outputs))
    text.numbers = numbers_among(program.outputs)
    made.low.run(list(outputs.values()))
    text.used |= made.low.used
    names = given_away(made.low, outputs, text.half)
    epilogue = [f"return {next(iter(names.values())) if len(names) == 1 else dictionary(names)}"]
    doc = f"The outputs of {text.name} for inference: {', '.join(names)}."
    return Function("forward", made.arguments, doc, made.low, made.prologue, epilogue)


def gradient_function(text: ModuleText, entry: Entry, given: Lowered, evaluates: bool) -> Function:
    program = replace(given, outputs=prepared(given.outputs))
    unit, values, grads, states = program.unit, program.values(), program.gradients(), program.states()
    made = prepare(text, entry, program)
    low = made.low
    text.random = "seed=0" in made.arguments
    for table, results in (("grads", grads), ("states", states)):
        for q, x in results.items():
            if q in unit.layers and by_pass(x, len(unit.layers[q])):
                low.layers.sinks.setdefault(x, []).append(one_of(table, unit, q))
    if any(q in unit.layers for q in states):
        low.line("states = {}")
    needed = set(ir.schedule((*values.values(), *states.values())))
    for q, x in reversed(grads.items()):  # what is only a gradient has no other name
        if q not in unit.layers and isinstance(x, ir.Comp | ir.Scatter) and x not in needed and owners(x) == {x}:
            low.given[x] = f'grads["{q}"]'
    backward = list(grads.values())
    if unit.params and unit.params.keys() <= grads.keys():  # made from the last layer on, kept in their order
        low.gradients = "dict.fromkeys(PARAMS)"
        backward.reverse()
    if evaluates:  # loss and metrics are asked for alone, too
        made.arguments.append(f"{(asked := low.fresh('gradient'))}=True")

        def between() -> None:
            names = given_away(low, values)
            low.line(f"if not {asked}:")
            low.line(f"    return {names['loss']}, {dictionary({k: names[k] for k in values if k != 'loss'})}")

        low.between = between
    low.run([*values.values(), *states.values()], backward)
    if not low.turned:
        low.between()
        low.line(f"grads = {low.gradients}")
    text.used |= low.used
    single = {q: x for q, x in (grads | states).items() if q not in unit.layers}
    names = given_away(low, values | single)
    epilogue = [f'grads["{q}"] = {names[q]}' for q in grads if q in single and names[q] != f'grads["{q}"]']
    for table, results in (("grads", grads), ("states", states)):  # of all layers at once: one by one
        for q, x in results.items():
            if q in unit.layers and not by_pass(x, len(unit.layers[q])):
                steps = [low.fresh("l") for _ in unit.layers[q]]
                counts = ", ".join(str(count) for _, count in unit.layers[q])
                epilogue.append(f"for {', '.join(steps)}{',' * (len(steps) == 1)} in np.ndindex({counts}):")
                place = one_of(table, unit, q).format(*steps)
                epilogue.append(f"    {place} = {low.tensor(x)}[{', '.join(steps)}].copy()")
    metrics = {k: names[k] for k in values if k != "loss"}
    updates = dictionary({k: names[k] for k in states if k not in unit.layers})
    if any(q in unit.layers for q in states):
        updates = f"{updates} | states" if updates != "{}" else "states"
    epilogue.append(f"return {names['loss']}, grads, {dictionary(metrics)}, {updates}")
    doc = "The loss of a batch, its gradients by parameter, the metrics, and the next values of states."
    return Function("loss_grad_metrics", made.arguments, doc, low, made.prologue, epilogue)


def by_pass(x: ir.Tensor, loops: int) -> bool:
    """Do loops over layers, one in the other, give a value pass by pass, so that each can put it where it goes?"""
    if not isinstance(x, ir.Part) or not isinstance(x.of, ir.Scan) or x.of.kind != "layers":
        return False
    if x.number >= len(x.of.results):
        return False
    return loops == 1 or by_pass(x.of.results[x.number], loops - 1)


#: what `evaluate` is
EVALUATION = "The loss and the metrics of data, for inference."


def evaluation_in_training(gradient: Function) -> str:
    """`evaluate` by the first half of `loss_grad_metrics`."""
    *given, asked = gradient.arguments
    arguments = ", ".join(given)
    call = f"loss_grad_metrics({arguments}, {asked.replace('True', 'False')})"
    return f'def evaluate({arguments}):\n    """{EVALUATION}"""\n    return {call}'


def evaluation_function(text: ModuleText, program: Program, lowered: Lowered) -> Function:
    """Loss and metrics as the trained model would have them: states as they are, no dropout."""
    entry = program.evaluation_by_forward
    assert entry is not None
    outputs = prepared(lowered.outputs, [x for k, x in entry.calls.items() if k in text.numbers])
    made = prepare(text, entry, replace(lowered, outputs=outputs))
    low = made.low
    if entry.calls:
        given = [x.name for x in program.model.inputs if x.name in lowered.unit.inputs]
        states = ["state"] if "state" in made.arguments else []
        names = [low.fresh(name) for name in entry.calls]
        call = f"forward({', '.join(['params', *map(argument, given), *states])})"
        results = list(program.forward.lowered.outputs)
        low.names |= dict(zip(entry.calls.values(), names, strict=True))
        made.prologue = [x for x in made.prologue if not x.startswith("fitting(")]  # which `forward` compares
        if len(results) == 1:
            low.line(f"{names[0]} = {call}")
        elif list(entry.calls) == results:
            low.line(f"{', '.join(names)} = {call}.values()")
        else:
            low.line(f"{(found := low.fresh('found'))} = {call}")
            for name, local in zip(entry.calls, names, strict=True):
                low.line(f'{local} = {found}["{name}"]')
    low.run(list(outputs.values()))
    text.used |= low.used
    found_ = given_away(low, outputs)
    loss = found_.pop("loss")
    epilogue = [f"return {loss}, {dictionary(found_)}"]
    return Function("evaluate", made.arguments, EVALUATION, low, made.prologue, epilogue)
