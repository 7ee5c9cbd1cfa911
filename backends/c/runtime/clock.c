// How long the steps of a function take, and what the processor can do: for `dslc cost -b c --measure`.

// Seconds since a time that does not change.
#include <time.h>
static double clock_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// Seconds of each step so far, and when the last one ended.
enum { MOST_STEPS = 8192 };
static struct { double end, seconds[MOST_STEPS]; } steps_measured;

// A step of this number has ended; before the first one, a number below 0.
static void step_ended(int step) {
    double now = clock_seconds();
    if (step >= 0 && step < MOST_STEPS) steps_measured.seconds[step] += now - steps_measured.end;
    steps_measured.end = clock_seconds();
}

// Hand over the seconds of the first steps, which begin anew at 0.
static void take_seconds(double *to, int count) {
    for (int i = 0; i < count && i < MOST_STEPS; i++) to[i] = steps_measured.seconds[i], steps_measured.seconds[i] = 0;
}

// Products that are added up in registers, as many side by side as a tile of a matrix product has; x has a number to
// multiply by, and a place for a result of each piece.
static void multiply_real(void *context, long begin, long end) {
    real *x = context;
    vector_real s[TILE_ROWS][TILE_VECTORS], sum = {0};
    UNROLL for (int i = 0; i < TILE_ROWS; i++)
        UNROLL for (int j = 0; j < TILE_VECTORS; j++) s[i][j] = sum + (real)(i + j);
    for (long k = begin * 4096; k < end * 4096; k++)
        UNROLL for (int i = 0; i < TILE_ROWS; i++)
            UNROLL for (int j = 0; j < TILE_VECTORS; j++) s[i][j] = s[i][j] * x[0] + x[1];
    UNROLL for (int i = 0; i < TILE_ROWS; i++)
        UNROLL for (int j = 0; j < TILE_VECTORS; j++) sum += s[i][j];
    x[2 + begin] = sum[0];
}

// Operations in a second of products and sums on all threads.
static double arithmetic_real(void) {
    enum { PIECES = 512 };
    static real x[2 + PIECES] = {(real)0.999, (real)0.001};
    double best = 0;
    for (int i = 0; i < 5; i++) {
        double start = clock_seconds();
        parallel(multiply_real, x, PIECES, 1);
        double rate = 2.0 * PIECES * 4096 * TILE_ROWS * TILE_VECTORS * LANES_real / (clock_seconds() - start);
        best = rate > best ? rate : best;
    }
    return best;
}

// Copy pieces of 64 KB of one array to the other.
static void copy_pieces(void *context, long begin, long end) {
    char *const *both = context;
    memcpy(both[1] + begin * 65536, both[0] + begin * 65536, (size_t)(end - begin) * 65536);
}

// Bytes in a second that are read and written where an array of so many times 64 KB is copied on all threads.
static double copied_bytes(char *from, char *to, long pieces) {
    char *both[] = {from, to};
    double best = 0;
    for (int i = 0; i < 5; i++) {
        double start = clock_seconds();
        parallel(copy_pieces, both, pieces, 1);
        double rate = 2.0 * 65536 * (double)pieces / (clock_seconds() - start);
        best = rate > best ? rate : best;
    }
    return best;
}
