"""Which array of a checkpoint may be which parameter: by shape, by name, and by the order in which both stand."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping

from dslc.training.files import Array
from dslc.weights.maps import Rule, Step, WeightMap

#: what frameworks call the parts of a layer, in the words of the standard library
WORDS = {
    "weight": "w", "kernel": "w", "embeddings": "w", "bias": "b", "gamma": "scale", "beta": "shift", "k": "w",
    "moving_mean": "running_mean", "moving_variance": "running_var",
    "linear": "dense", "fc": "dense", "ln": "layer_norm", "bn": "batch_norm", "conv": "conv2d", "wte": "embedding",
}  # fmt: skip

#: layouts of convolutions elsewhere (outputs and inputs first), and the order that makes them those of a spec
KERNELS = {3: (2, 1, 0), 4: (2, 3, 1, 0), 5: (2, 3, 4, 1, 0)}


def suggested(found: Mapping[str, Array], wanted: Mapping[str, tuple[int, ...]], torch_like: bool) -> WeightMap:
    """Rules for all that can be placed: the best pairs first, each array and each parameter once."""
    pairs = []
    for i, (name, value) in enumerate(found.items()):
        if re.search(r"[\s*]", name):  # no name for a rule
            continue
        for k, (target, shape) in enumerate(wanted.items()):
            steps = steps_between(value.shape, shape, torch_like and name.endswith("weight") and "emb" not in target)
            if steps is not None:
                order = 1 - abs(i / max(len(found), 1) - k / max(len(wanted), 1))
                plain = 0.0 if any(s.word == "reshape" for s in steps) else 0.3
                pairs.append((likeness(name, target) + 0.7 * order + plain, -i, -k, name, target, steps))
    made, taken, given = WeightMap(), set[str](), set[str]()
    for *_, name, target, steps in sorted(pairs, key=lambda pair: pair[:3], reverse=True):
        if name not in taken and target not in given:
            taken.add(name)
            given.add(target)
            made.rules.append(Rule(name, (target,), steps))
    order_of = {target: k for k, target in enumerate(wanted)}
    made.rules.sort(key=lambda rule: order_of[rule.targets[0]])
    return made


def steps_between(found: tuple[int, ...], wanted: tuple[int, ...], torch_like: bool) -> tuple[Step, ...] | None:
    """What makes one shape of another, or None; torch keeps matrices as [out, in].

    >>> steps_between((8, 4), (4, 8), True), steps_between((4, 8), (4, 2, 4), False)
    ((Step(word='transpose', numbers=()),), (Step(word='reshape', numbers=()),))
    """
    turned = KERNELS.get(len(found))
    if turned is not None and torch_like and tuple(found[axis] for axis in turned) == wanted:
        return (Step("transpose", turned),)
    if len(found) == 2 and found[::-1] == wanted and (torch_like or found != wanted):
        return (Step("transpose"),)
    if found == wanted:
        return ()
    return (Step("reshape"),) if math.prod(found) == math.prod(wanted) and min(len(found), len(wanted)) > 0 else None


def likeness(name: str, target: str) -> float:
    """How much two names are alike, once words of frameworks are those of the standard library.

    >>> likeness("fc1.weight", "dense.W") > likeness("fc1.bias", "dense.W")
    True
    """
    mine, yours = _words(name), _words(target)
    last = 0.6 if mine[-1:] == yours[-1:] else 0.0
    numbers = [[w for w in words if w.isdecimal()] for words in (mine, yours)]
    same = 0.3 if numbers[0] and numbers[0] == numbers[1] else 0.0
    return difflib.SequenceMatcher(None, " ".join(mine), " ".join(yours)).ratio() + last + same


def _words(name: str) -> list[str]:
    parts = re.findall(r"[a-z_]+|[0-9]+", name.lower().split(":")[0])
    return [WORDS.get(x.strip("_"), x.strip("_")) for x in parts if x.strip("_")]
