"""The functions of the Python module of a C file: they check what they get, and hand pointers over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dslc.backends.c.interface import Entry, Field, Interface
from dslc.backends.numpy.arguments import checked
from dslc.backends.numpy.function import ModuleText, used
from dslc.backends.numpy.names import OWN, argument
from dslc.backends.numpy.optimizer import hyperparameters
from dslc.backends.numpy.results import dictionary
from dslc.backends.numpy.statement import Lowering
from dslc.backends.numpy.text import shape_code, size_code

from dslc import program as built
from dslc.builder.unit import Unit
from dslc.emitted import Fault
from dslc.guards import fitting, promises, symbols
from dslc.ir.namespace import identifier
from dslc.pipeline import GRADIENT, Lowered
from dslc.program import Program
from dslc.quoting import quoted

#: dtype of C -> that of NumPy; a bool takes a byte in both
DTYPES = {
    "f16": "np.float16", "bf16": "np.uint16", "f32": "np.float32", "f64": "np.float64",
    "i32": "np.int32", "i64": "np.int64", "bool": "np.bool_",
}  # fmt: skip

#: what functions of a module read beside what NumPy's read
GLOBALS = frozenset({
    "address", "kept_at", "narrow", "bits_of_bf16", "from_bf16", "to_bf16", "gradients_into", "updated",
    "PARAMETERS", "GRADIENTS", "STATES", "SLOTS", "TRAINED",
})  # fmt: skip


@dataclass
class Names:
    """The names in a function: those of its arguments stay, and the others make way."""

    taken: set[str]

    def fresh(self, name: str) -> str:
        made = name
        while made in self.taken or made in GLOBALS or made in OWN:
            made += "_"
        self.taken.add(made)
        return made


@dataclass
class Shell:
    """What the Python module of a C file is written from."""

    program: Program
    interface: Interface
    text: ModuleText
    #: globals of the module that the spec has an input or a size of the same name as
    hidden: set[str] = field(default_factory=set)

    def entry(self, name: str) -> Entry | None:
        return next((x for x in self.interface.entries if x.name == name), None)

    @property
    def wide(self) -> str:
        """The dtype of states, gradients and slots, as a global of the module."""
        return "FLOAT" if self.text.half else "DTYPE"

    def own(self, name: str) -> str:
        """What functions call a global of the module."""
        return f"{name}_of_module" if name in self.hidden else name

    def function(self, entry: str) -> str:
        """What the function of the C file is called in the module."""
        return self.own(f"c_{entry}")


@dataclass
class Call:
    """One call of a C function as text: what is checked before it, and the fields of its arguments by name."""

    arguments: list[str]
    prologue: list[str]
    names: Names
    #: what stands for each field: sizes, numbers, inputs, results, and tables that are read or written
    fields: dict[str, str]

    def line(self, shell: Shell, entry: Entry) -> str:
        parts = [*entry.sizes, *entry.numbers, *(x.field for x in entry.inputs), *(x.field for x in entry.reads)]
        parts += ["seed"] * entry.seed
        parts += [*(x.field for x in entry.results), *(f"write {x.field}" for x in entry.writes)]
        parts += ["saved", "saved_bytes"] if entry.saved == "read" else []
        return f"{shell.function(entry.name)}({', '.join(self.fields[x] for x in parts)})"


def layout(entry: Entry) -> str:
    """The fields of a struct of arguments as Python's `struct` writes them."""
    pointers = len(entry.inputs) + len(entry.reads)
    after = len(entry.results) + len(entry.writes)
    first = "q" * len(entry.sizes) + "d" * len(entry.numbers) + "P" * pointers
    return first + "Q" * entry.seed + "P" * after + ("PQ" if entry.saved else "")


