// Matrix products: an element of A times a vector of B is added to a tile of C that stays in registers.

// The vectors of this processor, and the tile that fits into its registers.
#if defined __AVX512F__
enum { VECTOR_BYTES = 64, TILE_ROWS = 8, TILE_VECTORS = 2 };
#elif defined __AVX__
enum { VECTOR_BYTES = 32, TILE_ROWS = 6, TILE_VECTORS = 2 };
#elif defined __aarch64__
enum { VECTOR_BYTES = 16, TILE_ROWS = 8, TILE_VECTORS = 3 };
#else
enum { VECTOR_BYTES = 16, TILE_ROWS = 6, TILE_VECTORS = 2 };
#endif

// How many numbers a vector and the width of a tile have.
enum { LANES_real = VECTOR_BYTES / sizeof(real), TILE_COLUMNS_real = LANES_real * TILE_VECTORS };

// A vector of numbers.
typedef real vector_real __attribute__((vector_size(VECTOR_BYTES)));

// A vector that stands anywhere in an array.
typedef real vector_at_real __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(real)), may_alias));

// The loop that follows is written out: its arrays are registers. Clang has a word of its own for that.
#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed" // of those that it unrolls only in the end
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 64")
#endif

// A value that stays in a register: gcc may read one that is used by a few rows of a tile anew for each of them.
#if defined __AVX512F__
#define IN_REGISTER(x) __asm__("" : "+v"(x))
#elif defined __x86_64__
#define IN_REGISTER(x) __asm__("" : "+x"(x))
#elif defined __aarch64__
#define IN_REGISTER(x) __asm__("" : "+w"(x))
#else
#define IN_REGISTER(x) (void)(x)
#endif

// Copy n numbers, fewer than a vector has: in pieces of fixed size, since a call of memcpy takes longer.
INLINE void copy_part_real(real *to, const real *from, long n) {
    UNROLL for (int size = LANES_real / 2; size; size /= 2)
        if (n & size) {
            memcpy(to, from, size * sizeof(real));
            to += size, from += size;
        }
}

// The first n numbers at p, fewer than a vector has, and zeros.
static __attribute__((noinline)) void load_part_real(vector_real *v, const real *p, long n) {
    *v = (vector_real){0};
    if (n > 0) copy_part_real((real *)v, p, n);
}

// The first n numbers at p, and zeros.
INLINE vector_real load_real(const real *p, long n) {
    if (n >= LANES_real) return *(const vector_at_real *)p;
    vector_real v;
    load_part_real(&v, p, n);
    return v;
}

// Copy m rows of n numbers.
static void copy_rows_real(long m, long n, const real *from, long from_row, real *to, long to_row) {
    for (; m > 0; m--, from += from_row, to += to_row) {
        long j = 0;
        for (; j + LANES_real <= n; j += LANES_real) *(vector_at_real *)(to + j) = *(const vector_at_real *)(from + j);
        copy_part_real(to + j, from + j, n - j);
    }
}

// A factor of a product: its entry (i, k, q) stands at p[i * di + k * dk + q * dq]; products are sums over k and q.
typedef struct {
    const real *p;
    long di, dk, dq;
} factor_real;

// A tile of C: A B, or C + A B. B has rows without gaps, which are read in whole vectors. A has m <= rows rows without
// gaps, the last one standing for more; or A is upright: its columns have none, and are `rows` long whatever m is.
INLINE void tile_real(const int rows, const int vectors, const int upright, long m, long K, long Q,
                      factor_real A, factor_real B, real *C, long ci, int accumulate) {
    enum { V = LANES_real, LINE = 64 / sizeof(real), AHEAD = 16 };
    vector_real s[TILE_ROWS][TILE_VECTORS] = {0};
    if (accumulate)
        UNROLL for (int i = 0; i < rows; i++)
            UNROLL for (int j = 0; j < vectors; j++) s[i][j] = *(const vector_at_real *)(C + i * ci + j * V);
    for (long q = 0; q < Q; q++) {
        const real *a[TILE_ROWS], *b = B.p + q * B.dq, *column = A.p + q * A.dq;
        UNROLL for (int i = 0; i < rows; i++) a[i] = column + (i < m ? i : m - 1) * A.di;
        for (long k = 0; k < K; k++, b += B.dk, column += A.dk) {
            vector_real t[TILE_VECTORS]; // B first, then row by row: the other order runs out of registers on AVX2
            UNROLL for (int j = 0; j < vectors; j++)
                if (j * V % LINE == 0) __builtin_prefetch(b + AHEAD * B.dk + j * V); // may lie on the next page
            UNROLL for (int j = 0; j < vectors; j++) t[j] = *(const vector_at_real *)(b + j * V);
            if (rows < TILE_ROWS)
                UNROLL for (int j = 0; j < vectors; j++) IN_REGISTER(t[j]);
            UNROLL for (int i = 0; i < rows; i++) {
                const real factor = upright ? column[i] : a[i][k];
                UNROLL for (int j = 0; j < vectors; j++) s[i][j] += factor * t[j];
            }
        }
    }
    UNROLL for (int i = 0; i < rows; i++)
        UNROLL for (int j = 0; j < vectors; j++) *(vector_at_real *)(C + i * ci + j * V) = s[i][j];
}

