"""Which array of a checkpoint may be which parameter: by roles, shapes and the numbers in paths, or it is unclear."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from dslc.arrays import Array
from dslc.weights.maps import Rule, Step, WeightMap

#: what frameworks and the standard library call the parts of a layer; a part never takes the place of another
ROLES = {
    "weight": "weight", "kernel": "weight", "w": "weight", "k": "weight", "gamma": "weight", "scale": "weight",
    "embedding": "weight", "embeddings": "weight", "bias": "bias", "b": "bias", "beta": "bias", "shift": "bias",
    "running_mean": "mean", "moving_mean": "mean", "running_var": "variance", "moving_variance": "variance",
}  # fmt: skip

#: words of frameworks in those of the standard library
WORDS = {
    "ln": "layer_norm", "layernorm": "layer_norm", "bn": "batch_norm", "batch_normalization": "batch_norm",
    "conv": "conv2d", "wte": "embedding", "emb": "embedding", "embed": "embedding", "attn": "attention",
}  # fmt: skip

#: counters of torch, which no spec has
COUNTERS = ("num_batches_tracked",)

#: layouts of convolutions elsewhere (outputs and inputs first), and the order that makes them those of a spec
KERNELS = {3: (2, 1, 0), 4: (2, 3, 1, 0), 5: (2, 3, 4, 1, 0)}

#: how well shapes fit: in the layout of the framework, in another one, only by their number of entries
USUAL, OTHER, RESHAPED = range(3)

Shape = tuple[int, ...]


@dataclass
class Suggestion:
    """Rules for all that is clear; for parameters that are not, the arrays that they may be."""

    map: WeightMap = field(default_factory=WeightMap)
    unclear: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Unit:
    """A layer or one part of it: the words of its path and a number for each, its parts, and all parts of the layer."""

    words: tuple[str, ...]
    numbers: tuple[int, ...]
    parts: Mapping[str, str]
    layer: Mapping[str, str]


Pairs = list[tuple[Unit, Unit]]


def suggested(found: Mapping[str, Array], wanted: Mapping[str, Shape], torch_like: bool) -> Suggestion:
    """Rules for what can be placed without a doubt, whole layers first."""
    return Search(found, wanted, torch_like).result()


class Search:
    """What of a checkpoint and of a model has found each other so far."""

    def __init__(self, found: Mapping[str, Array], wanted: Mapping[str, Shape], torch_like: bool):
        self.found, self.wanted, self.torch_like = found, wanted, torch_like
        self.shapes: dict[str, Shape] = {name: x.shape for name, x in found.items()}

    def result(self) -> Suggestion:
        rules = {name: Rule(name, (name,)) for name in self.found if self.wanted.get(name) == self.shapes[name]}
        # a rule can name these, and a model can have them
        names = [n for n in self.found if not re.search(r"[\s*]|^#", n) and not n.endswith(COUNTERS)]
        mine, yours = units(names), units(list(self.wanted))
        pairs: Pairs = []
        taken, given = set(rules), set(rules)
        for whole, most in ((True, USUAL), (True, OTHER), (False, USUAL), (False, OTHER), (False, RESHAPED)):
            clear = self.clear(left(mine[whole], taken), left(yours[whole], given), most)
            taken |= {name for unit, _ in clear for name in unit.parts.values()}
            given |= {name for _, unit in clear for name in unit.parts.values()}
            pairs += clear
        for one, other in monotone(pairs):
            for name, target in parts_of(one, other):
                rules[target] = Rule(name, (target,), self.steps(name, target) or ())
        made = Suggestion(WeightMap(rules=[rules[n] for n in self.wanted if n in rules]))
        used = {rule.pattern for rule in rules.values()}
        rest = families(left(mine[False], used), self.shapes)
        for family in families(left(yours[False], rules), self.wanted):
            near = [other for other in rest if self.fits(other[0], family[0], RESHAPED)]
            for unit in family:
                may_be = [x for other in near for x in partners(other, family, unit)]
                for target in unit.parts.values() if may_be else ():
                    made.unclear[target] = [name for x in may_be for name in x.parts.values()]
        return made

    def steps(self, name: str, target: str) -> tuple[Step, ...] | None:
        return steps_between(self.shapes[name], self.wanted[target], self.is_turned(name, target))

    def is_turned(self, name: str, target: str) -> bool:
        """Whether torch keeps this with its outputs first."""
        return self.torch_like and name.endswith("weight") and "emb" not in target

    def fits(self, mine: Unit, yours: Unit, most: int) -> bool:
        """Parts must fit in role and shape; where one part of a layer has its like in the other, so must that."""
        pairs = parts_of(mine, yours)
        named = mine.parts.keys() == yours.parts.keys()
        if not named and (most == USUAL or len(pairs) != 1 or not {*mine.parts, *yours.parts} & {""}):
            return False
        others = [(mine.layer[r], yours.layer[r]) for r in mine.layer.keys() & yours.layer.keys()]
        return all(self.distance(*pair) <= most for pair in pairs) and all(
            self.distance(*pair) <= RESHAPED for pair in others
        )

    def distance(self, name: str, target: str) -> int:
        """How far two shapes are from each other; beyond all that is allowed if nothing makes one of the other."""
        steps = self.steps(name, target)
        if steps is None:
            return RESHAPED + 1
        if any(step.word == "reshape" for step in steps):
            return RESHAPED
        usual = len(self.shapes[name]) < 2 or bool(steps) == self.is_turned(name, target)
        return USUAL if usual else OTHER

    def clear(self, found: Sequence[Unit], wanted: Sequence[Unit], most: int) -> Pairs:
        """Pairs of units without a doubt.

        Units whose paths differ by numbers alone go together, in the order of their numbers. Which of them are which
        is clear if each has no other choice, or if they have more words in common than any other choice.
        """
        mine, yours = families(found, self.shapes), families(wanted, self.wanted)
        options: dict[tuple[int, int], Pairs] = {}
        for i, a in enumerate(mine):
            for k, b in enumerate(yours):
                if len(a) == len(b) and self.fits(a[0], b[0], most) and (pairs := in_step(a, b)) is not None:
                    options[i, k] = pairs
        common = {(i, k): len(words_of(mine[i][0]) & words_of(yours[k][0])) for i, k in options}
        taken: Pairs = []
        while options:
            lines: dict[tuple[int, int], list[int]] = {}
            for x in options:
                lines.setdefault((0, x[0]), []).append(common[x])
                lines.setdefault((1, x[1]), []).append(common[x])
            best = {line: max(n) if n.count(max(n)) == 1 else math.inf for line, n in lines.items()}
            chosen = [x for x in options if common[x] == best[0, x[0]] == best[1, x[1]]]
            for i, k in chosen or [x for x in options if self.is_one_array(x, options)][:1]:
                taken += options.pop((i, k))
                options = {x: pairs for x, pairs in options.items() if x[0] != i and x[1] != k}
                chosen = chosen or [(i, k)]
            if not chosen:
                break
        return taken

    def is_one_array(self, one: tuple[int, int], options: Mapping[tuple[int, int], Pairs]) -> bool:
        """Whether all that may be a parameter, and nothing else, has the same entries: weights that are shared."""
        rivals = [x for x in options if x[1] == one[1]]
        if any(x[1] != one[1] for x in options if x[0] in {i for i, _ in rivals}):
            return False
        names = [[name for unit, _ in options[x] for name in unit.parts.values()] for x in rivals]
        return all(
            np.array_equal(self.found[a], self.found[b])
            for others in names[1:]
            for a, b in zip(names[0], others, strict=True)
        )


# ---- paths ---------------------------------------------------------------------------------------------


def units(names: Sequence[str]) -> dict[bool, list[Unit]]:
    """Whole layers, if they have several parts and these plain roles (True); and every part by itself (False)."""
    layers: dict[str, list[str]] = {}
    for name in names:
        layers.setdefault(_split(name)[0], []).append(name)
    made: dict[bool, list[Unit]] = {True: [], False: []}
    for path, members in layers.items():
        roles = {role_of(_split(name)[1]): name for name in members}
        plain = len(roles) == len(members) and "" not in roles
        if plain and len(members) > 1:
            made[True].append(Unit(*numbered(path), roles, roles))
        for name in members:
            part = {role_of(_split(name)[1]): name}
            made[False].append(Unit(*numbered(name.split(":")[0]), part, roles if plain else {}))
    return made


def left(found: Sequence[Unit], used: Collection[str]) -> list[Unit]:
    """Units of which nothing is used yet."""
    return [unit for unit in found if not any(name in used for name in unit.parts.values())]


def _split(name: str) -> tuple[str, str]:
    """The path of a layer, and what the part of it is called.

    >>> _split("h.0.ln_1.weight"), _split("dense_1/kernel:0")
    (('h.0.ln_1', 'weight'), ('dense_1', 'kernel'))
    """
    *path, last = re.split(r"([./])", name.split(":")[0])
    return "".join(path[:-1]), last


def role_of(word: str) -> str:
    """What a part of a layer is for; nothing where its name does not tell.

    >>> [role_of(x) for x in ("weight", "scale", "Wq", "in_proj_bias", "bo", "position")]
    ['weight', 'weight', 'weight', 'bias', 'bias', '']
    """
    plain = re.sub(r"_?\d+$", "", word)
    if match := re.fullmatch(r"(?:.*_)?(weight|bias)(?:_.*)?", plain.lower()):
        return match[1]
    if re.fullmatch(r"W\w*|b[a-z]", plain):
        return "weight" if plain[0] == "W" else "bias"
    return ROLES.get(plain.lower(), "")


def numbered(path: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The words of a path, and the number behind each; a number by itself belongs to no word.

    >>> numbered("h.10.ln_1"), numbered("dense")
    ((('h', '', 'ln'), (0, 10, 1)), (('dense',), (0,)))
    """
    parts = [re.fullmatch(r"(.*?)_?([0-9]{0,9})", part, re.DOTALL) for part in re.split(r"[./]", path)]
    found = [match.groups() for match in parts if match is not None]
    return tuple(word.lower() for word, _ in found), tuple(int(digits or 0) for _, digits in found)


