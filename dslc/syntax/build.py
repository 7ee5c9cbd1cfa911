"""From lark's parse tree to the syntax tree: one method per grammar rule, applied bottom-up without recursion."""

from __future__ import annotations

from typing import Any, TypeVar

from lark import Token, Tree

from dslc.diagnostics import kinds
from dslc.diagnostics.report import Diagnostic, Fix, Label
from dslc.source import Source, Span
from dslc.syntax import tree as t

MAX_DEPTH = 100
MAX_STAGES = 3_000
MAX_INT = 2**63 - 1

N = TypeVar("N", bound=t.Node)


class Refused(Exception):
    """A form that the grammar accepts so that the message can say what is meant instead."""

    def __init__(self, diagnostic: Diagnostic):
        self.diagnostic = diagnostic
        super().__init__(diagnostic.message)


def build(parse_tree: Tree[Token], source: Source, base: int) -> list[t.Definition]:
    """The definitions of a parse tree whose positions count from offset `base` of the source."""
    builder = _Builder(source, base)
    pending: list[tuple[Tree[Token], bool]] = [(parse_tree, False)]
    done: list[Any] = []
    while pending:
        node, expanded = pending.pop()
        if not expanded:
            pending.append((node, True))
            pending.extend((c, False) for c in reversed(node.children) if isinstance(c, Tree))
        else:
            count = sum(isinstance(c, Tree) for c in node.children)
            built = iter(done[len(done) - count :])
            children = [next(built) if isinstance(c, Tree) else c for c in node.children]
            del done[len(done) - count :]
            done.append(builder.apply(node, children))
    return list(done[0])