// A panel of C: n <= TILE_COLUMNS columns, any number of rows. Where A is upright, A.di leads to the next tile. A tile
// that goes past an edge of C is computed beside it.
static __attribute__((noinline)) void panel_real(long M, long n, long K, long Q, factor_real A, factor_real B, real *C,
                                                 long ci, int accumulate) {
    enum { R = TILE_ROWS, COLUMNS = TILE_COLUMNS_real, V = LANES_real };
    const long far = A.dk == 1 ? R * A.di : A.di;
    real beside[R * COLUMNS];
    for (; M > 0; M -= R, A.p += far, C += R * ci) {
        const int inside = M >= R && n == (n <= V ? V : COLUMNS);
        const long m = M < R ? M : R, row = inside ? ci : COLUMNS;
        real *tile = inside ? C : beside;
        if (!inside && accumulate) {
            memset(beside, 0, sizeof beside);
            copy_rows_real(m, n, C, ci, beside, COLUMNS);
        }
        if (A.dk == 1) {
            if (n <= V) tile_real(R, 1, 0, m, K, Q, A, B, tile, row, accumulate);
            else if (m <= R / 2) tile_real(R / 2, TILE_VECTORS, 0, m, K, Q, A, B, tile, row, accumulate);
            else tile_real(R, TILE_VECTORS, 0, m, K, Q, A, B, tile, row, accumulate);
        } else if (n <= V) tile_real(R, 1, 1, m, K, Q, A, B, tile, row, accumulate);
        else tile_real(R, TILE_VECTORS, 1, m, K, Q, A, B, tile, row, accumulate);
        if (!inside) copy_rows_real(m, n, beside, COLUMNS, C, ci);
    }
}

// A panel whose last vectors would end behind B: the rows of B that are so close to its end are copied.
static void last_panel_real(long M, long n, long K, long Q, factor_real A, factor_real B, real *C, long ci,
                            int accumulate) {
    enum { COLUMNS = TILE_COLUMNS_real, V = LANES_real, ROWS = 16 };
    long width = n > V ? COLUMNS : V, over = width - n;
    long close = B.dk > 0 ? (over + B.dk - 1) / B.dk : K; // so many rows for each q
    if (close > K) close = K;
    long far = B.dk >= 0 && B.dq >= over ? Q - 1 : 0; // so many q have none of them
    if (far > 0) panel_real(M, n, K, far, A, B, C, ci, accumulate), accumulate = 1;
    for (long q = far; q < Q; q++) {
        factor_real a = {A.p + q * A.dq, A.di, A.dk, 0}, b = {B.p + q * B.dq, 0, B.dk, 0};
        if (close < K) panel_real(M, n, K - close, 1, a, b, C, ci, accumulate), accumulate = 1;
        for (long k = K - close; k < K; k += ROWS, accumulate = 1) {
            real copy[ROWS * COLUMNS];
            long rows = K - k < ROWS ? K - k : ROWS;
            for (long r = 0; r < rows; r++)
                for (long j = 0; j < width; j += V)
                    *(vector_at_real *)(copy + r * COLUMNS + j) = load_real(b.p + (k + r) * b.dk + j, n - j);
            factor_real rest = {a.p + k * a.dk, a.di, a.dk, 0};
            panel_real(M, n, rows, 1, rest, (factor_real){copy, 0, COLUMNS, 0}, C, ci, accumulate);
        }
    }
}

