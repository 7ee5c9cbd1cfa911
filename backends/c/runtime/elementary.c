// Elementary functions for loops that a compiler turns into vector code: without branches, tables and calls.

// A function whose body must stand in the loop that calls it: a call would keep the loop from becoming vector code.
#define INLINE static inline __attribute__((always_inline))

// The bits of a number.
INLINE int32_t bits_f32(float x) { int32_t k; __builtin_memcpy(&k, &x, 4); return k; }

// The number that has these bits.
INLINE float from_bits_f32(int32_t k) { float x; __builtin_memcpy(&x, &k, 4); return x; }

// e^x: 2^n (1 + r + ...) with x = n log(2) + r; 2^n in two factors, so that overflow and subnormals come out right.
INLINE float exp_f32(float x) {
    x = x < -104.f ? -104.f : x;
    x = x > 89.f ? 89.f : x;
    float n = x * 1.44269504f + 12582912.f;  // 1.5 * 2^23: the whole number sits in the low bits
    int32_t k = bits_f32(n) - 0x4b400000, half = k >> 1;
    n -= 12582912.f;
    float r = x - n * 0.693359375f + n * 2.12194440e-4f;
    float p = 1.395060210e-03f;
    p = p * r + 8.368953506e-03f;
    p = p * r + 4.166620414e-02f;
    p = p * r + 1.666651831e-01f;
    p = p * r + 5.000000096e-01f;
    p = p * (r * r) + r + 1.f;
    return p * from_bits_f32((half + 127) << 23) * from_bits_f32((k - half + 127) << 23);
}
