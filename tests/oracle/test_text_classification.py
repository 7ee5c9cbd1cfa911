"""The exercise of chapter 8: a text classifier of convolutions, its tokenizers and variants, on real paragraphs."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from catalogue import Array, model
from marks import rows

from dslc.generate import continued
from dslc.text import BytePairs, Characters, Tokenizer, Words, pad_batch

topics = pytest.importorskip("pydoc_data.topics").topics

#: chapters of Python's own reference: a paragraph is to be sorted into the one that it stands in
CLASSES = ("debugger", "specialnames", "string-methods")

VARIANTS = """
model variant(
    token: i32[N, T] < vocabulary, length: i32[N] < 100000, vocabulary = 500, width = 24, layers = 2, kernel = 5,
    rate = 1, classes = 3
) -> logits: [N, classes]:
    keep = within(length, T)
    h = token |> embedding(vocabulary, width)
    for l in 0..layers:
        h = masked(h, keep) |> conv1d(width, kernel = kernel, dilation = rate^l, pad = rate^l * (kernel // 2)) |> relu
    logits = masked_mean(h, keep) |> dense(classes)

train variant(token, length, label: i32[N] < classes):
    logits = variant(token, length)
    minimize cross_entropy(logits, label)
    metric accuracy = accuracy(logits, label)
    using adam(lr = 5e-3)
"""


def paragraphs() -> tuple[list[str], Array]:
    """Paragraphs of three chapters and the number of the chapter, in an order that is drawn."""
    texts, labels = [], []
    for label, name in enumerate(CLASSES):
        found = [x for x in re.split(r"\n\s*\n", topics[name]) if len(Words.split(x)) >= 10][:80]
        texts += found
        labels += [label] * len(found)
    order = np.random.default_rng(0).permutation(len(texts))
    return [texts[i] for i in order], np.array(labels)[order]


TEXTS, LABELS = paragraphs()
TRAINED = 3 * len(TEXTS) // 4


def prepared(tokenizer: Tokenizer, longest: int = 60) -> tuple[Array, Array]:
    """The first tokens of each text, padded to one length, and how many they are."""
    return pad_batch([tokenizer.encode(x)[:longest] for x in TEXTS], longest)


def trained(module: Any, inputs: list[Array], labels: Array = LABELS, epochs: int = 8) -> float:
    """The accuracy on texts that have not been seen."""
    params = module.init(1)
    opt = module.init_opt(params)
    rng = np.random.default_rng(2)
    for _ in range(epochs):
        for some in np.array_split(rng.permutation(TRAINED), max(1, TRAINED // 16)):
            params, opt = module.train_step(params, opt, *(x[some] for x in inputs), labels[some])
    guess = module.forward(params, *(x[TRAINED:] for x in inputs)).argmax(1)
    return float((guess == labels[TRAINED:]).mean())


@rows("8.24", "7-9.B3")
def test_the_classifier_of_the_book_has_as_many_parameters_as_it_says(tmp_path: Path) -> None:
    n, e = 100, 16
    module = model(Path("convolution/textcnn.dsl"), tmp_path, vocabulary=n, width=e)
    params = module.init(0)
    assert sum(x.size for x in params.values()) == n * e + 160 * e + 10986
    token = np.zeros((7, 12), np.int32)
    assert module.forward(params, token).shape == (7, 10)


@rows("X8.1", "X8.2")
@pytest.mark.parametrize("kind", [Characters, Words, BytePairs])
def test_texts_become_numbers_and_labels(kind: type[Tokenizer]) -> None:
    tokenizer = kind.learn(TEXTS[:TRAINED], 500)
    numbers, length = prepared(tokenizer)
    assert numbers.shape == (len(TEXTS), 60) and set(LABELS) == {0, 1, 2}
    assert numbers.min() >= 0 and numbers.max() < len(tokenizer) <= 500
    for row, size in zip(numbers, length, strict=True):
        assert not row[size:].any()
    if kind is BytePairs:
        assert TEXTS[0].startswith(tokenizer.decode(numbers[0, : length[0]]).rstrip("\N{REPLACEMENT CHARACTER}"))


@rows("8.24", "X8.1", "X8.3")
def test_a_classifier_tells_chapters_apart_by_their_paragraphs(tmp_path: Path) -> None:
    numbers, _ = prepared(Words.learn(TEXTS[:TRAINED], 500))
    module = model(Path("convolution/textcnn.dsl"), tmp_path, vocabulary=500, classes=3)
    most = np.bincount(LABELS[TRAINED:]).max() / len(LABELS[TRAINED:])
    assert trained(module, [numbers]) > most + 0.25
    mixed = np.random.default_rng(3).permutation(LABELS)
    assert trained(module, [numbers], mixed, epochs=4) < most + 0.15  # labels that say nothing cannot be learnt


@rows("X8.3")
@pytest.mark.parametrize("settings", [{"layers": 1}, {"layers": 3, "kernel": 3}, {"layers": 3, "kernel": 3, "rate": 2}])
def test_variants_of_its_design_learn_too_and_do_not_see_the_padding(settings: dict[str, int], tmp_path: Path) -> None:
    numbers, length = prepared(Words.learn(TEXTS[:TRAINED], 500))
    module = model(VARIANTS, tmp_path, **settings)
    params = module.init(0)
    longer = np.pad(numbers, ((0, 0), (0, 9)), constant_values=7)
    np.testing.assert_allclose(
        module.forward(params, longer[:8], length[:8]), module.forward(params, numbers[:8], length[:8]), rtol=1e-10
    )
    most = np.bincount(LABELS[TRAINED:]).max() / len(LABELS[TRAINED:])
    assert trained(module, [numbers, length]) > most + 0.2


@rows("X8.4", "8.39", "8.41")
def test_a_causal_model_of_characters_learns_to_write_its_text(tmp_path: Path) -> None:
    """Trained on shifted targets, then asked to go on from a prompt."""
    line = "the cat is on the table and the dog is under it. "
    characters = Characters.learn([line])
    text = np.array(characters.encode(line * 4))
    batch = np.stack([text[i : i + 40] for i in range(0, 49, 3)])
    size = len(characters)
    module = model(Path("convolution/text.dsl"), tmp_path, vocabulary=size)
    params = module.init(0)
    opt = module.init_opt(params)
    first, _ = module.loss_and_grad(params, batch)
    assert abs(first - math.log(size)) < 0.5  # before it has learnt anything, each character is as likely
    for _ in range(150):
        params, opt = module.train_step(params, opt, batch)
    assert opt["loss"] < 0.35
    found = characters.decode(continued(module, params, characters.encode("the cat is on"), 48))
    assert found == line[:48]
    assert characters.decode(continued(module, module.init(0), characters.encode("the cat is on"), 48)) != line[:48]
