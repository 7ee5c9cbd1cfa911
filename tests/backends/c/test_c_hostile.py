"""C functions refuse what they cannot work with, with a message that names it, before they read anything."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from compiled import compiler

from dslc.compiler import compile_files

SPEC = """
model m(
    token: i32[N, T] < 5, far: i64[N, T] < T, coin: binary f32[N, T], p: simplex f32[N, T, 2],
) -> y: [N, T, 3] where T <= 8, T % 2 == 0:
    param W: [5, 3] ~ glorot
    param v: [8, 3] ~ glorot
    state calls: [3] = 0
    h[n, t, k] = W[token[n, t], k] * coin[n, t] + v[far[n, t], k] * p[n, t, 0]
    for l in 0..2:
        param U: [3, 3] ~ glorot
        h[n, t, k] = h[n, t, k] + tanh(h[n, t, j] * U[j, k])
    y[n, t, k] = h[n, t, k] + calls[k]
    training:
        calls[k] <- calls[k] + 1

train m(token: i32[N, T] < 5, far: i64[N, T] < T, coin: binary f32[N, T], p: simplex f32[N, T, 2]):
    minimize sum(m(token, far, coin, p)^2)
    using momentum(lr = 0.01, decay = 0.5)
"""

#: a step of training, with all arrays in memory of exactly their size, and one of the slips below
PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include "m.h"
enum { ROWS = 3, LENGTH = 4, ALL = ROWS * LENGTH };
static float *fresh(long n) {
    float *p = malloc(n * sizeof *p);
    for (long k = 0; k < n; k++) p[k] = (float)(k % 7) / 8;
    return p;
}
static m_params table(void) {
    float **u = malloc(2 * sizeof *u);
    u[0] = fresh(9), u[1] = fresh(9);
    return (m_params){fresh(15), fresh(24), u};
}
int main(int count, char **words) {
    m_params params = table(), grads = table(), v = table();
    m_state state = {fresh(3)}, next = {fresh(3)};
    int32_t *token = malloc(ALL * sizeof *token);
    int64_t *far = malloc(ALL * sizeof *far);
    float *coin = fresh(ALL), *p = fresh(2 * ALL), loss;
    for (long k = 0; k < ALL; k++) {
        token[k] = k % 5, far[k] = k % LENGTH, coin[k] = k % 2;
        p[2 * k] = p[2 * k + 1] = 0.5f;
    }
    m_loss_grad_metrics_arguments a = {.N = ROWS, .T = LENGTH, .token = token, .far = far, .coin = coin, .p = p,
        .params = &params, .state = &state, .loss = &loss, .grads = &grads, .next = &next};
    m_update_arguments b = {.lr = 0.1, .decay = 0.5, .grads = &grads, .params = &params, .v = &v};
    size_t bytes = (m_loss_grad_metrics_workspace(&a) + 63) / 64 * 64;
    char *workspace = aligned_alloc(64, bytes);
    const m_loss_grad_metrics_arguments *given = &a;
    switch (count > 1 ? atoi(words[1]) : 0) {
        SLIPS
    }
    int32_t code = m_loss_grad_metrics(given, workspace, bytes);
    if (!code) code = m_update(&b, NULL, 0);
    puts(m_message(code));
    return 0;
}
"""

