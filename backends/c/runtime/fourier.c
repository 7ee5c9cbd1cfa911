// The discrete Fourier transform of a row of any length, in double precision inside.

// A complex number.
typedef struct {
    double re, im;
} complex_f64;

// The product of two complex numbers.
INLINE complex_f64 complex_product(complex_f64 a, complex_f64 b) {
    return (complex_f64){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

// exp(-2 pi i k / n): the angle is taken from the nearest quarter of a turn, where cos and sin are exact.
static complex_f64 root_of_unity(int64_t k, int64_t n) {
    int64_t quarters = (4 * k + n / 2) / n;
    double angle = 1.5707963267948966 * ((double)(4 * k - quarters * n) / (double)n), c = cos(angle), s = -sin(angle);
    switch (quarters % 4) {
    case 0: return (complex_f64){c, s};
    case 1: return (complex_f64){s, -c};
    case 2: return (complex_f64){-c, -s};
    default: return (complex_f64){-s, c};
    }
}

// The factor to split off next: 4, or the smallest prime.
static long fourier_factor(long n) {
    if (n % 4 == 0) return 4;
    for (long p = 2; p * p <= n; p++)
        if (n % p == 0) return p;
    return n;
}

// The length at which a row of n is transformed: n, or where n has a prime factor above 13, a power of 2 that holds a
// convolution.
static long fourier_length(long n) {
    long m = 1;
    for (long rest = n; rest > 1; rest /= fourier_factor(rest))
        if (fourier_factor(rest) > 13) {
            while (m < 2 * n - 1) m *= 2;
            return m;
        }
    return n;
}

// The memory of the table for rows of n, which all rows and threads share.
INLINE size_t fourier_table_bytes(long n) { return (2 * (size_t)fourier_length(n) + n) * sizeof(complex_f64); }

// The memory for the work on one row of n.
INLINE size_t fourier_work_bytes(long n) { return 2 * (size_t)fourier_length(n) * sizeof(complex_f64); }

// Transform x[n] with the roots of unity of this n: each pass splits off a factor r and sorts on the way, so that the
// result comes out in order, in x or in `other`.
static complex_f64 *fourier_passes(long n, const complex_f64 *root, complex_f64 *x, complex_f64 *other) {
    for (long rest = n, s = 1, r; rest > 1; rest /= r, s *= r) {
        r = fourier_factor(rest);
        long m = rest / r;
        for (long p = 0; p < m; p++)
            for (long q = 0; q < s; q++) {
                const complex_f64 *a = x + q + s * p;
                complex_f64 *b = other + q + s * r * p;
                if (r == 4) {
                    complex_f64 u = a[0], v = a[s * m], w = a[2 * s * m], z = a[3 * s * m];
                    complex_f64 even = {u.re + w.re, u.im + w.im}, odd = {v.re + z.re, v.im + z.im};
                    complex_f64 off = {u.re - w.re, u.im - w.im}, turned = {v.im - z.im, z.re - v.re};
                    b[0] = (complex_f64){even.re + odd.re, even.im + odd.im};
                    b[s] = complex_product((complex_f64){off.re + turned.re, off.im + turned.im}, root[s * p]);
                    b[2 * s] = complex_product((complex_f64){even.re - odd.re, even.im - odd.im}, root[2 * s * p]);
                    b[3 * s] = complex_product((complex_f64){off.re - turned.re, off.im - turned.im}, root[3 * s * p]);
                } else for (long k = 0; k < r; k++) {
                    complex_f64 sum = a[0];
                    for (long j = 1, turn = k; j < r; j++, turn = turn + k < r ? turn + k : turn + k - r) {
                        complex_f64 term = complex_product(a[j * s * m], root[n / r * turn]);
                        sum.re += term.re, sum.im += term.im;
                    }
                    b[s * k] = complex_product(sum, root[s * p * k]);
                }
            }
        complex_f64 *swap = x;
        x = other, other = swap;
    }
    return x;
}

// Fill the table for rows of n: roots of unity, and where rows are transformed by a convolution, its chirp
// exp(-i pi j^2 / n) and the transform of the chirp's conjugate. The work memory is that for one row.
static void fourier_table(long n, void *table, void *work) {
    long m = fourier_length(n);
    complex_f64 *root = table, *other = root + m, *chirp = other + m, *x = work;
    for (long k = 0; k < m; k++) root[k] = root_of_unity(k, m);
    if (m == n) return;
    for (int64_t j = 0, square = 0; j < n; square = (square + 2 * j + 1) % (2 * n), j++)
        chirp[j] = root_of_unity(square, 2 * n);
    memset(x, 0, m * sizeof *x);
    for (long j = 0; j < n; j++) x[j] = x[(m - j) % m] = (complex_f64){chirp[j].re, -chirp[j].im};
    memcpy(other, fourier_passes(m, root, x, x + m), m * sizeof *x);
}

// The transform (re, im)[n] of the row (x, y)[n], or the inverse transform; y may be null, for zeros. Results may stand
// where the row does. The table is that for n; the work memory is one row's.
static void fourier_real(long n, int inverse, const real *x, long x_step, const real *y, long y_step, real *re,
                         long re_step, real *im, long im_step, const void *table, void *work) {
    long m = fourier_length(n);
    const complex_f64 *root = table, *kernel = root + m, *chirp = kernel + m;
    complex_f64 *row = work;
    for (long j = 0; j < n; j++) { // an inverse transform is one with re and im exchanged before and after
        double a = x[j * x_step], b = y ? y[j * y_step] : 0;
        row[j] = inverse ? (complex_f64){b, a} : (complex_f64){a, b};
    }
    if (m == n) row = fourier_passes(n, root, row, row + n);
    else {
        for (long j = 0; j < n; j++) row[j] = complex_product(row[j], chirp[j]);
        memset(row + n, 0, (m - n) * sizeof *row);
        complex_f64 *f = fourier_passes(m, root, row, row + m), *free = f == row ? row + m : row;
        for (long k = 0; k < m; k++) {
            complex_f64 z = complex_product(f[k], kernel[k]);
            f[k] = (complex_f64){z.im, z.re};
        }
        row = fourier_passes(m, root, f, free);
        const double size = (double)m;
        for (long j = 0; j < n; j++)
            row[j] = complex_product((complex_f64){row[j].im / size, row[j].re / size}, chirp[j]);
    }
    for (long j = 0; j < n; j++) {
        re[j * re_step] = (real)(inverse ? row[j].im / (double)n : row[j].re);
        im[j * im_step] = (real)(inverse ? row[j].re / (double)n : row[j].im);
    }
}
