"""The update of the optimiser as C text: one loop for all parameters, everything that it changes in place."""

from __future__ import annotations

import math

from dslc.backends.c.checks import Checks, Codes, Promises
from dslc.backends.c.entry import EntryText
from dslc.backends.c.formula import Formula
from dslc.backends.c.interface import Entry, Field, Table
from dslc.backends.c.kernel import Kernel
from dslc.backends.c.text import Names, Types, bare, broken, c_type
from dslc.backends.record import CannotLower

from dslc.dtypes import is_float
from dslc.ir import nodes as ir
from dslc.program import Update
from dslc.schedule.plan import Plan
from dslc.sizes import product

#: so many entries are a piece of work
PIECE = 16384


def used_numbers(update: Update) -> list[str]:
    """The hyper-parameters that an update reads, and the number of the step and the norm of the gradient if it does."""
    order = ir.schedule(tuple(update.updates.values()))
    return [name for name, x in update.inputs.items() if x in order and name not in ("param", "grad")]


def update_entry(update: Update, names: Names, wide: str) -> tuple[Entry, dict[str, str]]:
    """What the function of the update takes; and the fields of numbers and slots, by name.

    Gradients and slots are in structs of the kind `wide`; if that of parameters is another one, their struct is written
    from the entry `param` of the optimiser, in which the update works.
    """
    fields = {name: names.fresh(name) for name in (*used_numbers(update), *update.slots)}
    kept = wide != "params"
    fields["param"] = names.fresh("param") if kept else "params"
    numbers = tuple(fields[name] for name in used_numbers(update))
    writes = (Table("params", "params"), *(Table(fields[slot], wide) for slot in [*["param"] * kept, *update.slots]))
    symbols = tuple(used_numbers(update))
    return Entry("update", (), numbers, (), (Table("grads", wide),), False, (), writes, symbols), fields


def exact(body: ir.Scalar, numbers: set[ir.Input], like: str) -> ir.Scalar:
    """A formula in which what is made of numbers alone is computed in double: 1 - beta^step loses digits in float."""
    done: dict[ir.Scalar, ir.Scalar] = {}
    pure: set[ir.Scalar] = set()
    for s in ir.scalars(body):
        if isinstance(s, ir.Read) and s.tensor in numbers:
            tensor = ir.intern(ir.Input(s.tensor.name, "input", "f64", ()))
            done[s] = ir.read(tensor, ())
            pure.add(s)
        elif isinstance(s, ir.Const) and is_float(s.dtype):
            done[s] = s
        elif isinstance(s, ir.Op) and s.args and is_float(s.dtype):
            if all(x in pure or isinstance(x, ir.Const) for x in s.args) and any(x in pure for x in s.args):
                args = tuple(
                    ir.const(float(x.value), "f64") if isinstance(x, ir.Const) and is_float(x.dtype) else done[x]
                    for x in s.args
                )
                done[s] = ir.op(s.name, args, "f64")
                pure.add(s)
            else:
                done[s] = ir.op(
                    s.name, tuple(ir.cast(done[x], like) if x in pure else done[x] for x in s.args), s.dtype
                )
        else:
            done[s] = ir.rebuild(s, lambda x: ir.cast(done[x], like) if x in pure else done[x])
    return ir.cast(done[body], like) if body in pure else done[body]


def half_bits(value: str, types: Types) -> str:
    """The bits of a number as parameters are kept."""
    return f"bits_of_f16{types.suffix('float')}({value})" if types.half == "f16" else f"bits_of_bf16({value})"


