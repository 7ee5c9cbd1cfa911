// Where generated code keeps its values, and how it counts.

// A size in bytes, up to the next multiple of 64.
static inline size_t padded(size_t size) { return (size + 63) / 64 * 64; }

// The next part of the workspace: `at` bytes are taken; all parts begin at multiples of 64.
static void *taken(char *w, size_t *at, size_t size) {
    void *part = w ? w + *at : NULL;
    *at += padded(size);
    return part;
}

// The larger of two sizes in bytes.
static inline size_t larger(size_t a, size_t b) { return a > b ? a : b; }

// The larger of two sizes.
static inline int64_t max_size(int64_t a, int64_t b) { return a > b ? a : b; }

// The smaller of two sizes.
static inline int64_t min_size(int64_t a, int64_t b) { return a < b ? a : b; }

// A position on an axis that goes on at its other end.
static inline int64_t wrapped(int64_t at, int64_t size) {
    int64_t rest = at % size;
    return rest < 0 ? rest + size : rest;
}

// A position, or the nearest one on the axis.
static inline int64_t clamped(int64_t at, int64_t size) { return at < 0 ? 0 : at < size ? at : size - 1; }

// The largest number; NaN where one is NaN.
static inline float largest_f32(float a, float b) { return a > b || a != a ? a : b; }
#pragma omp declare reduction(largest_f32 : float : omp_out = largest_f32(omp_out, omp_in)) initializer(omp_priv = -INFINITY)

// The smallest number; NaN where one is NaN.
static inline float smallest_f32(float a, float b) { return a < b || a != a ? a : b; }
#pragma omp declare reduction(smallest_f32 : float : omp_out = smallest_f32(omp_out, omp_in)) initializer(omp_priv = INFINITY)

// The largest number; NaN where one is NaN.
static inline double largest_f64(double a, double b) { return a > b || a != a ? a : b; }
#pragma omp declare reduction(largest_f64 : double : omp_out = largest_f64(omp_out, omp_in)) initializer(omp_priv = -INFINITY)

// The smallest number; NaN where one is NaN.
static inline double smallest_f64(double a, double b) { return a < b || a != a ? a : b; }
#pragma omp declare reduction(smallest_f64 : double : omp_out = smallest_f64(omp_out, omp_in)) initializer(omp_priv = INFINITY)

// The largest whole number.
static inline int64_t largest_i64(int64_t a, int64_t b) { return a > b ? a : b; }
#pragma omp declare reduction(largest_i64 : int64_t : omp_out = largest_i64(omp_out, omp_in)) initializer(omp_priv = INT64_MIN)

// The smallest whole number.
static inline int64_t smallest_i64(int64_t a, int64_t b) { return a < b ? a : b; }
#pragma omp declare reduction(smallest_i64 : int64_t : omp_out = smallest_i64(omp_out, omp_in)) initializer(omp_priv = INT64_MAX)

// C[M][N] = A B, or C + A B, where B(k, j) = B[k bk + j bj] has no axis that is contiguous in j: packed piece by piece.
static void gemm_bt_real(long M, long N, long K, const real *A, long ai, long ak, const real *B, long bk, long bj,
                         real *C, long ci, int accumulate) {
    enum { DEEP = 256, WIDE = 64 };
    real packed[DEEP * (WIDE + TILE_COLUMNS_real)] __attribute__((aligned(64))); // the last panel is filled up
    for (long k = 0; k < K; k += DEEP) {
        const long deep = K - k < DEEP ? K - k : DEEP;
        for (long j = 0; j < N; j += WIDE) {
            const long wide = N - j < WIDE ? N - j : WIDE;
            pack_real(deep, wide, B + k * bk + j * bj, bk, bj, packed);
            gemm_packed_real(M, wide, deep, A + k * ak, ai, ak, packed, C + j, ci, accumulate || k > 0);
        }
    }
}

// A matrix that threads pack together.
typedef struct {
    long K;
    const real *B;
    long bk, bj;
    real *packed;
} packing_real;

// Pack its columns from `begin` to `end`.
static void pack_columns_real(void *context, long begin, long end) {
    const packing_real *p = context;
    pack_real(p->K, end - begin, p->B + begin * p->bj, p->bk, p->bj, p->packed + begin * p->K);
}

// B[K][N] from `pack` for the products to come, or NULL where they have too few rows to gain by that.
static real *packed_real(int enough, long K, long N, const real *B, long bk, long bj, real *packed) {
    enum { PANELS = 96 }; // columns: a multiple of those of a panel on each processor (32, 16, 12, 8, 6, 4)
    packing_real p = {K, B, bk, bj, packed};
    if (!enough) return NULL;
    parallel(pack_columns_real, &p, N, PANELS);
    return packed;
}

// C = A B, or C + A B, with B as it lies, or from `pack` where there is one.
static void gemm_maybe_packed_real(long M, long N, long K, const real *A, long ai, long ak, const real *B, long bk,
                                   const real *packed, real *C, long ci, int accumulate) {
    if (packed) gemm_packed_real(M, N, K, A, ai, ak, packed, C, ci, accumulate);
    else gemm_real(M, N, K, A, ai, ak, B, bk, C, ci, accumulate);
}

// The same with a B like that of gemm_bt.
static void gemm_bt_maybe_packed_real(long M, long N, long K, const real *A, long ai, long ak, const real *B, long bk,
                                      long bj, const real *packed, real *C, long ci, int accumulate) {
    if (packed) gemm_packed_real(M, N, K, A, ai, ak, packed, C, ci, accumulate);
    else gemm_bt_real(M, N, K, A, ai, ak, B, bk, bj, C, ci, accumulate);
}