def prepared(shell: Shell, entry: Entry, made: built.Entry, lowered: Lowered, first: Sequence[str] = ()) -> Call:
    """The checks before a call, as a module of NumPy makes them, and what is handed over."""
    unit = lowered.unit
    where = symbols(unit, argument, argument)
    inputs = [(n, x) for n, x in unit.inputs.items() if x.role == "input"]
    states = any(x.role == "state" for x in unit.inputs.values())
    names = Names({*where, *first, "params", "state", "seed", *(argument(n) for n, _ in inputs)})
    call = Call([*first, "params", *(argument(n) for n, _ in inputs)], [], names, {})
    call.prologue += tables(shell, entry, unit, states, call)
    low = Lowering(shell.text.dtype)
    fields = {x.name: x for x in entry.inputs}
    for name, node in inputs:
        local = argument(name)
        call.prologue.append(f"{local} = {checked(shell.text, low, name, node)}")
    call.prologue += [f"{symbol} = {name}.shape[{axis}]" for symbol, (name, axis) in where.items()]
    call.prologue += promises(unit, made.instance, size_code, argument)
    bounds = {x.name: x.below for x in made.instance.inputs}
    for name, node in inputs:
        if name in fields:
            kept = low.numpy_dtype(node.dtype)
            bound = bounds.get(name)
            small = isinstance(bound, int) and bound <= 2**31
            call.fields[fields[name].field] = given(shell, call, fields[name], argument(name), kept, small)
    shell.text.used |= low.used
    for size, symbol in zip(entry.sizes, entry.symbols, strict=True):
        if argument(symbol) not in where:
            raise Fault(f"a fault of dslc: no input of {entry.name} tells the size {symbol}")
        call.fields[size] = argument(symbol)
    call.arguments += ["state"] * states
    if entry.seed:
        call.arguments.append("seed=0")
        call.fields["seed"] = "int(seed) & 0xFFFFFFFFFFFFFFFF"
    return call


def tables(shell: Shell, entry: Entry, unit: Unit, states: bool, call: Call) -> list[str]:
    """Lines that compare parameters and states with their tables, and make pointers of those that are handed over."""
    lines = []
    reads = {x.kind: x.field for x in entry.reads if x.field != "grads"}
    for kind, table in (("params", "PARAMETERS"), ("state", "STATES")):
        if kind in reads:
            local = call.names.fresh(f"{kind}_pointers")
            lines.append(f"{local} = {shell.own(table)}({kind})")
            call.fields[reads[kind]] = f"{local}.at"
        elif kind == "params" or states:
            lines += [x for x in fitting(unit, states, shell.wide) if x.startswith(f"fitting({kind}")]
    return lines


def given(shell: Shell, call: Call, field: Field, local: str, kept: str, small: bool) -> str:
    """The address of an argument in the dtype that the C code takes; small numbers are known to fit into it."""
    wanted = DTYPES[field.dtype]
    if wanted == kept or wanted == "DTYPE":
        return f"{shell.own('address')}({local})"
    held = call.names.fresh(f"{local}_given")
    fits = f"{shell.own('narrow')}({quoted(field.name)}, {local}, {wanted})"
    if field.dtype == "bf16":
        fits = f"{shell.own('bits_of_bf16')}({local})"
    elif small or field.dtype == "f16":
        fits = f"{local}.astype({wanted})"
    call.prologue.append(f"{held} = {fits}")
    return f"{shell.own('address')}({held})"


def results(shell: Shell, call: Call, fields: Sequence[Field]) -> tuple[list[str], dict[str, str]]:
    """Lines that make room for results, and the text of each as a caller gets it."""
    lines, found = [], {}
    for x in fields:
        local = call.names.fresh(identifier(x.name.removeprefix(GRADIENT)))
        lines.append(f"{local} = np.empty({shape_code(x.shape)}, {DTYPES[x.dtype]})")
        call.fields[x.field] = f"{shell.own('address')}({local})"
        made = f"{shell.own('from_bf16')}({local})" if x.dtype == "bf16" else local
        found[x.name] = made if x.shape else f"{made}[()]"
    return lines, found


