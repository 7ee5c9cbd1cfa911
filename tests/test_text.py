"""Tokenizers, padded batches and windows."""

from __future__ import annotations

import doctest
import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from marks import rows

from dslc import text as module
from dslc.text import BOS, EOS, OOV, PAD, SPECIAL, BytePairs, Characters, Tokenizer, Words, pad_batch, windows

TEXTS = ["The cat is on the table.", "the cat, the dog and the table", "Is the dog on the cat?"]


def test_the_examples_of_the_docstrings_hold() -> None:
    found = doctest.testmod(module)
    assert found.attempted > 5 and not found.failed


@rows("8.13", "8.06")
@settings(deadline=None, max_examples=50)
@given(st.text())
def test_characters_come_back_as_they_were(text: str) -> None:
    characters = Characters.learn([text])
    found = characters.encode(text)
    assert len(found) == len(text)
    assert characters.decode(found) == text
    assert len(characters) == len(SPECIAL) + len(set(text))


@rows("8.13")
def test_a_vocabulary_of_ascii_has_a_number_for_each_character() -> None:
    ascii_ = Characters([chr(n) for n in range(128)], special=[])
    assert ascii_.encode("cat") == [ord(x) for x in "cat"]


@rows("8.14", "8.16")
def test_words_have_numbers_by_frequency_and_the_others_are_out_of_vocabulary() -> None:
    size = 8
    words = Words.learn(TEXTS, size)
    counts = Counter(x for text in TEXTS for x in Words.split(text))
    kept = words.tokens[4:]
    assert len(words) == size and len(kept) == 4
    assert min(counts[x] for x in kept) >= max(n for x, n in counts.items() if x not in kept)
    numbers = words.encode("the zebra is on the cat")
    assert all(0 <= n < size for n in numbers)
    unknown = words.number[OOV]
    assert [n == unknown for n in numbers] == [x not in kept for x in ["the", "zebra", "is", "on", "the", "cat"]]
    assert words.decode(words.encode("the cat")) == "the cat"
    assert words.decode(words.encode("the zebra")) == f"the {OOV}"


@rows("8.17")
def test_special_tokens_have_the_first_numbers_and_no_text_spells_them() -> None:
    words = Words.learn(TEXTS, special=[*SPECIAL, "[SEP]"])
    assert words.tokens[:5] == (PAD, BOS, EOS, OOV, "[SEP]")
    numbers = words.encode("the cat", begin=True, end=True)
    assert numbers[0] == words.number[BOS] and numbers[-1] == words.number[EOS]
    assert words.decode([*numbers, words.number[PAD], words.number["[SEP]"]]) == "the cat"
    for tokenizer in (Characters.learn(["[BOS]"]), Words.learn(["[BOS]"]), BytePairs.learn(["[BOS]"])):
        assert tokenizer.number[BOS] not in tokenizer.encode("[BOS]")
    with pytest.raises(ValueError, match=r"'zebra' is not in the vocabulary, and neither is \[OOV\]"):
        Words.learn(TEXTS, special=[BOS]).encode("zebra")
    with pytest.raises(ValueError, match=r"expected \[BOS\] among the special tokens"):
        Words.learn(TEXTS, special=[OOV]).encode("the", begin=True)


# ---- byte pairs


@rows("8.15", "X8.5")
def test_merges_are_those_of_the_published_examples() -> None:
    """Gage's string, whose pairs become Z, Y and X; and the words of Sennrich's paper."""
    pairs = BytePairs.learn(["aaabdaaabac"], special=[])
    assert [pairs.tokens[n] for n in pairs.encode("aaabdaaabac")] == ["aaab", "d", "aaab", "a", "c"]
    words = ["low"] * 5 + ["lower"] * 2 + ["newest"] * 6 + ["widest"] * 3
    assert BytePairs.learn(words, 260, special=[]).tokens[256:] == ("es", "est", "lo", "low")


def slow_merges(texts: list[str], count: int) -> list[tuple[bytes, bytes]]:
    """All pairs counted again for each merge."""
    pieces = [[bytes([x]) for x in piece.encode()] for text in texts for piece in BytePairs.split(text)]
    order = {bytes([n]): n for n in range(256)}
    merges = []
    for _ in range(count):
        often = Counter(pair for piece in pieces for pair in pairwise(piece))
        best = max(often.values(), default=0)
        if best < 2:
            break
        first = min((x for x, n in often.items() if n == best), key=lambda x: (order[x[0]], order[x[1]]))
        merges.append(first)
        order[b"".join(first)] = len(order)
        for n, piece in enumerate(pieces):
            joined: list[bytes] = []
            for x in piece:
                if joined and (joined[-1], x) == first:
                    joined[-1] += x
                else:
                    joined.append(x)
            pieces[n] = joined
    return merges


@rows("8.15", "X8.5")
@settings(deadline=None, max_examples=60)
@given(st.lists(st.text("abc é", max_size=30), min_size=1, max_size=6))
def test_merges_are_those_of_counting_anew_each_time(texts: list[str]) -> None:
    pairs = BytePairs.learn(texts, 256 + 12, special=[])
    expected = slow_merges(texts, 12)
    assert [(pairs.bytes[a], pairs.bytes[b]) for a, b in pairs.merges] == expected
    assert len(pairs) == 256 + len(expected)


