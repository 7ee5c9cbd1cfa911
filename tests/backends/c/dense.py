"""A module of one dense layer whose C text is written by hand: what the Python side of C modules is tested with."""

from __future__ import annotations

import textwrap
from pathlib import Path
from types import ModuleType

from dslc.backends.c.header import declarations
from dslc.backends.c.interface import Entry, Field, Interface, Table
from dslc.backends.c.shell import python_text

from dslc.compiler import choose, differentiated, imported, optimizer_of
from dslc.emitted import sound
from dslc.frontend import check_file
from dslc.ir.interning import compilation
from dslc.program import Program
from dslc.sizes import symbol

SPEC = """
model dense(x: f32[N, 3], c: i32[N] < 2) -> y: [N, 2]:
    param W: [3, 2] ~ glorot
    param b: [2]
    y[n, o] = x[n, i] * W[i, o] + b[o] * c[n]

train dense(x: f32[N, 3], c: i32[N] < 2, t: f32[N, 2]):
    minimize sum((dense(x, c) - t)^2)
    metric big = max[n, o](t[n, o])
    using momentum(lr = 0.01, decay = 0.5)
"""

N = symbol("N")
X, C, T = Field("x", "x", "f32", (N, 3)), Field("c", "c", "i32", (N,)), Field("t", "t", "f32", (N, 2))
Y = Field("y", "y", "f32", (N, 2))
D_Y, D_X = Field("d_y", "d_y", "f32", (N, 2)), Field("gradient x", "d_x", "f32", (N, 3))
LOSS = (Field("loss", "loss", "f32", ()), Field("big", "big", "f32", ()))
PARAMS, GRADS = Table("params", "params"), Table("grads", "params")

INTERFACE = Interface(
    "dense",
    (Field("W", "W", "f32", (3, 2)), Field("b", "b", "f32", (2,))),
    (),
    (
        Entry("forward", ("N",), (), (X, C), (PARAMS,), False, (Y,), (), ("N",)),
        Entry("loss_grad_metrics", ("N",), (), (X, C, T), (PARAMS,), False, LOSS, (GRADS,), ("N",)),
        Entry("evaluate", ("N",), (), (X, C, T), (PARAMS,), False, LOSS, (), ("N",)),
        Entry("forward_saving", ("N",), (), (X, C), (PARAMS,), False, (Y,), (), ("N",), "written"),
        Entry("adjoint", ("N",), (), (X, C, D_Y), (PARAMS,), False, (D_X,), (GRADS,), ("N",), "read"),
        Entry("update", (), ("lr", "decay"), (), (GRADS,), False, (), (PARAMS, Table("v", "params")), ("lr", "decay")),
    ),
    ("no error", "N: expected at least 1"),
)

