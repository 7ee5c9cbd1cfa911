// Numbers of 16 bits, which memory holds and formulas compute with as wider ones.

// The bits of a number that has 16 of them, 5 for its exponent. Conversions are whole-number arithmetic, which becomes
// vector code with every compiler, also for processors and compilers without _Float16.
typedef uint16_t f16_bits;

// The number with these bits; those below 2^-14 get their exponent by the multiplication.
INLINE float widened_f16(f16_bits bits) {
    const uint32_t low = (uint32_t)(bits & 0x7FFF) << 13, far = low >= 0x0F800000 ? 0x7F800000 : 0;
    return from_bits_f32(bits_f32(from_bits_f32(low) * 0x1p112f) | far | (uint32_t)(bits & 0x8000) << 16);
}

// The bits of the nearest number with 16 bits, ties to even. Adding 1.5 * 2^23 rounds those below 2^-14.
INLINE f16_bits bits_of_f16_f32(float x) {
    const uint32_t u = bits_f32(x) & 0x7FFFFFFF, sign = bits_f32(x) >> 16 & 0x8000;
    const float a = from_bits_f32(u);
    const uint32_t small = bits_f32(a * 0x1p24f + 12582912.f) & 0x7FF;
    uint32_t found = (u + 0xFFF + (u >> 13 & 1) - 0x38000000) >> 13;
    found = a < 0x1p-14f ? small : found;
    found = a >= 65520.f ? 0x7C00 : found;
    found = x != x ? 0x7E00 : found;
    return (f16_bits)(found | sign);
}

// The same of a double, rounded once.
INLINE f16_bits bits_of_f16_f64(double x) {
    const uint64_t u = bits_f64(x) & 0x7FFFFFFFFFFFFFFF, sign = bits_f64(x) >> 48 & 0x8000;
    const double a = from_bits_f64(u);
    const uint64_t small = bits_f64(a * 0x1p24 + 6755399441055744.0) & 0x7FF;
    uint64_t found = (u + 0x1FFFFFFFFFF + (u >> 42 & 1) - 0x3F00000000000000) >> 42;
    found = a < 0x1p-14 ? small : found;
    found = a >= 65520.0 ? 0x7C00 : found;
    found = x != x ? 0x7E00 : found;
    return (f16_bits)(found | sign);
}

// The nearest number with 16 bits.
INLINE real rounded_f16_real(real x) { return (real)widened_f16(bits_of_f16_real(x)); }

// The upper half of the bits of a float, rounded to that, ties to even; NaN stays NaN.
INLINE uint16_t bits_of_bf16(float x) {
    const uint32_t bits = bits_f32(x);
    return x == x ? (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16) : (uint16_t)(bits >> 16 | 0x40);
}

// The number whose bits these are the upper half of.
INLINE float widened_bf16(uint16_t upper) { return from_bits_f32((uint32_t)upper << 16); }

// A number as bfloat16 has it.
INLINE real rounded_bf16_real(real x) { return (real)widened_bf16(bits_of_bf16((float)x)); }

// Is each number 0 or 1?
static int binary_f16(const f16_bits *x, long n) {
    int others = 0;
    for (long i = 0; i < n; i++) others |= !((x[i] & 0x7FFF) == 0 || widened_f16(x[i]) == 1);
    return !others;
}

// Is each number 0 or 1?
static int binary_bf16(const uint16_t *x, long n) {
    int others = 0;
    for (long i = 0; i < n; i++) others |= !((x[i] & 0x7FFF) == 0 || widened_bf16(x[i]) == 1);
    return !others;
}

// Is no number below 0, and none NaN?
static int none_below_0_f16(const f16_bits *x, long n) {
    int others = 0;
    for (long i = 0; i < n; i++) others |= !(widened_f16(x[i]) >= 0);
    return !others;
}

// Is no number below 0, and none NaN?
static int none_below_0_bf16(const uint16_t *x, long n) {
    int others = 0;
    for (long i = 0; i < n; i++) others |= !(widened_bf16(x[i]) >= 0);
    return !others;
}

// Do the numbers of each row add up to 1?
static int add_up_to_1_f16(const f16_bits *x, long rows, long n) {
    for (long i = 0; i < rows; i++) {
        double total = 0;
        for (long k = 0; k < n; k++) total += (double)widened_f16(x[i * n + k]);
        if (!(fabs(total - 1) <= 1e-3)) return 0;
    }
    return 1;
}

// Do the numbers of each row add up to 1, as far as 8 bits go?
static int add_up_to_1_bf16(const uint16_t *x, long rows, long n) {
    for (long i = 0; i < rows; i++) {
        double total = 0;
        for (long k = 0; k < n; k++) total += (double)widened_bf16(x[i * n + k]);
        if (!(fabs(total - 1) <= 0x1p-7)) return 0;
    }
    return 1;
}
