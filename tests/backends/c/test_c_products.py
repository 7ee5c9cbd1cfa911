"""Matrix products in C: right at every size and layout, bit by bit the same for a row whatever is beside it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from compiled import Library, built, source
from dslc.backends.c import runtime

#: columns that a thread packs at a time
PANELS = int(
    re.findall(r"enum { PANELS = (\d+) }", (Path(runtime.__file__).parent / "support.c").read_text(encoding="utf-8"))[0]
)
SIZES = (1, 2, 3, 7, 17, 33, 65, 130)
DTYPES = {"f32": np.float32, "f64": np.float64}
NAMES = [
    f"{name}_{kind}" for kind in DTYPES for name in ("gemm", "gemm_q", "gemm_packed", "pack", "packed_size", "gemv")
]
#: what this processor can do, and code for older ones, which it runs as well; ARM's tiles are three vectors wide
TARGETS = {
    "native": (), "avx2": ("-march=haswell",), "baseline": ("-march=x86-64",),
    "tiles of ARM": ("-march=x86-64", "-D__aarch64__"),
}  # fmt: skip


@pytest.fixture(scope="session", params=TARGETS)
def products(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Library:
    if request.param != "native" and "avx2" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("needs an x86 processor with AVX2")
    return Library(tmp_path_factory.mktemp("products"), NAMES, *TARGETS[request.param])


def guarded(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A copy between NaNs, and what must stay NaN."""
    around = np.full(values.size + 128, np.nan, values.dtype)
    inside = around[64 : 64 + values.size].reshape(values.shape)
    inside[...] = values
    return inside, around


def close(found: np.ndarray, wanted: np.ndarray, kind: str, count: int) -> bool:
    unit = np.finfo(DTYPES[kind]).eps
    return bool(np.abs(found - wanted).max() <= 2 * unit * (count + 4) * max(1, np.abs(wanted).max()))


def check_product(products: Library, kind: str, M: int, N: int, K: int, turned: bool, accumulate: int) -> None:
    rng = np.random.default_rng(M * 10007 + N * 101 + K)
    A, B, before = (rng.standard_normal(s).astype(DTYPES[kind]) for s in ((M, K), (K, N), (M, N + 3)))
    wanted = A.astype(np.float64) @ B + accumulate * before[:, :N].astype(np.float64)
    a, _ = guarded(A.T if turned else A)
    b, _ = guarded(B)
    strides = (1, M) if turned else (K, 1)

    def check(found: np.ndarray, around: np.ndarray) -> None:
        assert close(found[:, :N], wanted, kind, K), (M, N, K, turned, accumulate)
        assert (found[:, N:] == before[:, N:]).all()
        assert np.isnan(around[:64]).all() and np.isnan(around[64 + found.size :]).all()

    c, around = guarded(before)
    products[f"gemm_{kind}"](M, N, K, a, *strides, b, N, c, N + 3, accumulate)
    check(c, around)
    packed, around_packed = guarded(np.zeros(products[f"packed_size_{kind}"](K, N), A.dtype))
    for layout, steps in ((B, (N, 1)), (B.T, (1, K)), (np.repeat(B, 2, 1), (2 * N, 2))):
        packed[:] = np.nan
        products[f"pack_{kind}"](K, N, guarded(layout)[0], *steps, packed)
        assert np.isnan(around_packed[:64]).all() and np.isnan(around_packed[64 + packed.size :]).all()
        c, around = guarded(before)
        products[f"gemm_packed_{kind}"](M, N, K, a, *strides, packed, c, N + 3, accumulate)
        check(c, around)


@pytest.mark.parametrize("kind", DTYPES)
def test_products_are_right_at_ragged_sizes(products: Library, kind: str) -> None:
    rng = np.random.default_rng(0)
    for M, N, K in rng.choice(SIZES, (100, 3)).tolist():
        check_product(products, kind, M, N, K, bool(rng.integers(2)), int(rng.integers(2)))