def text_of(name: str, doc: str, call: Call, lines: Sequence[str]) -> str:
    body = [f"    {x}" for x in lines]
    head = [f"def {name}({', '.join(call.arguments)}):", f'    """{doc}"""']
    return "\n".join([*head, *used([f"    {x}" for x in call.prologue], body), *body])


def forward_function(shell: Shell, entry: Entry, made: built.Entry) -> str:
    with made.open() as lowered:
        call = prepared(shell, entry, made, lowered)
        lines, found = results(shell, call, entry.results)
        lines.append(call.line(shell, entry))
        lines.append(f"return {next(iter(found.values())) if len(found) == 1 else dictionary(found)}")
        doc = f"The outputs of {shell.program.model.name} for inference: {', '.join(found)}."
        return text_of("forward", doc, call, lines)


def evaluation_function(shell: Shell, entry: Entry, made: built.Entry) -> str:
    with made.open() as lowered:
        call = prepared(shell, entry, made, lowered)
        lines, found = results(shell, call, entry.results)
        loss = found.pop("loss")
        lines += [call.line(shell, entry), f"return {loss}, {dictionary(found)}"]
        return text_of("evaluate", "The loss and the metrics of data, for inference.", call, lines)


def states_written(shell: Shell, entry: Entry, call: Call, updated: Sequence[str]) -> tuple[list[str], str]:
    """Room for the next values of states, and the text of their dict."""
    table = next((x for x in entry.writes if x.kind == "state"), None)
    if table is None:
        return [], "{}"
    local, pointers = call.names.fresh("states"), call.names.fresh("states_pointers")
    names = f"({', '.join(updated)},)"
    call.fields[f"write {table.field}"] = f"{pointers}.at"
    return [f"{local}, {pointers} = {shell.own('STATES')}.fresh({names})"], local


def updated_states(lowered: Lowered) -> list[str]:
    """The names of the states with next values as they stand in a tuple."""
    return [quoted(name) for path in lowered.states() for name in lowered.unit.paths(path)]


def gradient_functions(shell: Shell, entry: Entry, made: built.Entry) -> list[str]:
    """`loss_grad_metrics`, and the function below it, which writes gradients where it is told to."""
    with made.open() as lowered:
        call = prepared(shell, entry, made, lowered, ["grads_pointers"])
        lines, found = results(shell, call, entry.results)
        more, states = states_written(shell, entry, call, updated_states(lowered))
        for table in entry.writes:
            if table.kind != "state":
                call.fields[f"write {table.field}"] = "grads_pointers.at"
        by_input = {k.removeprefix(GRADIENT): v for k, v in found.items() if k.startswith(GRADIENT)}
        metrics = {k: v for k, v in found.items() if k != "loss" and not k.startswith(GRADIENT)}
        lines += [*more, call.line(shell, entry)]
        lines.append(f"return {found['loss']}, {dictionary(by_input)}, {dictionary(metrics)}, {states}")
        doc = "The loss of a batch, its gradients by inputs, the metrics, the next values of states."
        inner = text_of("gradients_into", doc, call, lines)
        doc = "The loss of a batch, its gradients by parameter, the metrics, and the next values of states."
        call.arguments.remove("grads_pointers")
        into = shell.own("gradients_into")
        passed = ", ".join(x.partition("=")[0] for x in call.arguments)
        outer = [
            f"def loss_grad_metrics({', '.join(call.arguments)}):",
            f'    """{doc}"""',
            f"    grads, grads_pointers = {shell.own('GRADIENTS')}.fresh({shell.own('TRAINED')})",
            f"    loss, {'by_input' if by_input else '_'}, metrics, states = {into}(grads_pointers, {passed})",
            f"    return loss, {'grads | by_input' if by_input else 'grads'}, metrics, states",
        ]
        return ["\n".join(outer), inner]