def words_of(unit: Unit) -> set[str]:
    """Words that tell what a unit is, apart from the roles of its parts.

    >>> sorted(words_of(Unit(("self_attn", "wq"), (0, 0), {}, {})))
    ['attention', 'q', 'self']
    """
    parts = [x for word in unit.words for x in WORDS.get(word, word).split("_")]
    words = {x for part in parts for x in WORDS.get(part, part).split("_")}
    roles = ROLES.keys() - {"k", "embedding"}  # keys of attention, and a layer
    return {re.sub(r"^[wb]([a-z])$", r"\1", word) for word in words} - roles - {""}


def families(found: Sequence[Unit], shapes: Mapping[str, Shape]) -> list[list[Unit]]:
    """Units whose paths differ by numbers alone, with the same parts of the same shapes."""
    made: dict[object, list[Unit]] = {}
    for unit in found:
        parts = tuple(sorted((role, shapes[name]) for role, name in unit.parts.items()))
        made.setdefault((unit.words, parts), []).append(unit)
    return list(made.values())


def in_step(mine: Sequence[Unit], yours: Sequence[Unit]) -> Pairs | None:
    """Two families in the order of their numbers; None where these do not count the same things."""
    a, b = _varying(mine), _varying(yours)
    loose = [x for x, y in itertools.pairwise(b) if y == x + 1 and yours[0].words[x] and not yours[0].words[y]]
    if loose:  # `norm.0` and `norm2.0` of a spec: two norms in each pass of one loop, or a loop for each
        a, b = _indices_first(mine[0], a), _indices_first(yours[0], b)
        if [not mine[0].words[x] for x in a] != [not yours[0].words[x] for x in b]:
            return None
    first, second = sorted(mine, key=lambda unit: _at(unit, a)), sorted(yours, key=lambda unit: _at(unit, b))
    ranks = [_ranks([_at(unit, k) for unit in units]) for units, k in ((first, a), (second, b))]
    if any(len(set(x)) < len(x) for x in ranks) or (len(a) == len(b) and ranks[0] != ranks[1]):
        return None
    return list(zip(first, second, strict=True))


