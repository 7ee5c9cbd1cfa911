"""Text written by modules, token by token: the same as by models that write it themselves, and by torch."""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from catalogue import model
from marks import rows
from scipy import stats

from dslc.generate import Drawn, beam_search, continued, greedy

# Triton's interpreter must be chosen before triton is imported
os.environ["TRITON_INTERPRET"] = "1"

TEXT = Path("convolution/text.dsl")
CONTINUED = Path("convolution/continued_text.dsl")


class Chain:
    """A module without `step`, whose next token depends on the last one."""

    def __init__(self, *table: list[float]) -> None:
        self.table = np.array(table)

    def forward(self, params: Any, token: Any) -> Any:
        with np.errstate(divide="ignore"):
            return np.log(self.table)[token]


#: the first word is 1 or 2 with .6 and .4; behind 1 both are as likely, behind 2 the word 1 has .9
BOOK = Chain([0, 0.6, 0.4], [0, 0.5, 0.5], [0, 0.9, 0.1])


def weights(module: Any) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    return {name: 0.7 * rng.standard_normal(x.shape) for name, x in module.init(0).items()}


@rows("8.41", "8.47", "8.48", "X8.4")
@pytest.mark.parametrize("backend", ["numpy", "c", "triton"])
def test_steps_write_what_the_model_writes_that_repeats_itself(backend: str, tmp_path: Path) -> None:
    settings = {"vocabulary": 5, "steps": 5, "beams": 3, "temperature": 0.0}
    module = model(TEXT, tmp_path, backend, vocabulary=5)
    inside = model(CONTINUED, tmp_path, **settings)
    params = weights(module)
    prompt = [0, 3]
    expected = inside.forward(params, np.array([prompt]))
    assert continued(module, params, prompt, 7) == expected["drawn"][0].tolist()
    found = beam_search(module, params, prompt, 7, beams=3)
    assert [x for _, x in found] == expected["best"][0].tolist()
    np.testing.assert_allclose([x for x, _ in found], expected["log_p"][0], rtol=1e-9)


@rows("8.38", "8.41")
def test_a_limited_context_drops_the_oldest_tokens(tmp_path: Path) -> None:
    module = model(TEXT, tmp_path, vocabulary=5)
    params = weights(module)
    text = [0, 3]
    while len(text) < 9:
        text.append(int(module.forward(params, np.array([text[-4:]]))[0, -1].argmax()))
    assert continued(module, params, [0, 3], 9, context=4) == text
    assert continued(module, params, [0, 3], 9, context=9) == continued(module, params, [0, 3], 9)


@rows("8.47", "8.48")
def test_beams_find_what_greedy_decoding_misses() -> None:
    assert continued(BOOK, {}, [0], 3) == [0, 1, 1]  # with probability .6 * .5
    score, text = beam_search(BOOK, {}, [0], 3, beams=2)[0]
    assert text == [0, 2, 1] and np.exp(score) == pytest.approx(0.36)
    assert beam_search(BOOK, {}, [0], 3, beams=1)[0][1] == [0, 1, 1]


@rows("8.45", "8.46", "8.31")
def test_texts_are_drawn_as_often_as_they_are_probable() -> None:
    choose, many = Drawn(seed=2), 4000
    found = [continued(BOOK, {}, [0], 3, choose) for _ in range(many)]
    counts = [found.count([0, a, b]) for a in (1, 2) for b in (1, 2)]
    assert stats.chisquare(counts, many * np.array([0.3, 0.3, 0.36, 0.04])).pvalue > 1e-3
    assert continued(BOOK, {}, [0], 20, Drawn(seed=5)) == continued(BOOK, {}, [0], 20, Drawn(seed=5))


@rows("8.46")
def test_temperature_goes_from_the_most_probable_token_to_any_one() -> None:
    logits = np.array([1.0, 2.0, 1.5])
    cold, hot = Drawn(1e-3), Drawn(1e6)
    assert {cold(logits) for _ in range(50)} == {greedy(logits)} == {1}
    counts = np.bincount([hot(logits) for _ in range(3000)], minlength=3)
    assert stats.chisquare(counts).pvalue > 1e-3
    with pytest.raises(ValueError, match="`greedy` is the limit at 0"):
        Drawn(0)


@rows("8.17", "8.45")
def test_a_text_ends_with_its_end_or_when_it_is_long_enough() -> None:
    found = [continued(BOOK, {}, [0], 6, Drawn(seed=n), end=2) for n in range(40)]
    assert all(x[-1] == 2 or len(x) == 6 for x in found)
    assert all(2 not in x[:-1] for x in found)
    assert len({len(x) for x in found}) > 2
    ended = Chain([0, 0.6, 0.4], [0, 0.3, 0.7], [0, 0.9, 0.1])
    best = beam_search(ended, {}, [0], 6, beams=2, end=2)
    assert [x for _, x in best] == [[0, 1, 2], [0, 2]]
    np.testing.assert_allclose(np.exp([x for x, _ in best]), [0.42, 0.4])


def test_a_prompt_that_is_long_enough_stays_as_it_is(tmp_path: Path) -> None:
    """Also where the cache for steps has room for no more than the text."""
    module = model(Path("transformer/gpt.dsl"), tmp_path)
    params, prompt = module.init(0), [1, 2, 3, 4]
    assert "length" in inspect.signature(module.init_cache).parameters
    for length in (3, 4):
        assert continued(module, params, prompt, length) == prompt
        assert beam_search(module, params, prompt, length, beams=2) == [(0.0, prompt)]


def test_a_prompt_is_never_empty() -> None:
    with pytest.raises(ValueError, match="at least one token"):
        continued(BOOK, {}, [], 5)
