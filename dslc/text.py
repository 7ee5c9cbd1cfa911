"""Text as whole numbers: tokenizers, and batches of sequences of unequal lengths.

A tokenizer cuts a text into pieces that it knows, and gives each its number in a vocabulary:

    >>> words = Words.learn(["the cat is on the table", "the cat"], size=6)
    >>> words.tokens
    ('[PAD]', '[BOS]', '[EOS]', '[OOV]', 'the', 'cat')
    >>> words.encode("the dog", begin=True)
    [1, 4, 3]
"""

from __future__ import annotations

import heapq
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from dslc.writing import write_bytes

Array = np.ndarray[Any, np.dtype[Any]]

#: what fills a batch, begins and ends a text, and stands for what is not in the vocabulary
PAD, BOS, EOS, OOV = SPECIAL = ("[PAD]", "[BOS]", "[EOS]", "[OOV]")


class Tokenizer:
    """A vocabulary, and how texts are cut. Special tokens have the first numbers; no text is cut into them."""

    kind: ClassVar[str]

    def __init__(self, tokens: Sequence[str], special: Sequence[str] = SPECIAL) -> None:
        self.special = tuple(special)
        self.tokens = (*self.special, *tokens)
        if not all(isinstance(x, str) for x in self.tokens):
            raise ValueError("expected tokens that are texts")
        self.number = {token: n for n, token in enumerate(self.tokens)}
        if len(self.number) != len(self.tokens):
            twice = sorted(token for token, count in Counter(self.tokens).items() if count > 1)
            raise ValueError(f"expected tokens that differ, found {twice[0]!r} twice")
        #: the numbers of pieces of texts, which a special token is not, even where a text spells it
        self._pieces = dict(zip(tokens, range(len(self.special), len(self.tokens)), strict=True))

    @classmethod
    def learn(cls, texts: Iterable[str], size: int | None = None, special: Sequence[str] = SPECIAL) -> Self:
        """The most frequent pieces of some texts, at most `size` tokens with the special ones."""
        room = _room(size, special)
        counts = Counter(piece for text in texts for piece in cls.split(text))
        return cls(sorted(counts, key=lambda piece: (-counts[piece], piece))[:room], special)

    @staticmethod
    def split(text: str) -> list[str]:
        """The pieces of a text, known or not."""
        raise NotImplementedError

    @staticmethod
    def join(pieces: Sequence[str]) -> str:
        """The text that has these pieces."""
        raise NotImplementedError

    def encode(self, text: str, begin: bool = False, end: bool = False) -> list[int]:
        """The numbers of a text; what is not in the vocabulary becomes [OOV], and is an error without one."""
        found = [self._of_piece(piece) for piece in self.split(text)]
        return [*([self._of_special(BOS)] if begin else []), *found, *([self._of_special(EOS)] if end else [])]

    def decode(self, numbers: Iterable[int]) -> str:
        """The text of some numbers, without special tokens; [OOV] is shown."""
        shown = (self._token(n) for n in numbers)
        return self.join([x for x in shown if x not in self.special or x == OOV])

    def _of_piece(self, piece: str) -> int:
        found = self._pieces.get(piece)
        if found is None:
            found = self._of_special(OOV, f"{piece!r} is not in the vocabulary, and neither is {OOV}")
        return found

    def _of_special(self, token: str, fault: str = "") -> int:
        if token not in self.special:
            raise ValueError(fault or f"expected {token} among the special tokens, found {', '.join(self.special)}")
        return self.number[token]

    def _token(self, number: int) -> str:
        if not 0 <= number < len(self):
            raise ValueError(f"expected 0 <= number < {len(self)}, found {number}")
        return self.tokens[number]

    def __len__(self) -> int:
        return len(self.tokens)

    def _content(self) -> dict[str, Any]:
        return {"tokens": self.tokens[len(self.special) :]}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a JSON file that `load` reads."""
        content = {"kind": self.kind, "special": self.special, **self._content()}
        write_bytes(Path(path), (json.dumps(content, ensure_ascii=False) + "\n").encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        with open(path, encoding="utf-8") as file:
            try:
                content = json.load(file)
                if content.pop("kind") != cls.kind:
                    raise ValueError(f"it is no vocabulary of {cls.kind}")
                return cls(**content)
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
                raise ValueError(f"{os.fspath(path)} is no vocabulary: {error}") from error


def _room(size: int | None, special: Sequence[str]) -> int | None:
    if size is not None and size <= len(special):
        raise ValueError(f"expected a size above {len(special)}, the number of special tokens, found {size}")
    return None if size is None else size - len(special)


class Characters(Tokenizer):
    """Each character is a token.

    >>> Characters.learn(["cat"]).encode("act")
    [4, 5, 6]
    """

    kind = "characters"

    @staticmethod
    def split(text: str) -> list[str]:
        return list(text)

    @staticmethod
    def join(pieces: Sequence[str]) -> str:
        return "".join(pieces)


class Words(Tokenizer):
    """Words and signs are tokens; the space between them is not kept.

    >>> Words.split("The cat's on it.")
    ['The', 'cat', "'", 's', 'on', 'it', '.']
    """

    kind = "words"

    @staticmethod
    def split(text: str) -> list[str]:
        return re.findall(r"\w+|[^\w\s]", text)

    @staticmethod
    def join(pieces: Sequence[str]) -> str:
        return " ".join(pieces)


class BytePairs(Tokenizer):
    """Byte-pair encoding: bytes of UTF-8, of which the most frequent neighbours have been merged, again and again.

    Any text can be cut, and comes back as it was. `merges` are pairs of numbers below that of the new token, counted
    without special tokens: 0 to 255 are the bytes.

    >>> pairs = BytePairs.learn(["aaabdaaabac"], size=3 + 256, special=[])
    >>> [pairs.tokens[n] for n in pairs.encode("aaabdaaabac")]
    ['aaab', 'd', 'aaab', 'a', 'c']
    """

    kind = "byte pairs"

    def __init__(self, merges: Sequence[Sequence[int]], special: Sequence[str] = SPECIAL) -> None:
        self.merges = [(int(a), int(b)) for a, b in merges]
        self.bytes = [bytes([n]) for n in range(256)]
        for a, b in self.merges:
            if not (0 <= a < len(self.bytes) and 0 <= b < len(self.bytes)):
                raise ValueError(f"expected pairs of tokens that are known by then, found {(a, b)}")
            if len(self.bytes[a]) + len(self.bytes[b]) > LONGEST:
                raise ValueError(f"expected tokens of at most {LONGEST} bytes")
            self.bytes.append(self.bytes[a] + self.bytes[b])
        self.rank = {pair: n for n, pair in enumerate(self.merges, 256)}
        self.special = tuple(special)
        self.tokens = (*self.special, *(_visible(x) for x in self.bytes))
        self.number = {token: n for n, token in enumerate(self.special)}

    @classmethod
    def learn(cls, texts: Iterable[str], size: int | None = None, special: Sequence[str] = SPECIAL) -> Self:
        """Merges of the most frequent pairs until there are `size` tokens, or no pair stands twice."""
        room = _room(size, special)
        if room is not None and room < 256:
            raise ValueError(
                f"expected a size of at least {len(special) + 256}, since each byte is a token, found {size}"
            )
        counts = Counter(piece for text in texts for piece in cls.split(text))
        return cls(_merges([list(x.encode()) for x in counts], [*counts.values()], room), special)

    @staticmethod
    def split(text: str) -> list[str]:
        """Words with the space before them, signs, and other space: no token goes past the end of a piece."""
        return re.findall(r" ?\w{1,200}| ?[^\w\s]{1,200}|\s{1,200}", text)

    def encode(self, text: str, begin: bool = False, end: bool = False) -> list[int]:
        first = len(self.special)
        found = [first + n for piece in self.split(text) for n in self._merged(list(piece.encode()))]
        return [*([self._of_special(BOS)] if begin else []), *found, *([self._of_special(EOS)] if end else [])]

    def decode(self, numbers: Iterable[int]) -> str:
        first = len(self.special)
        found = [(self._token(n), n) for n in numbers]
        return b"".join(self.bytes[n - first] for _, n in found if n >= first).decode(errors="replace")

    def _merged(self, piece: list[int]) -> list[int]:
        """The merge that was learnt first is made first, everywhere."""
        while len(piece) > 1:
            pair = min(pairwise(piece), key=lambda x: self.rank.get(x, len(self.bytes)))
            if pair not in self.rank:
                break
            piece = _replace(piece, pair, self.rank[pair])
        return piece

    def _content(self) -> dict[str, Any]:
        return {"merges": self.merges}


#: bytes of the longest token, so that a file of merges cannot ask for more memory than it is long
LONGEST = 1000


def _visible(x: bytes) -> str:
    return x.decode(errors="backslashreplace")


def _replace(piece: list[int], pair: tuple[int, int], new: int) -> list[int]:
    found: list[int] = []
    for n in piece:
        if found and (found[-1], n) == pair:
            found[-1] = new
        else:
            found.append(n)
    return found


def _merges(pieces: list[list[int]], counts: list[int], room: int | None) -> list[tuple[int, int]]:
    """Pairs in the order in which they are merged; of equally frequent ones the smallest comes first."""
    often: Counter[tuple[int, int]] = Counter()
    where: dict[tuple[int, int], set[int]] = {}
    for place, (piece, count) in enumerate(zip(pieces, counts, strict=True)):
        for pair in pairwise(piece):
            often[pair] += count
            where.setdefault(pair, set()).add(place)
    queue = [(-count, pair) for pair, count in often.items()]
    heapq.heapify(queue)
    merges: list[tuple[int, int]] = []
    while queue and (room is None or 256 + len(merges) < room):
        count, pair = heapq.heappop(queue)
        if -count != often[pair]:  # an entry from before another merge
            continue
        if often[pair] < 2:
            break
        merges.append(pair)
        changed: Counter[tuple[int, int]] = Counter()
        for place in sorted(where.pop(pair)):
            before, after = pieces[place], _replace(pieces[place], pair, 255 + len(merges))
            for x in pairwise(before):
                changed[x] -= counts[place]
            for x in pairwise(after):
                changed[x] += counts[place]
                where.setdefault(x, set()).add(place)
            pieces[place] = after
        often.update(changed)
        del often[pair]
        for x in changed:
            if often[x] > 0:
                heapq.heappush(queue, (-often[x], x))
    return merges


def pad_batch(sequences: Sequence[Any], length: int | None = None, fill: float = 0) -> tuple[Array, Array]:
    """Sequences of unequal lengths as one array, and their lengths.

    All are as long as the longest then, or as `length`; `fill` stands behind what is shorter.

    >>> pad_batch([[5, 6, 7], [8]])
    (array([[5, 6, 7],
           [8, 0, 0]]), array([3, 1]))
    """
    arrays = [np.asarray(x) for x in sequences]
    if not arrays:
        raise ValueError("expected at least one sequence")
    for n, x in enumerate(arrays):
        if not x.ndim or x.shape[1:] != arrays[0].shape[1:]:
            raise ValueError(f"expected sequences of elements {arrays[0].shape[1:]}, number {n} has {x.shape[1:]}")
    lengths = np.array([len(x) for x in arrays])
    longest = int(lengths.max()) if length is None else length
    if lengths.max() > longest:
        raise ValueError(f"expected at most {longest} elements, number {int(lengths.argmax())} has {lengths.max()}")
    kind = np.result_type(*([x for x in arrays if x.size] or arrays))  # an empty list has no type of its own
    batch = np.full((len(arrays), longest, *arrays[0].shape[1:]), fill, kind)
    for row, x in zip(batch, arrays, strict=True):
        row[: len(x)] = x
    return batch, lengths


def windows(series: Any, length: int, step: int = 1) -> tuple[Array, Array]:
    """All stretches of a series of that length, one each `step` elements, and the element behind each.

    >>> windows([1, 2, 3, 4, 5], 3)
    (array([[1, 2, 3],
           [2, 3, 4]]), array([4, 5]))
    """
    x = np.asarray(series)
    if not 0 < length < len(x) or step < 1:
        raise ValueError(f"expected 0 < length < {len(x)}, the elements of the series, and a step of at least 1")
    all_ = np.moveaxis(np.lib.stride_tricks.sliding_window_view(x[:-1], length, axis=0), -1, 1)
    return all_[::step].copy(), x[length::step].copy()