def update_text(
    prefix: str,
    update: Update,
    types: Types,
    names: Names,
    params: dict[str, Field],
    entry: Entry,
    fields: dict[str, str],
    codes: Codes,
) -> str:
    """The functions of the update."""
    precision = types.precision
    nodes = [x for x in ir.schedule(tuple(update.updates.values())) if isinstance(x, ir.Comp)]
    arrays = {"param": update.inputs["param"], "grad": update.inputs["grad"], **update.slots}
    size = update.inputs["param"].shape
    for node in nodes:
        if node.op is not None or node.shape not in (size, ()):
            raise CannotLower("an update that is not elementwise", node)
    frame_names = Names({"a", "param", "grad"})
    kept = frame_names.fresh("kept") if types.half else ""
    own = {"param": "param", "grad": "grad"} | {slot: frame_names.fresh(slot) for slot in update.slots}
    access = {x: (own[key], Field(key, own[key], precision, x.shape)) for key, x in arrays.items()}
    numbers = {x for key, x in update.inputs.items() if key not in arrays}
    doubles = {ir.intern(ir.Input(x.name, "input", "f64", ())): fields[x.name] for x in numbers if x.name in fields}
    text = EntryText(prefix, entry, [], Plan(), types, names, {}, access, {})
    text.numbers = doubles
    kernel = Kernel(text, names.inner(), written={arrays["param"], *(x for k, x in arrays.items() if k != "grad")})
    index = kernel.names.fresh("i")
    nest: list[list[str]] = [[], []]
    formula = Formula(kernel, {0: index}, {0: 1}, size, nest)
    bodies = {x: exact(x.body, numbers, x.dtype) for x in nodes}
    for node in nodes:
        formula.registers[node] = ("", 1 if node.shape else 0)
    formula.add(list(bodies.values()))
    for node in nodes:
        for s in ir.scalars(bodies[node]):
            if isinstance(s, ir.Read) and s.tensor in formula.registers:
                formula.texts[s] = formula.registers[s.tensor][0]
        code = formula.text(bodies[node])
        name = kernel.names.fresh(kernel.wish(node))
        comment = f"// {text.shown(node.span.comment, 100)}"
        level = formula.registers[node][1]
        nest[level] += [comment, f"const {types.of(node.dtype)} {name} = {bare(code)};"]
        formula.registers[node] = (name, level)
    stores: list[str] = []
    for key, x in update.updates.items():
        target = arrays[key]
        if x in numbers:
            raise CannotLower("an update that is a number", x)
        if x in formula.registers:
            value = formula.registers[x][0]
        elif x is not target:  # what was there before is wanted after it is overwritten
            value = kernel.names.fresh(f"{own[key]}_next")
            nest[1].append(f"const {types.of('float')} {value} = {kernel.pointer(x)}[{index}];")
        else:
            continue
        stores.append(f"{kernel.pointer(target)}[{index}] = {value};")
        if key == "param" and types.half:
            kernel.head[kept] = f"{c_type(types.half)} *{kept} = f->{kept};"
            stores.append(f"{kept}[{index}] = {half_bits(value, types)};")
    for line in nest[0]:
        kernel.line(line)
    kernel.line("#pragma omp simd")
    kernel.open(f"for (long {index} = begin; {index} < end; {index}++) {{")
    for line in (*nest[1], *stores):
        kernel.line(line)
    kernel.close()
    ctype = types.of("float")
    floats = [x for x in params.values() if is_float(x.dtype)]
    changed = {"params": floats, entry.reads[0].kind: floats}
    names.taken |= {"update_sizes", "update_refused"}
    asked = Checks(prefix, entry, codes, lambda: Kernel(text, names.inner(), ""), Promises(), changed, frozenset())
    piece, one = names.fresh("update_piece"), names.fresh("update_one")
    pointers = [f"{'const ' if key == 'grad' else ''}{ctype} *{own[key]}" for key in arrays]
    pointers += [f"{c_type(types.half)} *{kept}"] if kept else []
    arguments = f"{prefix}_update_arguments"
    of_arrays = ["grads" if key == "grad" else fields[key] for key in arrays] + ["params"] * bool(kept)
    passed = [*(own[key] for key in arrays), *([kept] if kept else [])]
    calls: list[str] = []
    for field in params.values():
        if not is_float(field.dtype):
            continue
        count = product(field.shape)
        args = [f"a->{x}->{field.field}" for x in of_arrays]
        if field.layers:
            number = math.prod(field.layers)
            args = [f"{x}[l]" for x in args]
            calls.append(f"    for (long l = 0; a->grads->{field.field} && l < {number}; l++)")
            calls.append(f"        {one}(a, {', '.join(args)}, {count});")
        else:
            calls.append(f"    {one}(a, {', '.join(args)}, {count});")
    lines = [
        "// what the update of one parameter works on",
        "typedef struct {",
        f"    const {arguments} *a;",
        *(f"    {x};" for x in pointers),
        "} update_frame;",
        "",
        f"static void {piece}(void *context, long begin, long end) {{",
        "    const update_frame *f = context;",
        *kernel.declared(),
        *kernel.lines,
        "}",
        "",
        "// one step of the optimiser for one parameter; one that is not trained has no gradient",
        f"static void {one}(const {arguments} *a, {', '.join(pointers)}, long count) {{",
        f"    update_frame f = {{{', '.join(['a', *passed])}}};",
        f"    if (grad) parallel({piece}, &f, count, {PIECE});",
        "}",
        "",
        *asked.text(),
        "",
        f"size_t {prefix}_update_workspace(const {arguments} *a) {{",
        "    (void)a;",
        "    return 0;",
        "}",
        "",
        f"int32_t {prefix}_update(const {arguments} *a, void *workspace, size_t bytes) {{",
        "    (void)workspace, (void)bytes;",
        "    const int32_t wrong = update_refused(a);",
        "    if (wrong) return wrong;",
        *calls,
        "    return 0;",
        "}",
    ]
    return "\n".join(part for x in lines for part in broken(x))
