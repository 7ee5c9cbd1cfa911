"""Hostile specs: refused with a diagnostic, in bounded time and memory, and never by a failure of dslc itself.

Each spec goes through the command line in a process of its own. The processes are forked from one that has already
imported dslc (this file run as a program), so that each costs its own time and not that of the imports again.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

#: Of processor time, for one spec: a busy machine is no failure. What sleeps or waits is stopped too, but later.
MAX_SECONDS = 10
MAX_WAIT = 60
MAX_MEMORY = 2 * 1024**3

# ---- running the command under limits ---------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What a run of `dslc check` came to; a negative status is the signal that ended it."""

    status: int
    stdout: str
    stderr: str

    @property
    def codes(self) -> list[str]:
        return re.findall(r"^(?:error|warning)\[([EW]\d{4})\]", self.stderr, re.MULTILINE)


def limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_SECONDS, MAX_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def serve() -> None:
    """For each line `["spec", "stdout", "stderr"]` check the spec in a forked process; answer with its status."""
    from dslc.cli.main import main
    from dslc.frontend import check_text

    check_text("model warm(x: f32[N, 4]) -> y: [N, 2]:\n    y = x |> dense(2) |> gelu\n")
    for line in sys.stdin:
        spec, *streams = json.loads(line)
        child = os.fork()
        if child == 0:
            limit()
            for number, path in enumerate(streams, start=1):
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
            try:
                main(["check", spec])
            except SystemExit as end:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(end.code if isinstance(end.code, int) else 1)
            finally:
                os._exit(99)  # an exception that even `main` did not catch
        print(wait(child), flush=True)


def wait(child: int) -> int:
    end = time.monotonic() + MAX_WAIT
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -signal.SIGALRM


Check = Callable[[Path], Outcome]


