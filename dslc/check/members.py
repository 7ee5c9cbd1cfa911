"""Parameters of layers that were named with `use`, `layer.W`, and results of calls that have a name, `r.loss`."""

from __future__ import annotations

from dslc.check import wording
from dslc.check.frame import Frame
from dslc.check.program import Tensor
from dslc.check.values import FunctionValue, Poison, Results, Shared
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Label
from dslc.resolve.foreign import FOREIGN_MEMBERS
from dslc.syntax import tree as t


def member(frame: Frame, node: t.Member) -> Tensor | None:
    """`layer.param`: a parameter below a layer that was named with `use`."""
    parts: list[str] = [node.name]
    base: t.Expr = node.base
    while isinstance(base, t.Member):
        parts.append(base.name)
        base = base.base
    if not isinstance(base, t.Name):
        frame.report(kinds.NO_MEMBERS(Label(base.span), what=f"`{base.span.text}`"))
        return None
    binding = frame.lookup(base.id)
    if binding is None:
        frame.unknown(base.id, base.span)
        return None
    if isinstance(binding, Poison):
        return None
    if isinstance(binding, Results):
        return one_of(frame, node, binding, parts)
    if not isinstance(binding, Shared):
        help = f"name the layer first: `use {base.id} = ...`" if isinstance(binding, FunctionValue) else None
        if isinstance(binding, Tensor):
            help = FOREIGN_MEMBERS.get(node.name)
        frame.report(kinds.NO_MEMBERS(Label(base.span), what=f"`{base.id}`", help=help))
        return None
    if binding.instance is None:
        if binding.frozen is not None and not frame.had_error:
            help = f"the sizes of its parameters follow from its input: call `{base.id}(...)` first"
            frame.report(kinds.NOT_CALLED_YET(Label(node.span), name=base.id, help=help))
        return None
    return find_member(frame, node, binding, list(reversed(parts)))


def one_of(frame: Frame, node: t.Member, results: Results, parts: list[str]) -> Tensor | None:
    """`r.loss`, after `r = f(x)`."""
    if len(parts) == 1 and node.name in results.tensors:
        return results.tensors[node.name]
    whole = node.root.span.text
    if parts[-1] in results.tensors:  # `r.loss.a`
        one = f"{whole}.{parts[-1]}"
        help = f"it is one value; `{whole}` has {wording.listed(list(results.tensors))}"
        place = node.span.word(parts[-2], len(one))
        frame.report(kinds.NO_SUCH_RESULT(Label(place), name=parts[-2], callee=one, help=help))
        return None
    place, help = node.span.word(parts[-1]), wording.near(parts[-1], list(results.tensors), "it has")
    frame.report(kinds.NO_SUCH_RESULT(Label(place), name=parts[-1], callee=whole, help=help))
    return None


def passed_param(frame: Frame, shared: Shared, found: Tensor, path: str) -> Tensor:
    """A parameter of a layer that the definition was passed; its place is known where that layer was named."""
    known = frame.instance.passed_params
    for tensor, place in known.items():
        if place == (shared.home, path):
            return tensor
    tensor = frame.new_tensor(path, found.dtype, found.shape, "param", found.span, origins=found.origins)
    known[tensor] = (shared.home, path)
    return tensor


def find_member(frame: Frame, node: t.Member, shared: Shared, parts: list[str]) -> Tensor | None:
    """Follow `layer.sub.0.W` to a parameter."""
    instance = shared.instance
    assert instance is not None
    rest = list(parts)
    while len(rest) > 1:
        for length in range(len(rest) - 1, 0, -1):
            child = instance.children.get(".".join(rest[:length]))
            if child is not None:
                instance, rest = child, rest[length:]
                break
        else:
            break
    params = {p.tensor.name: p.tensor for p in instance.params}
    if len(rest) == 1 and rest[0] in params:
        found = params[rest[0]]
        path = ".".join([shared.path, *parts]) if shared.path else ".".join(parts)
        shared.home.owner.named.add(path)
        if is_foreign(frame, shared):
            return passed_param(frame, shared, found, path)
        if path not in frame.instance.member_params:
            frame.instance.member_params[path] = frame.new_tensor(
                path, found.dtype, found.shape, "param", found.span, origins=found.origins
            )
        return frame.instance.member_params[path]
    names = [*params, *instance.children]
    frame.report(
        kinds.NO_SUCH_MEMBER(
            Label(node.span),
            name=rest[0],
            owner=instance.name,
            help=wording.near(rest[0], names, "it has", "no parameters"),
        )
    )
    return None


def is_foreign(frame: Frame, shared: Shared | None) -> bool:
    """Was a layer named with `use` by a definition around this one, which passed it on?"""
    return shared is not None and shared.home.owner is not frame.instance
