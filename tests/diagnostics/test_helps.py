"""Helps are followed to the letter: what they offer to write is written, and the message is gone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from test_golden_errors import CASES, EXAMPLE_SPECS

from dslc.diagnostics.report import Diagnostic
from dslc.frontend import check_text
from dslc.resolve.foreign import FOREIGN
from dslc.source import Span

HEADER = re.compile(r"^(?:fn|layer|model|train)\b[^\n]*?(?:\([^:]*?\n\))?[^\n]*:$", re.MULTILINE)


def followed(text: str, found: Diagnostic) -> str | None:
    """A text after the first thing that a help offers; None where it offers nothing that can be put in by rule."""
    help, span = found.help or "", found.labels[0].span
    if span.source.text != text:
        return None
    if found.fix is not None:
        return text[: found.fix.span.start] + found.fix.replacement + text[found.fix.span.end :]
    where = re.match(r"(?:if (?:it always holds|they are always equal), say so: |state it: |add )`(where [^`]+)`", help)
    if where is not None:
        headers = [m for m in HEADER.finditer(text) if m.start() <= span.start]
        if not headers:
            return None
        end = headers[-1].end() - 1
        condition = where[1].replace("where", ",", 1) if " where " in headers[-1][0] else f" {where[1]}"
        return text[:end] + condition.replace(" ,", ",") + text[end:]
    start = re.match(r"add `(start [^`]+)` below the scan", help)
    if start is not None:
        before = text[: span.start].rfind("    scan ")
        lines = text[before:].splitlines(keepends=True)
        inside = 1 + next((i for i, line in enumerate(lines[1:]) if not line.startswith("        ")), len(lines) - 1)
        return text[:before] + "".join([*lines[:inside], f"    {start[1]}\n", *lines[inside:]])
    return replaced(text, help, span)


#: how helps lead to a text that stands for another one; a text with `...` or with names of its own is an example only
OFFER = re.compile(
    r"(?:^|[:;,] |or )(?:write|did you mean|name the index:|name the axes:|name every axis:|compare it:"
    r"|round it:|convert it:|say how to round:|reduce it, for example|take one by its name:) `([^`]+)`"
)
EXAMPLE = re.compile(r"\.\.\.|\b[A-Z]{4,}\b|^a if condition else b$|^clip\(x, low, high\)$|^//$")


def replaced(text: str, help: str, span: Span) -> str | None:
    """A text with what a help offers to write in the place of what it has marked."""
    word = re.search(r"write `(\w+)` instead of `(\w+)`", help)
    if word is not None:
        before = text[: span.start].rfind(f"\n{word[2]} ") + 1
        return text[:before] + word[1] + text[before + len(word[2]) :]
    offer = OFFER.search(help)
    if offer is None or EXAMPLE.search(offer[1]):
        return None
    start, end = region(text, offer[1], span.start, span.end)
    return text[:start] + offer[1] + text[end:]


def region(text: str, offered: str, start: int, end: int) -> tuple[int, int]:
    """What an offered text stands for: a statement, the read around a position, the call around its argument."""
    line = text.rfind("\n", 0, start) + 1
    line += len(text[line:]) - len(text[line:].lstrip(" "))
    line_end = text.find("\n", start)
    target = re.match(r"(\w+)(\[[^\]]*\])? (=|<-) ", offered)
    if target is not None and re.match(rf"{target[1]}\b", text[line:]):
        return line, line_end
    if offered.endswith(":"):  # the head of a block: that of the scan around, or the one that is marked
        head = offered.split()[0]
        place = max(text.rfind(f" {head} ", 0, start + len(head) + 1) + 1, 0)
        return place, text.find("\n", place)
    read = re.match(r"\(?(\w+)\[", offered)
    around = text.rfind(f"{read[1]}[", line, start) if read else -1
    if read and around >= 0 and text[around:start].count("]") < text[around:start].count("["):
        return around, text.find("]", end) + 1
    called = re.match(r"(\w+)\(", offered)
    if called is not None and text[line:start].endswith(f"{called[1]}("):
        return start - len(called[0]), text.find(")", end) + 1
    while True:  # the largest part of the line around the place that the offered text repeats
        wider = re.search(r"\w+\($", text[line:start])
        if wider is None or text[end] != ")" or text[line + wider.start() : end + 1] not in offered:
            return start, end
        start, end = line + wider.start(), end + 1


#: what is wrong beside, and comes to light when a help is followed
NEXT = {
    "E0606": {"E0222"},  # the adjoint that the head names now is to be defined
    "dtype_of_a_loss_target": {"E0410"},  # rounded data have no bound
    "errors_that_do_not_cascade": {"E0302"},
    "float_times_a_size": {"E0323"},  # half of a size may be 0
    "reserved_and_foreign_words": {"E0403"},  # `and` of numbers
    "train_of_an_unknown_model": {"E0201"},  # the same slip a second time
}


@pytest.mark.parametrize("path", [*EXAMPLE_SPECS, *CASES], ids=lambda path: path.stem)
def test_what_a_help_offers_helps(path: Path) -> None:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return
    found = check_text(text, path.name).diagnostics
    known = {(d.code, d.message) for d in found}
    for diagnostic in found:
        mended = followed(text, diagnostic)
        if mended is None:
            continue
        start = diagnostic.labels[0].span.start
        places = {start, start + len(mended) - len(text)}
        same = (diagnostic.code, diagnostic.message)
        left = check_text(mended, path.name).diagnostics
        assert not [d for d in left if (d.code, d.message) == same and d.labels[0].span.start in places]
        new = {d.code for d in left if (d.code, d.message) not in known and d.code.startswith("E")}
        assert new <= NEXT.get(path.stem, set())


#: a spec, what it is changed to by its help, which names all that is put in
FOLLOWED = {
    "an axis of which a part is meant": (
        "model m(x: f32[N, T]) -> d: [N, T-1] where T >= 2:\n    d[n, t: T-1] = x[n, t+1] - x[n, t]\n",
        "model m(x: f32[N, T]) -> d: [N, T-1] where T >= 2:\n    x_part = x[:, 0:T - 1]\n"
        "    d[n, t: T-1] = x[n, t+1] - x_part[n, t]\n",
        ["x_part = x[:, 0:T - 1]", "x_part[n, t]"],
    ),
    "an axis of which a part is meant, beside data": (
        "model m(a: f32[N, T, V], token: i32[N, T] < V) -> y: [] where T >= 2:\n"
        "    y = -mean[n, t: T - 1](a[n, t, token[n, t+1]])\n",
        "model m(a: f32[N, T, V], token: i32[N, T] < V) -> y: [] where T >= 2:\n"
        "    a_part = a[:, 0:T - 1, :]\n    y = -mean[n, t: T - 1](a_part[n, t, token[n, t+1]])\n",
        ["a_part = a[:, 0:T - 1, :]", "a_part[n, t, token[n, t+1]]"],
    ),
    "learned positions": (
        "model m(x: f32[N, T, 8]) -> y: [N, T, 8]:\n    param position: [16, 8] ~ normal(0.02)\n"
        "    y[n, t, e] = x[n, t, e] + position[t, e]\n",
        "model m(x: f32[N, T, 8]) -> y: [N, T, 8] where T <= 16:\n    param position: [16, 8] ~ normal(0.02)\n"
        "    position_part = position[0:T, :]\n    y[n, t, e] = x[n, t, e] + position_part[t, e]\n",
        ["position_part = position[0:T, :]", "position_part[t, e]", "where T <= 16"],
    ),
    "a softmax of a layer": (
        "model m(x: f32[N, 4]) -> y: [N, 8]:\n    y = softmax(dense(x, 8))\n",
        "model m(x: f32[N, 4]) -> y: [N, 8]:\n    h = dense(x, 8)\n    y[i, j] = softmax[j](h[i, j])\n",
        ["h = dense(x, 8)", "softmax[j](h[i, j])"],
    ),
    "a step ahead on the left": (
        "model m(x: f32[N], steps = 4) -> y: [N]:\n    scan i in 0..steps:\n        z[i+1, n] = z[i, n] + x[n]\n"
        "    start z = x\n    y[n] = z[steps-1, n]\n",
        "model m(x: f32[N], steps = 4) -> y: [N]:\n    scan i in 0..steps:\n        z[i, n] = z[i-1, n] + x[n]\n"
        "    start z = x\n    y[n] = z[steps-1, n]\n",
        ["i", "i-1"],
    ),
    "two starts in one line": (
        "model m(x: f32[N, T]) -> y: [N, T]:\n    scan t:\n        a[n, t] = a[n, t-1] + x[n, t]\n"
        "        y[n, t] = y[n, t-1] + a[n, t]\n    start a = 0, y = 0\n",
        "model m(x: f32[N, T]) -> y: [N, T]:\n    scan t:\n        a[n, t] = a[n, t-1] + x[n, t]\n"
        "        y[n, t] = y[n, t-1] + a[n, t]\n    start a = 0\n    start y = 0\n",
        ["start"],
    ),
    "a size of the body in the type": (
        "model m(x: f32[N, T]) -> y: [N, P] where T >= 2:\n    size P = T // 2\n    y[n, p] = x[n, 2*p]\n",
        "model m(x: f32[N, T]) -> y: [N, P = T // 2] where T >= 2:\n    y[n, p] = x[n, 2*p]\n",
        ["P = T // 2"],
    ),
    "a matrix for each step": (
        "model m(V: f64[T, D, D]) -> y: [T, D, D]:\n    y[t, :, :] = inv(V[t])\n",
        "model m(V: f64[T, D, D]) -> y: [T, D, D]:\n    y[t, :, :] = inv(V[t, :, :])\n",
        ["V[t, :, :]"],
    ),
    "an entry of the inverse of each matrix": (
        "model m(V: f64[T, D, D]) -> y: [T, D, D]:\n    y[t, a, b] = 2 * inv(V[t, :, :])[b, a]\n",
        "model m(V: f64[T, D, D]) -> y: [T, D, D]:\n"
        "    part[t, :, :] = inv(V[t, :, :])\n    y[t, a, b] = 2 * part[t, b, a]\n",
        ["part[t, :, :] = inv(V[t, :, :])", "part[t, b, a]"],
    ),
    "images without channels": (
        "model m(x: f32[N, 8, 8]) -> y: [N, 10]:\n    y = x |> flatten |> dense(10)\n",
        "model m(x: f32[N, 8, 8]) -> y: [N, 10]:\n"
        "    part[i, j, k, l: 1] = x[i, j, k]\n    y = part |> flatten |> dense(10)\n",
        ["part[i, j, k, l: 1] = x[i, j, k]"],
    ),
    "a mean and a deviation": (
        "model m(x: f32[N, 4]) -> y: [N, 4]:\n    param s: [4] ~ normal(0, 0.3)\n    y[n, k] = s[k] * x[n, k]\n",
        "model m(x: f32[N, 4]) -> y: [N, 4]:\n    param s: [4] ~ normal(0.3)\n    y[n, k] = s[k] * x[n, k]\n",
        ["normal(0.3)"],
    ),
    "a join of whole tensors": (
        "model m(x: f32[N, T, V, 4]) -> y: [N, T, V, 8]:\n    y = concat[c](x, x)\n",
        "model m(x: f32[N, T, V, 4]) -> y: [N, T, V, 8]:\n"
        "    y[i, j, k, c] = concat[c](x[i, j, k, c], x[i, j, k, c])\n",
        ["y[i, j, k, c] = concat[c](x[i, j, k, c], x[i, j, k, c])"],
    ),
}


HEAD = "model m(X: f32[N, D], W: f32[D, K]) -> "

#: what people write who come from elsewhere: the model's first line goes on with this, and is mended to that
HABITS = {
    "the operator of a product": (
        "y: [N, K]:\n    y = X @ W\n", "y: [N, K]:\n    y[n, o] = X[n, k] * W[k, o]\n", "`y[n, o] = x[n, k] * W[k, o]`",
    ),
    "a star for a product": (
        "y: [N, K]:\n    y = X * W\n", "y: [N, K]:\n    y[i, k] = X[i, j] * W[j, k]\n", "`y[i, k] = a[i, j] * b[j, k]`",
    ),
    "bars": ("y: [N, D]:\n    y = |X|\n", "y: [N, D]:\n    y = abs(X)\n", "`abs(x)`"),
    "a method": ("y: [N]:\n    y = X.sum(1)\n", "y: [N]:\n    y[n] = sum[k](X[n, k])\n", "`sum[k](x[n, k])`"),
    "a method of all entries": ("y: []:\n    y = exp(X).mean()\n", "y: []:\n    y = mean(exp(X))\n", "`mean(x)`"),
    "a named axis": ("y: [N]:\n    y = sum(X, axis=1)\n", "y: [N]:\n    y[n] = sum[k](X[n, k])\n", "`sum[k](x[n, k])`"),
    "a numbered axis": ("y: [N]:\n    y = sum(X, 1)\n", "y: [N]:\n    y[n] = sum[k](X[n, k])\n", "`sum[k](x[n, k])`"),
    "an attribute": ("y: [D, N]:\n    y = X.T\n", "y: [D, N]:\n    y[k, n] = X[n, k]\n", "`y[k, n] = x[n, k]`"),
    "return": ("y: [N, D]:\n    return relu(X)\n", "y: [N, D]:\n    y = relu(X)\n", "`y = ...`"),
    "while": (
        "y: [N, D]:\n    y = X\n    while y > 1:\n        y = y / 2\n",
        "y: [N, D]:\n    y = X\n    for l in 0..8:\n        y = y / 2\n", "`for l in 0..8:`",
    ),
    "where as a function": (
        "y: [N, D]:\n    y = where(X > 0, X, 0)\n", "y: [N, D]:\n    y = X if X > 0 else 0\n",
        "`a if condition else b`",
    ),
    "a list": (
        "y: [K]:\n    y = concat([W[0, :], W[0, :]])\n", "y: [2*K]:\n    y[i] = concat[i](W[0, i], W[0, i])\n",
        "`y[i] = concat[i](a[i], b[i])`",
    ),
    "another word for max": (
        "y: [N, D]:\n    y = maximum(0, X)\n", "y: [N, D]:\n    y = max(X, 0)\n", "`y = max(x, 0)`",
    ),
    "an identity matrix": (
        "y: [N, N]:\n    y[i, j] = X[i, k] * X[j, k] + eye(N)\n",
        "y: [N, N]:\n    y[i, j] = X[i, k] * X[j, k] + (1 if i == j else 0)\n", "`y[i: N, j: N] = 1 if i == j else 0`",
    ),
    "an undeclared parameter": (
        "y: [N]:\n    y[n] = X[n, i] * v[i]\n", "y: [N]:\n    param v: [D] ~ normal\n    y[n] = X[n, i] * v[i]\n",
        "`param v: [4] ~ normal`",
    ),
    "a whole tensor in a mean over an index": (
        "y: [N, D]:\n    y = X - mean[n](X)\n", "y: [N, D]:\n    y[n, i] = X[n, i] - mean[n](X[n, i])\n",
        "`mean[n](X[n, i])`",
    ),
    "an axis that is lost": (
        "y: [N, D]:\n    mu = mean[d](X[n, d])\n    y[n, d] = X[n, d] - mu[n]\n",
        "y: [N, D]:\n    mu[n] = mean[d](X[n, d])\n    y[n, d] = X[n, d] - mu[n]\n", "`mu[n] = ...`",
    ),
    "a training with a name of its own": (
        "y: [N, D]:\n    y = X\n\ntrain net(X, W):\n    minimize mean(net(X, W))\n    using sgd()\n",
        "y: [N, D]:\n    y = X\n\ntrain m(X, W):\n    minimize mean(m(X, W))\n    using sgd()\n", "`train m`",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HABITS)
def test_a_habit_from_elsewhere_is_told_what_is_written_here(name: str) -> None:
    text, mended, offered = HABITS[name]
    found = check_text(HEAD + text).errors[0]
    assert offered in (found.help or ""), found.help
    assert check_text(HEAD + mended).errors == []


def test_a_function_with_an_axis_is_one_formula() -> None:
    """A block in its place was checked as if it had no axis, and refused with words about `mean`."""
    rows = "fn rows(x: [N, K]) -> y: [N, K]:\n    y[n, k] = z[k](x[n, k])\n"
    text = f"fn z[k](x) -> y:\n    m = mean[k](x)\n    y = x - m\n\n{rows}"
    (found,) = check_text(text).errors
    assert (found.code, found.labels[0].span.start) == ("E0515", text.index("k]"))


@pytest.mark.point("messages")
@pytest.mark.parametrize("name", FOLLOWED)
def test_a_help_leads_to_what_is_meant(name: str) -> None:
    text, mended, offered = FOLLOWED[name]
    (found,) = check_text(text).errors
    for part in offered:
        assert f"`{part}`" in (found.help or ""), found.help
    assert check_text(mended).errors == []


def test_a_call_that_lacks_an_axis_is_told_which_indices_it_is_made_for() -> None:
    text = (
        "model m(x: f32[N, C, T, 4]) -> y: [N, C, T, 4]:\n    scan c:\n"
        "        h[{0}, c, :, :] = x[{0}, c, :, :] + attention(h[{0}, c-1, :, :], 2)\n"
        "    start h[n: N, t: T, e: 4] = 0\n    y = h\n"
    )
    (error,) = check_text(text.format("n")).errors
    assert (error.code, error.help) == (
        "E0505",
        "`attention` is called for each `n` here; write `:` for an axis of the call itself, on the left too",
    )
    assert not check_text(text.format(":")).errors


def test_a_value_that_is_indexed_without_a_name_is_to_be_named() -> None:
    text = "fn f(x: [K], label: i32[] < K) -> y: []:\n    {}\n"
    (error,) = check_text(text.format("y = -log_softmax[c](x[c])[label]")).errors
    assert (error.code, error.help) == ("E0212", "name it in an equation before, `part[c] = ...`, and index `part`")
    assert not check_text(text.format("part[c] = log_softmax[c](x[c])\n    y = -part[label]")).errors


def test_a_formula_for_a_layer_is_to_be_named() -> None:
    text = "model m(x: f32[N, 4], h: f32[N, 4]) -> y: [N, 3]:\n    {}\n"
    errors = check_text(text.format("y = dense(concat[i](x[n, i], h[n, i]), 3)")).errors
    help = "name it in an equation before, `part[n, i] = concat[i](x[n, i], h[n, i])`, and pass `part` alone"
    assert ("E0505", help) in [(e.code, e.help) for e in errors]
    assert not check_text(text.format("part[n, i] = concat[i](x[n, i], h[n, i])\n    y = dense(part, 3)")).errors


def test_the_best_by_number_are_told_with_their_own_index() -> None:
    text = "model m(x: f32[N, 4]) -> (v: [N, 2], w: [N, 2]):\n    {}\n"
    errors = check_text(text.format("v, w = top_k[k](x, 2)")).errors
    assert ("E0333", "write the old and the new index: `top_k[k -> j: 2](...)`") in [(e.code, e.help) for e in errors]
    assert not check_text(text.format("v[n, j], w[n, j] = top_k[k -> j: 2](x[n, k])")).errors


#: what the equations that stand in these helps are about
ABOUT = {
    "dense": "x: [N, K]", "conv2d": "x: [N, 8, 8, C]", "(h w)": "x: [N, H, W]", "y[k, n]": "x: [N, K]",
    "W[": "x: [N, K], W: [K, O]", "concat": "a: [N], b: [M]", "wrap": "a: [N]",
    "x[t, s]": "x: [T, S]", "x, t": "x: [N], t: [N]",
    "A[": "A: [N, N]", "a[i] * b[j]": "a: [N], b: [M]", "": "x: [N]",
}  # fmt: skip


@pytest.mark.parametrize("name", FOREIGN)
def test_names_of_other_frameworks_lead_to_what_can_be_written(name: str) -> None:
    unknown = check_text(f"layer f(x: [N, K]) -> y:\n    y = {name}(x)\n").errors
    assert [(e.code, e.help) for e in unknown] == [("E0201", FOREIGN[name])]
    (line,) = re.findall(r"`([^`]+ = [^`]+)`", FOREIGN[name])
    formals = next(about for word, about in ABOUT.items() if word in line)
    assert not check_text(f"layer f({formals}) -> y:\n    {line}\n").errors
