// Sorting of single rows, whose entries stand `step` apart. Sorts are stable, and what is not a number comes last.

// An entry and its position.
typedef struct {
    real key;
    int64_t at;
} keyed_real;

// Does a come before b, if they stand in this order?
INLINE int before_real(real a, real b) { return a < b || (b != b && a == a); }

// The memory that sorting n entries needs.
INLINE size_t ordering_bytes_real(long n) { return 2 * (size_t)n * sizeof(keyed_real); }

// The entries of a row in ascending order, or those of -x: short runs by insertion, which are merged pair by pair.
static const keyed_real *ordered_real(long n, const real *x, long step, int negated, void *scratch) {
    enum { RUN = 8 };
    keyed_real *from = scratch, *to = from + n;
    for (long i = 0; i < n; i++) {
        keyed_real entry = {negated ? -x[i * step] : x[i * step], i};
        long at = i;
        for (; at % RUN && before_real(entry.key, from[at - 1].key); at--) from[at] = from[at - 1];
        from[at] = entry;
    }
    for (long run = RUN; run < n; run *= 2) {
        for (long begin = 0; begin < n; begin += 2 * run) {
            long middle = begin + run < n ? begin + run : n, end = middle + run < n ? middle + run : n;
            long left = begin, right = middle;
            for (long i = begin; i < end; i++) {
                int later = left >= middle || (right < end && before_real(from[right].key, from[left].key));
                to[i] = later ? from[right++] : from[left++];
            }
        }
        keyed_real *swap = from;
        from = to, to = swap;
    }
    return from;
}

// A row in ascending order.
static void sort_real(long n, const real *x, long step, real *sorted, long sorted_step, void *scratch) {
    const keyed_real *order = ordered_real(n, x, step, 0, scratch);
    for (long i = 0; i < n; i++) sorted[i * sorted_step] = order[i].key;
}

// The positions of a row's entries in ascending order.
static void argsort_real(long n, const real *x, long step, int64_t *positions, long positions_step, void *scratch) {
    const keyed_real *order = ordered_real(n, x, step, 0, scratch);
    for (long i = 0; i < n; i++) positions[i * positions_step] = order[i].at;
}

// The `count` largest entries, largest first, and their positions; of equal ones the first comes first.
static void top_k_real(long n, long count, const real *x, long step, real *largest, long largest_step,
                       int64_t *positions, long positions_step, void *scratch) {
    const keyed_real *order = scratch;
    if (count <= 32) { // a list of the largest so far, which few entries of a long row enter
        keyed_real *list = scratch;
        for (long i = 0, held = 0; i < n; i++) {
            keyed_real entry = {-x[i * step], i};
            long at = held < count ? held++ : count;
            if (at == count && !before_real(entry.key, list[--at].key)) continue;
            for (; at && before_real(entry.key, list[at - 1].key); at--) list[at] = list[at - 1];
            list[at] = entry;
        }
    } else order = ordered_real(n, x, step, 1, scratch);
    for (long i = 0; i < count; i++) {
        largest[i * largest_step] = x[order[i].at * step];
        positions[i * positions_step] = order[i].at;
    }
}
