"""Gradients, Jacobians, Hessians and products with them, all by reverse mode."""

from __future__ import annotations

from collections.abc import Mapping

from dslc.autodiff import scalar as d
from dslc.autodiff.reverse import gradients, ones, zeros
from dslc.ir import nodes as ir
from dslc.ir.rewrite import Substitute
from dslc.stabilise.rewriter import stabilise


def derivative(
    kind: str,
    of: ir.Tensor,
    wrt: ir.Tensor,
    direction: ir.Tensor | None = None,
    mapped: int = 0,
    shared: bool = False,
) -> ir.Tensor:
    """`grad`, `vjp`, `jvp`, `jacobian` or `hessian` of one tensor by another, taken of its stable form.

    Along the first `mapped` axes of both every element has its own; `shared`: those of `wrt` are missing, for all
    elements depend on the same one.
    """
    # rules look through other names, and what they pass by has no derivative
    if isinstance(wrt, ir.Input | ir.Part | ir.Step):
        of = stabilise({"of": of}, fixed=[wrt])["of"]
    match kind:
        case "grad":
            return gradient(of, wrt, shared)
        case "vjp":
            assert direction is not None
            return gradients({of: direction}, [wrt])[0]
        case "jvp":
            assert direction is not None
            return jvp(of, wrt, direction)
        case "jacobian":
            return jacobian(of, wrt, mapped, shared)
    assert kind == "hessian", kind
    return jacobian(gradient(of, wrt, shared), wrt, mapped, shared)


def gradient(of: ir.Tensor, wrt: ir.Tensor, shared: bool) -> ir.Tensor:
    """That of each element: by a tensor that they share, it is a Jacobian."""
    return jacobian(of, wrt) if shared else gradients({of: ones(of.shape, of.dtype)}, [wrt])[0]


def jvp(of: ir.Tensor, wrt: ir.Tensor, direction: ir.Tensor) -> ir.Tensor:
    return jvp_along(of, {wrt: direction})


def jvp_along(of: ir.Tensor, directions: Mapping[ir.Tensor, ir.Tensor]) -> ir.Tensor:
    """The derivative along a direction of several tensors at once, by forward mode.

    The pullback u -> J^T u is linear in u, so its own pullback is v -> J v, which depends on u no more. A loop back may
    still carry u beside values that are read of it, so u is given a value there: any would do.
    """
    u = ir.intern(ir.Input(f"cotangent {ir.fresh_number()}", "input", of.dtype, of.shape))
    seeds: dict[ir.Tensor, ir.Tensor] = {}
    for pulled, direction in zip(gradients({of: u}, list(directions)), directions.values(), strict=True):
        seed = ir.whole(direction) if pulled not in seeds else d.add(ir.whole(seeds[pulled]), ir.whole(direction))
        seeds[pulled] = ir.comp(direction.shape, seed)
    pushed = gradients(seeds, [u])[0]
    return Substitute({}, plain={u: zeros(u.shape, u.dtype)}, everywhere=True).tensor(pushed)


def jacobian(of: ir.Tensor, wrt: ir.Tensor, mapped: int = 0, shared: bool = False) -> ir.Tensor:
    """All rows at once: the cotangents are the rows of the identity, along extra axes in front.

    Elements along mapped axes do not meet, so one cotangent serves them all; these axes then go to the front.
    """
    mapped = 0 if shared else mapped
    lead = of.shape[mapped:]
    rank = len(lead)
    same: ir.Scalar = ir.const(1.0, of.dtype)
    for k in range(rank):
        test = ir.op("==", (ir.var(k), ir.var(rank + mapped + k)), "bool")
        same = d.choose(test, same, ir.const(0.0, of.dtype))
    seed = ir.comp((*lead, *of.shape), same)
    rows = gradients({of: seed}, [wrt], lead=lead)[0]
    if not mapped:
        return rows
    places = tuple(ir.plain(k) for k in (*range(mapped, mapped + rank), *range(mapped)))
    rest = wrt.shape[mapped:]
    there = (*places, *(ir.plain(mapped + rank + k) for k in range(len(rest))))
    return ir.comp((*wrt.shape[:mapped], *lead, *rest), ir.read(rows, there))
