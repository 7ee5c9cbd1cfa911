// What a caller hands over, looked at before it is used.

// Is one of these pointers null?
static int one_missing(const void *pointers, long count) {
    for (long i = 0; i < count; i++) {
        void *p;
        memcpy(&p, (const char *)pointers + i * (long)sizeof p, sizeof p);
        if (!p) return 1;
    }
    return 0;
}

// The number of the first pointer of a struct that is null, or leads to one that is: -1 if there is none. `arrays` tells
// how many arrays each leads to (below 0: by way of pointers; 0: it is not looked at). Where `beside` has none, none is needed.
static int first_missing(const void *pointers, const int *arrays, int count, const void *beside) {
    for (int k = 0; k < count; k++) {
        void *p, *other = (void *)pointers;
        memcpy(&p, (const char *)pointers + k * (long)sizeof p, sizeof p);
        if (beside) memcpy(&other, (const char *)beside + k * (long)sizeof p, sizeof p);
        if (arrays[k] && other && (!p || (arrays[k] < 0 && one_missing(p, -arrays[k])))) return k;
    }
    return -1;
}

// Are all numbers positions below a limit? Those below 0 are large ones without a sign.
static int below_i32(const int32_t *x, long n, int64_t limit) {
    const uint32_t most = limit > INT32_MAX ? (uint32_t)INT32_MAX + 1 : limit < 0 ? 0 : (uint32_t)limit;
    int outside = 0;
#pragma omp simd reduction(| : outside)
    for (long i = 0; i < n; i++) outside |= (uint32_t)x[i] >= most;
    return !outside;
}

// Are all numbers positions below a limit?
static int below_i64(const int64_t *x, long n, int64_t limit) {
    const uint64_t most = limit < 0 ? 0 : (uint64_t)limit;
    int outside = 0;
#pragma omp simd reduction(| : outside)
    for (long i = 0; i < n; i++) outside |= (uint64_t)x[i] >= most;
    return !outside;
}

// Is each number 0 or 1?
static int binary_real(const real *x, long n) {
    int others = 0;
#pragma omp simd reduction(| : others)
    for (long i = 0; i < n; i++) others |= !(x[i] == 0 || x[i] == 1);
    return !others;
}

// Is each number 0 or 1?
static int binary_i32(const int32_t *x, long n) { return below_i32(x, n, 2); }

// Is each number 0 or 1?
static int binary_i64(const int64_t *x, long n) { return below_i64(x, n, 2); }

// Is no number below 0, and none NaN?
static int none_below_0_real(const real *x, long n) {
    int others = 0;
#pragma omp simd reduction(| : others)
    for (long i = 0; i < n; i++) others |= !(x[i] >= 0);
    return !others;
}

// Do the numbers of each row add up to 1?
static int add_up_to_1_real(const real *x, long rows, long n) {
    for (long i = 0; i < rows; i++) {
        double total = 0;
        for (long k = 0; k < n; k++) total += (double)x[i * n + k];
        if (!(fabs(total - 1) <= 1e-3)) return 0;
    }
    return 1;
}

// Has a workspace of so many bytes as many as are needed, at a multiple of 64?
static int has_room(const void *workspace, size_t bytes, size_t needed) {
    return !needed || (workspace && bytes >= needed && (uintptr_t)workspace % 64 == 0);
}
