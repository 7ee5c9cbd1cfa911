"""Which results of a function may lie in memory of somebody else: these are copied before they are given away."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dslc.incremental.cache import is_entry
from dslc.ir import nodes as ir


def owners(node: ir.Node, scans: Sequence[ir.Scan] = ()) -> set[ir.Node]:
    """The values whose memory a value may be a view of: itself, where it is computed.

    NumPy decides by the sizes: of a batch of one, `x.T.reshape(N*T)` is no copy. `scans` are those that are gone
    through already.
    """
    match node:
        case ir.Comp(op=None):
            body = node.body
            while isinstance(body, ir.Op) and body.name in ("stop_grad", "cast"):
                body = body.args[0]
            return owners(body.tensor, scans) if isinstance(body, ir.Read) else {node}
        case ir.Reshape():
            return owners(node.of, scans)
        case ir.Scatter(base=base) if base is not None and is_entry(base):  # a history grows where it is
            return owners(base, scans)
        case ir.Part(of=ir.Custom() as custom):
            return owners(custom.values[node.number], scans)
        case ir.Part(of=ir.Scan() as scan) if node.number >= len(scan.results) and scan not in scans:
            number, around = node.number - len(scan.results), (*scans, scan)
            found = owners(scan.carries[number], around)
            # a carried value may be one of those that the loop begins with
            return found | {x for start in scan.starts for x in owners(start, around)}
    return {node}


def copied(results: Iterable[ir.Tensor], given_away: Iterable[ir.Node] = ()) -> list[bool]:
    """Which of some results must be copied: what may be an argument or an earlier result, and what NumPy only shows
    in another shape. Some values may have been given away before."""
    taken: set[ir.Node] = {y for x in given_away for y in owners(x)}
    found: list[bool] = []
    for x in results:
        own = owners(x)
        given = any(isinstance(y, ir.Step) or (isinstance(y, ir.Input) and y.role != "result") for y in own)
        found.append(given or bool(own & taken) or is_broadcast(x))
        taken |= own
    return found


def is_broadcast(node: ir.Tensor) -> bool:
    """Are entries of a result the same along an axis, so that NumPy has them once?"""
    if not isinstance(node, ir.Comp) or not any(isinstance(s, ir.Read) for s in ir.scalars(node.body)):
        return False
    return len(varying(node)) < len(node.shape)


def varying(root: ir.Comp) -> frozenset[int]:
    """The axes along which the entries of a value differ, through the formulas that it is made of.

    >>> x = ir.intern(ir.Input("x", "input", "f64", (3,)))
    >>> total = ir.comp((4, 2), ir.read(x, (ir.plain(2),)), "sum", (3,))
    >>> sorted(varying(ir.comp((4, 2), ir.op("*", (ir.whole(total), ir.read(x, (ir.plain(0),))), "f64"))))
    [0]
    """
    found: dict[ir.Node, frozenset[int]] = {}
    for node in ir.schedule((root,)):
        if not isinstance(node, ir.Comp):
            continue
        axes: set[int] = set()
        for s in ir.scalars(node.body):
            if isinstance(s, ir.Var):
                axes.add(s.number)
            elif isinstance(s, ir.Read):
                differ = found.get(s.tensor, frozenset(range(len(s.places))))
                for k, place in enumerate(s.places):
                    if isinstance(place, ir.Affine) and (k in differ or s.outside is not None):
                        axes.update(n for n, _ in place.terms)
        found[node] = frozenset(axes & set(range(len(node.shape))))
    return found[root]