class _Builder:
    def __init__(self, source: Source, base: int):
        self.source = source
        self.base = base
        self.depth: dict[int, int] = {}
        self.alive: list[t.Node] = []  # keeps ids unique while depths are looked up by id

    def apply(self, node: Tree[Token], children: list[Any]) -> Any:
        meta = node.meta
        if meta.empty:
            span = Span(self.source, self.base, self.base)
        else:
            span = Span(self.source, self.base + meta.start_pos, self.base + meta.end_pos)
        result = getattr(self, "on_" + node.data)(span, *children)
        return self.measured(result) if isinstance(result, t.Node) else result

    def measured(self, node: N) -> N:
        """Note how deep a node is; every node that has children passes here, or its depth would not count."""
        depth = 1 + max((self.depth.get(id(c), 0) for c in node.children()), default=0)
        if depth > MAX_DEPTH:
            raise Refused(kinds.TOO_DEEP(Label(node.span), what="operations", limit=MAX_DEPTH))
        self.depth[id(node)] = depth
        self.alive.append(node)
        return node

    def token_span(self, token: Token) -> Span:
        return Span(self.source, self.base + (token.start_pos or 0), self.base + (token.end_pos or 0))

    def end_before(self, token: Token) -> int:
        """Where the text before a token ends."""
        start = self.token_span(token).start
        while start > self.base and self.source.text[start - 1].isspace():
            start -= 1
        return start

    # ---- definitions

    def on_start(self, span: Span, *definitions: t.Definition) -> tuple[t.Definition, ...]:
        return definitions

    def on_import_all(self, span: Span, path: Token) -> t.Import:
        return t.Import(path[1:-1], span=span)

    def on_import_some(self, span: Span, path: Token, *names: t.Imported) -> t.Import:
        return t.Import(path[1:-1], names, span=span)

    def on_imported(self, span: Span, name: Token, alias: Token | None) -> t.Imported:
        return t.Imported(str(name), str(alias) if alias else None, span=span)

    def on_fn_expression(self, span: Span, name: Token, axis: Any, formals: Any, value: t.Expr) -> t.Fn:
        return t.Fn(str(name), axis, formals or (), value, span=span)

    def on_fn_block(self, span: Span, name: Token, axis: Any, formals: Any, result: Any) -> t.Fn:
        return t.Fn(str(name), axis, formals or (), None, *result, span=span)

    def on_fn_axis(self, span: Span, name: Token) -> str:
        return str(name)

    def on_layer(self, span: Span, name: Token, formals: Any, result: Any) -> t.Layer:
        return t.Layer("layer", str(name), formals or (), *result, span=span)

    def on_model(self, span: Span, name: Token, formals: Any, result: Any) -> t.Layer:
        return t.Layer("model", str(name), formals or (), *result, span=span)

    def on_optimizer(self, span: Span, name: Token, formals: Any, body: Any) -> t.Optimizer:
        return t.Optimizer(str(name), formals or (), body, span=span)

    def on_train(self, span: Span, name: Token, formals: Any, where: Any, body: Any) -> t.Train:
        return t.Train(str(name), formals or (), where or (), body, span=span)

    def on_params(self, span: Span, *formals: t.Formal | None) -> tuple[t.Formal, ...]:
        return tuple(f for f in formals if f is not None)

    def on_param(self, span: Span, name: Token, kind: Any, default: Any) -> t.Formal:
        return t.Formal(str(name), kind, default, span=span)

    def on_kind_word(self, span: Span, word: Token) -> t.KindWord:
        return t.KindWord(str(word), span=span)

    def on_untyped(self, span: Span, name: Token, where: Any, body: Any) -> Any:
        return (t.Output(str(name), None, span=self.token_span(name)),), where or (), body

    def on_typed(self, span: Span, name: Token, type_: t.Type, where: Any, body: Any) -> Any:
        return (t.Output(str(name), type_, span=self.token_span(name).to(type_.span)),), where or (), body

    def on_several(self, span: Span, *parts: Any) -> Any:
        *outputs, where, body = parts
        return tuple(o for o in outputs if o is not None), where or (), body

    def on_output(self, span: Span, name: Token, type_: Any) -> t.Output:
        return t.Output(str(name), type_, span=span)

    def on_where(self, span: Span, *conditions: t.Condition) -> tuple[t.Condition, ...]:
        return conditions

    def on_index_size(self, span: Span, name: Token, value: t.Expr) -> t.IndexSize:
        return t.IndexSize(str(name), value, span=span)

    def on_type(self, span: Span, first: Token | None, second: Token | None, dims: Any, below: Any) -> t.Type:
        words = [str(w) for w in (first, second) if w is not None]
        dtype = words.pop() if words else None
        refinement = words.pop() if words else None
        if dtype in ("binary", "simplex") and refinement is None:
            refinement, dtype = dtype, None
        return t.Type(refinement, dtype, dims or (), below, span=span)

    def on_dims(self, span: Span, *dims: Any) -> tuple[t.Dim, ...]:
        return tuple(d for d in dims if d is not None)

    def on_named_dim(self, span: Span, name: Token, value: t.Expr) -> t.NamedDim:
        return t.NamedDim(str(name), value, span=span)

    # ---- statements

    def on_block(self, span: Span, *statements: Any) -> tuple[t.Statement, ...]:
        return tuple(s for s in statements if s is not None)

    def on_parameter(
        self, span: Span, frozen: Any, _word: Token, targets: Any, type_: t.Type, initial: Any
    ) -> t.Parameter:
        how, value = initial or (None, None)
        drawn = value if how == "drawn" else None
        given = value if how == "given" else None
        return t.Parameter(targets, type_, drawn, given, frozen is not None, span=span)

    def on_drawn(self, span: Span, value: t.Expr) -> tuple[str, t.Expr]:
        return "drawn", value

    def on_given(self, span: Span, value: t.Expr) -> tuple[str, t.Expr]:
        return "given", value

    def on_state(self, span: Span, name: Token, type_: t.Type, value: t.Expr) -> t.State:
        return t.State(str(name), type_, value, span=span)

    def on_slot(self, span: Span, *values: t.SlotValue) -> t.Slots:
        return t.Slots(values, span=span)

    def on_slot_value(self, span: Span, name: Token, value: t.Expr) -> t.SlotValue:
        return t.SlotValue(str(name), value, span=span)

    def on_use(self, span: Span, name: Token, frozen: Any, value: t.Expr) -> t.Use:
        return t.Use(str(name), value, frozen is not None, span=span)

    def on_size(self, span: Span, name: Token, value: t.Expr) -> t.Size:
        return t.Size(str(name), value, span=span)

    def on_equation(self, span: Span, targets: Any, value: t.Expr, where: Any) -> t.Equation:
        return t.Equation(targets, value, where or (), span=span)

    def on_accumulate(self, span: Span, target: t.Target, op: Token, value: t.Expr, where: Any) -> t.Accumulate:
        if str(op) not in ("+", "max", "min"):
            label = Label(self.token_span(op))
            raise Refused(kinds.SYNTAX(label, expected="`=`, `+=`, `max=` or `min=`", found=f"`{op}`"))
        return t.Accumulate(target, str(op), value, where or (), span=span)

    def on_update(self, span: Span, target: t.Target, value: t.Expr) -> t.Update:
        return t.Update(target, value, span=span)

    def on_for(self, span: Span, name: Token, low: t.Expr, high: t.Expr, body: Any) -> t.For:
        return t.For(str(name), low, high, body, span=span)

    def on_scan(self, span: Span, name: Token, low: Any, high: Any, backwards: Any, body: Any) -> t.Scan:
        return t.Scan(str(name), low, high, backwards is not None, body, span=span)

    def on_start_value(self, span: Span, target: t.Target, value: t.Expr) -> t.Start:
        return t.Start(target, value, span=span)

    def on_if(self, span: Span, condition: t.Expr, body: Any, *rest: Any) -> t.If:
        branches = [t.Branch(condition, body, span=condition.span)]
        branches += [r for r in rest if isinstance(r, t.Branch)]
        otherwise = next((r for r in rest if isinstance(r, tuple)), ())
        return t.If(tuple(branches), otherwise, span=span)

    def on_elif(self, span: Span, condition: t.Expr, body: Any) -> t.Branch:
        return t.Branch(condition, body, span=span)

    def on_else(self, span: Span, body: Any) -> tuple[t.Statement, ...]:
        return tuple(body)

    def on_training(self, span: Span, body: Any) -> t.Mode:
        return t.Mode("training", body, span=span)

    def on_inference(self, span: Span, body: Any) -> t.Mode:
        return t.Mode("inference", body, span=span)

    def on_checkpoint(self, span: Span, body: Any) -> t.Checkpoint:
        return t.Checkpoint(body, span=span)

    def on_backward(self, span: Span, cotangents: Any, adjoints: Any, body: Any) -> t.Backward:
        return t.Backward(cotangents, adjoints, body, span=span)

    def on_minimize(self, span: Span, word: Token, value: t.Expr) -> t.Objective:
        return t.Objective("minimize" if word == "minimize" else "maximize", value, span=span)

    def on_using(self, span: Span, value: t.Expr) -> t.Using:
        return t.Using(value, span=span)

    def on_metric(self, span: Span, name: Token, value: t.Expr) -> t.Metric:
        return t.Metric(str(name), value, span=span)

    def on_freeze(self, span: Span, *paths: str) -> t.Freeze:
        return t.Freeze(paths, span=span)

    def on_expose(self, span: Span, names: tuple[str, ...]) -> t.Expose:
        return t.Expose(names, span=span)

    def on_names(self, span: Span, *names: Token) -> tuple[str, ...]:
        return tuple(map(str, names))

    def on_path(self, span: Span, *parts: Token) -> str:
        return ".".join(parts)

    def on_targets(self, span: Span, *targets: t.Target) -> tuple[t.Target, ...]:
        return targets

    def on_target(self, span: Span, name: Token, items: Any) -> t.Target:
        return t.Target(str(name), items, span=span)

    # ---- expressions

    def on_pipe(self, span: Span, value: t.Expr, stage: t.Expr) -> t.Pipe:
        if isinstance(value, t.Pipe):
            if len(value.stages) == MAX_STAGES:
                raise Refused(kinds.TOO_DEEP(Label(span), what="stages of a pipe", limit=MAX_STAGES))
            return t.Pipe(value.value, (*value.stages, stage), span=span)
        return t.Pipe(value, (stage,), span=span)

    def on_choose(self, span: Span, then: t.Expr, condition: t.Expr, otherwise: t.Expr) -> t.Choose:
        return t.Choose(then, condition, otherwise, span=span)

    def on_or_chain(self, span: Span, *operands: t.Expr) -> t.Logic:
        return t.Logic("or", operands, span=span)

    def on_and_chain(self, span: Span, *operands: t.Expr) -> t.Logic:
        return t.Logic("and", operands, span=span)

    def on_negated(self, span: Span, operand: t.Expr) -> t.Not:
        return t.Not(operand, span=span)

    def on_compare(self, span: Span, left: t.Expr, *rest: Any) -> t.Compare:
        if len(rest) > 2:
            texts = [left.span.text, *(r if isinstance(r, str) else r.span.text for r in rest)]
            pairs = [" ".join(texts[i : i + 3]) for i in range(0, len(texts) - 2, 2)]
            instead = " and ".join(pairs)
            raise Refused(
                kinds.CHAINED_COMPARISON(
                    Label(span), count=len(rest) // 2, help=f"write `{instead}`", fix=Fix(span, instead)
                )
            )
        return t.Compare(rest[0], left, rest[1], span=span)

    def on_comparator(self, span: Span, symbol: Token) -> str:
        return str(symbol)

    def on_sum_chain(self, span: Span, first: t.Expr, *rest: Any) -> t.Sum:
        pairs = zip(map(str, rest[::2]), rest[1::2], strict=True)
        return t.Sum((("+", first), *pairs), span=span)  # type: ignore[arg-type]

    def on_product_chain(self, span: Span, first: t.Expr, *rest: Any) -> t.Expr:
        """`*` and `/` make one flat product; `//` and `%` take all that stands left of them."""
        result: t.Expr = first
        factors: list[Any] = []
        ends = [self.end_before(token) for token in rest[2::2]]
        before = span.start
        for symbol, operand, end in zip(map(str, rest[::2]), rest[1::2], [*ends, span.end], strict=True):
            if symbol in ("*", "/"):
                factors = factors or [("*", result)]
                factors.append((symbol, operand))
                before = end
                continue
            if factors:
                result = self.measured(t.Product(tuple(factors), span=Span(self.source, span.start, before)))
                factors = []
            here = Span(self.source, span.start, end)  # parentheses are not part of the operands
            result = self.measured(t.Binary("//" if symbol == "//" else "%", result, operand, span=here))
        return t.Product(tuple(factors), span=span) if factors else result

    def on_minus(self, span: Span, _sign: Token, operand: t.Expr) -> t.Negative:
        return t.Negative(operand, span=span)

    def on_raised(self, span: Span, base: t.Expr, exponent: t.Expr) -> t.Binary:
        return t.Binary("^", base, exponent, span=span)

    def on_access(self, span: Span, base: t.Expr, items: Any) -> t.Access:
        return t.Access(base, items or (), span=span)

    def on_call(self, span: Span, callee: t.Expr, arguments: Any) -> t.Call:
        return t.Call(callee, arguments or (), span=span)

    def on_member(self, span: Span, base: t.Expr, name: Token) -> t.Expr:
        for part in str(name).split("."):  # `a.0.1` reaches here as the number 0.1
            base = t.Member(base, part, span=span)
        return base

    def on_args(self, span: Span, *arguments: Any) -> tuple[t.Argument, ...]:
        return tuple(
            a if isinstance(a, t.Argument) else self.measured(t.Argument(a, span=a.span))
            for a in arguments
            if a is not None
        )

    def on_named_arg(self, span: Span, name: Token, value: t.Expr) -> t.Argument:
        return t.Argument(value, str(name), span=span)

    def on_or_else(self, span: Span, read: t.Expr, value: t.Expr) -> t.OrElse:
        return t.OrElse(read, value, span=span)

    def on_name(self, span: Span, name: Token) -> t.Name:
        return t.Name(str(name), span=span)

    def on_number(self, span: Span, number: Token) -> t.Number:
        node = t.Number(str(number), span=span)
        too_large = len(node.text) > 400 or (
            node.value > MAX_INT if isinstance(node.value, int) else node.value == float("inf")
        )
        if too_large:
            limit = "9223372036854775807" if node.text.isdigit() else "1.797e308"
            shown = node.text if len(node.text) < 40 else node.text[:37] + "..."
            raise Refused(kinds.NUMBER_TOO_LARGE(Label(span), limit=limit, found=shown))
        return node

    def on_string(self, span: Span, text: Token) -> t.String:
        return t.String(text[1:-1], span=span)

    def on_true(self, span: Span) -> t.Bool:
        return t.Bool(True, span=span)

    def on_false(self, span: Span) -> t.Bool:
        return t.Bool(False, span=span)

    def on_items(self, span: Span, *items: Any) -> tuple[t.Item, ...]:
        return tuple(i for i in items if i is not None)

    def on_rest(self, span: Span) -> t.Rest:
        return t.Rest(span=span)

    def on_group(self, span: Span, *names: Token) -> t.Group:
        return t.Group(tuple(t.Name(str(n), span=self.token_span(n)) for n in names), span=span)

    def on_slice(self, span: Span, low: Any, high: Any, step: Any) -> t.Slice:
        return t.Slice(low, high, step, span=span)

    def on_into(self, span: Span, source: Token, target: Token, bound: Any) -> t.Into:
        return t.Into(
            t.Name(str(source), span=self.token_span(source)),
            t.Name(str(target), span=self.token_span(target)),
            bound,
            span=span,
        )