def partners(mine: Sequence[Unit], yours: Sequence[Unit], one: Unit) -> list[Unit]:
    """Units of a family that may be one of another: that of the same place, or any if the numbers do not tell."""
    pairs = in_step(mine, yours) if len(mine) == len(yours) else None
    return list(mine) if pairs is None else [unit for unit, other in pairs if other is one]


def _varying(family: Sequence[Unit]) -> list[int]:
    """Where the numbers of a family differ."""
    return [k for k in range(len(family[0].words)) if len({unit.numbers[k] for unit in family}) > 1]


def _indices_first(unit: Unit, places: Sequence[int]) -> list[int]:
    """Numbers by themselves before those that belong to a word."""
    return sorted(places, key=lambda k: bool(unit.words[k]))


def _at(unit: Unit, places: Sequence[int]) -> tuple[int, ...]:
    return tuple(unit.numbers[k] for k in places)


def _ranks(numbers: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The place of each number among those that have the same numbers before them.

    >>> _ranks([(0, 5), (0, 7), (4, 5)])
    [(0, 0), (0, 1), (1, 0)]
    """
    after: dict[tuple[int, ...], set[int]] = {}
    for one in numbers:
        for k, n in enumerate(one):
            after.setdefault(one[:k], set()).add(n)
    place = {before: {n: rank for rank, n in enumerate(sorted(found))} for before, found in after.items()}
    return [tuple(place[one[:k]][n] for k, n in enumerate(one)) for one in numbers]


def monotone(pairs: Pairs) -> Pairs:
    """The pairs without those whose paths are alike, while their numbers go up on one side and down on the other."""
    alike: dict[object, Pairs] = {}
    for mine, yours in pairs:
        alike.setdefault((mine.words, yours.words), []).append((mine, yours))
    kept: Pairs = []
    for group in alike.values():
        units = [list(side) for side in zip(*group, strict=True)]
        if len(group) == 1 or in_step(*units) == sorted(group, key=lambda pair: _at(pair[0], _varying(units[0]))):
            kept += group
    return kept


# ---- shapes --------------------------------------------------------------------------------------------


def parts_of(mine: Unit, yours: Unit) -> list[tuple[str, str]]:
    """The parts of two units, role by role; a single part may be without a role."""
    if mine.parts.keys() == yours.parts.keys():
        return [(mine.parts[role], yours.parts[role]) for role in mine.parts]
    return list(zip(mine.parts.values(), yours.parts.values(), strict=False))


def steps_between(found: Shape, wanted: Shape, torch_like: bool) -> tuple[Step, ...] | None:
    """What makes one shape of another, or None; torch keeps matrices as [out, in].

    >>> steps_between((8, 4), (4, 8), True), steps_between((4, 8), (4, 2, 4), False)
    ((Step(word='transpose', numbers=()),), (Step(word='reshape', numbers=()),))
    >>> [str(step) for step in steps_between((8, 4), (4, 2, 4), True)]
    ['transpose', 'reshape']
    """
    turned = KERNELS.get(len(found))
    if turned is not None and torch_like and tuple(found[axis] for axis in turned) == wanted:
        return (Step("transpose", turned),)
    if len(found) == 2 and found[::-1] == wanted and (torch_like or found != wanted):
        return (Step("transpose"),)
    if found == wanted:
        return ()
    if math.prod(found) != math.prod(wanted) or min(len(found), len(wanted)) == 0:
        return None
    inputs = [math.prod(wanted[:k]) for k in range(1, len(wanted))]
    if torch_like and len(found) == 2 and len(wanted) > 2 and found[1] in inputs:
        return (Step("transpose"), Step("reshape"))
    return (Step("reshape"),)