@pytest.mark.parametrize("kind", DTYPES)
def test_threads_pack_panels_of_their_own(products: Library, kind: str) -> None:
    B = np.random.default_rng(3).standard_normal((5, 310)).astype(DTYPES[kind])
    whole, pieces = (np.zeros(products[f"packed_size_{kind}"](5, 310), B.dtype) for _ in range(2))
    products[f"pack_{kind}"](5, 310, B, 310, 1, whole)
    for j in range(0, 310, PANELS):
        products[f"pack_{kind}"](5, min(PANELS, 310 - j), B[:, j:], 310, 1, pieces[j * 5 :])
    np.testing.assert_array_equal(pieces, whole)


@pytest.mark.long
@pytest.mark.parametrize("kind", DTYPES)
def test_products_are_right_at_all_ragged_sizes(products: Library, kind: str) -> None:
    for M, N, K in np.stack(np.meshgrid(SIZES, SIZES, SIZES), -1).reshape(-1, 3).tolist():
        for variant in range(4):
            check_product(products, kind, M, N, K, variant > 1, variant % 2)


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize(("M", "N", "K"), [(50, 1024, 300), (60, 500, 700), (300, 40, 600), (5, 300, 500)])
def test_large_products_are_right(products: Library, kind: str, M: int, N: int, K: int) -> None:
    for variant in range(4):
        check_product(products, kind, M, N, K, variant > 1, variant % 2)


@pytest.mark.parametrize("kind", DTYPES)
def test_a_second_index_is_summed_over(products: Library, kind: str) -> None:
    """A row of a convolution: its window of several lines is no matrix in memory."""
    rng = np.random.default_rng(1)
    for lines, W, channels, outs, width in [(3, 20, 3, 8, 3), (5, 9, 1, 1, 5), (2, 40, 5, 33, 3), (3, 7, 16, 20, 1)]:
        x = rng.standard_normal((lines, W + width - 1, channels)).astype(DTYPES[kind])
        w = rng.standard_normal((lines, width * channels, outs)).astype(DTYPES[kind])
        windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), width, 1).transpose(1, 0, 3, 2)
        wanted = np.einsum("wlk,lko->wo", windows.reshape(W, lines, -1), w)
        for accumulate in (0, 1):
            y, around = guarded(np.ones((W, outs), x.dtype))
            line, K = (W + width - 1) * channels, width * channels
            products[f"gemm_q_{kind}"](
                W, outs, K, lines, guarded(x)[0], channels, 1, line, guarded(w)[0], outs, K * outs, y, outs, accumulate
            )
            assert close(y, wanted + accumulate, kind, K * lines)
            assert np.isnan(around[:64]).all() and np.isnan(around[64 + y.size :]).all()


@pytest.mark.parametrize("kind", DTYPES)
def test_a_matrix_times_a_vector(products: Library, kind: str) -> None:
    rng = np.random.default_rng(2)
    for M, K in rng.choice(SIZES, (30, 2)).tolist():
        A, x = rng.standard_normal((M, K)).astype(DTYPES[kind]), rng.standard_normal(K).astype(DTYPES[kind])
        wanted = A.astype(np.float64) @ x
        for a, ai, ak in ((A, K, 1), (A.T, 1, M)):
            for xk, yi in ((1, 1), (2, 1), (1, 3)):
                y = np.full((M, yi), 0.5, A.dtype)
                for accumulate in (0, 1):
                    products[f"gemv_{kind}"](
                        M, K, guarded(a)[0], ai, ak, guarded(np.repeat(x, xk))[0], xk, y, yi, accumulate
                    )
                    assert close(y[:, 0], (1 + accumulate) * wanted, kind, K)
                assert (y[:, 1:] == 0.5).all()