@pytest.fixture(scope="module")
def check(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Check]:
    """Runs `dslc check` on a spec under limits."""
    folder = tmp_path_factory.mktemp("streams")
    command = [sys.executable, __file__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None

        def run(spec: Path) -> Outcome:
            assert server.stdin is not None
            assert server.stdout is not None
            streams = [folder / "stdout", folder / "stderr"]
            for stream in streams:
                stream.write_bytes(b"")
            print(json.dumps([str(spec), *map(str, streams)]), file=server.stdin, flush=True)
            status = int(server.stdout.readline())
            return Outcome(status, *(s.read_text(encoding="utf-8", errors="replace") for s in streams))

        yield run
        server.stdin.close()


def assert_bounded(outcome: Outcome) -> None:
    shown = f"status {outcome.status}, {outcome.stderr[:2000]}"
    assert outcome.status in (0, 1), shown
    assert "Traceback" not in outcome.stderr, shown
    assert "bug" not in outcome.stderr, shown
    assert len(outcome.stderr) < 500_000
    if outcome.status == 0:
        assert ": ok" in outcome.stdout
        assert not any(code.startswith("E") for code in outcome.codes)


def assert_refused(outcome: Outcome, code: str) -> None:
    assert_bounded(outcome)
    assert outcome.status == 1
    assert code in outcome.codes, outcome.stderr[:2000]


# ---- texts ------------------------------------------------------------------------------------------------


def repeated(text: str, times: int, width: int = 100) -> str:
    """Many copies, in lines that keep the bound of a line and stay inside of one definition."""
    full, rest = divmod(times, width)
    return "\n  ".join([text * width] * full + [text * rest])


def nested(before: str, inner: str, after: str, times: int) -> str:
    return f"{repeated(before, times)}\n  {inner}\n  {repeated(after, times)}\n"


def definitions(first: str, following: str, count: int) -> str:
    """A definition, and `count` others; `{i}` is the number of each, `{h}` that of the one before."""
    return first + "".join(following.replace("{i}", str(i)).replace("{h}", str(i - 1)) for i in range(1, count + 1))


def listed(item: str, count: int) -> str:
    """Items separated by commas; `{i}` is the number of each, `{j}` that of the next."""
    return ",\n    ".join(item.replace("{i}", str(i)).replace("{j}", str((i + 1) % count)) for i in range(count))


def indented(word: str, depth: int, last: str) -> str:
    """Blocks inside blocks."""
    lines = [" " * (4 + i) + word.replace("{i}", str(i)) for i in range(depth)]
    return "\n".join([*lines, " " * (4 + depth) + last, ""])


def with_sizes(count: int, body: str, where: str = "") -> str:
    """A function with inputs of the sizes N0, N1, ..."""
    return f"fn f(\n    {listed('a{i}: [N{i}]', count)}\n) -> y: []{where}:\n{body}    y = sum(a0)\n"


MODEL = "model m(x: f32[N, 4]) -> y: [N, 4]:\n    y = x\n"
GOOD = "fn f(x) = x\n"

BYTES: dict[str, tuple[bytes, str]] = {
    "an empty file": (b"", "E0006"),
    "only comments": (b"# nothing\n" * 10_000, "E0006"),
    "only newlines": (b"\n" * 900_000, "E0006"),
    "binary": (bytes(range(256)) * 1_000, "E0002"),
    "NULs": (b"\0" * 1_000, "E0003"),
    "a NUL in a comment": (b"fn f(x) = x  # \0\n", "E0003"),
    "invalid UTF-8": (b"fn f(x) = x  # \xff\n", "E0002"),
    "a surrogate in UTF-8": (b"fn f(x) = x  # \xed\xa0\x80\n", "E0002"),
    "UTF-16": (GOOD.encode("utf-16"), "E0002"),
    "UTF-16 without its mark": (GOOD.encode("utf-16-be"), "E0003"),
    "UTF-32": (GOOD.encode("utf-32"), "E0002"),
    "an escape sequence": (b"fn f(x) = x  # \x1b]0;owned\x07\n", "E0003"),
    "old line ends": (b"fn f(x) = x\rfn g(x) = x\r", "E0003"),
    "10 MB in one line": (b"fn f(x) = " + b"x + " * 2_500_000 + b"x\n", "E0004"),
    "10 MB in many lines": (GOOD.encode() * 900_000, "E0004"),
}

TEXTS: dict[str, tuple[str, str]] = {
    # characters
    "a tab": ("layer f(x: [N]) -> y: [N]:\n\ty = x\n", "E0007"),
    "a tab after spaces": ("layer f(x: [N]) -> y: [N]:\n    a = x\n    \ty = a\n", "E0007"),
    "a look-alike name": ("fn scale(x) = x\nfn sc\u0430le(x) = x\n", "E0008"),
    "full-width letters": ("fn f(\uff58) = \uff58\n", "E0008"),
    "digits of another script": ("fn f(x) = x + \u0663\n", "E0008"),
    "a no-break space": ("fn f(x) = x\u00a0+ 1\n", "E0008"),
    "a zero-width space": ("fn f(x) = x\u200b + 1\n", "E0009"),
    "a byte order mark inside": ("fn f(x) = x\ufeff\n", "E0009"),
    "bidirectional text in a comment": ("fn f(x) = x  # \u202e eno live\n", "E0009"),
    "bidirectional text in a string": ('layer f(x: [N], s = "\u2066") -> y: [N]:\n    y = x\n', "E0009"),
    "a line separator": ("fn f(x) = x\u2028\n", "E0009"),
    "keywords of Python as names": ("fn lambda(x) = x\nfn f(class) = class\n", "E0111"),
    "dunder names": ("fn __import__(x) = x\n", "E0111"),
    "a name of 5,000 letters": (f"fn {'a' * 5_000}(x) = x\n", "E0112"),
    # nesting
    "100,000 parentheses in a line": (f"fn f(x) = {'(' * 100_000}x{')' * 100_000}\n", "E0005"),
    "100,000 parentheses in lines": ("fn f(x) = " + nested("(", "x", ")", 100_000), "E0512"),
    "10,000 parentheses in lines": ("fn f(x) = " + nested("(", "x", ")", 10_000), "E0109"),
    "100,000 brackets": ("fn f(x) = " + nested("x[", "0", "]", 100_000), "E0512"),
    "10,000 brackets": ("fn f(x) = " + nested("x[", "0", "]", 10_000), "E0109"),
    "40,000 opened brackets": ("fn f(x) = " + repeated("([", 20_000), "E0109"),
    "20,000 signs": (f"fn f(x) = ({repeated('-', 20_000)}x)\n", "E0109"),
    "10,000 negations": (f"fn f(x) = 1 if ({repeated('not ', 10_000)}x > 0) else 0\n", "E0109"),
    "10,000 powers": (f"fn f(x) = ({repeated('x^', 10_000)}x)\n", "E0109"),
    "10,000 negative powers": (f"fn f(x) = ({repeated('x^-', 10_000)}x)\n", "E0109"),
    "10,000 members": (f"fn f(x) = (x{repeated('.a', 10_000)})\n", "E0109"),
    "10,000 calls of calls": (f"fn f(x) = (x{repeated('()', 10_000)})\n", "E0109"),
    "10,000 quotients": (f"fn f(x) = (x{repeated(' // 2', 10_000)})\n", "E0109"),
    "10,000 stages": (f"fn f(x) = (x{repeated(' |> tanh', 10_000)})\n", "E0109"),
    "5,000 selects": (f"fn f(x) = ({repeated('1 if x > 0 else ', 5_000)}2)\n", "E0109"),
    "signs between calls": ("fn f(x) = " + nested("abs(" + "-" * 60, "x", ")", 50), "E0109"),
    "quotients between parentheses": ("fn f(x) = " + nested("(", "x", " // 2" * 30 + ")", 50), "E0109"),
    "chains of comparisons": (f"fn f(x) = 1 if (x{repeated(' < 2', 10_000)}) else 0\n", "E0113"),
    "400 blocks": (MODEL + indented("for l{i} in 0..1:", 400, "y = x"), "E0109"),
    "deep functions inside functions": (
        definitions("fn g0(x) = x\n", "fn g{i}(x) = " + "(" * 40 + "g{h}(x)" + " * 2 + 1)" * 40 + "\n", 15), "E0109",
    ),
    "deep layers inside layers": (
        definitions(
            "layer g0(x: [N]) -> y: [N]:\n    y = x\n",
            "layer g{i}(x: [N]) -> y: [N]:\n" + indented("if 1 == 1:", 25, "y = g{h}(x)"), 35,
        ), "E0109",
    ),
    # repetition
    "nested loops of 1,000 passes": (MODEL + indented("for l{i} in 0..1000:", 25, "y = y + 1"), "E0512"),
    "nested loops that do little": (MODEL + indented("for l{i} in 0..1000:", 25, "size K = 1"), "E0512"),
    "nested loops with parameters": (MODEL + indented("for l{i} in 0..1000:", 25, "param p: []"), "E0512"),
    "nested loops of layers": (MODEL + indented("for l{i} in 0..1000:", 25, "y = dense(y, 4)"), "E0512"),
    "a loop of a million passes": (MODEL + "    for l in 0..1000000:\n        y = y + 1\n", "E0512"),
    "a loop over a size": (MODEL + "    for l in 0..N:\n        y = y + 1\n", "E0406"),
    "functions that call twice": (definitions("fn g0(x) = x + 1\n", "fn g{i}(x) = g{h}(x) + g{h}(x)\n", 60), "E0512"),
    "functions of functions": (definitions("fn g0(x) = x + 1\n", "fn g{i}(x) = g{h}(g{h}(x))\n", 60), "E0512"),
    "layers that call twice": (
        definitions(
            "layer g0(x: [N, 4]) -> y: [N, 4]:\n    y = dense(x, 4)\n",
            "layer g{i}(x: [N, 4]) -> y: [N, 4]:\n    y = x |> g{h} |> g{h}\n", 60,
        ), "E0512",
    ),
    "layers that call twice at other sizes": (
        definitions(
            "layer g0(x: [N, K]) -> y: [N, K + 1]:\n    y = dense(x, K + 1)\n",
            "layer g{i}(x: [N, K]) -> y:\n    y = x |> g{h} |> g{h}\n", 30,
        ), "E0512",
    ),
    "layers of layers as arguments": (
        "layer a(x: [N, 4], f: layer) -> y: [N, 4]:\n    y = x |> f |> f\n"
        f"model m(x: f32[N, 4]) -> y: [N, 4]:\n    y = a(x, {'a(f = ' * 30}dense(4){')' * 30})\n", "E0512",
    ),
    "calls 900 deep": (definitions("fn g0(x) = x\n", "fn g{i}(x) = g{h}(x) + 1\n", 900), "E0512"),
    "a circle of 900 functions": (
        definitions("fn g0(x) = g900(x)\n", "fn g{i}(x) = g{h}(x) + 1\n", 900), "E0210",
    ),
    # numbers and sizes
    "a size of 10^30": (f"fn f(x: [1{'0' * 30}]) -> y: []:\n    y = sum(x)\n", "E0117"),
    "a product of 10^30": (with_sizes(1, f"    size K = {' * '.join(['1000000'] * 5)}\n"), "E0324"),
    "9^9^9^9 as a size": ("fn f(x: [9^9^9^9]) -> y: []:\n    y = sum(x)\n", "E0324"),
    "9^9^9^9 as a number": ("fn f(x) = x * 9^9^9^9\n", "E0324"),
    "2^100000000": ("fn f(x) = x * 2^100000000\n", "E0324"),
    "a negative power of zero": ("fn f(x) = x * 0^-1\n", "E0117"),
    "a power beyond all floats": ("fn f(x) = x * 10.0^999\n", "E0117"),
    "9,000 digits": (f"fn f(x) = x + {'9' * 9_000}\n", "E0117"),
    "an exponent of 300 digits": (f"fn f(x) = x + 1e{'9' * 300}\n", "E0117"),
    "a size to a size": (with_sizes(1, "    size K = N0^N0^N0\n"), "E0406"),
    "a size to the power 10,000": (with_sizes(1, "    size K = (N0 + 1)^10000\n"), "E0406"),
    # many errors
    "5,000 unknown names": (MODEL + "".join(f"    y = bad{i}\n" for i in range(5_000)), "E0201"),
    "900 unknown functions": (definitions("", "fn g{i}(x) = g{i}x(x)\n", 900), "E0201"),
    "900 syntax errors": (definitions("", "fn g{i}(x) = x **\n", 900), "E0114"),
    "900 definitions of one name": (GOOD * 900, "E0202"),
    "5,000 syntax errors": (definitions("", "fn g{i}(x) = x **\n", 5_000), "E0512"),
    "900 missing imports": (definitions("", 'import "g{i}.dsl"\n', 900), "E0206"),
    "60,000 definitions": (GOOD * 60_000, "E0512"),
}  # fmt: skip

#: These may be good or be refused, but not for ever.
BOUNDED: dict[str, str] = {
    "a sum of 20,000 terms": f"fn f(x) = (x{repeated(' + x', 20_000)})\n",
    "a product of 20,000 factors": f"fn f(x) = (x{repeated(' * x', 20_000)})\n",
    "10,000 conditions": f"fn f(x) = 1 if (x > 0{repeated(' and x > 0', 10_000)}) else 0\n",
    "4,000 implied sums": (
        "fn f(x: [N, K], w: [K]) -> y: [N]:\n"
        f"    y[n] = (x[n, k] * w[k]{repeated(' + x[n, k] * w[k]', 4_000)})\n"
    ),
    "8,000 equations": MODEL + "    y = y + 1\n" * 8_000,
    "4,000 branches": MODEL + "    if N == 1:\n        y = x\n" + "    elif 1 == 2:\n        y = x\n" * 4_000,
    "1,000 definitions": definitions("", "layer g{i}(x: [..., K]) -> y: [..., K]:\n    y = x |> dense(K)\n", 999),
    "600 stages of functions": f"fn g(x) = x + x\nfn f(x) = (x{repeated(' |> g', 600)})\n",
    "40 selects inside selects": f"fn f(x) = {'(' * 40}x{' if x > 0 else 0)' * 40}\n",
    "500 outputs": (
        f"fn f(x: [N]) -> ({listed('y{i}: [N]', 500)}):\n" + "".join(f"    y{i} = x + {i}\n" for i in range(500))
        + f"fn g(x: [N]) -> y0: [N]:\n    {', '.join(f'y{i}' for i in range(500))} = f(x)\n"
    ),
    "300 axes": f"fn f(x: [{listed('N{i}', 300)}]) -> y: [{listed('N{i}', 300)}]:\n    y = x + x\n",
    "300 indices": (
        f"fn f(x: [{listed('N{i}', 300)}]) -> y: []:\n"
        f"    y = x[{listed('i{i}', 300)}] * x[{listed('i{i}', 300)}]\n"
    ),
    "a group of 40 indices": (
        f"fn f(x: [N]) -> y: [{listed('2', 40)}]:\n"
        f"    y[{listed('i{i}', 40)}] = x[({' '.join(f'i{i}' for i in range(40))})]\n"
    ),
    "200 indices in a position": (
        "fn f(x: [N]) -> y: []:\n"
        f"    y = sum[{listed('i{i}: 2', 200)}](x[{' + '.join(f'{i}*i{i}' for i in range(200))}])\n"
    ),
    "60 derivatives of derivatives": (
        "model m(x: f32[N]) -> y: []:\n    z = sum(x)\n" + "    z = sum(hessian(z * z, x))\n" * 60 + "    y = z\n"
    ),
    "200 doublings by concat": (
        "fn f(x: [N]) -> y: []:\n    z = x\n" + "    z[i] = concat[i](z[i], z[i])\n" * 200 + "    y = sum(z)\n"
    ),
    "100 outer products": (
        "fn f(x: [N]) -> y: []:\n    z0 = x\n"
        + "".join(f"    z{i + 1}[i, ...] = x[i] * z{i}[...]\n" for i in range(100)) + "    y = sum(z100)\n"
    ),
    "an einsum of 1,000 tensors": (
        f'fn f(x: [N]) -> y: []:\n    y = einsum("{",".join("a" * 1_000)}->", {listed("x", 1_000)})\n'
    ),
    "a scan of 10^12 steps": (
        "layer f(x: [N]) -> y: [N]:\n    scan t in 0..1000000000000:\n        z[t, n] = z[t-1, n] + x[n]\n"
        "    start z = 0\n    y[n] = z[5, n]\n"
    ),
    "functions that double an index": (
        f"fn g(k) = k + k\nfn f(x: [N]) -> y: [N]:\n    y[n] = x[clamp({'g(' * 40}n{')' * 40})]\n"
    ),
    "functions that square an index": (
        f"fn g(k) = k * k + k\nfn f(x: [N]) -> y: [N]:\n    y[n] = x[clamp({'g(' * 40}n{')' * 40})]\n"
    ),
    "functions that square data": (
        f"fn g(k) = k * k + k\nfn f(x: [N], k: i32[N] < N) -> y: [N]:\n    y[n] = x[clamp({'g(' * 40}k[n]{')' * 40})]\n"
    ),
    "60 squarings of a position": (
        "fn f(x: [N]) -> y: [N]:\n    a[n: N] = n\n"
        + "    a[n] = a[n] * a[n] + a[n]\n" * 60
        + "    y[n] = x[clamp(a[n])]\n"
    ),
    # sizes that could occupy SymPy
    "a polynomial of degree 24": (
        "fn f(x: [(N+1)^8 * (M+1)^8 * (K+1)^8], a: [N], b: [M], c: [K]) -> y: []:\n    y = sum(x) + sum(a)\n"
    ),
    "powers of powers": with_sizes(2, "    size P = (((N0 + N1 + 1)^8 + 1)^8 + 1)^8\n"),
    "20 squarings of a size": with_sizes(
        2, "    size P0 = N0 + N1 + 1\n" + "".join(f"    size P{i + 1} = P{i} * P{i} + 1\n" for i in range(20))
    ),
    "a product of 200 sizes": with_sizes(200, f"    size P = {' * '.join(f'N{i}' for i in range(200))}\n"),
    "a product of 24 sums": with_sizes(24, f"    size P = {' * '.join(f'(N{i} + 1)' for i in range(24))}\n"),
    "30 quotients inside quotients": with_sizes(1, f"    size P = {'(' * 30}N0{' // 2 + 1)' * 30}\n"),
    "20 quotients by a size": with_sizes(2, f"    size P = {'(' * 20}N0{' // N1 + N1)' * 20}\n"),
    "25 remainders inside remainders": with_sizes(2, f"    size P = {'(' * 25}N0{' % N1 + N1 // N0 + 1)' * 25}\n"),
    "25 fractions inside fractions": with_sizes(2, f"    size P = {'(' * 25}N0{' / N1 + N1)' * 25}\n"),
    "a sum of 20 fractions": with_sizes(
        20, f"    size P = {' + '.join(f'N{i} / N{(i + 1) % 20}' for i in range(20))}\n"
    ),
    "a sum of 20 quotients": with_sizes(
        20, f"    size P = {' + '.join(f'N{i} // N{(i + 1) % 20}' for i in range(20))}\n    z[i: P] = a0[P - N1 + 3]\n"
    ),
    "a sum of 20 minima": with_sizes(
        20, f"    size P = {' + '.join(f'min(N{i}, N{(i + 1) % 20})' for i in range(20))}\n    z[i: P] = a0[i]\n"
    ),
    "14 minima of maxima": with_sizes(
        3, f"    size P = {'min(N0 + 1, max(N1 + 2, ' * 14}N2{'))' * 14}\n    z[i: P] = a0[i]\n"
    ),
    "300 conditions of divisibility": with_sizes(
        30, "", " where " + ", ".join(f"N{i} % {j} == 0" for i in range(30) for j in range(2, 12))
    ),
    "190 conditions of order": with_sizes(
        20, "    z = a0[N1 + 5]\n", " where " + ", ".join(f"N{i} >= N{j} + 1" for i in range(20) for j in range(i))
    ),
    "190 mixed conditions": with_sizes(
        20, "    z = a0[(N1 + 5) // N3]\n",
        " where " + ", ".join(f"(N{i} + N{j}) % (N{j} + 2) == 0" for i in range(20) for j in range(i)),
    ),
    "40 equations to solve": with_sizes(
        40, "", " where " + ", ".join(f"N{i} == N{i + 1} * N{i + 1} + 1" for i in range(39))
    ),
    "300 comparisons that nothing decides": with_sizes(
        3, f"    z = {' + '.join(f'(1 if N2 + {i} < N0 else 0)' for i in range(300))}\n",
        " where " + ", ".join(f"N0 * {i + 1} >= N1 + {i}" for i in range(12)),
    ),
}  # fmt: skip


# ---- what must hold ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("content", "code"), BYTES.values(), ids=BYTES)
def test_no_text_is_refused(check: Check, tmp_path: Path, content: bytes, code: str) -> None:
    spec = tmp_path / "hostile.dsl"
    spec.write_bytes(content)
    assert_refused(check(spec), code)


@pytest.mark.wide(2)
@pytest.mark.parametrize(("text", "code"), TEXTS.values(), ids=TEXTS)
def test_a_hostile_spec_is_refused(check: Check, tmp_path: Path, text: str, code: str) -> None:
    spec = tmp_path / "hostile.dsl"
    spec.write_text(text, encoding="utf-8")
    assert_refused(check(spec), code)


@pytest.mark.long  # bounds on size algebra: `pytest -m long tests/fuzz`
@pytest.mark.parametrize("text", BOUNDED.values(), ids=BOUNDED)
def test_a_laborious_spec_takes_bounded_time(check: Check, tmp_path: Path, text: str) -> None:
    spec = tmp_path / "laborious.dsl"
    spec.write_text(text, encoding="utf-8")
    assert_bounded(check(spec))


IMPORTS: dict[str, tuple[str, str]] = {
    "above": ("../secret.dsl", "E0207"),
    "above, in a roundabout way": ("inner/../../secret.dsl", "E0207"),
    "an absolute path": ("{outside}/secret.dsl", "E0207"),
    "a device": ("/dev/zero", "E0207"),
    "a link to a file outside": ("link.dsl", "E0207"),
    "a file in a linked folder": ("linked/secret.dsl", "E0207"),
    "a link to a device": ("zero.dsl", "E0207"),
    "a path of Windows": ("..\\\\secret.dsl", "E0207"),
    "a folder": ("inner", "E0206"),
    "the folder itself": (".", "E0206"),
    "nothing": ("", "E0206"),
    "a pipe": ("pipe.dsl", "E0206"),
    "a link to itself": ("loop.dsl", "E0206"),
    "a name that is too long": ("a" * 5_000 + ".dsl", "E0206"),
    "the spec itself": ("main.dsl", "E0208"),
    "the spec itself by another way": ("inner/../main.dsl", "E0208"),
}


@pytest.mark.parametrize(("path", "code"), IMPORTS.values(), ids=IMPORTS)
def test_an_import_stays_inside_and_reads_files_only(check: Check, tmp_path: Path, path: str, code: str) -> None:
    (tmp_path / "secret.dsl").write_text("fn secret(x) = x + 271828182\n")
    folder = tmp_path / "specs"
    (folder / "inner").mkdir(parents=True)
    (folder / "link.dsl").symlink_to(tmp_path / "secret.dsl")
    (folder / "linked").symlink_to(tmp_path)
    (folder / "zero.dsl").symlink_to("/dev/zero")
    (folder / "loop.dsl").symlink_to(folder / "loop.dsl")
    os.mkfifo(folder / "pipe.dsl")
    spec = folder / "main.dsl"
    spec.write_text(f'import "{path.format(outside=tmp_path)}"\n\nfn f(x) = secret(x)\n')
    outcome = check(spec)
    assert_refused(outcome, code)
    assert "271828182" not in outcome.stderr


@pytest.mark.long
def test_many_long_imports_take_bounded_time(check: Check, tmp_path: Path) -> None:
    spec = tmp_path / "main.dsl"
    spec.write_text("".join(f'from "part{i}.dsl" import g{i}\n' for i in range(90)) + GOOD)
    for i in range(90):
        (tmp_path / f"part{i}.dsl").write_text(f"fn g{i}(x) = (x{repeated(' + x', 20_000)})\n")
    assert_bounded(check(spec))


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null", "/nowhere/at/all.dsl"])
def test_what_is_no_file_is_refused(check: Check, path: str) -> None:
    outcome = check(Path(path))
    assert outcome.status in (1, 2)
    assert outcome.stderr
    assert "Traceback" not in outcome.stderr


@pytest.mark.parametrize("name", ["10,000 parentheses in lines", "a loop of a million passes", "9^9^9^9 as a size"])
def test_the_installed_command_refuses_it_too(tmp_path: Path, name: str) -> None:
    text, code = TEXTS[name]
    spec = tmp_path / "hostile.dsl"
    spec.write_text(text, encoding="utf-8")
    command = [str(Path(sys.executable).with_name("dslc")), "check", str(spec)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=MAX_WAIT, preexec_fn=limit, check=False)
    assert_refused(Outcome(ended.returncode, ended.stdout, ended.stderr), code)


if __name__ == "__main__":
    serve()