// All panels of C, B in place.
static void panels_real(long M, long N, long K, long Q, factor_real A, factor_real B, real *C, long ci,
                        int accumulate) {
    enum { COLUMNS = TILE_COLUMNS_real };
    for (; N >= COLUMNS; N -= COLUMNS, B.p += COLUMNS, C += COLUMNS)
        panel_real(M, COLUMNS, K, Q, A, B, C, ci, accumulate);
    if (N) last_panel_real(M, N, K, Q, A, B, C, ci, accumulate);
}

// All panels of C from row k on of a packed B, which has so many rows.
static void packed_panels_real(long M, long N, long K, factor_real A, const real *packed, long rows, long k, real *C,
                               long ci, int accumulate) {
    enum { COLUMNS = TILE_COLUMNS_real, V = LANES_real };
    for (; N > 0; N -= COLUMNS, packed += rows * COLUMNS, C += COLUMNS) {
        long n = N < COLUMNS ? N : COLUMNS, width = n > V ? COLUMNS : V;
        panel_real(M, n, K, 1, A, (factor_real){packed + k * width, 0, width, 0}, C, ci, accumulate);
    }
}

// The numbers of two vectors in turn, a0 b0 a1 b1 ...: those of the lower halves, and those of the upper halves.
#ifdef __clang__
#define SHUFFLE(whole, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(whole, a, b, ...) \
    __builtin_shuffle(a, b, (whole __attribute__((vector_size(VECTOR_BYTES)))){__VA_ARGS__})
#endif
#if defined __AVX512F__
#define LOWER_f32(a, b) SHUFFLE(int32_t, a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define UPPER_f32(a, b) SHUFFLE(int32_t, a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define LOWER_f64(a, b) SHUFFLE(int64_t, a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define UPPER_f64(a, b) SHUFFLE(int64_t, a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#elif defined __AVX__
#define LOWER_f32(a, b) SHUFFLE(int32_t, a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define UPPER_f32(a, b) SHUFFLE(int32_t, a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define LOWER_f64(a, b) SHUFFLE(int64_t, a, b, 0, 4, 1, 5)
#define UPPER_f64(a, b) SHUFFLE(int64_t, a, b, 2, 6, 3, 7)
#else
#define LOWER_f32(a, b) SHUFFLE(int32_t, a, b, 0, 4, 1, 5)
#define UPPER_f32(a, b) SHUFFLE(int32_t, a, b, 2, 6, 3, 7)
#define LOWER_f64(a, b) SHUFFLE(int64_t, a, b, 0, 2)
#define UPPER_f64(a, b) SHUFFLE(int64_t, a, b, 1, 3)
#endif

// Transpose n rows of m numbers (each at most a vector's) in registers: each round of shuffles halves the distance.
static __attribute__((noinline)) void transpose_real(long n, long m, const real *from, long from_row, real *to,
                                                     long to_row) {
    enum { V = LANES_real };
    vector_real x[V], y[V];
    UNROLL for (int i = 0; i < V; i++) x[i] = i < n ? load_real(from + i * from_row, m) : (vector_real){0};
    UNROLL for (int half = 1; half < V; half *= 2) {
        UNROLL for (int i = 0; i < V / 2; i++) {
            y[2 * i] = LOWER_real(x[i], x[i + V / 2]);
            y[2 * i + 1] = UPPER_real(x[i], x[i + V / 2]);
        }
        UNROLL for (int i = 0; i < V; i++) x[i] = y[i];
    }
    UNROLL for (int i = 0; i < V; i++)
        if (i < m) *(vector_at_real *)(to + i * to_row) = x[i];
}

// How many numbers `pack` writes: whole panels, and for a last one of a vector or less a vector.
INLINE long packed_size_real(long K, long N) {
    enum { COLUMNS = TILE_COLUMNS_real, V = LANES_real };
    const long rest = N % COLUMNS;
    return K * (N - rest + (rest > V ? COLUMNS : rest > 0 ? V : 0));
}

