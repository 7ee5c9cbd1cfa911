"""Text written by a compiled module, one token after the other: greedy, drawn at random, or by a beam search.

A module with `step` computes each position once. Without one, or with a limit on what it sees (`context`), the whole
text so far goes through `forward` again for each token:

    m = dslc.compile("specs/convolution/text.dsl")
    text = continued(m, m.load("weights.safetensors"), [1, 20, 31], length=40, choose=Drawn(temperature=0.7))
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Params = Mapping[str, Any]


def greedy(logits: Array) -> int:
    """The most probable token, of equal ones the first."""
    return int(np.argmax(logits))


@dataclass
class Drawn:
    """A token drawn from softmax(logits / temperature); near 0 it is the most probable one, far up any one."""

    temperature: float = 1.0
    seed: int = 0
    rng: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise ValueError(f"expected a temperature above 0, found {self.temperature}; `greedy` is the limit at 0")
        self.rng = np.random.default_rng(self.seed)

    def __call__(self, logits: Array) -> int:
        return int(self.rng.choice(len(logits), p=np.exp(log_softmax(logits / self.temperature))))


def log_softmax(logits: Array) -> Array:
    x = np.asarray(logits, float)
    x = x - x.max()
    return np.asarray(x - np.log(np.exp(x).sum()))


def continued(
    module: Any, params: Params, prompt: Sequence[int], length: int, choose: Callable[[Array], int] = greedy,
    end: int | None = None, context: int | None = None,
) -> list[int]:  # fmt: skip
    """The prompt and what the model writes behind it, until there are `length` tokens or the token `end` comes."""
    text = _begun(prompt)
    reader = _reader(module, params, length, context)
    while _open(text, length, end):
        text.append(choose(reader.read(text)))
    return text


def beam_search(
    module: Any, params: Params, prompt: Sequence[int], length: int, beams: int, end: int | None = None,
    context: int | None = None,
) -> list[tuple[float, list[int]]]:  # fmt: skip
    """The most probable texts of a search that keeps `beams` of them, with the logarithms of their probabilities."""
    first = _reader(module, params, length, context)
    text = _begun(prompt)
    kept: list[tuple[float, list[int], Any, Any]] = [
        (0.0, text, first, first.read(text) if _open(text, length, end) else None)
    ]
    while any(_open(text, length, end) for _, text, _, _ in kept):
        every: list[tuple[float, int, int | None]] = []
        for n, (score, text, _, logits) in enumerate(kept):
            if _open(text, length, end):
                every += [(score + float(x), n, token) for token, x in enumerate(log_softmax(logits))]
            else:
                every.append((score, n, None))
        best = sorted(every, key=lambda x: -x[0])[:beams]
        kept = [_extended(kept[n], score, token, length, end) for score, n, token in best]
    return [(score, text) for score, text, _, _ in kept]


def _open(text: list[int], length: int, end: int | None) -> bool:
    return len(text) < length and text[-1] != end


def _extended(
    one: tuple[float, list[int], Any, Any], score: float, token: int | None, length: int, end: int | None
) -> tuple[float, list[int], Any, Any]:
    _, text, reader, _ = one
    if token is None:
        return one
    text = [*text, token]
    if not _open(text, length, end):
        return score, text, None, None
    reader = reader.copy()
    return score, text, reader, reader.read(text)


def _begun(prompt: Sequence[int]) -> list[int]:
    if not len(prompt):
        raise ValueError("expected a prompt of at least one token: a text begins with one such as [BOS]")
    return [int(x) for x in prompt]


def _reader(module: Any, params: Params, length: int, context: int | None) -> Any:
    if context is None and hasattr(module, "step"):
        sizes = {"N": 1, "length": length}
        asked = inspect.signature(module.init_cache).parameters  # there is a length only where a cache has a limit
        return _Stepping(module, params, module.init_cache(params, **{x: n for x, n in sizes.items() if x in asked}))
    return _Whole(module, params, context)


def _only(logits: Any) -> Array:
    """The logits of the only text of a batch."""
    return np.asarray(np.asarray(logits)[0])


@dataclass
class _Stepping:
    """Reads what is new of a text, with a cache for what it has read."""

    module: Any
    params: Params
    cache: Any

    def read(self, text: list[int]) -> Array:
        for token in text[self.cache["positions"] :]:
            logits, self.cache = self.module.step(self.params, self.cache, np.array([token]))
        return _only(logits)

    def copy(self) -> _Stepping:
        cache = {name: x.copy() if isinstance(x, np.ndarray) else x for name, x in self.cache.items()}
        return _Stepping(self.module, self.params, cache)


@dataclass
class _Whole:
    """Reads the text from its beginning, or the last `context` tokens of it."""

    module: Any
    params: Params
    context: int | None

    def read(self, text: list[int]) -> Array:
        seen = text if self.context is None else text[-self.context :]
        return _only(self.module.forward(self.params, np.array([seen]))[:, -1])

    def copy(self) -> _Whole:
        return self
