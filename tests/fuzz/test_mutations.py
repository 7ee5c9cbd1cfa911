"""Damaged specs: whatever is done to a good spec, checking it ends soon, in success or in diagnostics.

Every mutation follows from its number alone, so a failure is repeated with `mutation(number)`.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType

import pytest
from generate import SPECS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dslc.diagnostics.render import render_all, to_json
from dslc.diagnostics.report import Reporter
from dslc.frontend import Checked, check_text
from dslc.source import Source
from dslc.syntax import tree as t
from dslc.syntax.format import format_source
from dslc.syntax.parser import chunks, parse

MUTATIONS = 2_000
MUTATIONS_OF_A_LONG_RUN = 50_000
BATCH = 50
#: Of processor time, for one text: a busy machine is no failure.
MAX_SECONDS = 5.0

TOKEN = re.compile(
    r"[A-Za-z_]\w*|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|\"[^\"\n]*\"|#[^\n]*|\.\.\.?|[-|]>|<-|[<>=!+]=|//|\s+|."
)
#: Characters that lexers and layouts like to stumble over.
CHARACTERS = "()[]:,.=+-*/^%<>|~#\"' \t\n09aNx_é\u200b\u0000\r"

# ---- texts to damage --------------------------------------------------------------------------------------


@cache
def texts() -> list[str]:
    """Every spec, and every definition of the library by itself."""
    found: list[str] = []
    for path in SPECS:
        source = Source(path.name, path.read_text(encoding="utf-8"))
        if path.parent.name == "std":
            found += [source.text[start:end] for start, end in chunks(source)]
        else:
            found.append(source.text)
    return found


@cache
def tokens_of_all() -> dict[str, list[str]]:
    """The different tokens of all texts by what they are, so that a name can take the place of a name."""
    found: dict[str, list[str]] = {}
    for token in sorted({token for text in texts() for token in TOKEN.findall(text)}):
        found.setdefault(sort_of(token), []).append(token)
    return found


def sort_of(token: str) -> str:
    if token[0].isalpha() or token[0] == "_":
        return "name"
    if token[0].isdigit():
        return "number"
    return "space" if token.isspace() else "comment" if token[0] == "#" else "symbol"


# ---- ways to damage them ----------------------------------------------------------------------------------

Damage = Callable[[random.Random, str], str]


def change_a_character(rng: random.Random, text: str) -> str:
    place = rng.randrange(len(text) + 1)
    removed = rng.choice((0, 0, 1, 1, 1, 3))
    return text[:place] + rng.choice(("", rng.choice(CHARACTERS))) + text[place + removed :]


def change_a_token(rng: random.Random, text: str) -> str:
    tokens = TOKEN.findall(text)
    place = rng.randrange(len(tokens))
    match rng.choice(("delete", "duplicate", "swap", "replace", "replace", "replace by its like")):
        case "delete":
            del tokens[place]
        case "duplicate":
            tokens.insert(place, tokens[place])
        case "swap":
            other = rng.randrange(len(tokens))
            tokens[place], tokens[other] = tokens[other], tokens[place]
        case "replace":
            tokens[place] = rng.choice(tokens_of_all()[rng.choice(("name", "number", "symbol"))])
        case _:
            tokens[place] = rng.choice(tokens_of_all()[sort_of(tokens[place])])
    return "".join(tokens)


def use_another_name(rng: random.Random, text: str) -> str:
    """A name gives way to another one of the same text: most often it still parses."""
    tokens = TOKEN.findall(text)
    places = [i for i, token in enumerate(tokens) if sort_of(token) == "name"]
    if places:
        tokens[rng.choice(places)] = tokens[rng.choice(places)]
    return "".join(tokens)


def use_another_symbol(rng: random.Random, text: str) -> str:
    tokens = TOKEN.findall(text)
    places = [i for i, token in enumerate(tokens) if sort_of(token) in ("symbol", "number")]
    if places:
        place = rng.choice(places)
        like = ["+", "-", "*", "/", "//", "%", "^", "<", "==", ",", ":", "...", "|>"]
        numbers = ["0", "1", "2", "3", "8", "0.5", "1e-3", "1000000", "99999999999"]
        tokens[place] = rng.choice(numbers if tokens[place][0].isdigit() else like)
    return "".join(tokens)


def swap_bracketed(rng: random.Random, text: str) -> str:
    """The contents of one pair of brackets take the place of those of another."""
    found = [m.span(1) for m in re.finditer(r"(?=[(\[]([^()\[\]\n]*)[)\]])", text)]
    if not found:
        return text
    (start, end), (low, high) = rng.choice(found), rng.choice(found)
    return text[:start] + text[low:high] + text[end:]


def wrap_in_a_call(rng: random.Random, text: str) -> str:
    """What stands between brackets gets a call, a sign, an index or a condition around it."""
    found = [m.span(1) for m in re.finditer(r"(?=[(\[,] *([^()\[\],:=\n]+) *[)\],])", text)]
    if not found:
        return text
    start, end = rng.choice(found)
    inner = text[start:end]
    name = rng.choice(tokens_of_all()["name"])
    forms = (
        f"{name}({inner})", f"-{inner}", f"not {inner}", f"{inner}[{name}]", f"{inner}.{name}", f"{name} = {inner}",
        f"{inner} if {name} else 0", f"({inner} else 0)", f"{inner} |> {name}", f"{inner} / 0", f"{inner}^{inner}",
        f"{name}[{inner}]({inner})", f"sum[{inner}]({name})", f"{inner} < {name}", f'"{inner}"',
    )  # fmt: skip
    return text[:start] + rng.choice(forms) + text[end:]


def change_a_line(rng: random.Random, text: str) -> str:
    lines = text.splitlines(keepends=True)
    place = rng.randrange(len(lines))
    match rng.choice(("delete", "duplicate", "swap", "indent", "dedent", "cut short")):
        case "delete":
            del lines[place]
        case "duplicate":
            lines.insert(rng.randrange(len(lines) + 1), lines[place])
        case "swap":
            other = rng.randrange(len(lines))
            lines[place], lines[other] = lines[other], lines[place]
        case "indent":
            lines[place] = rng.choice((" ", "  ", "    ", "\t")) + lines[place]
        case "dedent":
            lines[place] = lines[place].lstrip(" ") if rng.random() < 0.5 else lines[place].removeprefix("    ")
        case _:
            lines[place] = lines[place][: rng.randrange(len(lines[place]))] + "\n"
    return "".join(lines)


def splice(rng: random.Random, text: str) -> str:
    """The beginning of one text and the end of another."""
    other = rng.choice(texts())
    if rng.random() < 0.5:
        return text[: rng.randrange(len(text))] + other[rng.randrange(len(other)) :]
    ours, theirs = text.splitlines(keepends=True), other.splitlines(keepends=True)
    return "".join(ours[: rng.randrange(len(ours) + 1)] + theirs[rng.randrange(len(theirs)) :])


def add_a_foreign_line(rng: random.Random, text: str) -> str:
    lines = text.splitlines(keepends=True)
    lines.insert(rng.randrange(len(lines) + 1), rng.choice(rng.choice(texts()).splitlines(keepends=True)))
    return "".join(lines)


DAMAGES: list[Damage] = [
    change_a_character, change_a_token, use_another_name, use_another_symbol, swap_bracketed, wrap_in_a_call,
    change_a_line, splice, add_a_foreign_line,
]  # fmt: skip


def mutation(number: int) -> str:
    """The damaged text of this number: one to four damages on one text."""
    rng = random.Random(number)
    text = rng.choice(texts())
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        text = rng.choice(DAMAGES)(rng, text) or "\n"
    return text


# ---- what must hold ---------------------------------------------------------------------------------------


class TooSlow(Exception):
    pass


@contextmanager
def within_seconds(seconds: float) -> Iterator[None]:
    """Stop what takes more processor time than this."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TooSlow(f"more than {seconds} s of processor time")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def assert_complete(checked: Checked) -> None:
    """A spec without errors has all its models and trainings in the program: nothing was given up in silence."""
    assert checked.parsed is not None
    assert checked.program is not None
    definitions = checked.parsed.module.definitions
    models = {d.name for d in definitions if isinstance(d, t.Layer) and d.word == "model"}
    assert models == checked.program.models.keys()
    assert sum(isinstance(d, t.Train) for d in definitions) == len(checked.program.trains)