// Copy B, whose entry (k, j) is B[k * bk + j * bj], into panels of TILE_COLUMNS columns: each without gaps, the last
// filled up with zeros. The panel of column j begins at packed + j * K, so threads can pack panels of their own.
static __attribute__((noinline)) void pack_real(long K, long N, const real *B, long bk, long bj, real *packed) {
    enum { COLUMNS = TILE_COLUMNS_real, V = LANES_real };
    for (long j = 0; j < N; j += COLUMNS, packed += K * COLUMNS) {
        long n = N - j < COLUMNS ? N - j : COLUMNS, width = n > V ? COLUMNS : V;
        for (long k = 0; bj == 1 && k < K; k++) {
            const real *from = B + k * bk + j;
            real *to = packed + k * width;
            if (n == COLUMNS) memcpy(to, from, COLUMNS * sizeof(real));
            else for (long v = 0; v < width; v += V) *(vector_at_real *)(to + v) = load_real(from + v, n - v);
        }
        for (long v = 0; bj != 1 && bk == 1 && v < width; v += V)
            for (long k = 0; k < K; k += V) {
                const real *from = B + (j + v) * bj + k;
                transpose_real(n - v, K - k, from, bj, packed + k * width + v, width);
            }
        for (long k = 0; bj != 1 && bk != 1 && k < K; k++)
            for (long v = 0; v < width; v++) packed[k * width + v] = v < n ? B[k * bk + (j + v) * bj] : 0;
    }
}

// Should B[K][N] be packed before a product of many rows? If it is large, or its rows fall onto each other in a cache.
INLINE int gemm_wants_pack_real(long N, long K) {
    return K * N * (long)sizeof(real) > 1 << 20 || N * sizeof(real) % 4096 == 0;
}

// All panels of such a B, copied in pieces that fit into the first cache.
static void copied_panels_real(long M, long N, long K, factor_real A, factor_real B, real *C, long ci, int accumulate) {
    enum { DEPTH = 1024 / sizeof(real), COLUMNS = TILE_COLUMNS_real };
    real block[DEPTH * COLUMNS] __attribute__((aligned(64)));
    for (long k = 0; k < K; k += DEPTH, accumulate = 1)
        for (long j = 0; j < N; j += COLUMNS) {
            long depth = K - k < DEPTH ? K - k : DEPTH, n = N - j < COLUMNS ? N - j : COLUMNS;
            factor_real a = {A.p + k * A.dk, A.di, A.dk, 0};
            pack_real(depth, n, B.p + k * B.dk + j, B.dk, 1, block);
            packed_panels_real(M, n, depth, a, block, depth, 0, C + j, ci, accumulate);
        }
}

// Products with an A whose rows have gaps: pieces of it are copied to tiles that stay in the second cache. A packed B
// has `rows` rows, else this is 0.
static void upright_real(long M, long N, long K, factor_real A, factor_real B, long rows, real *C, long ci,
                         int accumulate) {
    enum { WIDTH = 16 * TILE_ROWS, DEPTH = 1024 / sizeof(real), R = TILE_ROWS, LINES = 8 };
    real block[DEPTH * WIDTH] __attribute__((aligned(64)));
    for (long k = 0; k < K; k += DEPTH, accumulate = 1)
        for (long i = 0; i < M; i += WIDTH) {
            long depth = K - k < DEPTH ? K - k : DEPTH, width = M - i < WIDTH ? M - i : WIDTH;
            for (long n = 0; n < depth; n += LINES) // some lines at once: tiles may lie 4 KB apart, which a cache dislikes
                for (long c = 0; c < width; c += R) {
                    const real *from = A.p + (k + n) * A.dk + (i + c) * A.di;
                    real *to = block + (c / R * depth + n) * R;
                    long lines = depth - n < LINES ? depth - n : LINES;
                    if (c + R <= width && A.di == 1)
                        for (long r = 0; r < lines; r++) memcpy(to + r * R, from + r * A.dk, R * sizeof(real));
                    else
                        for (long r = 0; r < lines; r++)
                            for (long t = 0; t < R; t++) to[r * R + t] = c + t < width ? from[r * A.dk + t * A.di] : 0;
                }
            factor_real a = {block, depth * R, R, 0}, b = {B.p + k * B.dk, 0, B.dk, 0};
            real *c = C + i * ci;
            if (rows) packed_panels_real(width, N, depth, a, B.p, rows, k, c, ci, accumulate);
            else if (width >= 48 && B.dk * sizeof(real) % 4096 == 0) // its rows fall onto each other in a cache
                copied_panels_real(width, N, depth, a, b, c, ci, accumulate);
            else panels_real(width, N, depth, 1, a, b, c, ci, accumulate);
        }
}

