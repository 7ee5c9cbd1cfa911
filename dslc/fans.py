"""How wide a parameter fans in and out, for initialisers that scale by it: by the axes that are summed."""

from __future__ import annotations

from dslc.builder.build import Unit
from dslc.ir import nodes as ir
from dslc.passes.transform import everything
from dslc.sizes import Size, product, tidy


def fans(unit: Unit) -> dict[ir.Node, tuple[Size, Size]]:
    """For each parameter: how many numbers go into one result, and into how many results each of them goes."""
    found: dict[ir.Node, tuple[Size, Size]] = {}
    for node in everything(unit.outputs):
        if isinstance(node, ir.Comp) and node.op == "sum":
            for s in ir.scalars(node.body):
                if isinstance(s, ir.Read) and (param := parameter_of(s.tensor)) is not None and param not in found:
                    found[param] = _of_read(s, len(node.shape))
    for path, param in unit.inputs.items():
        if param not in found:
            shape = param.shape[len(unit.layers.get(path, ())) :]
            found[param] = product(shape[:-1]), shape[-1] if shape else 1
    return found


def _of_read(s: ir.Read, rank: int) -> tuple[Size, Size]:
    into: Size = 1
    out: Size = 1
    for place, size in zip(s.places, s.tensor.shape, strict=True):
        if isinstance(place, ir.At):
            continue  # one layer, or one step
        if isinstance(place, ir.Affine) and any(n >= rank for n, _ in place.terms):
            into = tidy(into * size)
        else:
            out = tidy(out * size)
    return into, out


def parameter_of(tensor: ir.Tensor) -> ir.Input | None:
    """The parameter that a tensor is, or is the slice of one layer of."""
    if ir.slice_of_input(tensor):
        assert isinstance(tensor, ir.Comp) and isinstance(tensor.body, ir.Read)
        tensor = tensor.body.tensor
    return tensor if isinstance(tensor, ir.Input) and tensor.role == "param" else None