#: a slip, and how the message ends that it gets
SLIPS = {
    "loss = 0": "no error",
    "given = NULL": "arguments are missing",
    "a.N = 0": "N: expected at least 1",
    "a.N = INT64_MIN": "N: expected at least 1",
    "a.N = INT64_MAX": "N, T: expected arrays of at most 2^47 numbers",
    "a.N = 1LL << 61": "N, T: expected arrays of at most 2^47 numbers",
    "a.N = a.T = 1LL << 32": "N, T: expected arrays of at most 2^47 numbers",
    "a.T = -4": "T: expected at least 1",
    "a.T = 3": "needs T % 2 == 0",
    "a.T = 10": "needs T <= 8",
    "a.token = NULL": "token is missing",
    "a.params = NULL": "params is missing",
    "params.W = NULL": "W is missing",
    "params.v = NULL": "v is missing",
    "params.U = NULL": "U.* is missing",
    "params.U[1] = NULL": "U.* is missing",
    "a.state = NULL": "state is missing",
    "state.calls = NULL": "calls is missing",
    "a.loss = NULL": "loss is missing",
    "a.grads = NULL": "grads is missing",
    "grads.W = NULL": "grads.W is missing",
    "grads.U[0] = NULL": "U.* is missing",
    "next.calls = NULL": "next.calls is missing",
    "b.v = NULL": "v is missing",
    "v.W = NULL": "opt.v.W is missing",
    "v.U[1] = NULL": "U.* is missing",
    "token[ALL - 1] = 5": "token: expected 0 <= value < 5",
    "token[0] = -1": "token: expected 0 <= value < 5",
    "token[7] = INT32_MIN": "token: expected 0 <= value < 5",
    "token[7] = INT32_MAX": "token: expected 0 <= value < 5",
    "far[ALL - 1] = LENGTH": "far: expected 0 <= value < T",
    "far[0] = INT64_MIN": "far: expected 0 <= value < T",
    "far[3] = 1LL << 32": "far: expected 0 <= value < T",
    "coin[2] = 0.5f": "coin: expected 0 or 1",
    "coin[2] = 0.0f / 0.0f": "coin: expected 0 or 1",
    "p[3] = -0.5f": "p: expected no entry below 0",
    "p[3] = 0.0f / 0.0f": "p: expected no entry below 0",
    "p[3] = 0.75f": "p: expected a sum of 1 along the last axis",
    "workspace = NULL": "workspace: expected as many bytes as the function of the sizes tells, at a multiple of 64",
    "bytes -= 64": "workspace: expected as many bytes as the function of the sizes tells, at a multiple of 64",
    "bytes = 0": "workspace: expected as many bytes as the function of the sizes tells, at a multiple of 64",
    "workspace += 4": "workspace: expected as many bytes as the function of the sizes tells, at a multiple of 64",
}  # fmt: skip

STEP = """
model s(token: i32[N, T] < 5) -> y: [N, T, 3] where T <= 6:
    param W: [5, 3] ~ glorot
    param v: [6, 3] ~ glorot
    place = v[0:T, :]
    h[n, t, k] = W[token[n, t], k] + place[t, k]
    a[n, t, s] = softmax[s](h[n, t, k] * h[n, s, k] if s <= t else -inf)
    y[n, t, k] = a[n, t, s] * h[n, s, k]
"""

STEPS = """
#include <stdio.h>
#include <stdlib.h>
#include "s.h"
int main(int count, char **words) {
    s_params params = {calloc(15, 4), calloc(18, 4)};
    int32_t *token = calloc(2, sizeof *token);
    float *y = calloc(6, 4), *h = calloc(24, 4);
    s_step_arguments a = {.N = 2, .T = 1, .room = 4, .token = token, .params = &params, .y = y, .h = h};
    size_t bytes = s_step_workspace(&a);
    char *workspace = aligned_alloc(64, (bytes + 127) / 64 * 64);
    int32_t code = 0;
    switch (count > 1 ? atoi(words[1]) : 0) { SLIPS }
    for (; !code && a.T <= 3; a.T++) code = s_step(&a, workspace, bytes);
    puts(s_message(code));
    return 0;
}
"""

STEP_SLIPS = {
    "a.T = 1": "no error",
    "a.T = 5; code = s_step(&a, workspace, bytes)": "the cache is full: T is more than the room that it has",
    "a.room = 0": "room: expected at least 1",
    "a.room = 2": "the cache is full: T is more than the room that it has",
    "a.room = 7": "needs T <= 6",
    "a.room = 1LL << 60": ": expected arrays of at most 2^47 numbers",
    "a.N = 1LL << 60": ": expected arrays of at most 2^47 numbers",
    "a.T = 0": "T: expected at least 1",
    "a.token = NULL": "token is missing",
    "token[1] = 5": "token: expected 0 <= value < 5",
    "params.v = NULL": "v is missing",
}