@rows("8.15")
@settings(deadline=None, max_examples=50)
@given(st.text())
def test_any_text_comes_back_from_byte_pairs(text: str) -> None:
    pairs = BytePairs.learn(TEXTS, 300)
    text = text.encode(errors="replace").decode()  # no halves of surrogate pairs, which are no characters
    numbers = pairs.encode(text, begin=True, end=True)
    assert pairs.decode(numbers) == text
    assert all(0 <= n < len(pairs) for n in numbers)


@rows("8.15")
def test_frequent_words_are_one_token_and_rare_ones_several() -> None:
    pairs = BytePairs.learn(["the cat and the dog"] * 50 + ["perplexing"], 290)
    assert len(pairs.encode(" the")) == 1
    assert len(pairs.encode("perplexing")) > 3
    long = "ab" * 3000
    assert BytePairs.learn([long, long]).decode(BytePairs.learn([long, long]).encode(long)) == long


# ---- files


@pytest.mark.parametrize("tokenizer", [Characters.learn(TEXTS), Words.learn(TEXTS, 9), BytePairs.learn(TEXTS, 280)])
def test_a_vocabulary_is_read_as_it_was_written(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path / "v.json")
    again = type(tokenizer).load(tmp_path / "v.json")
    assert again.tokens == tokenizer.tokens
    assert again.encode(TEXTS[0], begin=True) == tokenizer.encode(TEXTS[0], begin=True)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"kind": "words"', "is no vocabulary"),
        ("[]", "is no vocabulary"),
        ('{"kind": "words", "tokens": [1, 2]}', "expected tokens that are texts"),
        ('{"kind": "words", "tokens": ["a", "a"]}', "found 'a' twice"),
        ('{"kind": "characters", "tokens": []}', "it is no vocabulary of words"),
        ('{"kind": "words", "tokens": [], "other": 1}', "other"),
    ],
)
def test_a_file_that_is_no_vocabulary_is_refused(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "v.json").write_text(content)
    with pytest.raises(ValueError, match=message):
        Words.load(tmp_path / "v.json")


def test_merges_of_a_file_cannot_ask_for_tokens_of_any_length(tmp_path: Path) -> None:
    doubled = [[97, 97], *([n, n] for n in range(256, 300))]
    (tmp_path / "v.json").write_text(json.dumps({"kind": "byte pairs", "special": [], "merges": doubled}))
    with pytest.raises(ValueError, match="at most 1000 bytes"):
        BytePairs.load(tmp_path / "v.json")
    for wrong in ([[0, 256]], [[-1, 0]], [[1, 2, 3]], [["a", "b"]]):
        with pytest.raises((ValueError, TypeError)):
            BytePairs(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [0, 4, -1])
def test_a_vocabulary_has_room_for_more_than_special_tokens(size: int) -> None:
    with pytest.raises(ValueError, match="expected a size above 4"):
        Words.learn(TEXTS, size)
    with pytest.raises(ValueError, match="at least 260"):
        BytePairs.learn(TEXTS, 200)


def test_numbers_that_no_token_has_are_refused() -> None:
    with pytest.raises(ValueError, match="expected 0 <= number < 6, found 6"):
        Words(["a", "b"]).decode([6])


# ---- batches


@rows("8.11", "7-9.B2")
def test_sequences_are_padded_as_by_torch() -> None:
    rng = np.random.default_rng(0)
    sequences = [rng.standard_normal((n, 8)) for n in (3, 5, 2)]
    batch, lengths = pad_batch(sequences)
    assert batch.shape == (3, 5, 8) and lengths.tolist() == [3, 5, 2]
    expected = torch.nn.utils.rnn.pad_sequence([torch.tensor(x) for x in sequences], batch_first=True)
    np.testing.assert_array_equal(batch, expected.numpy())
    assert pad_batch([[1], [2, 3]], length=4, fill=9)[0].tolist() == [[1, 9, 9, 9], [2, 3, 9, 9]]
    empty, lengths = pad_batch([[5, 6], []])
    assert empty.tolist() == [[5, 6], [0, 0]] and lengths.tolist() == [2, 0] and empty.dtype.kind == "i"


def test_batches_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one sequence"):
        pad_batch([])
    with pytest.raises(ValueError, match="expected at most 2 elements, number 1 has 3"):
        pad_batch([[1], [1, 2, 3]], length=2)
    with pytest.raises(ValueError, match=r"number 1 has \(2,\)"):
        pad_batch([np.zeros((4, 3)), np.zeros((4, 2))])
    with pytest.raises(ValueError, match="expected 0 < length < 3"):
        windows([1, 2, 3], 3)


@rows("8.28")
@pytest.mark.parametrize("step", [1, 2, 3])
def test_windows_are_all_stretches_and_what_follows_them(step: int) -> None:
    series = np.random.default_rng(1).standard_normal((20, 2))
    past, after = windows(series, 12, step)
    starts = range(0, 8, step)
    assert len(past) == len(after) == len(starts)  # N - t pairs of a series of length N, for a step of 1
    for j, x, y in zip(starts, past, after, strict=True):
        np.testing.assert_array_equal(x, series[j : j + 12])
        np.testing.assert_array_equal(y, series[j + 12])
