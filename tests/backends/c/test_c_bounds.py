"""Functions on rows and matrices in C stay within their arrays: a program that allocates each exactly, watched."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from compiled import built, source

MATRICES = ("solve", "inv", "det", "logdet", "cholesky", "eigh", "matexp")
REALS = {"f32": "float", "f64": "double"}
PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
static number *fresh(long n) {
    number *p = malloc(n * sizeof *p);
    for (long i = 0; i < n; i++) p[i] = (number)((i * 7919 + 13) % 101) / 25 - 2;
    return p;
}
int main(void) {
    const long sizes[] = {1, 2, 3, 7, 17, 33, 65, 130};
    for (int s = 0; s < 8; s++) {
        long n = sizes[s];
        number *x = fresh(n), *y = fresh(n), *out = fresh(n);
        int64_t *at = malloc(n * sizeof *at);
        void *work = malloc(ordering_bytes_REAL(n));
        x[n / 2] = NAN;
        sort_REAL(n, x, 1, out, 1, work);
        argsort_REAL(n, x + n - 1, -1, at, 1, work);
        for (long k = 1; k <= n; k += 1 + n / 4) top_k_REAL(n, k, x, 1, out, 1, at, 1, work);
        free(work), free(at);
        x[n / 2] = 1;
        void *table = malloc(fourier_table_bytes(n));
        work = malloc(fourier_work_bytes(n));
        fourier_table(n, table, work);
        fourier_REAL(n, 0, x, 1, y, 1, x, 1, y, 1, table, work);
        fourier_REAL(n, 1, x, 1, 0, 0, y, 1, out, 1, table, work);
        free(table), free(work), free(x), free(y), free(out);
        number *a = fresh(n * n), *b = fresh(n * 3), *c = fresh(n * 3), *z = fresh(n * n), *d = fresh(n);
        number *scratch = malloc(matrix_scratch_REAL(n) * sizeof *scratch);
        for (long i = 0; i < n; i++)
            for (long j = 0; j < i; j++) a[j * n + i] = a[i * n + j];
        if (eigh_REAL(n, a, d, z, scratch)) return printf("eigh %ld\\n", n);
        matexp_REAL(n, a, z, scratch);
        for (long i = 0; i < n; i++) a[i * n + i] += 4 * n;
        if (solve_REAL(n, 3, a, b, c, scratch)) return printf("solve %ld\\n", n);
        if (inv_REAL(n, a, z, scratch)) return printf("inv %ld\\n", n);
        if (cholesky_REAL(n, a, z)) return printf("cholesky %ld\\n", n);
        det_REAL(n, a, scratch), logdet_REAL(n, a, scratch);
        free(a), free(b), free(c), free(z), free(d), free(scratch);
    }
    return 0;
}
"""


@pytest.mark.parametrize("kind", REALS)
def test_rows_and_matrices_of_exact_size(tmp_path: Path, kind: str) -> None:
    text = PROGRAM.replace("number", REALS[kind]).replace("_REAL(", f"_{kind}(")
    by_kind = ["ordering_bytes", "sort", "argsort", "top_k", "fourier", "matrix_scratch", *MATRICES]
    names = ["fourier_table", "fourier_table_bytes", "fourier_work_bytes", *(f"{name}_{kind}" for name in by_kind)]
    program = built(
        tmp_path, source(names, text), "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"
    )
    done = subprocess.run(
        [str(program)], env=os.environ | {"ASAN_OPTIONS": "detect_leaks=0"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr[:3000]
