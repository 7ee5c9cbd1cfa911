"""Matrices that are never stored: contractions of two long axes that are only summed over again.

A tile  z[t, s] = sum[d](q[t, d] * k[s, d])  with long t and s, and all maps of it, may be computed a block at a time
inside the kernels that reduce it along t or s (attention weights, for example). Maps of tiles are put into the
formulas of those that read them; what remains are the tiles themselves and the reductions that end them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from dslc.ir import nodes as ir
from dslc.ir.rewrite import plain_variable
from dslc.passes.elementwise import Inlined, spreads
from dslc.passes.sides import contraction_sides
from dslc.passes.transform import Outputs
from dslc.sizes import at_most

#: the longest row that is held in registers as a whole
LONGEST_ROW = 4096
#: sums within a tile are no longer than this
WIDEST = 128


@dataclass(frozen=True)
class Roles:
    """Which axes of a tile are its two long sides; the others are batch axes."""

    first: tuple[int, ...]
    second: tuple[int, ...]

    @property
    def sides(self) -> frozenset[frozenset[int]]:
        """Both sides, whichever is the first, and in whatever order their axes are."""
        return frozenset((frozenset(self.first), frozenset(self.second)))


def tile_roles(node: ir.Node) -> Roles | None:
    """The long sides of a contraction over a short axis."""
    if not isinstance(node, ir.Comp):
        return None
    sides = contraction_sides(node)
    if sides is None or not at_most(WIDEST, node.reduced):
        return None
    _, _, _, rows, columns = sides
    if not any(at_most(LONGEST_ROW, [node.shape[v] for v in side]) for side in (rows, columns)):
        return Roles(rows, columns)
    return None


def read_roles(s: ir.Read, roles: Roles) -> Roles | None:
    """The long sides of a tile as variables of the formula that reads it; None if they are not plain variables."""
    if s.outside is not None:
        return None
    variables = [plain_variable(p) for p in s.places]
    if None in variables or len(set(variables)) != len(variables):
        return None
    return Roles(tuple(variables[v] for v in roles.first), tuple(variables[v] for v in roles.second))  # type: ignore[misc]


def joint_roles(node: ir.Comp, tiles: dict[ir.Node, Roles]) -> Roles | None:
    """The long sides of all tiles that a formula reads, where they agree."""
    found: Roles | None = None
    for s in ir.scalars(node.body):
        if isinstance(s, ir.Read) and s.tensor in tiles:
            roles = read_roles(s, tiles[s.tensor])
            if roles is None:
                return None
            if found is None:
                found = roles
            elif found.sides != roles.sides:
                return None
    return found


def candidates(order: Sequence[ir.Node]) -> dict[ir.Node, Roles]:
    """All tiles, and the maps of them, with their long sides."""
    tiles: dict[ir.Node, Roles] = {}
    for node in order:
        roles = tile_roles(node)
        if roles is None and isinstance(node, ir.Comp) and node.op is None:
            roles = joint_roles(node, tiles)
            if roles is not None and not {*roles.first, *roles.second} <= set(range(len(node.shape))):
                roles = None
        if roles is not None:
            tiles[node] = roles
    return tiles


def tiles_of(roots: Collection[ir.Tensor]) -> dict[ir.Node, Roles]:
    """The tiles that need not be stored: all that read them are such tiles too, or reduce them."""
    order = ir.every_node(roots)
    tiles = candidates(order)
    fixed = set(roots)
    users: dict[ir.Node, list[ir.Node]] = {}
    for node in order:
        for a in ir.arguments(node):
            users.setdefault(a, []).append(node)
        if isinstance(node, ir.Scan):
            fixed.update((*node.carries, *node.results, *node.starts))
    changed = True
    while changed:
        bad = [
            x
            for x in tiles
            if x in fixed or not users.get(x) or any(u not in tiles and ending(u, tiles) is None for u in users[x])
        ]
        # a map that reads a stored tile is no tile itself
        left = {k: v for k, v in tiles.items() if k not in bad}
        bad += [x for x in left if isinstance(x, ir.Comp) and tile_roles(x) is None and joint_roles(x, left) is None]
        for x in bad:
            tiles.pop(x, None)
        changed = bool(bad)
    return tiles


@dataclass(frozen=True)
class Ending:
    """A reduction of tiles along one long side: the side that stays, the side that goes, and new axes (of v, say)."""

    stays: tuple[int, ...]
    goes: tuple[int, ...]
    new: tuple[int, ...]


def ending(node: ir.Node, tiles: dict[ir.Node, Roles]) -> Ending | None:
    """How a node reduces the tiles that it reads; None if it does so in no way that a streaming kernel can follow."""
    if not isinstance(node, ir.Comp) or node.op not in ("sum", "max", "min", "argmax", "argmin"):
        return None
    if node.op in ("argmax", "argmin") and len(node.reduced) != 1:
        return None  # the position is one along several axes
    roles = joint_roles(node, tiles)
    if roles is None:
        return None
    rank = len(node.shape)
    reduced = set(range(rank, rank + len(node.reduced)))
    for stays, goes in ((roles.first, roles.second), (roles.second, roles.first)):
        if set(goes) == reduced and all(v < rank for v in stays):
            sides = contraction_sides(node)
            if sides is None:
                return Ending(stays, goes, ())
            left, right, _, rows, columns = sides
            of_tile = rows if set(stays) <= set(rows) else columns
            new = columns if of_tile is rows else rows
            if set(of_tile) != set(stays) or not at_most(WIDEST, [node.shape[v] for v in new]):
                return None
            other = right if of_tile is rows else left
            if any(isinstance(s, ir.Read) and s.tensor in tiles for s in ir.scalars(other)):
                return None
            return Ending(stays, goes, new)
    return None


class Streamed(Inlined):
    """A graph in which maps of tiles stand in the formulas that read them."""

    def __init__(self, outputs: Outputs) -> None:
        super().__init__(outputs)
        self.tiles = tiles_of(outputs.values())

    def worth(self, node: ir.Comp, user: ir.Comp) -> bool:
        old, reader = (self.origin.get(x, x) for x in (node, user))
        if reader in self.tiles and old not in self.fixed and spreads(node):  # one entry for each of a tile, of few
            return True
        return old in self.tiles and tile_roles(old) is None


def streamed(outputs: Outputs) -> dict[str, ir.Tensor]:
    return Streamed(outputs).outputs(outputs)
