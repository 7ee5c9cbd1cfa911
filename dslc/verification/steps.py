"""The check of `step`: position by position, a module gives what the interpreter gives for the whole sequence."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from dslc import pipeline
from dslc.incremental.program import StepProgram
from dslc.ir import nodes as ir
from dslc.verification.backends import Loaded
from dslc.verification.checks import Check, Subject, tolerance
from dslc.verification.precision import computed_in


def has_step(loaded: Loaded) -> bool:
    return hasattr(loaded.module, "step")


def steps(subject: Subject, loaded: Loaded) -> Check:
    """Outputs along the sequence at all positions, others after the last one."""
    unit, values = subject.unit("outputs"), subject.inputs("outputs")
    program = pipeline.stepping(subject.model)
    wanted = subject.wanted("outputs", unit.outputs)
    results = _run(subject, loaded, program, values)
    found: dict[str, Any] = {}
    for name, node in unit.outputs.items():
        axis = _axis(node, program)
        parts = [x[name] for x in results]
        found[name] = parts[-1] if axis is None else np.stack(parts, axis)
    limit = tolerance(tuple(unit.outputs.values()))
    return subject.judged("step by step", loaded.name, found, wanted, limit, subject.dtype)


def _axis(node: ir.Tensor, program: StepProgram) -> int | None:
    return node.shape.index(program.length) if program.length in node.shape else None


def _run(subject: Subject, loaded: Loaded, program: StepProgram, values: dict[str, Any]) -> list[dict[str, Any]]:
    """The outputs of all steps."""
    unit, module, count = subject.unit("outputs"), loaded.module, subject.sizes[program.length.name]
    params = loaded.packed(unit, values, unit.params)
    options = {"state": loaded.packed(unit, values, unit.states, computed_in(loaded.dtype)), "seed": subject.seed}
    asked = inspect.signature(module.init_cache).parameters.values()
    sizes = {x.name: subject.sizes.get(x.name, count) for x in asked if x.kind is x.KEYWORD_ONLY and x.name != "seed"}
    inputs = {n: x for n, x in unit.inputs.items() if x.role == "input"}
    fixed = [loaded.pack(values[n]) for n in inputs if n not in program.inputs]
    given = {x.name: options[x.name] for x in asked if x.name in options}
    found: list[dict[str, Any]] = []
    with np.errstate(all="ignore"), loaded.running():
        cache = module.init_cache(params, *fixed, **given, **sizes)
        accepted = inspect.signature(module.step).parameters
        given = {k: x for k, x in options.items() if k in accepted}
        for t in range(count):
            now = [np.take(values[n], t, _axis(x, program)) for n, x in inputs.items() if n in program.inputs]
            result, cache = module.step(params, cache, *map(loaded.pack, now), **given)
            named = result if isinstance(result, dict) else {next(iter(unit.outputs)): result}
            found.append(dict(loaded.plain(named)))
    return found