// A vector of whole numbers: bits of a vector, and lanes where something holds.
typedef whole vector_whole_real __attribute__((vector_size(VECTOR_BYTES)));

// A vector with the first n lanes of another one.
INLINE vector_real first_lanes_real(vector_real first, long n, vector_real v) {
    vector_whole_real lane;
    UNROLL for (int i = 0; i < LANES_real; i++) lane[i] = i;
    lane = lane < (whole)n;
    return (vector_real)(((vector_whole_real)first & lane) | ((vector_whole_real)v & ~lane));
}

// A vector with zeros in its first n lanes.
INLINE vector_real without_real(vector_real v, long n) { return first_lanes_real((vector_real){0}, n, v); }

// Add to `rows` rows of C the products of `depth` columns of A and rows of B, which are read from end to end. The last
// vector ends with the row: what it has in common with the one before is there already.
INLINE void few_real(const int rows, const int depth, long N, factor_real A, factor_real B, real *C, long ci) {
    enum { V = LANES_real };
    real a[3][8];
    UNROLL for (int i = 0; i < rows; i++)
        UNROLL for (int k = 0; k < depth; k++) a[i][k] = A.p[i * A.di + k * A.dk];
    for (long next = 0; next < N; next += V) {
        const long j = next + V <= N ? next : N - V;
        vector_real s[3];
        UNROLL for (int i = 0; i < rows; i++) s[i] = *(const vector_at_real *)(C + i * ci + j);
        UNROLL for (int k = 0; k < depth; k++) {
            vector_real t = *(const vector_at_real *)(B.p + k * B.dk + j);
            UNROLL for (int i = 0; i < rows; i++) s[i] += a[i][k] * t;
        }
        UNROLL for (int i = 0; i < rows; i++) {
            vector_at_real *c = (vector_at_real *)(C + i * ci + j);
            *c = j == next ? s[i] : first_lanes_real(*c, next - j, s[i]);
        }
    }
}

// One to three rows of C: B is read once, from its first row to its last.
static __attribute__((noinline)) void few_rows_real(long M, long N, long K, long Q, factor_real A, factor_real B,
                                                    real *C, long ci, int accumulate) {
    for (long i = 0; i < M && !accumulate; i++) memset(C + i * ci, 0, N * sizeof(real));
    for (long q = 0; q < Q; q++) {
        factor_real a = {A.p + q * A.dq, A.di, A.dk, 0}, b = {B.p + q * B.dq, 0, B.dk, 0};
        long k = 0;
        for (; M == 1 && k + 8 <= K; k += 8, a.p += 8 * a.dk, b.p += 8 * b.dk) few_real(1, 8, N, a, b, C, ci);
        for (; M == 2 && k + 4 <= K; k += 4, a.p += 4 * a.dk, b.p += 4 * b.dk) few_real(2, 4, N, a, b, C, ci);
        for (; M == 3 && k + 4 <= K; k += 4, a.p += 4 * a.dk, b.p += 4 * b.dk) few_real(3, 4, N, a, b, C, ci);
        for (; k < K; k++, a.p += a.dk, b.p += b.dk)
            for (long i = 0; i < M; i++)
                few_real(1, 1, N, (factor_real){a.p + i * a.di, 0, 0, 0}, b, C + i * ci, ci);
    }
}