CODE = """
#include <math.h>

const char *dense_message(int32_t code) { return code == 0 ? "no error" : "N: expected at least 1"; }

void dense_threads(int count) { (void)count; }

size_t dense_forward_workspace(const dense_forward_arguments *a) { return sizeof(float) * (size_t)a->N * 2; }

int32_t dense_forward(const dense_forward_arguments *a, void *workspace, size_t bytes) {
    if (a->N < 1) return 1;
    float *y = workspace; /* by way of the workspace, so that one that is too small is found */
    for (int64_t n = 0; n < a->N; n++)
        for (int64_t o = 0; o < 2; o++) {
            y[2 * n + o] = a->params->b[o] * (float)a->c[n];
            for (int64_t i = 0; i < 3; i++) y[2 * n + o] += a->x[3 * n + i] * a->params->W[2 * i + o];
        }
    for (int64_t k = 0; k < 2 * a->N; k++) a->y[k] = y[k];
    return 0;
}

static float loss_of(int64_t N, const float *x, const int32_t *c, const float *t, const dense_params *params,
                     float *y, float *big) {
    dense_forward_arguments given = {N, x, c, params, y};
    float loss = 0;
    dense_forward(&given, y, 0);
    *big = -INFINITY;
    for (int64_t k = 0; k < 2 * N; k++) {
        loss += (y[k] - t[k]) * (y[k] - t[k]);
        if (t[k] > *big) *big = t[k];
    }
    return loss;
}

size_t dense_loss_grad_metrics_workspace(const dense_loss_grad_metrics_arguments *a) {
    return sizeof(float) * (size_t)a->N * 2;
}

int32_t dense_loss_grad_metrics(const dense_loss_grad_metrics_arguments *a, void *workspace, size_t bytes) {
    float *y = workspace;
    *a->loss = loss_of(a->N, a->x, a->c, a->t, a->params, y, a->big);
    for (int64_t k = 0; k < 6; k++) a->grads->W[k] = 0;
    for (int64_t k = 0; k < 2; k++) a->grads->b[k] = 0;
    for (int64_t n = 0; n < a->N; n++)
        for (int64_t o = 0; o < 2; o++) {
            float d = 2 * (y[2 * n + o] - a->t[2 * n + o]);
            a->grads->b[o] += d * (float)a->c[n];
            for (int64_t i = 0; i < 3; i++) a->grads->W[2 * i + o] += d * a->x[3 * n + i];
        }
    return 0;
}

size_t dense_evaluate_workspace(const dense_evaluate_arguments *a) { return sizeof(float) * (size_t)a->N * 2; }

int32_t dense_evaluate(const dense_evaluate_arguments *a, void *workspace, size_t bytes) {
    *a->loss = loss_of(a->N, a->x, a->c, a->t, a->params, workspace, a->big);
    return 0;
}

size_t dense_forward_saving_saves(const dense_forward_saving_arguments *a) { return sizeof(float) * (size_t)a->N * 3; }

size_t dense_forward_saving_workspace(const dense_forward_saving_arguments *a) {
    return sizeof(float) * (size_t)a->N * 2;
}

int32_t dense_forward_saving(const dense_forward_saving_arguments *a, void *workspace, size_t bytes) {
    dense_forward_arguments given = {a->N, a->x, a->c, a->params, a->y};
    for (int64_t k = 0; k < 3 * a->N; k++) ((float *)a->saved)[k] = a->x[k];
    return dense_forward(&given, workspace, bytes);
}

size_t dense_adjoint_workspace(const dense_adjoint_arguments *a) { (void)a; return 0; }

int32_t dense_adjoint(const dense_adjoint_arguments *a, void *workspace, size_t bytes) {
    const float *x = a->saved;
    (void)workspace, (void)bytes;
    for (int64_t k = 0; k < 6; k++) a->grads->W[k] = 0;
    for (int64_t k = 0; k < 2; k++) a->grads->b[k] = 0;
    for (int64_t k = 0; k < 3 * a->N; k++) a->d_x[k] = 0;
    for (int64_t n = 0; n < a->N; n++)
        for (int64_t o = 0; o < 2; o++) {
            float d = a->d_y[2 * n + o];
            a->grads->b[o] += d * (float)a->c[n];
            for (int64_t i = 0; i < 3; i++) {
                a->grads->W[2 * i + o] += d * x[3 * n + i];
                a->d_x[3 * n + i] += d * a->params->W[2 * i + o];
            }
        }
    return 0;
}

size_t dense_update_workspace(const dense_update_arguments *a) { (void)a; return 0; }

static void moved(float *param, const float *grad, float *v, int64_t count, float lr, float decay) {
    for (int64_t k = 0; k < count; k++) {
        v[k] = decay * v[k] - lr * grad[k];
        param[k] += v[k];
    }
}

int32_t dense_update(const dense_update_arguments *a, void *workspace, size_t bytes) {
    (void)workspace, (void)bytes;
    moved(a->params->W, a->grads->W, a->v->W, 6, (float)a->lr, (float)a->decay);
    moved(a->params->b, a->grads->b, a->v->b, 2, (float)a->lr, (float)a->decay);
    return 0;
}
"""


def program_of(folder: Path, spec: str = SPEC) -> Program:
    path = folder / "dense.dsl"
    path.write_text(textwrap.dedent(spec), encoding="utf-8")
    checked = check_file(path)
    model, train = choose(checked)
    return Program(model, differentiated(model, train, ()), optimizer_of(checked, train))


def c_text() -> str:
    return declarations(INTERFACE) + CODE


def text_of(folder: Path, beside: bool = False) -> str:
    """The Python text; with the C text in it, or `beside`."""
    with compilation():
        given = None if beside else c_text()
        return sound(python_text(program_of(folder), INTERFACE, "dense.dsl", "f32", given))


def dense(folder: Path) -> ModuleType:
    return imported(text_of(folder), "dense")
