"""What a spec is after each stage of the compiler, as text: for `dslc show` and for people who look inside."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from dslc import pipeline
from dslc.backends.registry import backend_of
from dslc.check import program as p
from dslc.ir import nodes as ir
from dslc.ir.latex import latex
from dslc.ir.naming import name_lines
from dslc.ir.show import show
from dslc.passes.transform import Stages
from dslc.schedule.plan import Schedule
from dslc.schedule.show import groups, memory
from dslc.sizes import show as show_size
from dslc.source import Source, Span

Program = Mapping[str, ir.Tensor]

#: tells values of one name apart in the text of a program
NUMBER = re.compile(r"~[0-9]+")


@dataclass(frozen=True)
class Spec:
    """A checked spec, the chosen model and its training, and how it is to be compiled."""

    path: Path
    model: p.Instance
    train: p.TrainProgram | None
    settings: Mapping[str, object]
    dtype: str = "f32"
    backend: str = "numpy"
    #: linear maps merged: the outputs for inference, though there is a training
    folded: bool = False

    def lowered(self) -> pipeline.Lowered:
        """The training with its gradients, or the outputs of a spec without one."""
        if self.train is None or self.folded:
            return pipeline.forward(self.model, self.folded)
        return pipeline.training(self.train)

    def stages(self) -> Stages:
        """The program after each pass, those of the backend too."""
        lowered = self.lowered()
        schedule = backend_of(self.backend).printer().schedule
        if schedule is not None:
            schedule(lowered.outputs, self.dtype, lowered.stages)
        return lowered.stages


class NoStage(Exception):
    """A stage that this spec or this backend does not have; the message says why."""


def built(spec: Spec) -> str:
    return show(spec.lowered().stages[0][1])


def differentiated(spec: Spec) -> str:
    if spec.train is None:
        raise NoStage("the spec has no `train`, so there is no loss to differentiate")
    return show(dict(spec.lowered().stages)["differentiate"])


def formulas(spec: Spec, gradient: bool) -> str:
    """The model, or the loss and its gradient, as formulas for a text: as they stand before they are made stable."""
    if spec.train is None:
        if gradient:
            raise NoStage("the spec has no `train`, so there is no loss to differentiate")
        return latex(pipeline.model_as_written(spec.model))
    return latex(pipeline.loss_as_written(spec.train, gradient))


def simplified(spec: Spec) -> str:
    return show(spec.lowered().stages[-1][1])


def stepped(spec: Spec) -> str:
    """The program of one step of a sequence model, and that of its cache before the first; or why there is none."""
    from dslc.incremental.derive import NoStep

    try:
        made = pipeline.stepping(spec.model)
    except NoStep as none:
        raise NoStage(f"there is no step of `{spec.model.name}`: {none}") from none
    kinds = ", ".join(f"{x.name} ({x.kind})" for x in made.slots)
    after = show({**made.outputs, **{f"next {k}": x for k, x in made.updates.items()}})
    before = ["# before the first position", show(made.starts)] if made.starts else []
    length = show_size(made.length)
    return "\n".join([f"# one more position along {length}; the cache has {kinds}", after, *before])


def code(spec: Spec) -> str:
    from dslc.compiler import compile_text

    wrt = spec.train.wrt if spec.train is not None else ()
    name, folded = spec.model.name, spec.folded
    text = compile_text(spec.path, spec.backend, spec.settings, spec.dtype, name, wrt=wrt, folded=folded)
    return text.rstrip("\n")


def schedule_of(spec: Spec, outputs: Program) -> Schedule:
    schedule = backend_of(spec.backend).printer().schedule
    if schedule is None:
        raise NoStage(f"the {spec.backend} backend does not tell what it computes together")
    made = schedule(outputs, spec.dtype, [])
    name_lines([*made.results.values()])
    return made


def fused(spec: Spec) -> str:
    """Which values a statement, a region or a kernel computes together, and what it leaves in memory."""
    return "\n".join(groups(schedule_of(spec, spec.lowered().outputs)))


def memory_of(spec: Spec) -> str:
    """Where values lie or how long they live, and what is saved for the gradient."""
    lowered = spec.lowered()
    forward = {**lowered.values(), **lowered.states()}
    made = schedule_of(spec, {**forward, **{pipeline.GRADIENT + k: x for k, x in lowered.gradients().items()}})
    return "\n".join(memory(made, forward, spec.dtype))


def kernels(spec: Spec) -> str:
    """The kernels of a module, as it has them."""
    kernels_of = backend_of(spec.backend).printer().kernels
    if kernels_of is None:
        raise NoStage(f"the {spec.backend} backend has no kernels; the stage fused shows what it computes together")
    return BETWEEN_KERNELS.join(kernels_of(code(spec)))


#: what stands between two kernels
BETWEEN_KERNELS = "\n\n\n"

#: stages after the syntax tree, in order
STAGES: dict[str, Callable[[Spec], str]] = {
    "ir": built,
    "ir latex": partial(formulas, gradient=False),
    "grad": differentiated,
    "grad latex": partial(formulas, gradient=True),
    "simplified": simplified,
    "step": stepped,
    "fused": fused,
    "memory": memory_of,
    "kernels": kernels,
    "code": code,
}


def passes(spec: Spec) -> dict[str, Program]:
    """The program after each pass, by the name of the pass with dashes for blanks."""
    return {name.replace(" ", "-"): program for name, program in spec.stages()}


def stage(spec: Spec, name: str) -> str:
    """The text of a stage, or of the program after a pass; raises NoStage with the names that there are."""
    if name in STAGES:
        return STAGES[name](spec)
    known = passes(spec)
    if name not in known:
        near = difflib.get_close_matches(name, [*STAGES, *known], 1)
        hint = f"did you mean {near[0]}?" if near else f"there are ast, {', '.join([*STAGES, *known])}"
        raise NoStage(f"there is no stage and no pass {name}; {hint}")
    return show(known[name])


# ---- what the passes did -----------------------------------------------------------------------------


def changes(spec: Spec) -> str:
    """For every pass the rules that were used, the lines that it took away and those that it put in their place."""
    lines: list[str] = []
    before: Program | None = None
    for name, after in spec.stages():
        if before is not None:
            lines.append(f"== {name}")
            lines += _rules(name, before)
            lines += _difference(show(before).splitlines(), show(after).splitlines()) or ["  no change"]
        before = after
    return "\n".join(lines)


def _rules(name: str, program: Program) -> list[str]:
    """The rules that a pass uses on a program, where it can tell: `* softmax: ...  (mlp.dsl:4)`, each once."""
    function = {**pipeline.EARLY, **pipeline.FOLD, **pipeline.LATE}.get(name)
    if function is None or "fired" not in inspect.signature(function).parameters:
        return []
    fired: list[Any] = []
    function(dict(program), fired=fired)  # type: ignore[call-arg]
    return list(dict.fromkeys(f"* {x.rule}: {x.meaning}{_where(x.span)}" for x in fired))


def _where(span: Span) -> str:
    return f"  ({span.place})" if span.source.text else ""


def _span_of(source: Source, number: int) -> Span:
    start = source.line_starts[number - 1]
    return Span(source, start, start)


def _difference(before: list[str], after: list[str]) -> list[str]:
    """Lines that went, marked `-`, and lines that came, marked `+`; other numbers behind names are no difference."""
    gone, come = ([NUMBER.sub("", x) for x in lines] for lines in (before, after))
    found: list[str] = []
    for kind, i, j, m, n in difflib.SequenceMatcher(None, gone, come, autojunk=False).get_opcodes():
        if kind != "equal":
            found += [f"- {x}" for x in before[i:j]] + [f"+ {x}" for x in after[m:n]]
    return found


# ---- one line of the spec --------------------------------------------------------------------------------


def only_line(text: str, stage: str, source: Source, number: int) -> str:
    """The lines of a stage that come from one line of the spec itself."""
    lines = text.splitlines()
    if stage == "ast":
        return "\n".join(x for x in lines if x.split(maxsplit=1)[0] == str(number))
    if stage == "code":
        return "\n".join(_code_of_line(lines, source, number))
    here = _span_of(source, number)
    if stage == "kernels":
        apart = text.split(BETWEEN_KERNELS)
        return BETWEEN_KERNELS.join(k for k in apart if any(_is_of(x, here.place) for x in k.splitlines()))
    marks = f"  # {here.comment}", f"  # {replace(here, derived=True).comment}"
    return "\n".join(x for x in lines if x.endswith(marks) or here.place in _places(x))


#: the words that comments begin with
COMMENTS = (["#"], ["//"])


def _is_of(line: str, place: str) -> bool:
    """Is it a comment with that place of the spec, of Python or of C?"""
    words = line.split()
    return words[:1] in COMMENTS and place in words


def _places(line: str) -> list[str]:
    """The places of the spec in parentheses at the end of a line."""
    head, _, places = line.rpartition("  (")
    return places.removesuffix(")").split(", ") if head and line.endswith(")") else []


def _code_of_line(lines: list[str], source: Source, number: int) -> list[str]:
    """Generated lines below a comment with the place, up to the next comment or the end of the function."""
    place = _span_of(source, number).place
    kept: list[str] = []
    inside = False
    for line in lines:
        words = line.split()
        if words[:1] in COMMENTS:
            inside = _is_of(line, place)
        elif not words or words[0] in ("return", "def") or line == "}":
            inside = False
        if inside:
            kept.append(line)
    return kept
