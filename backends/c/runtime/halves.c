// Numbers of 16 bits, which memory holds and formulas compute with as wider ones.

// A number as _Float16 has it, ties to even.
static inline float rounded_f16_f32(float x) { return (float)(_Float16)x; }

// A number as _Float16 has it, ties to even: rounded once.
static inline double rounded_f16_f64(double x) { return (double)(_Float16)x; }

// The upper half of the bits of a float, rounded to that, ties to even; NaN stays NaN.
static inline uint16_t bits_of_bf16(float x) {
    const uint32_t bits = bits_f32(x);
    return x == x ? (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16) : (uint16_t)(bits >> 16 | 0x40);
}

// The number whose bits these are the upper half of.
static inline float widened_bf16(uint16_t upper) { return from_bits_f32((uint32_t)upper << 16); }

// A number as bfloat16 has it.
static inline real rounded_bf16_real(real x) { return (real)widened_bf16(bits_of_bf16((float)x)); }

// Is each number 0 or 1?
static int binary_f16(const _Float16 *x, long n) {
    int others = 0;
    for (long i = 0; i < n; i++) others |= !((float)x[i] == 0 || (float)x[i] == 1);
    return !others;
}

// Is each number 0 or 1?
static int binary_bf16(const uint16_t *x, long n) {
    int others = 0;
    for (long i = 0; i < n; i++) others |= !((x[i] & 0x7FFF) == 0 || widened_bf16(x[i]) == 1);
    return !others;
}

// Is no number below 0, and none NaN?
static int none_below_0_f16(const _Float16 *x, long n) {
    int others = 0;
    for (long i = 0; i < n; i++) others |= !((float)x[i] >= 0);
    return !others;
}

// Is no number below 0, and none NaN?
static int none_below_0_bf16(const uint16_t *x, long n) {
    int others = 0;
    for (long i = 0; i < n; i++) others |= !(widened_bf16(x[i]) >= 0);
    return !others;
}

// Do the numbers of each row add up to 1?
static int add_up_to_1_f16(const _Float16 *x, long rows, long n) {
    for (long i = 0; i < rows; i++) {
        double total = 0;
        for (long k = 0; k < n; k++) total += (double)x[i * n + k];
        if (!(fabs(total - 1) <= 1e-3)) return 0;
    }
    return 1;
}

// Do the numbers of each row add up to 1?
static int add_up_to_1_bf16(const uint16_t *x, long rows, long n) {
    for (long i = 0; i < rows; i++) {
        double total = 0;
        for (long k = 0; k < n; k++) total += (double)widened_bf16(x[i * n + k]);
        if (!(fabs(total - 1) <= 1e-3)) return 0;
    }
    return 1;
}
