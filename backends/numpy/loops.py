"""Scans as NumPy text: loops over layers, whose parameters differ, and loops over steps."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence

from dslc.backends.numpy.lower import Lowering, beside, is_another_name, late, statement
from dslc.backends.numpy.sharing import copied, owners
from dslc.backends.numpy.text import bare, size_code

from dslc.ir import nodes as ir


@statement(ir.Scan)
def scan(low: Lowering, node: ir.Node) -> None:
    assert isinstance(node, ir.Scan)
    if node.kind == "layers":
        layers(low, node)
    else:
        steps(low, node)


def star(low: Lowering, node: ir.Comp) -> str:
    """How the parameter of a layer is written, when a node is one; steps of scans inside are places along axes."""
    assert isinstance(node.body, ir.Read)
    template = low.layers.stars.get(node.body.tensor, "")
    counters = [low.steps[x.step.scan] for x in node.body.places if isinstance(x, ir.At)]
    inner = counters[template.count("{}") :] if template else []
    return low.layers.entry(template.format(*counters)) + (f"[{', '.join(inner)}]" if inner else "")


class Nested(str):
    """Where a value goes at the end of a pass of a loop inside of others: the steps of those are known."""

    around: tuple[str, ...] = ()

    def format(self, *step: object, **_: object) -> str:
        return str.format(self, *self.around, *step)


def is_formula(node: ir.Node) -> bool:
    return isinstance(node, ir.Comp) and node.op is None and not ir.slice_of_input(node)


def gradients_early(order: Sequence[ir.Node], node: ir.Scan) -> list[ir.Node]:
    """The same nodes with each value that only leaves the loop right after the last one of the others that it needs:
    the gradient by a weight stands beside that by the value which the weight is multiplied with."""
    needs: dict[ir.Node, set[ir.Node]] = {}
    for x in order:
        needs[x] = {x}.union(*(needs[a] for a in ir.arguments(x) if a in needs))
    read = {a for x in order for a in ir.arguments(x)}
    leaving = [x for x in dict.fromkeys(node.results) if x in needs and x not in read and x not in node.carries]
    others = {y for x in (*node.carries, *node.results) if x not in leaving for y in needs.get(x, ())}
    place = {x: k for k, x in enumerate(x for x in order if x in others)}
    after: dict[int, list[ir.Node]] = {}
    for x in leaving:
        after.setdefault(max((place[y] for y in needs[x] & others), default=-1), []).append(x)
    out: dict[ir.Node, None] = {}
    groups = [after.get(-1, []), *([x, *after.get(k, ())] for x, k in place.items())]
    for x in (x for group in groups for x in group):
        out.update(dict.fromkeys(y for y in order if y in needs[x]))
    return list(out)


def head(low: Lowering, node: ir.Scan, step: str) -> None:
    """The first line of a loop."""
    length = size_code(node.length)
    low.line(f"for {step} in {f'reversed(range({length}))' if node.reverse else f'range({length})'}:", "", node.span)
    low.indent += 1
    low.steps[node.number] = step


def move(low: Lowering, old: Sequence[str], new: Sequence[str]) -> None:
    """The last line of a loop: the values that it carries on."""
    moved = [(a, b) for a, b in zip(old, new, strict=True) if a != b]
    if moved:
        low.line(f"{', '.join(a for a, _ in moved)} = {', '.join(b for _, b in moved)}")


# ---- loops over layers -----------------------------------------------------------------------------------


def layers(low: Lowering, node: ir.Scan) -> None:
    """A loop over layers; what the gradients of a layer need goes to a list, which the loop back empties again."""
    inner, outside = low.uses.inside(node), ir.inside(node)[1]
    state, parts = low.layers, low.uses.parts.get(node, {})
    step = low.fresh(ir.counter_of(node))
    carries = [start_of(low, node, j) for j in range(len(node.starts))]
    stacked, bundle = places(low, node, carries)
    head(low, node, step)
    taken, before, around = low.taken - {step}, set(low.names), dict(state.paths)
    passed = passed_on(low, node, step)
    for x in inner:
        if isinstance(x, ir.Step):
            low.names[x] = step if x.kind == "number" else carries[x.place]
    for a in outside:
        if a in state.kept and a not in state.slices:  # else a loop around this one has taken it
            take(low, node, a, step)
    fetch(low, node, inner, step, passed)
    order, _ = beside(late(gradients_early(inner, node), is_formula) if node.reverse else inner)
    bundled = [k for k in range(len(node.results)) if parts.get(k) in state.kept and k not in stacked]
    hooks: dict[ir.Node, Callable[[], None]] = {}
    carried_on = named_as_before(low, node, order, bundled)
    for j, x in carried_on.items():
        low.given[x] = carries[j]
        if bundled and not hooks:
            hooks[x] = lambda: keep(low, node, bundle, bundled, carries)
    for k, result in enumerate(node.results):  # what only leaves the function needs no other name
        alone = k in parts and k not in passed and parts[k] not in state.kept and k not in stacked
        if alone and len(state.sinks.get(parts[k], ())) == 1 and isinstance(result, ir.Comp) and result in order:
            if owners(result) == {result} and node.results.count(result) == 1 and result not in node.carries:
                low.given[result] = state.entry(state.sinks[parts[k]][0].format(step))
    low.statements(order, hooks)
    if bundled and not hooks:
        keep(low, node, bundle, bundled, carries)
    sunk = [k for k in range(len(node.results)) if parts.get(k) in state.sinks and k not in passed]
    copies = dict(zip(sunk, copied([node.results[k] for k in sunk]), strict=True))
    for k, result in enumerate(node.results):
        if k in parts and k not in bundled and (k not in passed or is_read(low, parts[k])):
            leave(low, node, k, low.tensor(result), stacked.get(k, ""), step, carries, copies.get(k))
    move(low, carries, [low.tensor(c) for c in node.carries])
    low.indent -= 1
    state.paths = around
    for a in outside:
        if a in state.kept and a in state.slices and low.names.get(state.slices[a]) and state.slices[a] not in before:
            del state.slices[a]
    for x in set(low.names) - before:
        del low.names[x]
    # names of the loop are free again, but for those that the loop back gives to the same values
    low.taken = taken | {local for _, local in state.kept.values() if local}
    low.names[node] = ""
    low.several[node] = [*(stacked.get(k, "") for k in range(len(node.results))), *carries]


def start_of(low: Lowering, node: ir.Scan, number: int) -> str:
    """The name of a carried value: that of what it starts with, where nobody else needs that one."""
    start = node.starts[number]
    name = low.names.get(start, "")
    alone = bool(name) and sum(x == name for x in low.names.values()) == 1
    alone = alone and not any(text.code == name for text in low.formulas.shared.values())
    if alone and low.uses.counts[start] == 1 and isinstance(start, ir.Comp) and re.fullmatch(r"\w+", name):
        return name
    carried = {x.place: x for x in ir.inside(node)[0] if isinstance(x, ir.Step) and x.kind == "carry"}
    name = low.fresh((carried[number].name if number in carried else "") or "carry")
    low.line(f"{name} = {bare(low.tensor(start))}", "", node.span)
    return name


def places(low: Lowering, node: ir.Scan, carries: Sequence[str]) -> tuple[dict[int, str], str]:
    """Where the values of all layers go: stacks by the number of the result, and the list for the loop back."""
    parts, kept = low.uses.parts.get(node, {}), low.layers.kept
    stacked: dict[int, str] = {}
    bundle = ""
    for k, result in enumerate(node.results):
        if k not in parts or (parts[k] in low.layers.sinks and not is_read(low, parts[k])):
            continue
        if is_bundled(low, node, parts[k]):
            bundle = bundle or low.fresh("kept", *(f"kept_for_{carry}" for carry in carries))
            kept[parts[k]] = (bundle, "")
            continue
        wish = result.name or low.wish(result)
        if all(_is_at_a_step(r) for r in low.uses.readers.get(parts[k], [None])):
            stacked[k] = low.fresh(f"{wish}_kept")
            kept[parts[k]] = (stacked[k], "")
            low.line(f"{stacked[k]} = [None] * {size_code(node.length)}" if node.reverse else f"{stacked[k]} = []")
        else:
            stacked[k], shape = low.fresh(f"{wish}_all"), (node.length, *result.shape)
            low.line(f"{stacked[k]} = {low.empty(shape, result.dtype)}")
    if bundle:
        low.line(f"{bundle} = []")
    return stacked, bundle


def _is_at_a_step(read: ir.Read | None) -> bool:
    return read is not None and bool(read.places) and isinstance(read.places[0], ir.At)


def is_bundled(low: Lowering, node: ir.Scan, part: ir.Part) -> bool:
    """Does only the loop back over the same layers read a value, layer by layer?"""
    readers = low.uses.readers.get(part, [])
    if node.reverse or not readers or not all(_is_at_a_step(r) for r in readers):
        return False
    loops = [s for s in low.uses.parts if isinstance(s, ir.Scan) and part in ir.inside(s)[1]]
    outer = [s for s in loops if not any(s in ir.inside(x)[0] for x in loops)]
    return len(outer) == 1 and outer[0].reverse and low.uses.scopes[outer[0]] == low.uses.scopes[node]


def is_read(low: Lowering, part: ir.Part) -> bool:
    """Does the function itself read a value of all layers, be it that it leaves it or not?"""
    return len(low.uses.readers.get(part, [])) > (part in low.uses.roots) or part in low.layers.read_around


def passed_on(low: Lowering, node: ir.Scan, step: str) -> set[int]:
    """The values of a loop that leave the function already in a loop inside of it."""
    found: set[int] = set()
    sinks, parts = low.layers.sinks, low.uses.parts.get(node, {})
    for k, result in enumerate(node.results):
        part = parts.get(k)
        inside = isinstance(result, ir.Part) and isinstance(result.of, ir.Scan) and result.of.kind == "layers"
        if part is not None and part in sinks and inside:
            for sink in sinks[part]:
                inner = Nested(sink)
                inner.around = (*(sink.around if isinstance(sink, Nested) else ()), step)
                sinks.setdefault(result, []).append(inner)
            low.layers.read_around |= {result} if is_read(low, part) else set()
            found.add(k)
    return found


def named_as_before(low: Lowering, node: ir.Scan, order: Sequence[ir.Node], kept: Sequence[int]) -> dict[int, ir.Node]:
    """The carried values whose next value has the name at once: nothing reads the old one after it.

    What is kept of a layer is kept before the first of them.
    """
    place = {x: i for i, x in enumerate(order)}
    last: dict[int, int] = {}  # where a carried value is read for the last time
    for x in order:
        if not low.inlined(x):
            for y in low.reads(x):
                if isinstance(y, ir.Step) and y.scan == node.number and y.kind == "carry":
                    last[y.place] = max(last.get(y.place, 0), place[x])
    at_end = [x for k, x in enumerate(node.results) if k not in kept]
    at_end += [x for j, x in enumerate(node.carries) if not (isinstance(x, ir.Step) and x.place == j)]
    for x in at_end:
        if x not in place or isinstance(x, ir.Step) or is_another_name(x):
            for y in (x, *low.reads(x)):
                if isinstance(y, ir.Step) and y.scan == node.number and y.kind == "carry":
                    last[y.place] = len(order)
    ready = max((place.get(y, 0) for k in kept for y in (node.results[k], *low.reads(node.results[k]))), default=-1)
    results = set(node.results)
    found: dict[int, ir.Node] = {}
    for j, x in enumerate(node.carries):
        own = x in place and isinstance(x, ir.Comp) and not low.inlined(x) and not ir.slice_of_input(x)
        if own and node.carries.count(x) == 1 and x not in results and last.get(j, -1) <= place[x]:
            if ready < place[x]:
                found[j] = x
    return dict(sorted(found.items(), key=lambda item: place[item[1]]))


def keep(low: Lowering, node: ir.Scan, bundle: str, numbers: Sequence[int], carries: Sequence[str]) -> None:
    """Keep values of a layer for the loop back, in the order in which they were computed."""
    parts, kept = low.uses.parts[node], low.layers.kept
    made = {line.text.split(" = ")[0].strip(): i for i, line in enumerate(low.lines)}
    values = {k: low.tensor(node.results[k]) for k in numbers}
    ordered = sorted(numbers, key=lambda k: made.get(values[k], -1))
    for k in numbers:
        own = re.fullmatch(r"\w+", values[k]) and values[k] not in carries
        kept[parts[k]] = (bundle, values[k] if own else "")
    low.layers.bundles[bundle] = [parts[k] for k in ordered]
    items = ", ".join(values[k] for k in ordered)
    low.line(f"{bundle}.append(({items}))" if len(ordered) > 1 else f"{bundle}.append({items})")


def leave(
    low: Lowering,
    node: ir.Scan,
    number: int,
    value: str,
    stack: str,
    step: str,
    carries: Sequence[str],
    copy: bool | None,
) -> None:
    """Put a value of a layer where it goes: to what the function returns, as a copy or not, and to the stack."""
    part = low.uses.parts[node][number]
    if copy is not None:
        first, *others = (low.layers.entry(sink.format(step)) for sink in low.layers.sinks[part])
        if first != value:
            low.line(f"{first} = {value}{'.copy()' if copy else ''}")
        for other in others:
            low.line(f"{other} = {first}.copy()")
    if part in low.layers.kept:
        local = value if re.fullmatch(r"\w+", value) and value not in carries else ""
        low.layers.kept[part] = (stack, local)
        low.line(f"{stack}[{step}] = {value}" if node.reverse else f"{stack}.append({value})")
    elif stack:
        low.line(f"{stack}[{step}] = {value}")


def fetch(low: Lowering, node: ir.Scan, inner: Sequence[ir.Node], step: str, passed: Collection[int]) -> None:
    """Name the path that the parameters, states and gradients of a layer have in common, and write them by it."""
    slices = [x for x in inner if isinstance(x, ir.Comp) and ir.slice_of_input(x) and star(low, x)]
    parts = low.uses.parts.get(node, {})
    left = [part for k, part in parts.items() if k not in passed]
    sinks = [sink.format(step) for part in left for sink in low.layers.sinks.get(part, ())]
    entries = [*(star(low, x) for x in slices), *sinks]
    paths = Counter(m[1] for code in entries if (m := re.search(r'f"([^"]*\{[^"{}]*\})\.', code)))
    for path, count in paths.items():
        if count > 1:
            word = path.rpartition(".")[0].rpartition(".")[2]  # of several, each has that of its layer
            name = low.fresh(*(["layer"] if len(paths) == 1 else []), word, f"{word}_layer")
            low.line(f'{name} = f"{path}"')
            low.layers.paths[path] = name
    for x in slices:
        if x not in low.names and star(low, x).startswith(("params[", "state[")):
            low.names[x] = star(low, x)


def take(low: Lowering, node: ir.Scan, part: ir.Node, step: str) -> None:
    """Give the value that a layer has left a name inside the loop back, and all that are kept with it."""
    assert isinstance(part, ir.Part)
    state = low.layers
    stored, _ = state.kept[part]
    together = state.bundles.get(stored, [part])
    names = [local_name(low, x) for x in together]
    loops = [ir.inside(s)[1] for s in low.uses.parts if isinstance(s, ir.Scan)]
    once = node.reverse and sum(part in outside for outside in loops) == 1
    popped = once or stored in state.bundles
    low.line(f"{', '.join(names)} = {stored}.pop()" if popped else f"{names[0]} = {stored}[{step}]")
    for x, name in zip(together, names, strict=True):
        stands = ir.intern(ir.Input(name, "local", x.dtype, x.shape[1:]))
        low.names[stands] = name
        state.slices[x] = stands


def local_name(low: Lowering, part: ir.Part) -> str:
    """What the value of a layer is called in the loop back: as in the loop, if it has a name of its own there."""
    assert isinstance(part.of, ir.Scan)
    result = part.of.results[part.number]
    return low.layers.kept[part][1] or low.fresh(f"{result.name or low.wish(result)}_in")


# ---- loops over steps ------------------------------------------------------------------------------------


def steps(low: Lowering, node: ir.Scan) -> None:
    """A loop over the steps of a sequence; what does not depend on the step stands before it."""
    inner = low.uses.inside(node)
    parts = low.uses.parts.get(node, {})
    step = low.fresh(ir.counter_of(node))
    carried = {x.place: x for x in inner if isinstance(x, ir.Step) and x.kind == "carry"}
    carries = []
    for j, start in enumerate(node.starts):
        carries.append(low.fresh(f"{(carried[j].name if j in carried else '') or 'carry'}_before"))
        low.line(f"{carries[-1]} = {bare(low.tensor(start))}", "", node.span)
    stacked: dict[int, str] = {}
    for k, result in enumerate(node.results):
        if k in parts or not isinstance(result, ir.Scatter):  # histories grow where they are
            stacked[k], shape = low.fresh(f"{result.name or 'step'}_steps"), (node.length, *result.shape)
            low.line(f"{stacked[k]} = {low.empty(shape, result.dtype)}")
    head(low, node, step)
    for x in inner:
        if isinstance(x, ir.Step):
            low.names[x] = step if x.kind == "number" else carries[x.place]
    before = set(low.names)
    low.statements(beside(inner)[0])
    for k, name in stacked.items():
        low.line(f"{name}[{step}] = {low.tensor(node.results[k])}")
    move(low, carries, [low.tensor(c) for c in node.carries])
    low.indent -= 1
    for x in inner:
        if x not in before or isinstance(x, ir.Step):
            low.names.pop(x, None)
    low.taken.discard(step)
    low.names[node] = ""
    low.several[node] = [*(stacked.get(k, "") for k in range(len(node.results))), *carries]
