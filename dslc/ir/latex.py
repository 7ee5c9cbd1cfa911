r"""A program as formulas for a text: one line of LaTeX for each value that the spec names, in the order of computation.

    y[n, o] = sum[i](x[n, i] * W[i, o])      y_{no} = \sum_{i} x_{ni} W_{io}
    d_W[i, o] = sum[n](d_y[n, o] * x[n, i])  \frac{\partial \mathcal{L}}{\partial W_{io}} = ...

What has no name and one reader stands in the formula of that reader. Values of one name have the layer as a
superscript. What a scan computes has its step as the first index, and what it carries over is that of the step before.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeGuard

from dslc.ir import nodes as ir
from dslc.ir.index_names import LETTERS, index_names
from dslc.polynomials import divide
from dslc.sizes import Size
from dslc.sizes import show as show_size
from dslc.source import NOWHERE

GREEK = frozenset([
    "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu", "nu", "xi",
    "pi", "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega", "Gamma", "Delta", "Theta", "Lambda", "Xi",
    "Pi", "Sigma", "Upsilon", "Phi", "Psi", "Omega",
])  # fmt: skip
#: functions that LaTeX has a word for
KNOWN = frozenset(["exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh", "max", "min", "det"])
#: functions with a sign of their own
SIGNS: dict[str, Callable[..., str]] = {
    "sqrt": r"\sqrt{{{}}}".format,
    "abs": r"\left|{}\right|".format,
    "floor": r"\left\lfloor {} \right\rfloor".format,
    "ceil": r"\left\lceil {} \right\rceil".format,
}
OTHER_WORDS = {
    "sigmoid": r"\sigma", "asin": r"\arcsin", "acos": r"\arccos", "atan": r"\arctan",
    "stop_grad": r"\mathop{\mathrm{sg}}", "digamma": r"\psi", "gamma": r"\Gamma", "normal_cdf": r"\Phi",
    "log2": r"\log_2", "exp2": r"\mathop{\mathrm{exp}}_2",
}  # fmt: skip
COMPARED = {"<": "<", "<=": r"\le", ">": ">", ">=": r"\ge", "==": "=", "!=": r"\ne"}
JOINED = {"and": r"\wedge", "or": r"\vee"}
REDUCED = {"sum": r"\sum", "prod": r"\prod", "max": r"\max", "min": r"\min", "any": r"\bigvee", "all": r"\bigwedge",
           "argmax": r"\mathop{\mathrm{argmax}}", "argmin": r"\mathop{\mathrm{argmin}}"}  # fmt: skip
LOSS = r"\mathcal{L}"
#: the indent of what is done in each step of a scan
QUAD = r"\quad "

#: a factor of -1
MINUS = ir.Const(-1, "i64")

#: how strongly a text binds: what a choice, a comparison, a sum, a reduction, a product, a power gives; then atoms
CHOICE, COMPARISON, SUM, REDUCTION, PRODUCT, POWER, ATOM = range(7)


@dataclass(frozen=True)
class Text:
    """A part of a formula, and how strongly it binds."""

    text: str
    strength: int = ATOM
    #: is it one product after a minus sign?
    minus: bool = False

    def at_least(self, strength: int) -> str:
        return self.text if self.strength >= strength else rf"\left({self.text}\right)"


def latex(outputs: Mapping[str, ir.Tensor]) -> str:
    """The formulas of all values that the outputs need, aligned at their equals signs."""
    roots = tuple(outputs.values())
    printer = _Printer(ir.every_node(roots), outputs)
    lines = [line for node in ir.schedule(roots) for line in printer.lines(node, 0)]
    return "\n".join([r"\begin{align*}", " \\\\\n".join(lines), r"\end{align*}"])


class _Printer:
    def __init__(self, order: Sequence[ir.Node], outputs: Mapping[str, ir.Tensor]) -> None:
        self.indices = index_names(order)
        self.loss = outputs.get("loss")
        self.roots = frozenset(outputs.values())
        self.names = {str(getattr(node, "name", "")) for node in order}
        #: outputs whose values have another name, as those of `grad`
        self.called: dict[ir.Node, str] = {
            node: x for x, node in outputs.items() if x.isidentifier() and x not in self.names
        }
        #: the steps of the scans that a value is computed in
        self.steps: dict[ir.Node, tuple[str, ...]] = {}
        self.scans = {node.number: node for node in order if isinstance(node, ir.Scan)}
        for scan in reversed(self.scans.values()):  # those around others come last in the order
            for node in ir.inside(scan)[0]:
                self.steps[node] = (*self.steps.get(scan, ()), _symbol(ir.counter_of(scan)))
        self.uses = _uses(order)
        #: values that another one only rounds
        self.rounded = {x for node in order if (x := _rounded(node)) and self.uses[x] == 1}
        last = Counter(x.rpartition(".")[2] for x in {x.removeprefix("d_") for x in self.names})
        self.shared = {name for name, times in last.items() if name and times > 1}
        #: which values go by one symbol, and the symbols that are taken
        self.same = _same_variable(order)
        self.symbols: dict[ir.Node, str] = {}
        self.taken: Counter[str] = Counter()

    # ---- values

    def lines(self, node: ir.Node, depth: int) -> Iterator[str]:
        indent = QUAD * depth
        match node:
            case ir.Comp() if not self.is_inside(node):
                left = self.value(node, self.axes(node))
                yield f"{indent}{left} &= {self.body(node, self.indices[node]).text}"
            case ir.Scatter():
                names = self.indices[node]
                places = [self.place(x, names) for x in node.places]
                sign = "+" if node.op == "+" else rf"\{node.op}"
                left = rf"{self.value(node, places)} &\mathrel{{{sign}{{=}}}}"
                yield f"{indent}{left} {self.scalar(node.body, names).text}"
            case ir.Scan():
                yield from self.scan(node, depth)
            case ir.Part(of=ir.Scan() as scan) if node.number < len(scan.results):
                yield from self.equal(node, scan.results[node.number], _symbol(ir.counter_of(scan)), depth)
            case ir.Reshape():
                yield f"{indent}{self.value(node, ())} &= {_call('reshape', [self.whole(node.of, ())]).text}"
            case ir.Part(of=ir.Along() | ir.External() as made):
                arguments = [self.whole(x, ()) for x in made.args]
                which = f"_{{{node.number + 1}}}" if len(made.shapes) > 1 else ""
                yield f"{indent}{self.value(node, ())} &= {_call(made.op, arguments).text}{which}"

    def scan(self, node: ir.Scan, depth: int) -> Iterator[str]:
        """The values before the first step, the range of the steps, and a line for each value of a step."""
        indent, counter, last = QUAD * depth, _symbol(ir.counter_of(node)), show_size(node.length - 1)
        inner = ir.inside(node)[0]
        carried = [x for x in inner if isinstance(x, ir.Step) and x.kind == "carry" and x.scan == node.number]
        for step in carried:
            places = self.axes(node.carries[step.place])
            before = self.value(step, places, _size(show_size(node.length)) if node.reverse else "-1")
            yield f"{indent}{before} &= {self.whole(node.starts[step.place], places)}"
        first, last = (_size(last), "0") if node.reverse else ("0", _size(last))
        yield rf"{indent}\text{{for }} {counter} &= {first}, \dots, {last}\text{{:}}"
        for x in inner:
            yield from self.lines(x, depth + 1)
        for step in carried:
            yield from self.equal(step, node.carries[step.place], counter, depth + 1)

    def equal(self, node: ir.Step | ir.Part, value: ir.Tensor, step: str, depth: int) -> Iterator[str]:
        """What is carried on from a step, or kept of it, and the value of the step, where they have two symbols."""
        if self.same.get(node, node) is not self.same.get(value, value):
            places = self.axes(value)
            left = self.value(node, places, step) if isinstance(node, ir.Step) else self.value(node, [step, *places])
            yield f"{QUAD * depth}{left} &= {self.value(value, places)}"

    def axes(self, node: ir.Tensor) -> list[str]:
        """An index for each axis of a value."""
        names = self.indices[node] if isinstance(node, ir.Comp) else LETTERS
        return [_symbol(x) for x in names[: len(node.shape)]]

    def is_inside(self, node: ir.Comp) -> bool:
        """Does a value stand in the formula of the one value that reads it?"""
        if node in self.roots:
            return False
        once = (not node.name or node in self.rounded) and self.uses[node] == 1
        return once or ir.slice_of_input(node) or (not node.name and _is_number(node))

    def value(self, node: ir.Node, places: Sequence[str], step: str | None = None) -> str:
        """A tensor at some places; of what a scan computes at its own step, or at another one."""
        if node is self.loss:
            return LOSS
        text, adjoint = self.symbol(node)
        if _is_before(node):
            assert isinstance(node.of, ir.Scan)
            places = [f"{places[0]} {'+' if node.of.reverse else '-'} 1", *places[1:]] if places else ()
        places = (*self.step_of(node, step), *places)
        if places:
            text = f"{text}_{{{_listed(places)}}}"
        return rf"\frac{{\partial {LOSS}}}{{\partial {text}}}" if adjoint else text

    def step_of(self, node: ir.Node, step: str | None) -> tuple[str, ...]:
        """The steps of the scans around a value; what is carried into a step is that of the one before."""
        steps = self.steps.get(node, ())
        if isinstance(node, ir.Step):
            away = "+" if self.scans[node.scan].reverse else "-"
            return (*steps[:-1], step or f"{steps[-1]} {away} 1")
        if isinstance(node, ir.Part) and isinstance(node.of, ir.Scan) and node.number >= len(node.of.results):
            return (*steps, "0" if node.of.reverse else _size(show_size(node.of.length - 1)))
        return steps

    def adjoint_of(self, node: ir.Node) -> str | None:
        """The name of the value that a value is the adjoint of."""
        name = str(getattr(node, "name", ""))
        made = getattr(node, "span", NOWHERE).derived or (not isinstance(node, ir.Input) and name[2:] in self.names)
        return name.removeprefix("d_") if made and name.startswith("d_") else None

    def symbol(self, node: ir.Node) -> tuple[str, bool]:
        """The symbol of a value, or of what it is the adjoint of: and is it? Numbered where another value has it."""
        first = self.same.get(node, node)
        called = self.called.get(node)
        adjoint = None if called else self.adjoint_of(first)
        if first not in self.symbols:
            name = called or (str(getattr(first, "name", "")) if adjoint is None else adjoint)
            path, _, last = name.rpartition(".")
            path = path.removesuffix(".*").rpartition("*.")[2]  # layers of a loop have its step as an index
            layer = _escaped(path) if path and last in self.shared else ""
            key = f"{adjoint is not None} {layer} {last}"
            self.taken[key] += 1
            number = f"({self.taken[key]})" if self.taken[key] > 1 or not name else ""
            above = (rf"\mathrm{{{layer}}}" if layer else "") + number
            self.symbols[first] = _symbol(last or "z", primes=False) + (f"^{{{above}}}" if above else "")
        return self.symbols[first], adjoint is not None

    # ---- formulas

    def body(self, node: ir.Comp, names: Sequence[str]) -> Text:
        text = self.scalar(node.body, names)
        if node.op is None:
            return text
        under = _listed([_symbol(x) for x in names[len(node.shape) :]])
        return Text(rf"{REDUCED[node.op]}_{{{under}}} {text.at_least(REDUCTION)}", REDUCTION)

    def scalar(self, root: ir.Scalar, names: Sequence[str]) -> Text:
        done: dict[ir.Scalar, Text] = {}
        for s in ir.scalars(root):
            done[s] = self.one(s, done, names)
        return done[root]

    def one(self, s: ir.Scalar, done: Mapping[ir.Scalar, Text], names: Sequence[str]) -> Text:
        match s:
            case ir.Const():
                return _number(s.value)
            case ir.SizeOf():
                return Text(_size(show_size(s.size)), SUM if set(show_size(s.size)) & set("+- ") else ATOM)
            case ir.Var():
                return Text(_symbol(names[s.number]))
            case ir.Rand():
                return Text(r"u")
            case ir.Read():
                if isinstance(s.tensor, ir.Step) and s.tensor.kind == "number":
                    return Text(_symbol(s.tensor.name or "t"))
                text = self.read(s, names)
                if s.outside is None:
                    return text
                return Text(rf"{text.text} \text{{ else }} {done[s.outside].text}", COMPARISON)
            case ir.Op():
                return self.operation(s, done)

    def read(self, s: ir.Read, names: Sequence[str]) -> Text:
        places = [self.place(x, names) for x in s.places]
        if isinstance(s.tensor, ir.Comp) and self.is_inside(s.tensor):
            return self.inlined(s.tensor, places, names)
        return Text(self.value(s.tensor, places))

    def inlined(self, node: ir.Comp, places: Sequence[str], names: Sequence[str]) -> Text:
        """The formula of a value at some places, where `names` are indices that mean something else."""
        own = list(self.indices[node][len(node.shape) :])
        taken = {*names, *places}
        for k, name in enumerate(own):
            while name in taken:
                name += "'"
            own[k] = name
            taken.add(name)
        return self.body(node, (*places, *own))

    def whole(self, node: ir.Tensor, places: Sequence[str]) -> str:
        """A value at some places, or its formula where it has no line of its own."""
        if isinstance(node, ir.Comp) and self.is_inside(node):
            return self.inlined(node, places or self.axes(node), ()).text
        return self.value(node, places)

    def place(self, place: ir.Place, names: Sequence[str]) -> str:
        match place:
            case ir.At():
                return _plus(_symbol(place.step.name or "t"), place.offset)
            case ir.Data():
                return self.scalar(place.value, names).text
            case ir.Affine():
                text = ""
                for number, coefficient in sorted(place.terms, key=lambda x: show_size(x[1]).startswith("-")):
                    index = _symbol(names[number]) if names[number].isidentifier() else names[number]
                    shown = show_size(coefficient)
                    minus = shown.startswith("-")
                    factor = shown.removeprefix("-")
                    term = index if factor == "1" else f"{_size(factor)}{index}"
                    text += f" {'-' if minus else '+'} {term}" if text else f"{'-' if minus else ''}{term}"
                text = _plus(text, place.offset)
                return text if place.divisor == 1 else f"({text}) / {_size(show_size(place.divisor))}"

    def operation(self, s: ir.Op, done: Mapping[ir.Scalar, Text]) -> Text:
        match s.name:
            case "+" | "-":
                return self.sum(s, done)
            case "*" | "neg" | "/":
                return self.product(s, done)
            case "^":
                return Text(f"{_base(done[s.args[0]])}^{{{done[s.args[1]].text}}}", POWER)
            case "select":
                condition, a, b = (done[x].text for x in s.args)
                text = rf"\begin{{cases}} {a} & \text{{if }} {condition} \\ {b} & \text{{else}} \end{{cases}}"
                return Text(text, CHOICE)
            case "cast":
                return done[s.args[0]]
            case "not":
                return Text(rf"\neg {done[s.args[0]].at_least(ATOM)}", PRODUCT)
        if s.name in COMPARED | JOINED:
            sign = (COMPARED | JOINED)[s.name]
            return Text(f" {sign} ".join(done[x].at_least(SUM) for x in s.args), COMPARISON)
        return _call(s.name, [done[x].text for x in s.args])

    def sum(self, s: ir.Op, done: Mapping[ir.Scalar, Text]) -> Text:
        a, b = s.args
        minus = (s.name == "-") != done[b].minus
        right = done[b].text.removeprefix("-") if done[b].minus else done[b].at_least(REDUCTION)
        return Text(f"{done[a].at_least(SUM)} {'-' if minus else '+'} {right}", SUM)

    def product(self, s: ir.Op, done: Mapping[ir.Scalar, Text]) -> Text:
        """Factors above and below one line, numbers first, equal ones as a power, one minus sign before them all."""
        number, divided = Fraction(1), False
        above: Counter[ir.Scalar] = Counter()
        below: Counter[ir.Scalar] = Counter()
        for x, power in _factors(s):
            exact = _exact(x)
            if exact is None:
                (above if power > 0 else below)[x] += abs(power)
            else:
                number, divided = number * exact**power, divided or power < 0
        common = above & below
        above, below = above - common, below - common
        for counts in (above, below):
            for x in [x for x, times in counts.items() if isinstance(x, ir.Op) and x.name == "sqrt" and times % 2 == 0]:
                counts[x.args[0]] += counts.pop(x) // 2
        sizes = {x: _size(show_size(x.size)) for x in below if isinstance(x, ir.SizeOf)}
        for x in sizes:  # 2 / (2 N) is 1 / N
            shorter = show_size(divide(x.size, abs(number.numerator))) if below[x] == 1 else "/"
            if abs(number.numerator) != 1 and "/" not in shorter:
                sizes[x], number = _size(shorter), number / abs(number.numerator)
        texts: dict[ir.Scalar, Text] = {
            x: Text(sizes[x]) if x in sizes else done[x] if x in done else self.scalar(x, ()) for x in (*above, *below)
        }
        minus, number = number < 0, abs(number)
        if not below and not divided:
            whole = [] if number == 1 else [_number(float(number))]
            text = _beside([*whole, *_powers(above, texts)])
        else:
            # what is a fraction already stands before this one
            before = Counter({x: times for x, times in above.items() if texts[x].text.startswith(r"\frac")})
            top, bottom = (
                _beside([*([] if n == 1 else [Text(str(n))]), *_powers(factors, texts)])
                for n, factors in ((number.numerator, above - before), (number.denominator, below))
            )
            fraction = top if bottom.text == "1" else Text(rf"\frac{{{top.text}}}{{{bottom.text}}}")
            text = _beside([*_powers(before, texts), *([] if fraction.text == "1" else [fraction])])
        return Text(f"-{text.at_least(REDUCTION)}", SUM, minus=True) if minus else text


def _factors(root: ir.Scalar) -> Iterator[tuple[ir.Scalar, int]]:
    """What a product is made of, with the power that each factor has there."""
    pending = [(root, 1)]
    while pending:
        x, power = pending.pop()
        match x:
            case ir.Op("*", args):
                pending.extend((a, power) for a in reversed(args))
            case ir.Op("neg", (a,)):
                yield MINUS, power
                pending.append((a, power))
            case ir.Op("/", (a, b)):
                pending.extend([(b, -power), (a, power)])
            case ir.Read(ir.Comp(name="") as a) if _is_number(a):
                pending.append((a.body, power))
            case ir.Op("^", (a, ir.Const(int(n)))) if n > 0:
                yield a, n * power
            case ir.Const(float(n)) if n < 0 and _exact(x) is None:
                yield MINUS, power
                yield ir.Const(-n, x.dtype, repr(-n)), power
            case _:
                yield x, power


def _exact(x: ir.Scalar) -> Fraction | None:
    """A whole number, or a half, a quarter or an eighth of one."""
    if not isinstance(x, ir.Const) or isinstance(x.value, bool) or not math.isfinite(x.value) or x.value == 0:
        return None
    value = Fraction(x.value)
    return value if value.denominator in (1, 2, 4, 8) and abs(value) < 1e6 else None


def _powers(factors: Mapping[ir.Scalar, int], texts: Mapping[ir.Scalar, Text]) -> list[Text]:
    """Factors with their powers, numbers first."""
    ordered = sorted(factors, key=lambda x: not isinstance(x, ir.Const))
    return [texts[x] if factors[x] == 1 else Text(f"{_base(texts[x])}^{{{factors[x]}}}", POWER) for x in ordered]


def _beside(factors: Sequence[Text]) -> Text:
    """Factors side by side; the sum at the end of a product needs no parentheses around it."""
    if len(factors) < 2:
        return factors[0] if factors else Text("1")
    *others, last = factors
    texts = [*(x.at_least(PRODUCT) for x in others), last.at_least(REDUCTION)]
    between = r" \cdot " if all(x[0].isdigit() for x in texts) else r" \, "
    return Text(between.join(texts), PRODUCT)


def _is_number(node: ir.Comp) -> bool:
    """Is a value made of numbers and sizes alone?"""
    return node.op is None and all(isinstance(s, ir.Const | ir.SizeOf | ir.Op) for s in ir.scalars(node.body))


def _rounded(node: ir.Node) -> ir.Tensor | None:
    """The value that a value is the cast of, all indices in their places."""
    if not (
        isinstance(node, ir.Comp) and node.op is None and isinstance(node.body, ir.Op) and node.body.name == "cast"
    ):
        return None
    (read,) = node.body.args
    if not isinstance(read, ir.Read) or any(x is not ir.plain(k) for k, x in enumerate(read.places)):
        return None
    return read.tensor


def _is_before(node: ir.Node) -> TypeGuard[ir.Part]:
    """Is a value what a scan carries into its steps, stacked?"""
    if not (isinstance(node, ir.Part) and isinstance(node.of, ir.Scan) and node.number < len(node.of.results)):
        return False
    step = node.of.results[node.number]
    return isinstance(step, ir.Step) and step.kind == "carry" and step.scan == node.of.number


def _same_variable(order: Iterable[ir.Node]) -> dict[ir.Node, ir.Node]:
    """Values that are one variable over the steps of a scan, by the first of them: carried on, stacked or the last."""
    first: dict[ir.Node, ir.Node] = {}

    def join(node: ir.Node, value: ir.Node) -> None:
        name, other = (str(getattr(x, "name", "")).rpartition(".")[2] for x in (node, value))
        if name in ("", other):
            first[node] = first.get(value, value)

    for node in order:
        if isinstance(node, ir.Scan):
            inner = ir.inside(node)[0]
            for x in inner:
                if isinstance(x, ir.Step) and x.kind == "carry" and x.scan == node.number:
                    join(x, node.carries[x.place])
        elif isinstance(node, ir.Part) and isinstance(node.of, ir.Scan):
            join(node, (*node.of.results, *node.of.carries)[node.number])
    return first


def _uses(order: Iterable[ir.Node]) -> Counter[ir.Node]:
    """How often values are read; what a scan carries or keeps has a line of its own."""
    uses: Counter[ir.Node] = Counter()
    for node in order:
        bodies = ir.bodies(node)
        reads = [s.tensor for body in bodies for s in ir.scalars(body) if isinstance(s, ir.Read)]
        uses.update(reads)
        others = (x for x in ir.arguments(node) if x not in reads)
        uses.update(dict.fromkeys(others, 2))
        if isinstance(node, ir.Scan):
            uses.update(dict.fromkeys((*node.carries, *node.results), 2))
    return uses


def _call(name: str, arguments: Sequence[str]) -> Text:
    if name in SIGNS:
        return Text(SIGNS[name](*arguments))
    word = OTHER_WORDS.get(name) or (f"\\{name}" if name in KNOWN else rf"\mathop{{\mathrm{{{_escaped(name)}}}}}")
    return Text(rf"{word}\left({', '.join(arguments)}\right)")


def _base(text: Text) -> str:
    """What a power is taken of; a text that has a superscript already is kept together."""
    if text.strength < ATOM or text.text.startswith(r"\frac") or text.text.endswith(r"\right)"):
        return rf"\left({text.text}\right)"
    return f"{{{text.text}}}" if "^" in text.text else text.text


def _symbol(name: str, primes: bool = True) -> str:
    """A name as mathematics writes it; an index `i2` is a second i, a value that a spec calls `W2` has that name.

    >>> [_symbol(x) for x in ("x", "mu", "i2", "h10", "logits_part")]
    ['x', '\\\\mu', "i'", '\\\\mathit{h10}', '\\\\mathit{logits\\\\_part}']
    >>> _symbol("W2", primes=False)
    '\\\\mathit{W2}'
    """
    if name in GREEK:
        return f"\\{name}"
    letter, number = name[:1], name[1:]
    if primes and number in ("2", "3", "4"):
        return letter + "'" * (int(number) - 1)
    return name if len(name.rstrip("'")) == 1 else rf"\mathit{{{_escaped(name)}}}"


def _escaped(name: str) -> str:
    return name.replace("_", r"\_").replace("*", r"\ast ")


def _listed(places: Sequence[str]) -> str:
    """Places beside each other; a comma between them where one is more than a letter."""
    return ("" if all(x.strip("'").isalpha() and len(x.strip("'")) == 1 for x in places) else ", ").join(places)


def _size(text: str) -> str:
    return text.replace("//", "/").replace("*", r" \, ")


def _plus(text: str, offset: Size) -> str:
    if offset == 0:
        return text or "0"
    shown = _size(show_size(offset))
    if not text:
        return shown
    return f"{text} - {shown[1:]}" if shown.startswith("-") else f"{text} + {shown}"


def _number(value: float | int | bool) -> Text:
    """A number; roots of small numbers, of pi and their fractions by their signs.

    >>> [_number(x).text for x in (2.0, 0.5, 1e-5, 2 ** -0.5, 2 / math.pi ** 0.5, -math.inf)]
    ['2', '\\\\frac{1}{2}', '10^{-5}', '\\\\frac{1}{\\\\sqrt{2}}', '\\\\frac{2}{\\\\sqrt{\\\\pi}}', '-\\\\infty']
    """
    if isinstance(value, bool):
        return Text(rf"\mathrm{{{str(value).lower()}}}")
    if value < 0:
        return Text(f"-{_number(-value).text}", SUM, minus=True)
    if math.isinf(value):
        return Text(r"\infty")
    if value == int(value) and value < 1e6:
        return Text(str(int(value)))
    mantissa, _, exponent = f"{value:.15g}".partition("e")
    if exponent:
        power = f"10^{{{int(exponent)}}}"
        return Text(power if mantissa == "1" else rf"{mantissa} \cdot {power}", POWER)
    simple = Fraction(value).limit_denominator(6)
    if float(simple) == value and simple < 1:
        return Text(rf"\frac{{{simple.numerator}}}{{{simple.denominator}}}")
    if len(mantissa) < 10:
        return Text(mantissa)
    return Text(next(_as_root(float(value)), f"{value:.6g}"))


def _as_root(value: float) -> Iterator[str]:
    """A number that is a root of a simple fraction, perhaps with pi in it."""
    for sign, unit in (("", 1.0), (r"\pi", math.pi)):
        for root, number in (("{}", value), (r"\sqrt{{{}}}", value * value)):
            for above, scaled in ((True, number / unit), (False, number * unit)):
                simple = Fraction(scaled).limit_denominator(64)
                if simple and math.isclose(float(simple), scaled, rel_tol=1e-14) and (sign or root != "{}"):
                    yield _fraction(simple, sign, above, root)


def _fraction(simple: Fraction, sign: str, above: bool, root: str) -> str:
    top = _times(simple.numerator, sign if above else "", root)
    below = _times(simple.denominator, "" if above else sign, root)
    return top if below == "1" else rf"\frac{{{top}}}{{{below}}}"


def _times(number: int, sign: str, root: str) -> str:
    """A whole number under a root, or before it if it is a square."""
    whole = math.isqrt(number)
    if root == "{}" or (whole * whole == number):
        front = number if root == "{}" else whole
        under = root.format(sign) if sign else ""
        return (f"{front}{under}" if front != 1 else under) if under else str(front)
    return root.format(f"{number}{sign}")
