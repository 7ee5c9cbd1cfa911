// Reductions of long rows: places of a row that are SIDE apart share a number, and these are taken together in the end.

// So many numbers take in neighbours: two vectors, of which one need not wait for the other.
enum { SIDE_real = 2 * LANES_real };

// So many of them a loop with a long formula takes at a time: gcc keeps those of one vector in registers, clang all.
#ifdef __clang__
enum { STEP_real = SIDE_real };
#else
enum { STEP_real = LANES_real };
#endif

// The larger of two numbers; the second where one is NaN.
INLINE real larger_real(real a, real b) { return a > b ? a : b; }

// The smaller of two numbers; the second where one is NaN.
INLINE real smaller_real(real a, real b) { return a < b ? a : b; }

// The first number if it is NaN, or the second.
INLINE real nan_of_real(real a, real b) { return a != a ? a : b; }

// Lanes of the first vector where a test holds, of the second elsewhere.
INLINE vector_real chosen_real(vector_whole_real test, vector_real a, vector_real b) {
    return (vector_real)((test & (vector_whole_real)a) | (~test & (vector_whole_real)b));
}

// The sum of all numbers: neighbours of neighbours first, in each round half as many.
INLINE real sum_of_real(const real *s) {
    vector_real v = *(const vector_at_real *)s + *(const vector_at_real *)(s + LANES_real);
    UNROLL for (int n = LANES_real; n > 1; n /= 2) v = LOWER_real(v, v) + UPPER_real(v, v);
    return v[0];
}

// The product of all numbers.
INLINE real prod_of_real(const real *s) {
    vector_real v = *(const vector_at_real *)s * *(const vector_at_real *)(s + LANES_real);
    UNROLL for (int n = LANES_real; n > 1; n /= 2) v = LOWER_real(v, v) * UPPER_real(v, v);
    return v[0];
}

// The largest number, or NaN if one of `nans` is.
INLINE real max_of_real(const real *s, const real *nans) {
    vector_real v = *(const vector_at_real *)s, w = *(const vector_at_real *)(s + LANES_real);
    v = chosen_real(v > w, v, w);
    UNROLL for (int n = LANES_real; n > 1; n /= 2) {
        w = UPPER_real(v, v), v = LOWER_real(v, v);
        v = chosen_real(v > w, v, w);
    }
    return nan_of_real(sum_of_real(nans), v[0]);
}

// The smallest number, or NaN if one of `nans` is.
INLINE real min_of_real(const real *s, const real *nans) {
    vector_real v = *(const vector_at_real *)s, w = *(const vector_at_real *)(s + LANES_real);
    v = chosen_real(v < w, v, w);
    UNROLL for (int n = LANES_real; n > 1; n /= 2) {
        w = UPPER_real(v, v), v = LOWER_real(v, v);
        v = chosen_real(v < w, v, w);
    }
    return nan_of_real(sum_of_real(nans), v[0]);
}
