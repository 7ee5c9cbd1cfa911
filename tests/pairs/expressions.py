"""Random expressions over the indices of an equation, as texts of both languages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tests.pairs.plan import (
    ATOM,
    COMPARE,
    INDICES,
    POWER,
    PRODUCT,
    SELECT,
    SIGN,
    SUM,
    Index,
    Maker,
    Node,
    Value,
    fixed,
    tidy,
)
from tests.pairs.switches import on

#: functions of one number that are smooth wherever they are called: spec, torch
FUNCTIONS = [
    ("tanh({0})", "torch.tanh({0})"),
    ("sigmoid({0})", "torch.sigmoid({0})"),
    ("sin({0})", "torch.sin({0})"),
    ("cos({0})", "torch.cos({0})"),
    ("atan({0})", "torch.atan({0})"),
    ("asinh({0})", "torch.asinh({0})"),
    ("erf({0})", "torch.erf({0})"),
    ("erfc({0})", "torch.erfc({0})"),
    ("gelu({0})", "torch.nn.functional.gelu(torch.as_tensor({0}))"),
    ("silu({0})", "torch.nn.functional.silu(torch.as_tensor({0}))"),
    ("softplus({0})", "torch.logaddexp(torch.as_tensor({0}), num(0))"),
    ("log_sigmoid({0})", "-torch.logaddexp(-{0}, num(0))"),
    ("exp(tanh({0}))", "torch.exp(torch.tanh({0}))"),
    ("exp(-square({0}))", "torch.exp(-{0} * {0})"),
    ("expm1(sin({0}))", "torch.expm1(torch.sin({0}))"),
    ("exp2(sin({0}))", "torch.exp2(torch.sin({0}))"),
    ("log1p(square({0}))", "torch.log1p({0} * {0})"),
    ("log(2 + square({0}))", "torch.log(2 + {0} * {0})"),
    ("log2(3 + sin({0}))", "torch.log2(3 + torch.sin({0}))"),
    ("sqrt(1 + square({0}))", "torch.sqrt(1 + {0} * {0})"),
    ("rsqrt(1 + square({0}))", "torch.rsqrt(1 + {0} * {0})"),
    ("hypot({0}, 1)", "torch.sqrt({0} * {0} + 1)"),
    ("lgamma(2 + sin({0}))", "torch.lgamma(2 + torch.sin({0}))"),
    ("asin(tanh({0}) / 2)", "torch.asin(torch.tanh({0}) / 2)"),
    ("atanh(sin({0}) / 2)", "torch.atanh(torch.sin({0}) / 2)"),
    ("sinh(tanh({0}))", "torch.sinh(torch.tanh({0}))"),
    ("cosh(sin({0}))", "torch.cosh(torch.sin({0}))"),
    ("softsign({0})", "{0} / (1 + torch.abs({0}))"),
    ("mish(sin({0}))", "torch.nn.functional.mish(torch.sin({0}))"),
    ("relu({0})", "torch.relu(torch.as_tensor({0}))"),
    ("abs({0})", "torch.abs({0})"),
    ("leaky_relu({0}, 0.1)", "torch.where({0} >= 0, {0}, 0.1 * {0})"),
    ("elu({0})", "torch.where({0} >= 0, {0}, torch.expm1(torch.clamp({0}, max=0.0)))"),
    ("pow(1.5 + sin({0}), 1.5)", "torch.pow(1.5 + torch.sin({0}), 1.5)"),
]

NUMBERS = ["2", "3", "0.5", "1", "1.5", "0.25", "pi", "0.1"]


class Equation:
    """The indices of one equation and random expressions over them."""

    def __init__(self, maker: Maker, sizes: Sequence[str], reserved: Sequence[str] = ()):
        self.maker, self.rng = maker, maker.rng
        self.indices: list[Index] = []
        self.reserved = list(reserved)  # names that mean something else in this statement
        names = self.rng.sample([i for i in INDICES if i not in self.reserved], len(sizes))
        self.left = tuple(
            self.keep(Index(n, n, a - len(sizes), s)) for a, (n, s) in enumerate(zip(names, sizes, strict=True))
        )

    def keep(self, index: Index) -> Index:
        self.indices.append(index)
        return index

    def bind(self, size: str, scope: Sequence[Index], again: bool = False) -> Index:
        """A new bound index; `again` allows a name that another term has bound too."""
        free = [i for i in INDICES if i not in self.reserved and i not in {j.name for j in [*self.left, *scope]}]
        used = {i.name for i in self.indices}
        unused = [i for i in free if i not in used] or free
        name = self.rng.choice(free if again else unused)
        var = name if name not in used else f"{name}_{len(self.indices)}"
        depth = max((-i.axis for i in self.indices), default=0) + 1
        return self.keep(Index(name, var, -depth, size))

    def grid(self) -> list[str]:
        """The torch line that makes all positions."""
        if not self.indices:
            return []
        made = ", ".join(f"at({i.axis}, {i.size})" for i in self.indices)
        names = ", ".join(i.var for i in self.indices)
        return [f"{names} = {made}"]

    # ---- expressions

    def expression(self, depth: int, scope: Sequence[Index], implied: bool = True) -> Node:
        """A float expression; `implied` where a product may leave its sum out."""
        rng = self.rng
        if depth <= 0:
            return self.atom(scope)
        kind = rng.choices(
            [
                "function",
                "sum",
                "product",
                "quotient",
                "square",
                "extreme",
                "select",
                "reduce",
                "contract",
                "number",
                "along",
            ],
            [20, 20, 14, 6, 6, 5, 8, 10, 14, 7, 5],
        )[0]
        return getattr(self, kind)(depth, list(scope), implied)

    def atom(self, scope: Sequence[Index]) -> Node:
        if self.rng.random() < 0.12:
            return constant(self.rng.choice(NUMBERS))
        return self.read(scope)

    def function(self, depth: int, scope: list[Index], implied: bool) -> Node:
        spec, torch = self.rng.choice(FUNCTIONS)
        inner = self.expression(depth - 1, scope, implied)
        return Node(spec, torch, [self.floating(inner, scope)])

    def floating(self, node: Node, scope: Sequence[Index]) -> Node:
        """The node, or a read in its place where it is but a number: torch functions take tensors."""
        return node if node.names_read() else self.read(scope)

    def sum(self, depth: int, scope: list[Index], implied: bool) -> Node:
        a, b = self.expression(depth - 1, scope, implied), self.expression(depth - 1, scope, implied)
        if self.rng.random() < 0.7:
            return Node("{0} + {1}", "{0} + {1}", [a, b], SUM, (SUM, SUM))
        return Node("{0} - {1}", "{0} - {1}", [a, b], SUM, (SUM, PRODUCT))

    def product(self, depth: int, scope: list[Index], implied: bool) -> Node:
        # a product around an implied sum would hold more uses of its index: sums are written
        a, b = self.expression(depth - 1, scope, False), self.expression(depth - 1, scope, False)
        if self.rng.random() < 0.15:
            return Node("-{0}", "-{0}", [a], SIGN, (POWER,))
        return Node("{0} * {1}", "{0} * {1}", [a, b], PRODUCT, (PRODUCT, SIGN))

    def quotient(self, depth: int, scope: list[Index], implied: bool) -> Node:
        a = self.expression(depth - 1, scope, implied)
        if self.rng.random() < 0.5:
            by = self.rng.choice(["2", "3", "4.0"])
            return Node(f"{{0}} / {by}", f"{{0}} / {by}", [a], PRODUCT, (PRODUCT,))
        b = self.expression(depth - 1, scope, False)
        return Node("{0} / (1.5 + {1}^2)", "{0} / (1.5 + {1} ** 2)", [a, b], PRODUCT, (PRODUCT, ATOM))

    def square(self, depth: int, scope: list[Index], implied: bool) -> Node:
        a = self.expression(depth - 1, scope, False)
        power = self.rng.choice(["2", "2", "3"])
        return Node(f"{{0}}^{power}", f"{{0}} ** {power}", [a], POWER, (ATOM,))

    def extreme(self, depth: int, scope: list[Index], implied: bool) -> Node:
        a, b = (self.floating(self.expression(depth - 1, scope, False), scope) for _ in range(2))
        if self.rng.random() < 0.3:
            low, high = "-0.7", "0.9"
            torch = f"torch.minimum(torch.maximum({{0}}, num({low})), num({high}))"
            return Node(f"clip({{0}}, {low}, {high})", torch, [a])
        name = self.rng.choice(["max", "min"])
        return Node(f"{name}({{0}}, {{1}})", f"torch.{name}imum({{0}}, {{1}})", [a, b])

    def select(self, depth: int, scope: list[Index], implied: bool) -> Node:
        a, b = self.expression(depth - 1, scope, False), self.expression(depth - 1, scope, False)
        c = self.condition(scope)
        torch = "torch.where({1}, torch.as_tensor({0}), torch.as_tensor({2}))"
        return Node("{0} if {1} else {2}", torch, [a, c, b], SELECT, (COMPARE, COMPARE, SELECT))

    def condition(self, scope: Sequence[Index]) -> Node:
        rng = self.rng
        roll = rng.random()
        if len(scope) >= 2 and roll < 0.35:
            i, j = rng.sample(list(scope), 2)
            op = rng.choice(["<", "<=", "==", ">", "!="])
            return Node(f"{i.name} {op} {j.name}", f"({i.var} {op} {j.var})", strength=COMPARE, whole=True)
        if scope and roll < 0.55:
            i = rng.choice(list(scope))
            text = rng.choice(["{} % 2 == 0", "{} > 0", "{} < 2", "2 * {} >= 3"])
            return Node(text.format(i.name), "(" + text.format(i.var) + ")", strength=COMPARE, whole=True)
        if scope and roll < 0.7:
            v = self.maker.leaf([i.size for i in scope][:2], "bool", stem="keep")
            some = list(scope)[:2]
            here = ", ".join
            return Node(
                f"{v.name}[{here(i.name for i in some)}]", f"{v.name}[{here(i.var for i in some)}]",
                plain=frozenset(i.var for i in some), reads=frozenset([v.name]), whole=True,
            )  # fmt: skip
        a, b = self.read(scope, sure=True), constant(rng.choice(["0", "0.3", "-0.5"]))
        op = rng.choice(["<", ">"])
        return Node(f"{{0}} {op} {{1}}", f"({{0}} {op} {{1}})", [a, b], COMPARE, (SUM, SUM), whole=True)

    def reduce(self, depth: int, scope: list[Index], implied: bool) -> Node:
        rng = self.rng
        index = self.bind(self.maker.size(), scope, again=rng.random() < 0.4)
        inside = list(scope)
        # the body depends on the index in any case
        body = self.expression(depth - 1, [*inside, index], False)
        if index.var not in body.plain_uses() and rng.random() < 0.8:
            body = Node("{0} + {1}", "{0} + {1}", [body, self.read([*inside, index], must=index)], SUM, (SUM, SUM))
        name = rng.choice(["sum", "sum", "mean", "max", "min", "prod"])
        call = f"{index.axis}, {index.size}"
        torch = {
            "sum": f"total({{0}}, {call})",
            "mean": f"total({{0}}, {call}) / ({index.size})",
            "max": f"largest({{0}}, {call})",
            "min": f"smallest({{0}}, {call})",
            "prod": f"product({{0}}, {call})",
        }[name]
        return Node(f"{name}[{{bind}}]({{0}})", torch, [body], binds=(index,))

    def contract(self, depth: int, scope: list[Index], implied: bool) -> Node:
        """A sum of a product over an index that two factors have: implied, written, or nested."""
        rng = self.rng
        index = self.bind(self.maker.size(), scope)
        inside = list(scope)
        factors: list[Node] = [self.read([*inside, index], must=index) for _ in range(rng.choice([2, 2, 2, 3]))]
        if rng.random() < 0.2:
            factors.append(index_number(index))
        if rng.random() < 0.25:
            spec, torch = rng.choice(FUNCTIONS)
            factors[0] = Node(spec, torch, [factors[0]])
        if rng.random() < 0.25:
            # a contraction of a contraction
            factors.append(self.contract(0, [*inside, index], False))
        slots = (PRODUCT,) + (SIGN,) * (len(factors) - 1)
        spec = " * ".join(f"{{{n}}}" for n in range(len(factors)))
        torch = "(" + spec + ")"
        written = not implied or rng.random() < 0.25
        if written:
            inner = Node(spec, torch, factors, PRODUCT, slots)
            return Node("sum[{bind}]({0})", f"total({{0}}, {index.axis}, {index.size})", [inner], binds=(index,))
        return Node(spec, f"total({torch}, {index.axis}, {index.size})", factors, PRODUCT, slots)

    def number(self, depth: int, scope: list[Index], implied: bool) -> Node:
        """Sizes and indices as numbers in a formula, times or plus something."""
        rng = self.rng
        if scope and rng.random() < 0.6:
            i = rng.choice(scope)
            s = i.size if ATOMIC(i.size) else f"({i.size})"
            forms = [
                ("{i}", "{i}"),
                ("({i} + 1)", "({i} + 1)"),
                ("({i} / {s})", "({i} / {s})"),
                ("(({i} + 1) / {s})", "(({i} + 1) / {s})"),
                ("({i} // 2)", "({i} // 2)"),
                ("({i} % 3)", "({i} % 3)"),
                ("0.5^{i}", "0.5 ** {i}"),
                ("cos(pi * {i} / {s})", "torch.cos(math.pi * {i} / {s})"),
                ("f32({i})", "{i}"),
                ("({i} - {s} / 2)", "({i} - {s} / 2)"),
                ("1 / ({i} + 1)", "(1 / ({i} + 1))"),
            ]
            spec, torch = rng.choice(
                [f for f in forms if on("quotient of sizes") or "/ " not in f[0].replace("// ", "")]
            )
            node = Node(spec.format(i=i.name, s=s), torch.format(i=i.var, s=s), strength=PRODUCT, whole=True)
        else:
            size = self.maker.size()
            s = size if ATOMIC(size) else f"({size})"
            forms = [
                ("{s}", "{s}"),
                ("1/{s}", "(1 / {s})"),
                ("{s} / 2", "({s} / 2)"),
                ("({s} - 1) / {s}", "(({s} - 1) / {s})"),
                ("sqrt({s} / 2)", "math.sqrt({s} / 2)"),
                ("sqrt({s})", "math.sqrt({s})"),
                ("{s}^0.5", "{s} ** 0.5"),
                ("1 / (2 * {s})", "(1 / (2 * {s}))"),
                ("log({s} + 1)", "math.log({s} + 1)"),
                ("({s} // 2 + 1)", "({s} // 2 + 1)"),
                ("2 / ({s} + 1)", "(2 / ({s} + 1))"),
            ]
            spec, torch = rng.choice([f for f in forms if on("quotient of sizes") or "/" not in f[0].replace("//", "")])
            node = Node(spec.format(s=s), torch.format(s=s), strength=PRODUCT, whole=True)
        other = self.expression(depth - 1, scope, False)
        if rng.random() < 0.7:
            return Node("{0} * {1}", "{0} * {1}", [node, other], PRODUCT, (PRODUCT, SIGN))
        return Node("{1} + {0}", "{1} + {0}", [node, other], SUM, (SUM, SUM))

    def along(self, depth: int, scope: list[Index], implied: bool) -> Node:
        """A library function with an axis, or a running sum, over one of the indices at hand."""
        rng = self.rng
        if not scope:
            return self.reduce(depth, scope, implied)
        i = rng.choice(scope)
        call = f"{i.axis}, {i.size}"
        body = self.expression(depth - 1, scope, False)
        if i.var not in body.plain_uses():
            body = Node("{0} + {1}", "{0} + {1}", [body, self.read(scope, must=i)], SUM, (SUM, SUM))
        spec, torch = rng.choice(
            [
                ("softmax", f"torch.softmax(spread({{0}}, {call}), {i.axis})"),
                ("log_softmax", f"torch.log_softmax(spread({{0}}, {call}), {i.axis})"),
                ("cumsum", f"running('cumsum', {{0}}, {call})"),
                ("cumprod", f"running('cumprod', {{0}}, {call})"),
                ("sort", f"running('sort', {{0}}, {call})"),
                (
                    "standardize",
                    f"standardized({{0}}, {call})",
                ),
            ]
        )
        # the index stands bare in the brackets and inside: it has a plain use there
        return Node(f"{spec}[{i.name}]({{0}})", torch, [body])

    # ---- reads

    def read(self, scope: Sequence[Index], must: Index | None = None, sure: bool = False) -> Node:
        """An element of a tensor at some of the indices."""
        rng = self.rng
        count = min(len(scope), rng.choice([0, 1, 1, 2, 2, 2, 3])) if scope else 0
        some = rng.sample(list(scope), count)
        if must and must not in some:
            some = [*some[:2], must]
            rng.shuffle(some)
        if not some:
            v = self.maker.value([], sure=sure)
            return Node(v.name, v.name, reads=frozenset([v.name]))
        if sure or must or rng.random() < 0.66:
            v = self.maker.value([i.size for i in some], sure=sure)
            return access(v, [i.name for i in some], [i.var for i in some], plain=some)
        return self.bent(some)

    def bent(self, some: list[Index]) -> Node:
        """A read with an affine, padded, wrapped, clamped, turned, constant or gathered position."""
        rng, maker = self.rng, self.maker
        which = rng.randrange(len(some))
        i = some[which]
        others = [j for j in some if j is not i]
        shapes, names, vars_ = [j.size for j in some], [j.name for j in some], [j.var for j in some]
        s = i.size if ATOMIC(i.size) else f"({i.size})"
        kind = rng.choice(
            ["else", "wrap", "clamp", "flip", "stride", "window", "constant", "gather", "pad2", "else", "long"]
        )
        offset = rng.choice(["+ 1", "- 1", "+ 2", "- 2"])
        wrapper = None
        if kind == "else":
            names[which], vars_[which] = f"{i.name} {offset}", f"{i.var} {offset}"
            wrapper = rng.choice(["0", "0", "1", "-0.5"])
        elif kind == "pad2":
            a, b = rng.choice([("2*", " - 1"), ("3*", " - 2"), ("2*", " + 1"), ("", " - 1")])
            names[which], vars_[which] = f"{a}{i.name}{b}", f"{a}{i.var}{b}"
            wrapper = rng.choice(["0", "0.5"])
        elif kind == "wrap":
            form = rng.choice([f"{{}} {offset}", "2*{}", "{} + 5"])
            names[which], vars_[which] = f"wrap({form.format(i.name)})", f"({form.format(i.var)}) % {s}"
        elif kind == "clamp":
            form = rng.choice([f"{{}} {offset}", "2*{}", "2*{} - 1"])
            names[which], vars_[which] = (
                f"clamp({form.format(i.name)})",
                f"({form.format(i.var)}).clamp(0, {i.size} - 1)",
            )
        elif kind == "flip":
            names[which], vars_[which] = f"{i.size}-1-{i.name}", f"{i.size}-1-{i.var}"
        elif kind == "stride":
            step, off = rng.choice([2, 3]), rng.choice([0, 1])
            shapes[which] = tidy(f"{step}*{s}") if not off else tidy(f"{step}*{s} + {off}")
            plus = f" + {off}" if off else ""
            names[which], vars_[which] = f"{step}*{i.name}{plus}", f"{step}*{i.var}{plus}"
        elif kind == "window" and others and fixed(others[0].size) and fixed(i.size):
            j = others[0]
            position = some.index(j)
            shapes[which] = tidy(f"{i.size} + {j.size} - 1")
            names[which], vars_[which] = f"{i.name} + {j.name}", f"{i.var} + {j.var}"
            for row in (shapes, names, vars_):
                del row[position]
            others = [k for k in others if k is not j]
        elif kind == "constant":
            if rng.random() < 0.5:
                names[which] = vars_[which] = "0"
            else:
                names[which] = vars_[which] = f"{s}-1"
        elif kind == "gather":
            place = maker.leaf([i.size], "i32", bound=rng.choice([i.size, "3", "4"]))
            shapes[which] = place.bound
            names[which], vars_[which] = f"{place.name}[{i.name}]", f"{place.name}[{i.var}].long()"
            v = maker.value(shapes)
            node = access(v, names, vars_, plain=some)
            return replace(node, reads=node.reads | {place.name})
        else:
            shapes[which] = tidy(f"{s} + 2")
            names[which], vars_[which] = f"{i.name} + 1", f"{i.var} + 1"
        v = maker.value(shapes)
        return access(v, names, vars_, plain=others, other=wrapper)


def ATOMIC(size: str) -> bool:
    return size.isalnum()


def access(v: Value, names: list[str], vars_: list[str], plain: Sequence[Index] = (), other: str | None = None) -> Node:
    uses, reads = frozenset(i.var for i in plain), frozenset([v.name])
    if other is not None:
        spec = f"({v.name}[{', '.join(names)}] else {other})"
        return Node(spec, f"padded({v.name}, {other}, {', '.join(vars_)})", plain=uses, reads=reads)
    return Node(f"{v.name}[{', '.join(names)}]", f"{v.name}[{', '.join(vars_)}]", plain=uses, reads=reads)


def constant(text: str) -> Node:
    strength = SIGN if text.startswith("-") else ATOM
    return Node(text, "math.pi" if text == "pi" else f"({text})" if text.startswith("-") else text, strength=strength)


def index_number(i: Index) -> Node:
    return Node(f"({i.name} + 1)", f"({i.var} + 1)", whole=True)