@pytest.mark.parametrize("kind", DTYPES)
def test_infinities_spread_no_further_than_their_row(products: Library, kind: str) -> None:
    for K in (5, 37, 130):
        A, x = np.ones((3, K), DTYPES[kind]), np.ones(K, DTYPES[kind])
        A[1, 2], A[2, -1] = np.inf, np.nan
        y = np.zeros(3, A.dtype)
        products[f"gemv_{kind}"](3, K, A, K, 1, x, 1, y, 1, 0)
        assert y[0] == K and y[1] == np.inf and np.isnan(y[2])


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("N", "K"), [(40, 300), (1024, 70), (1, 90), (7, 33)])
def test_a_row_has_the_same_bits_whatever_rows_are_beside_it(
    products: Library, kind: str, turned: bool, N: int, K: int
) -> None:
    rng = np.random.default_rng(3)
    M = 70
    A, B = rng.standard_normal((M, K)).astype(DTYPES[kind]), rng.standard_normal((K, N)).astype(DTYPES[kind])
    a, ai, ak = (np.ascontiguousarray(A.T), 1, M) if turned else (A, K, 1)
    whole, parts, from_packed = (np.zeros((M, N), A.dtype) for _ in range(3))
    gemm = products[f"gemm_{kind}"]
    gemm(M, N, K, a, ai, ak, B, N, whole, N, 0)
    begin = 0
    for count in (1, 2, 3, 5, 8, 50, 1):
        first = a.reshape(-1)[begin * ai :]
        gemm(count, N, K, first, ai, ak, B, N, parts[begin:], N, 0)
        begin += count
    assert (whole == parts).all()
    if N > 1:
        packed = np.zeros(products[f"packed_size_{kind}"](K, N), A.dtype)
        products[f"pack_{kind}"](K, N, B, N, 1, packed)
        products[f"gemm_packed_{kind}"](M, N, K, a, ai, ak, packed, from_packed, N, 0)
        assert (whole == from_packed).all()


@pytest.mark.parametrize("kind", DTYPES)
def test_a_sum_of_nothing_is_zero(products: Library, kind: str) -> None:
    nothing, c = np.zeros(1, DTYPES[kind]), np.ones((5, 3), DTYPES[kind])
    products[f"gemm_{kind}"](5, 3, 0, nothing, 0, 1, nothing, 3, c, 3, 1)
    assert (c == 1).all()
    products[f"gemm_{kind}"](5, 3, 0, nothing, 0, 1, nothing, 3, c, 3, 0)
    assert (c == 0).all()


EXACT_ALLOCATIONS = """
#include <stdio.h>
#include <stdlib.h>
static real *fresh(long n) {
    real *p = malloc(n * sizeof(real));
    for (long i = 0; i < n; i++) p[i] = (i * 37 % 101) / 50.;
    return p;
}
static int differ(long M, long N, long K, const real *A, long ai, long ak, const real *B, const real *C) {
    for (long i = 0; i < M; i++)
        for (long j = 0; j < N; j++) {
            double s = 0;
            for (long k = 0; k < K; k++) s += (double)A[i * ai + k * ak] * B[k * N + j];
            if (!(fabs(s - C[i * N + j]) <= 1e-4 * (1 + fabs(s)))) return printf("%ld %ld %ld\\n", M, N, K);
        }
    return 0;
}
int main(void) {
    const long sizes[] = {1, 2, 3, 7, 17, 33, 65};
    for (int a = 0; a < 343; a++)
        for (int turned = 0; turned < 2; turned++) {
            long M = sizes[a / 49], N = sizes[a / 7 % 7], K = sizes[a % 7];
            real *A = fresh(M * K), *B = fresh(K * N), *C = malloc(M * N * sizeof(real));
            real *T = malloc(K * N * sizeof(real)), *P = malloc(packed_size_real(K, N) * sizeof(real));
            long ai = turned ? 1 : K, ak = turned ? M : 1;
            gemm_real(M, N, K, A, ai, ak, B, N, C, N, 0);
            if (differ(M, N, K, A, ai, ak, B, C)) return 1;
            for (long i = 0; i < K * N; i++) T[i % N * K + i / N] = B[i];
            pack_real(K, N, T, 1, K, P);
            gemm_packed_real(M, N, K, A, ai, ak, P, C, N, 0);
            if (differ(M, N, K, A, ai, ak, B, C)) return 2;
            free(A), free(B), free(C), free(T), free(P);
        }
    return 0;
}
"""


@pytest.mark.parametrize("kind", DTYPES)
def test_nothing_outside_of_the_arrays_is_touched(tmp_path: Path, kind: str) -> None:
    real = {"f32": "float", "f64": "double"}[kind]
    main = EXACT_ALLOCATIONS.replace("_real(", f"_{kind}(").replace("real ", f"{real} ").replace("(real)", f"({real})")
    text = source([f"{name}_{kind}" for name in ("gemm", "gemm_packed", "pack", "packed_size")], main)
    sanitizers = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    subprocess.run([str(built(tmp_path, text, *sanitizers))], check=True, env={"ASAN_OPTIONS": "detect_leaks=0"})