def examine(text: str, folder: Path) -> list[str]:
    """Check a text, show its diagnostics, and format it if it parses; returns the diagnostics."""
    with within_seconds(MAX_SECONDS):
        checked = check_text(text, "mutated.dsl", folder=folder)
        shown = render_all(checked.diagnostics)
        told = [to_json(d) for d in checked.diagnostics]
        assert (checked.program is None) == bool(checked.errors)
        if checked.program is not None:
            assert_complete(checked)
        reporter = Reporter()
        parsed = parse(Source("mutated.dsl", text), reporter)
        if not reporter.errors:
            format_source(parsed)
    return [shown, *map(str, told)]


def examine_batch(first: int, last: int, folder: Path) -> None:
    for number in range(first, last):
        text = mutation(number)
        try:
            examine(text, folder)
        except Exception as error:
            print(f"mutation({number}):\n{text}")
            raise AssertionError(f"mutation({number}) ends in {type(error).__name__}: {error}") from error


@pytest.mark.wide(8)
@pytest.mark.parametrize("first", range(0, MUTATIONS, BATCH))
def test_a_damaged_spec_is_good_or_diagnosed(first: int, tmp_path: Path) -> None:
    examine_batch(first, first + BATCH, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("first", range(MUTATIONS, MUTATIONS_OF_A_LONG_RUN, 20 * BATCH))
def test_many_damaged_specs_are_good_or_diagnosed(first: int, tmp_path: Path) -> None:
    examine_batch(first, first + 20 * BATCH, tmp_path)


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(number=st.integers(0, 10**9))
def test_checking_twice_says_the_same(number: int, tmp_path: Path) -> None:
    text = mutation(number)
    assert examine(text, tmp_path) == examine(text, tmp_path)


def test_what_is_said_does_not_depend_on_the_order_of_sets() -> None:
    command = [sys.executable, __file__, "0", "40"]
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    said = [
        subprocess.run(
            command, env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    ]
    assert said[0]
    assert said[0] == said[1]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damages_depend_on_the_seed_alone(damage: Damage) -> None:
    text = max(texts(), key=len)
    assert damage(random.Random(1), text) == damage(random.Random(1), text)
    assert any(damage(random.Random(seed), text) != text for seed in range(20))


if __name__ == "__main__":
    for number in range(*map(int, sys.argv[1:])):
        print(*examine(mutation(number), Path("/nowhere")), sep="\n")