#: a forward pass that saves what its adjoint reads, in memory of exactly its size
ADJOINT = """
#include <stdio.h>
#include <stdlib.h>
#include "s.h"
int main(int count, char **words) {
    s_params params = {calloc(15, 4), calloc(18, 4)}, grads = {calloc(15, 4), calloc(18, 4)};
    int32_t *token = calloc(150, sizeof *token); // for fifty rows
    float *y = calloc(18, 4), *d_y = calloc(450, 4);
    s_forward_saving_arguments a = {.N = 2, .T = 3, .token = token, .params = &params, .y = y};
    s_adjoint_arguments b = {.N = 2, .T = 3, .token = token, .d_y = d_y, .params = &params, .grads = &grads};
    a.saved_bytes = b.saved_bytes = (s_forward_saving_saves(&a) + 63) / 64 * 64;
    a.saved = aligned_alloc(64, a.saved_bytes), b.saved = a.saved;
    size_t bytes = s_forward_saving_workspace(&a) + 50 * s_adjoint_workspace(&b);
    char *workspace = aligned_alloc(64, (bytes + 127) / 64 * 64);
    const s_adjoint_arguments *given = &b;
    switch (count > 1 ? atoi(words[1]) : 0) { SLIPS }
    int32_t code = s_forward_saving(&a, workspace, bytes);
    if (!code) code = s_adjoint(given, workspace, bytes);
    puts(s_message(code));
    return 0;
}
"""

SAVED = "saved: expected as many bytes as are saved at these sizes, at a multiple of 64"
ADJOINT_SLIPS = {
    "a.T = 3": "no error",
    "a.saved = NULL": SAVED,
    "a.saved_bytes = 0": SAVED,
    "a.saved_bytes -= 64": SAVED,
    "a.saved = (char *)a.saved + 4": SAVED,
    "b.saved = NULL": SAVED,
    "b.saved_bytes -= 64": SAVED,
    "b.saved = (const char *)b.saved + 32": SAVED,
    "b.N = 50": SAVED,  # what was saved for two is too little
    "b.T = 7": "needs T <= 6",
    "b.N = -2": "N: expected at least 1",
    "b.N = 1LL << 60": ": expected arrays of at most 2^47 numbers",
    "given = NULL": "arguments are missing",
    "b.d_y = NULL": "d_y is missing",
    "b.grads = NULL": "grads is missing",
    "grads.v = NULL": "grads.v is missing",
    "token[5] = 5": "token: expected 0 <= value < 5",
    "b.token = NULL": "token is missing",
    "workspace += 8": "workspace: expected as many bytes as the function of the sizes tells, at a multiple of 64",
}


def program(folder: Path, name: str, spec: str, text: str, slips: dict[str, str]) -> Path:
    """A program that makes the slip whose number it is told, watched by sanitizers."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.dsl").write_text(spec, encoding="utf-8")
    for file, made in compile_files(folder / f"{name}.dsl", "c").items():
        (folder / file).write_text(made, encoding="utf-8")
    cases = "\n".join(f"case {k}: {slip}; break;" for k, slip in enumerate(slips))
    (folder / "main.c").write_text(text.replace("SLIPS", cases), encoding="utf-8")
    flags = ["-O1", "-g", "-march=native", "-fopenmp-simd", "-fno-math-errno", "-ffp-contract=fast"]
    watched = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-Wall", "-Wextra", "-Werror", "-Wno-psabi"]
    command = [
        compiler(),
        *flags,
        *watched,
        f"-D{name.upper()}_ADJOINTS",
        "main.c",
        f"{name}.c",
        "-o",
        "main",
        "-pthread",
        "-lm",
    ]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "main"


def told(program: Path, number: int) -> str:
    environment = os.environ | {"ASAN_OPTIONS": "detect_leaks=0"}
    done = subprocess.run([str(program), str(number)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[:3000]
    return done.stdout.strip()


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return program(tmp_path_factory.mktemp("m"), "m", SPEC, PROGRAM, SLIPS)


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return program(tmp_path_factory.mktemp("s"), "s", STEP, STEPS, STEP_SLIPS)


@pytest.fixture(scope="module")
def adjoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return program(tmp_path_factory.mktemp("a"), "s", STEP, ADJOINT, ADJOINT_SLIPS)


@pytest.mark.parametrize("slip", SLIPS)
def test_a_step_of_training_refuses_what_it_cannot_read(slip: str, training: Path) -> None:
    assert told(training, [*SLIPS].index(slip)).endswith(SLIPS[slip])


@pytest.mark.parametrize("slip", STEP_SLIPS)
def test_a_step_of_a_sequence_refuses_what_it_cannot_read(slip: str, steps: Path) -> None:
    assert told(steps, [*STEP_SLIPS].index(slip)).endswith(STEP_SLIPS[slip])


@pytest.mark.parametrize("slip", ADJOINT_SLIPS)
def test_an_adjoint_refuses_what_it_cannot_read(slip: str, adjoint: Path) -> None:
    assert told(adjoint, [*ADJOINT_SLIPS].index(slip)).endswith(ADJOINT_SLIPS[slip])
