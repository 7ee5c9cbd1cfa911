"""Which values a map may be written over: those that it reads for the last time, each element where it writes it."""

from __future__ import annotations

from dslc.dtypes import alike
from dslc.ir import nodes as ir
from dslc.schedule.form import Pass, Region, based
from dslc.schedule.products import is_strided, stride
from dslc.sizes import product, strides


def overwritten(region: Region, node: ir.Node) -> list[ir.Node]:
    """The values from outside of a region whose memory one of its maps may take, if nothing reads them later on.

    In the loops that write the map, an element is read before it is written, by members before the map or by itself.
    What runs before these loops reads rows of its own piece of the region alone; what runs after them reads nothing.
    """
    if not isinstance(node, ir.Comp) or node.op is not None:
        return []
    own = next((k for k, x in enumerate(region.items) if isinstance(x, Pass) and node in x.members), None)
    if own is None or region.items[own].kind != "map":  # type: ignore[union-attr]
        return []
    found: dict[ir.Node, bool] = {}
    written = False
    for k, item in enumerate(region.items):
        for member in item.members if isinstance(item, Pass) else [item.node]:
            for s in ir.scalars(member.body):
                if isinstance(s, ir.Read) and (tensor := based(s.tensor)) not in region.nodes:
                    before = of_piece(s, region) if k < own else not written and k == own and in_step(s, node)
                    found[tensor] = found.get(tensor, True) and before
            written = written or member is node
    return [x for x, good in found.items() if good and fits(x, node)]


def fits(value: ir.Node, node: ir.Comp) -> bool:
    """Has a value as many entries of the same kind as a map?"""
    if not isinstance(value, ir.Comp | ir.Scatter | ir.Part):
        return False
    return alike(value.dtype, node.dtype) and product(value.shape) == product(node.shape)


def of_piece(s: ir.Read, region: Region) -> bool:
    """Does a read stay in the rows of the piece that its region is at work on?"""
    depth = region.depth
    same = s.tensor.shape[:depth] == region.sizes and s.outside is None
    return same and all(s.places[k] is ir.plain(k) for k in range(depth))


def in_step(s: ir.Read, node: ir.Comp) -> bool:
    """Does a read find its element where the map writes its own?"""
    if not is_strided(s) or any(not isinstance(x, ir.Affine) for x in s.places):
        return False
    steps = zip(s.places, strides(s.tensor.shape), strict=True)
    if any(isinstance(x, ir.Affine) and x.offset * far != 0 for x, far in steps):
        return False
    return not any(stride(s, k) != far for k, far in enumerate(strides(node.shape)))
