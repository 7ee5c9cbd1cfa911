// Linear algebra on single square matrices, contiguous row by row. What fails returns a number other than 0.

// y += factor * x, n numbers.
INLINE void add_multiple_real(long n, real factor, const real *x, real *y) {
#pragma omp simd
    for (long i = 0; i < n; i++) y[i] += factor * x[i];
}

// The sum of x[i] y[i].
INLINE real dot_real(long n, const real *x, const real *y) {
    real sum = 0;
#pragma omp simd reduction(+ : sum)
    for (long i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}

// How many columns a factorisation treats before it updates the rest of the matrix by one product.
enum { BLOCK_COLUMNS = 32 };

// How many numbers of scratch memory the functions below need for n x n matrices (`eigh`, `matexp`: 3 n^2 + 3 n).
INLINE long matrix_scratch_real(long n) { return 3 * n * n + (BLOCK_COLUMNS + 3) * n; }

// P a = L U in place, where `row` becomes the order of the rows; the sign of P, or 0 if a pivot is 0. Scratch: 32 n.
static int lu_real(long n, real *a, real *row, real *scratch) {
    int sign = 1, singular = 0;
    for (long i = 0; i < n; i++) row[i] = (real)i;
    for (long first = 0; first < n; first += BLOCK_COLUMNS) {
        long last = first + BLOCK_COLUMNS < n ? first + BLOCK_COLUMNS : n, width = last - first;
        for (long k = first; k < last; k++) {
            long pivot = k;
            for (long i = k + 1; i < n; i++)
                if (fabs(a[i * n + k]) > fabs(a[pivot * n + k])) pivot = i;
            if (a[pivot * n + k] == 0) {
                singular = 1;
                continue;
            }
            if (pivot != k) {
                sign = -sign;
                real swap = row[k];
                row[k] = row[pivot], row[pivot] = swap;
                for (long j = 0; j < n; j++) {
                    swap = a[k * n + j];
                    a[k * n + j] = a[pivot * n + j], a[pivot * n + j] = swap;
                }
            }
            for (long i = k + 1; i < n; i++) {
                real factor = a[i * n + k] /= a[k * n + k];
                add_multiple_real(last - k - 1, -factor, a + k * n + k + 1, a + i * n + k + 1);
            }
        }
        if (last == n) break;
        for (long k = first; k < last; k++)
            for (long i = k + 1; i < last; i++)
                add_multiple_real(n - last, -a[i * n + k], a + k * n + last, a + i * n + last);
        for (long i = last; i < n; i++)
            for (long k = 0; k < width; k++) scratch[(i - last) * width + k] = -a[i * n + first + k];
        gemm_real(n - last, n - last, width, scratch, width, 1, a + first * n + last, n, a + last * n + last, n, 1);
    }
    return singular ? 0 : sign;
}

// x[n][m] with a x = b: nonzero if a is singular. b is null for the identity matrix.
static int solve_real(long n, long m, const real *a, const real *b, real *x, real *scratch) {
    real *lu = scratch, *row = lu + n * n;
    memcpy(lu, a, n * n * sizeof *a);
    if (!lu_real(n, lu, row, row + n)) return 1;
    for (long i = 0; i < n; i++)
        for (long j = 0; j < m; j++) x[i * m + j] = b ? b[(long)row[i] * m + j] : (real)((long)row[i] == j);
    for (long i = 0; i < n; i++)
        for (long k = 0; k < i; k++) add_multiple_real(m, -lu[i * n + k], x + k * m, x + i * m);
    for (long i = n - 1; i >= 0; i--) {
        for (long k = i + 1; k < n; k++) add_multiple_real(m, -lu[i * n + k], x + k * m, x + i * m);
        for (long j = 0; j < m; j++) x[i * m + j] /= lu[i * n + i];
    }
    return 0;
}

// The inverse of a: nonzero if a is singular.
static int inv_real(long n, const real *a, real *inverse, real *scratch) {
    return solve_real(n, n, a, 0, inverse, scratch);
}

// The determinant of a.
static real det_real(long n, const real *a, real *scratch) {
    real *lu = scratch, *row = lu + n * n;
    memcpy(lu, a, n * n * sizeof *a);
    real product = (real)lu_real(n, lu, row, row + n);
    for (long i = 0; i < n; i++) product *= lu[i * n + i];
    return product;
}

// log |det a|: -inf for a singular matrix.
static real logdet_real(long n, const real *a, real *scratch) {
    real *lu = scratch, *row = lu + n * n;
    memcpy(lu, a, n * n * sizeof *a);
    if (!lu_real(n, lu, row, row + n)) return -(real)INFINITY;
    double sum = 0;
    for (long i = 0; i < n; i++) sum += log(fabs((double)lu[i * n + i]));
    return (real)sum;
}

// The lower triangular l with l l^T = a, of which only the lower half is read: nonzero if a is not positive definite.
static int cholesky_real(long n, const real *a, real *l) {
    for (long i = 0; i < n; i++) {
        for (long j = 0; j < i; j++) l[i * n + j] = (a[i * n + j] - dot_real(j, l + i * n, l + j * n)) / l[j * n + j];
        real square = a[i * n + i] - dot_real(i, l + i * n, l + i * n);
        if (square <= 0) return 1;
        l[i * n + i] = (real)sqrt(square);
        for (long j = i + 1; j < n; j++) l[i * n + j] = 0;
    }
    return 0;
}

// A symmetric a becomes tridiagonal by reflections: its diagonal d, its other diagonal e, and in z the transposed
// product of the reflections, z a z^T. Scratch: n.
static void tridiagonal_real(long n, real *a, real *d, real *e, real *z, real *scratch) {
    for (long k = 0; k + 1 < n; k++) { // the vector v of the reflection 1 - 2 v v^T takes the place of row k
        real *v = a + k * n + k + 1, *w = scratch;
        long m = n - k - 1;
        d[k] = a[k * n + k];
        real rest = m > 1 ? dot_real(m - 1, v + 1, v + 1) : 0, norm = (real)sqrt(v[0] * v[0] + rest);
        if (rest == 0) { // nothing to reflect
            e[k] = v[0];
            memset(v, 0, m * sizeof *v);
            continue;
        }
        e[k] = v[0] > 0 ? -norm : norm;
        v[0] -= e[k];
        norm = (real)sqrt(v[0] * v[0] + rest);
        for (long i = 0; i < m; i++) v[i] /= norm;
        for (long i = 0; i < m; i++) w[i] = 2 * dot_real(m, a + (k + 1 + i) * n + k + 1, v);
        add_multiple_real(m, -dot_real(m, v, w), v, w);
        for (long i = 0; i < m; i++) {
            add_multiple_real(m, -v[i], w, a + (k + 1 + i) * n + k + 1);
            add_multiple_real(m, -w[i], v, a + (k + 1 + i) * n + k + 1);
        }
    }
    d[n - 1] = a[n * n - 1], e[n - 1] = 0;
    for (long i = 0; i < n; i++)
        for (long j = 0; j < n; j++) z[i * n + j] = i == j;
    for (long k = n - 2; k >= 0; k--) // z becomes z (1 - 2 v v^T) where it differs from the identity matrix
        for (long i = k + 1; i < n; i++) {
            real *v = a + k * n + k + 1;
            add_multiple_real(n - k - 1, -2 * dot_real(n - k - 1, z + i * n + k + 1, v), v, z + i * n + k + 1);
        }
}

// The eigenvalues d of a tridiagonal matrix, by QL steps with implicit shifts, each rotation also applied to two rows
// of z: nonzero if they do not converge.
static int tridiagonal_eigenvalues_real(long n, real *d, real *e, real *z) {
    const real unit = sizeof(real) == 4 ? (real)1.1920929e-7 : (real)2.220446049250313e-16;
    for (long l = 0; l < n; l++)
        for (int step = 0;; step++) {
            long m = l;
            while (m + 1 < n && !(fabs(e[m]) <= unit * (fabs(d[m]) + fabs(d[m + 1])))) m++;
            if (m == l) break;
            if (step == 60) return 1;
            double half = ((double)d[l + 1] - d[l]) / (2 * (double)e[l]);
            real g = (real)(d[m] - d[l] + e[l] / (half + copysign(hypot(half, 1), half))), s = 1, c = 1, p = 0;
            long i = m - 1;
            for (; i >= l; i--) {
                real f = s * e[i], b = c * e[i], r = (real)hypot(f, g);
                e[i + 1] = r;
                if (r == 0) { // the matrix falls into two
                    d[i + 1] -= p, e[m] = 0;
                    break;
                }
                s = f / r, c = g / r, g = d[i + 1] - p;
                r = (d[i] - g) * s + 2 * c * b;
                p = s * r, d[i + 1] = g + p, g = c * r - b;
                real *low = z + i * n, *high = low + n;
#pragma omp simd
                for (long k = 0; k < n; k++) {
                    real old = high[k];
                    high[k] = s * low[k] + c * old;
                    low[k] = c * low[k] - s * old;
                }
            }
            if (i < l) d[l] -= p, e[l] = g, e[m] = 0;
        }
    return 0;
}

// Eigenvalues in ascending order and eigenvectors (columns) of a symmetric a, of which only the lower half is read. In
// each vector the entry of largest size is positive, the first such. Nonzero if there is no convergence.
static int eigh_real(long n, const real *a, real *values, real *vectors, real *scratch) {
    real *s = scratch, *z = s + n * n, *d = z + n * n, *e = d + n, largest = 0;
    for (long i = 0; i < n; i++)
        for (long j = 0; j <= i; j++) {
            s[i * n + j] = s[j * n + i] = a[i * n + j];
            largest = fabs(a[i * n + j]) > largest ? (real)fabs(a[i * n + j]) : largest;
        }
    int scale = largest > 0 && isfinite(largest) ? ilogb(largest) : 0; // squares neither overflow nor vanish
    for (long i = 0; i < n * n; i++) s[i] = (real)ldexp(s[i], -scale);
    tridiagonal_real(n, s, d, e, z, e + n);
    if (tridiagonal_eigenvalues_real(n, d, e, z)) return 1;
    for (long i = 0; i < n; i++) {
        long at = 0, peak = 0; // how many eigenvalues come before this one
        for (long j = 0; j < n; j++) at += d[j] < d[i] || (d[j] == d[i] && j < i);
        values[at] = (real)ldexp(d[i], scale);
        for (long j = 1; j < n; j++)
            if (fabs(z[i * n + j]) > fabs(z[i * n + peak])) peak = j;
        for (long j = 0; j < n; j++) vectors[j * n + at] = z[i * n + peak] < 0 ? -z[i * n + j] : z[i * n + j];
    }
    return 0;
}

// The exponential of a matrix, by scaling and squaring of its series; each squaring doubles the error.
static void matexp_real(long n, const real *a, real *result, real *scratch) {
    real *x = scratch, *term = x + n * n, *next = term + n * n;
    double most = 1e-30;
    for (long i = 0; i < n; i++) {
        double sum = 0;
        for (long j = 0; j < n; j++) sum += fabs(a[i * n + j]);
        most = sum <= most ? most : sum; // also if it is no number
    }
    int halvings = isfinite(most) && most > 1 ? (int)ceil(log2(most)) : 0;
    for (long i = 0; i < n * n; i++) {
        x[i] = (real)ldexp(a[i], -halvings);
        result[i] = term[i] = i % (n + 1) == 0;
    }
    for (int k = 1; k < 20; k++) {
        gemm_real(n, n, n, term, n, 1, x, n, next, n, 0);
        for (long i = 0; i < n * n; i++) term[i] = next[i] / (real)k, result[i] += term[i];
    }
    for (; halvings; halvings--) {
        gemm_real(n, n, n, result, n, 1, result, n, next, n, 0);
        memcpy(result, next, n * n * sizeof *result);
    }
}
