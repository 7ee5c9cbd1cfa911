"""Gradients, Jacobians, Hessians and products with them, all by reverse mode."""

from __future__ import annotations

from dslc.autodiff import scalar as d
from dslc.autodiff.reverse import gradients, ones, zeros
from dslc.ir import nodes as ir
from dslc.ir.rewrite import Substitute
from dslc.stabilise.rewriter import stabilise


def derivative(kind: str, of: ir.Tensor, wrt: ir.Tensor, direction: ir.Tensor | None = None) -> ir.Tensor:
    """`grad`, `vjp`, `jvp`, `jacobian` or `hessian` of one tensor by another, taken of its stable form."""
    if isinstance(wrt, ir.Input | ir.Part):  # rules look through other names, and what they pass by has no derivative
        of = stabilise({"of": of}, fixed=[wrt])["of"]
    match kind:
        case "grad":
            return gradients({of: ones(of.shape, of.dtype)}, [wrt])[0]
        case "vjp":
            assert direction is not None
            return gradients({of: direction}, [wrt])[0]
        case "jvp":
            assert direction is not None
            return jvp(of, wrt, direction)
        case "jacobian":
            return jacobian(of, wrt)
    assert kind == "hessian", kind
    return jacobian(gradients({of: ones(of.shape, of.dtype)}, [wrt])[0], wrt)


def jvp(of: ir.Tensor, wrt: ir.Tensor, direction: ir.Tensor) -> ir.Tensor:
    """The pullback u -> J^T u is linear in u, so its own pullback is v -> J v, which depends on u no more.

    A loop back may still carry u beside values that are read of it, so u is given a value there: any would do.
    """
    u = ir.intern(ir.Input(f"cotangent {ir.fresh_number()}", "input", of.dtype, of.shape))
    pulled = gradients({of: u}, [wrt])[0]
    pushed = gradients({pulled: direction}, [u])[0]
    return Substitute({}, plain={u: zeros(u.shape, u.dtype)}, everywhere=True).tensor(pushed)


def jacobian(of: ir.Tensor, wrt: ir.Tensor) -> ir.Tensor:
    """All rows at once: the cotangents are the rows of the identity, along extra axes in front."""
    rank = len(of.shape)
    same: ir.Scalar = ir.const(1.0, of.dtype)
    for k in range(rank):
        test = ir.op("==", (ir.var(k), ir.var(rank + k)), "bool")
        same = d.choose(test, same, ir.const(0.0, of.dtype))
    seed = ir.comp((*of.shape, *of.shape), same)
    return gradients({of: seed}, [wrt], lead=of.shape)[0]