def training_step(shell: Shell, entry: Entry | None, unit: Unit, random: bool) -> str:
    """`train_step`: loss, gradients and update in one, in place."""
    program = shell.program
    train, optimizer, update = program.train, program.optimizer, program.update
    assert train is not None and optimizer is not None and update is not None
    inputs = [argument(n) for n, x in unit.inputs.items() if x.role == "input"]
    states = bool(unit.states)
    lines = [f"def train_step({', '.join(['params', 'opt', *inputs])}):"]
    lines.append('    """Loss, gradients and update in one, in place; `opt` also carries the loss and the metrics."""')
    pointers = Names({"params", "opt", "grads", "state", *inputs}).fresh("grads_pointers")
    normed = entry is not None and "grad_norm" in entry.numbers
    lines.append(
        f"    {'grads' if normed else '_'}, {pointers} = {shell.own('GRADIENTS')}.kept({shell.own('TRAINED')})"
    )
    passed = [pointers, "params", *inputs, *(['opt["state"]'] if states else [])]
    passed += ['seed=opt["seed"] + opt["step"] + 1'] if random else []
    result = f'opt["loss"], _, opt["metrics"], {"state" if states else "_"}'
    lines.append(f"    {result} = {shell.own('gradients_into')}({', '.join(passed)})")
    lines += ['    opt["state"].update(state)'] if states else []
    if entry is None:  # there are no parameters to change
        lines += ['    opt["step"] = opt["step"] + 1', "    return params, opt"]
    else:
        lines.append(f"    return {shell.own('updated')}(params, opt, {pointers}{', grads' if normed else ''})")
    return "\n".join(lines)


def update_functions(shell: Shell, entry: Entry | None) -> list[str]:
    """`update`: the step of the optimiser by gradients that are given; and what it has in common with `train_step`."""
    program = shell.program
    train, optimizer, update = program.train, program.optimizer, program.update
    assert train is not None and optimizer is not None and update is not None
    outer = ["def update(params, opt, grads):"]
    outer.append('    """One step of the optimiser, in place, by gradients that are given by name."""')
    if entry is None:
        return ["\n".join([*outer, '    opt["step"] = opt["step"] + 1', "    return params, opt"])]
    if train.wrt:
        outer.append(
            "    grads = {name: grad for name, grad in grads.items() if name in params}  # not those by inputs"
        )
    trained = "{name: PARAMS[name] for name in PARAMS if name in grads}"
    outer.append(f'    fitting(grads, {trained}, {shell.wide}, "grads.")')
    normed = "grad_norm" in entry.numbers
    outer.append(f"    return updated(params, opt, Pointers(GRADIENTS, grads){', grads' if normed else ''})")
    hyper = hyperparameters(shell.text, train, optimizer)
    slots = Names({"params", "opt", "step", "grads", "grads_pointers", "grad_norm"})
    local = {x: slots.fresh(f"{x}_pointers") for x in [*["param"] * shell.text.half, *update.slots]}
    changed = slots.fresh("params_pointers")
    lines = [f"def updated(params, opt, grads_pointers{', grads' if normed else ''}):"]
    lines.append('    """One step of the optimiser, in place, by gradients that C code finds by their pointers."""')
    lines += [f'    {name} = SLOTS["{slot}"](opt.get("{slot}"))' for slot, name in local.items()]
    lines.append(f"    {changed} = PARAMETERS(params)")
    lines.append('    step = opt["step"] = opt["step"] + 1')
    if normed:
        lines.append("    grad_norm = math.sqrt(sum(float(np.sum(np.square(g))) for g in grads.values()))")
    of_spec = {"step": "step", "grad_norm": "grad_norm", **hyper}
    numbers = [of_spec[name] for name in entry.symbols]
    after = [changed, *local.values()]  # as they stand among what the function writes
    reads = ["grads_pointers.at" for _ in entry.reads]
    lines.append(f"    {shell.function('update')}({', '.join([*numbers, *reads, *(f'{x}.at' for x in after)])})")
    lines.append(f"    for {(each := slots.fresh('pointers'))} in ({', '.join(after)},):")
    lines.append(f"        {each}.leave()")
    lines.append("    return params, opt")
    return ["\n".join(outer), "\n".join(lines)]
