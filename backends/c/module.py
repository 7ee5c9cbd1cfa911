"""A whole C file as text, and what it offers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dslc.backends.c.called import Called
from dslc.backends.c.calls import FAILURES
from dslc.backends.c.checks import Checks, Codes, Promises, c_string
from dslc.backends.c.entry import EntryText
from dslc.backends.c.header import comment, declarations
from dslc.backends.c.interface import Entry, Field, Interface, Table, adjoints_macro
from dslc.backends.c.kernel import Kernel
from dslc.backends.c.runtime import closure, together, used
from dslc.backends.c.stepping import start_parts, step_parts
from dslc.backends.c.target import TARGET
from dslc.backends.c.text import Names, Types, identifier, lines_of, types_of
from dslc.backends.c.update import update_entry, update_text

from dslc.builder.build import Unit
from dslc.check import program as p
from dslc.dtypes import is_float
from dslc.incremental.program import StepProgram
from dslc.ir import nodes as ir
from dslc.ir.interning import Table as IrTable
from dslc.ir.interning import within
from dslc.passes.narrow import HALVES
from dslc.passes.transform import Outputs, Stages, everything
from dslc.pipeline import GRADIENT, STATE
from dslc.program import Entry as ProgramEntry
from dslc.program import Program, Update
from dslc.schedule.halves import halves
from dslc.schedule.plan import Schedule, planned
from dslc.schedule.prepare import prepared, scheduled
from dslc.schedule.widened import in_halves


def schedule(outputs: Outputs, dtype: str, stages: Stages) -> Schedule:
    """The steps of a program and where its values lie."""
    if dtype in HALVES:
        _, outputs = in_halves(Unit(), outputs, dtype)
    results = prepared(outputs, TARGET, stages=stages)
    steps = scheduled([*results.values()], TARGET)
    return Schedule(results, steps, planned(steps, results))


def c_file(
    program: Program, name: str, source: str, dtype: str, timed: bool = False
) -> tuple[str, Interface]:  # fmt: skip
    """The text of the C file of a model, and what it offers; if `timed`, it also tells how long steps take."""
    prefix = identifier(name)
    made = FileText(prefix, types_of(dtype), timed)
    made.entry("forward", program.forward)
    if program.gradient is not None:
        made.entry("loss_grad_metrics", program.gradient)
    if program.evaluation_by_forward is not None:
        made.evaluation(program.evaluation_by_forward, program)
    made.pair("forward_saving", "adjoint", program.differentiable)
    if program.differentiable_training is not None:
        made.pair("forward_training", "adjoint_training", program.differentiable_training)
    if program.update is not None and made.params:
        made.update(program.update)
    if program.step is not None:
        made.steps(*program.step, program.model)
    interface = made.interface()
    return made.text(program, source, interface), interface


@dataclass
class Saved:
    """Values that an entry saves for another one (`written`), or that another one has saved for it (`read`)."""

    way: str
    values: Mapping[str, ir.Tensor]


class FileText:
    """The text of a C file, entry by entry."""

    def __init__(self, prefix: str, types: Types, timed: bool = False) -> None:
        self.prefix = prefix
        self.types = types
        self.timed = timed
        self.params: dict[str, Field] = {}
        #: gradients by parameter, which are floats where parameters are kept in 16 bits
        self.gradients: dict[str, Field] = {}
        self.states: dict[str, Field] = {}
        self.param_names, self.state_names = Names(), Names()
        self.entries: list[Entry] = []
        #: the last entry that was written
        self.last: EntryText | None = None
        self.parts: list[str] = []
        self.codes = Codes([*FAILURES])
        exported = {f"{prefix}_{x}" for x in ("message", "threads", "params", "wide_params", "state")}
        self.names = Names({"parallel", "taken", "larger", prefix, *exported})

    def entry(self, title: str, given: ProgramEntry, called: Called | None = None) -> None:
        with given.open() as lowered:
            self.tables(lowered.unit)
            self.written(title, given.instance, lowered.unit, prepared(lowered.outputs, TARGET), called=called)

    def evaluation(self, given: ProgramEntry, program: Program) -> None:
        """The loss and the metrics: of what `forward` computes, where that takes nothing else than they do."""
        forward = self.entries[0]
        sizes = {s.name for x in given.instance.inputs for n in x.shape for s in getattr(n, "free_symbols", ())}
        known = {x.name for x in given.instance.inputs} >= {x.name for x in forward.inputs}
        if given.calls and known and sizes >= {*forward.symbols} and not forward.seed:
            self.entry("evaluate", given, Called.of(forward))
        else:
            assert program.evaluation is not None
            self.entry("evaluate", program.evaluation)

    def pair(self, forward: str, adjoint: str, given: ProgramEntry) -> None:
        """A forward pass that saves what its adjoint reads, and the adjoint."""
        with given.open() as lowered:
            unit = lowered.unit
            self.tables(unit)
            outputs = prepared(lowered.outputs, TARGET)
            own = {x.name for x in given.instance.inputs}
            late = {n: x for n, x in unit.inputs.items() if x.role == "input" and n not in own}
            by_half: tuple[dict[str, ir.Tensor], dict[str, ir.Tensor]] = {}, {}
            for key, x in outputs.items():
                by_half[key.startswith(GRADIENT)][key] = x
            cut = halves(*by_half, late.values())
            early = replace(unit, inputs={n: x for n, x in unit.inputs.items() if n not in late})
            first = len(self.parts)
            saved = {k: x for k, (x, _) in cut.saved.items()}
            self.written(forward, given.instance, early, cut.first, Saved("written", saved))
            saved = {k: x for k, (_, x) in cut.saved.items()}
            self.written(adjoint, given.instance, unit, cut.second, Saved("read", saved))
            both = "\n\n\n".join(self.parts[first:])
            self.parts[first:] = [f"#ifdef {adjoints_macro(self.prefix)}\n\n{both}\n\n#endif"]

    def written(
        self, title: str, instance: p.Instance, unit: Unit, outputs: Outputs, saved: Saved | None = None,
        called: Called | None = None,
    ) -> None:  # fmt: skip
        """The text of an entry, which may save values for another one, or read what that one has saved."""
        saved = saved or Saved("", {})
        names = Names({"params", "state", "seed", "grads", "next", "saved", "saved_bytes"})
        inputs = {q: x for q, x in unit.inputs.items() if x.role == "input"}
        symbols = list(dict.fromkeys(
            s for x in inputs.values() for n in x.shape for s in sorted(
                getattr(n, "free_symbols", ()), key=lambda s: s.name)))  # fmt: skip
        sizes = {s.name: names.fresh(s.name) for s in symbols}
        fields = {q: Field(q, names.fresh(q), self.types.kept(x.dtype), x.shape) for q, x in inputs.items()}
        memory = self.memory(saved)
        made = saved.values if saved.way == "written" else {}
        roots = {**outputs, **made}
        access: dict[ir.Input, tuple[str, Field]] = {}
        for x in everything(roots):
            if isinstance(x, ir.Input):
                own = called.results[x.name] if called and x.role == "result" else memory.get(x.name)
                access[x] = (own.field, own) if own is not None else self.access(x, fields)
        results: dict[str, tuple[str, Field]] = {k: (memory[k].field, memory[k]) for k in made}
        given_results: list[Field] = []
        grads = nexts = False
        for key, y in outputs.items():
            if key.startswith(GRADIENT) and key.removeprefix(GRADIENT) in self.params:
                own = self.gradients[key.removeprefix(GRADIENT)]
                results[key] = f"a->grads->{own.field}", own
                grads = True
            elif key.startswith(STATE):
                own = self.states[key.removeprefix(STATE)]
                results[key] = f"a->next->{own.field}", own
                nexts = True
            else:
                wish = f"d_{key.removeprefix(GRADIENT)}" if key.startswith(GRADIENT) else key
                own = Field(key, names.fresh(wish, f"{wish}_result"), self.types.kept(y.dtype), y.shape)
                given_results.append(own)
                results[key] = f"a->{own.field}", own
        random = any(isinstance(s, ir.Rand) for x in everything(roots) for b in ir.bodies(x) for s in ir.scalars(b))
        reads = [Table("params", "params")] if unit.params else []
        reads += [Table("state", "state")] if unit.states else []
        writes = [Table("grads", self.wide)] if grads else []
        writes += [Table("next", "state")] if nexts else []
        entry = Entry(title, tuple(sizes.values()), (), tuple(fields.values()), tuple(reads), random,
                      tuple(given_results), tuple(writes), tuple(sizes), saved.way)  # fmt: skip
        steps = scheduled(list(roots.values()), TARGET)
        plan = planned(steps, roots, apart={key: len(field.layers) for key, (_, field) in results.items()})
        text = EntryText(self.prefix, entry, steps, plan, self.types, self.names, results, access, sizes)
        text.saved, text.called, text.timed = tuple(memory.values()), called, self.timed
        text.checks = self.checks(
            entry, text, Promises(instance.where, instance.inputs), frozenset(x.name for _, x in results.values())
        )
        self.parts.append(text.text())
        self.entries.append(entry)
        self.last = text

    def access(self, x: ir.Input, fields: Mapping[str, Field]) -> tuple[str, Field]:
        """How an input, parameter or state is reached from the frame of an entry."""
        if x.name in fields:
            return f"a->{fields[x.name].field}", fields[x.name]
        if x.name in self.params:
            return f"a->params->{self.params[x.name].field}", self.params[x.name]
        return f"a->state->{self.states[x.name].field}", self.states[x.name]

    def memory(self, saved: Saved) -> dict[str, Field]:
        """Saved values as fields of the frame of an entry, in the types that they are computed in."""
        names, fields = Names({"a", "scratch", "error"}), {}
        for key, x in saved.values.items():
            fields[key] = Field(key, names.fresh(key), self.types.computed(x.dtype), x.shape)
        return fields

    def steps(self, made: StepProgram, table: IrTable, model: p.Instance) -> None:
        """`init_cache` and `step` of a sequence model."""
        with within(table):
            self.tables(made.unit)
            for parts in (
                start_parts(made, model, self.types),
                step_parts(made, model, self.types),
            ):
                if not parts.outputs and not parts.histories:
                    continue
                access = dict(parts.access)
                for x in everything(parts.outputs):
                    if isinstance(x, ir.Input) and x.role in ("param", "state"):
                        tables = {"param": ("params", self.params), "state": ("state", self.states)}
                        name, fields = tables[x.role]
                        access[x] = f"a->{name}->{fields[x.name].field}", fields[x.name]
                roles = {x.role for x in access}
                reads = [Table("params", "params")] * ("param" in roles) + [Table("state", "state")] * (
                    "state" in roles
                )
                written = (*(x.field for x in parts.histories.values()), *(x for _, x in parts.results.values()))
                entry = Entry(parts.title, tuple(parts.sizes.values()), (), parts.inputs, tuple(reads), parts.random,
                              written, (), tuple(parts.sizes))  # fmt: skip
                steps = scheduled([*parts.outputs.values()], TARGET)
                plan = planned(steps, parts.outputs, parts.histories)
                text = EntryText(self.prefix, entry, steps, plan, self.types, self.names, parts.results, access,
                                 parts.sizes, histories=parts.placed(steps))  # fmt: skip
                text.checks = self.checks(entry, text, parts.promises)
                self.parts.append(text.text())
                self.entries.append(entry)

    def checks(
        self, entry: Entry, text: EntryText, promises: Promises, written: frozenset[str] = frozenset()
    ) -> Checks:
        """What an entry asks of its arguments."""
        tables = {"params": [*self.params.values()], "state": [*self.states.values()]}
        tables.setdefault(self.wide, [*self.gradients.values()])

        def kernel() -> Kernel:
            made = Kernel(text, self.names.inner(), "")
            made.names.taken |= {"wrong", "missing"}
            return made

        return Checks(self.prefix, entry, self.codes, kernel, promises, tables, written)

    def update(self, update: Update) -> None:
        with within(update.table):
            names = Names({"params", "grads"})
            entry, fields = update_entry(update, names, self.wide)
            text = update_text(self.prefix, update, self.types, self.names, self.gradients, entry, fields, self.codes)
            self.parts.append(text)
            self.entries.append(entry)

    @property
    def wide(self) -> str:
        """The kind of tables of gradients and of the slots of an optimiser."""
        return "wide_params" if self.types.half else "params"

    def tables(self, unit: Unit) -> None:
        for path, declaration in unit.params.items():
            if path not in self.params:
                own = self.table_field(unit, path, declaration.tensor, self.param_names)
                half = is_float(own.dtype) and self.types.half
                self.gradients[path] = own
                self.params[path] = replace(own, dtype=half) if half else own
        for path, state in unit.states.items():
            if path not in self.states:
                self.states[path] = self.table_field(unit, path, state.tensor, self.state_names)

    def table_field(self, unit: Unit, path: str, tensor: object, names: Names) -> Field:
        layers = tuple(count for _, count in unit.layers.get(path, ()))
        dtype = self.types.computed(tensor.dtype)  # type: ignore[attr-defined]
        return Field(path, names.fresh(path), dtype, tuple(tensor.shape), layers)  # type: ignore[attr-defined]

    def interface(self) -> Interface:
        return Interface(
            self.prefix,
            tuple(self.params.values()),
            tuple(self.states.values()),
            tuple(self.entries),
            tuple(self.codes.messages),
            tuple(self.gradients.values()) if self.types.half else (),
        )

    def text(self, program: Program, source: str, interface: Interface) -> str:
        if self.timed:
            self.parts.append(TIMES.strip().replace("PREFIX", self.prefix).replace("DTYPE", self.types.precision))
        body = "\n\n\n".join(self.parts)
        runtime = "\n\n".join(together(closure({*used(body), "threads"})))
        messages = "\n        ".join(["", *lines_of([f"{c_string(x)}," for x in self.codes.messages], 110)])
        exported = EXPORTED.replace("PREFIX", self.prefix).replace("MESSAGES", messages)
        title = f"// {comment(program.model.name)}, compiled by dslc from {comment(source)}"
        told = declarations(interface).strip()
        arrays = ["\n".join(self.codes.text())] if self.codes.counts else []
        return "\n\n".join([title, PREAMBLE.strip(), told, runtime, *arrays, body, exported.strip()]) + "\n"


TIMES = """
void PREFIX_seconds(double *to, int count) { take_seconds(to, count); }

void PREFIX_limits(double *arithmetic, double *memory, char *from, char *to, long pieces) {
    *arithmetic = arithmetic_DTYPE();
    *memory = copied_bytes(from, to, pieces);
}
"""

PREAMBLE = """#ifndef _GNU_SOURCE
#define _GNU_SOURCE // which processors this process may use
#endif
#include <math.h>
#include <string.h>
"""

EXPORTED = """
const char *PREFIX_message(int32_t code) {
    static const char *const messages[] = {MESSAGES
    };
    return code >= 0 && code < (int32_t)(sizeof messages / sizeof *messages) ? messages[code] : "unknown code";
}

void PREFIX_threads(int count) { threads(count); }
"""