// y[i] = sum of A[i][k] x[k], or y[i] plus that, for rows without gaps: four rows at a time, two sums in each.
static __attribute__((noinline)) void dots_real(long M, long K, const real *A, long ai, const real *x, real *y, long yi,
                                                int accumulate) {
    enum { V = LANES_real };
    for (; M > 0; M -= 4, A += 4 * ai, y += 4 * yi) {
        vector_real s[4] = {0}, r[4] = {0};
        long row[4], k = 0;
        UNROLL for (int i = 0; i < 4; i++) row[i] = (i < M ? i : M - 1) * ai;
        for (; k + 2 * V <= K; k += 2 * V) {
            vector_real low = *(const vector_at_real *)(x + k), high = *(const vector_at_real *)(x + k + V);
            UNROLL for (int i = 0; i < 4; i++) {
                s[i] += *(const vector_at_real *)(A + row[i] + k) * low;
                r[i] += *(const vector_at_real *)(A + row[i] + k + V) * high;
            }
        }
        for (; k < K; k += V) { // the last vector ends with the row: what it has in common with others does not count
            long back = K < V || k + V <= K ? 0 : k + V - K, n = K - k + back;
            vector_real rest = without_real(load_real(x + k - back, n), back), t[4];
            UNROLL for (int i = 0; i < 4; i++) t[i] = without_real(load_real(A + row[i] + k - back, n), back);
            UNROLL for (int i = 0; i < 4; i++) s[i] += t[i] * rest; // apart from the branches of loads, so all are FMAs
        }
        UNROLL for (int i = 0; i < 4; i++) s[i] += r[i];
        real sum[4] = {0};
        if (V >= 4) { // the sums of four rows side by side
            vector_real even = LOWER_real(s[0], s[2]) + UPPER_real(s[0], s[2]);
            vector_real odd = LOWER_real(s[1], s[3]) + UPPER_real(s[1], s[3]);
            even = LOWER_real(even, odd) + UPPER_real(even, odd);
            UNROLL for (int v = 0; v < V; v++) sum[v % 4] += even[v];
        } else UNROLL for (int v = 0; v < 4 * V; v++) sum[v / V] += s[v / V][v % V];
        for (int i = 0; i < 4 && i < M; i++) y[i * yi] = accumulate ? y[i * yi] + sum[i] : sum[i];
    }
}

// C[M][N] = A B, or C + A B, on one thread, where A(i, k, q) is A[i * ai + k * ak + q * aq], B(k, q, j) is
// B[k * bk + q * bq + j] and C(i, j) is C[i * ci + j]. A row of C has the same bits whatever rows are beside it.
static void gemm_q_real(long M, long N, long K, long Q, const real *A, long ai, long ak, long aq, const real *B,
                        long bk, long bq, real *C, long ci, int accumulate) {
    factor_real a = {A, ai, ak, aq}, b = {B, 0, bk, bq};
    if (K < 1 || Q < 1)
        for (long i = 0; i < M && !accumulate; i++) memset(C + i * ci, 0, N * sizeof(real));
    else if (N == 1 && Q == 1 && ak == 1 && bk == 1) dots_real(M, K, A, ai, B, C, ci, accumulate);
    else if (M < 4 && N > 2 * TILE_COLUMNS_real) few_rows_real(M, N, K, Q, a, b, C, ci, accumulate);
    else if (ak != 1)
        for (long q = 0; q < Q; q++, a.p += aq, b.p += bq, accumulate = 1)
            upright_real(M, N, K, a, b, 0, C, ci, accumulate);
    else if (M >= 48 && gemm_wants_pack_real(bk, K))
        for (long q = 0; q < Q; q++, a.p += aq, b.p += bq, accumulate = 1)
            copied_panels_real(M, N, K, a, b, C, ci, accumulate);
    else panels_real(M, N, K, Q, a, b, C, ci, accumulate);
}

// C[M][N] = A B, or C + A B, on one thread, where A(i, k) is A[i * ai + k * ak] and B(k, j) is B[k * bk + j].
static void gemm_real(long M, long N, long K, const real *A, long ai, long ak, const real *B, long bk, real *C, long ci,
                      int accumulate) {
    gemm_q_real(M, N, K, 1, A, ai, ak, 0, B, bk, 0, C, ci, accumulate);
}

// The same with a B[K][N] from `pack`.
static void gemm_packed_real(long M, long N, long K, const real *A, long ai, long ak, const real *packed, real *C,
                             long ci, int accumulate) {
    factor_real a = {A, ai, ak, 0}, b = {packed, 0, 0, 0};
    if (K < 1) gemm_real(M, N, K, A, ai, ak, packed, 0, C, ci, accumulate);
    else if (ak != 1) upright_real(M, N, K, a, b, K, C, ci, accumulate);
    else packed_panels_real(M, N, K, a, packed, K, 0, C, ci, accumulate);
}

// y[i] = sum of A(i, k) x[k], or y[i] plus that, where A(i, k) is A[i * ai + k * ak] and ai or ak is 1.
static void gemv_real(long M, long K, const real *A, long ai, long ak, const real *x, long xk, real *y, long yi,
                      int accumulate) {
    if (ai == 1 && ak != 1 && yi == 1) gemm_real(1, M, K, x, 0, xk, A, ak, y, 0, accumulate);
    else gemm_real(M, 1, K, A, ai, ak, x, xk, y, yi, accumulate);
}
