// Scalar functions for loops that a compiler turns into vector code: without branches, and for float without calls.
// Polynomials are fitted to least error; rounding to a whole number is adding and taking away 1.5 * 2^23 (float) or
// 1.5 * 2^52 (double), which leaves that number in the low bits of the sum. None of it stands -ffast-math.

// A function whose body must stand in the loop that calls it: a call would keep the loop from becoming vector code.
#define INLINE static inline __attribute__((always_inline))

// A function that calls libm, kept apart from loops: the same bits whether or not a compiler has vector versions.
#define CALL static __attribute__((noinline))

// The bits of a float.
INLINE uint32_t bits_f32(float x) { uint32_t k; __builtin_memcpy(&k, &x, 4); return k; }

// The float that has these bits.
INLINE float from_bits_f32(uint32_t k) { float x; __builtin_memcpy(&x, &k, 4); return x; }

// The bits of a double.
INLINE uint64_t bits_f64(double x) { uint64_t k; __builtin_memcpy(&k, &x, 8); return k; }

// The double that has these bits.
INLINE double from_bits_f64(uint64_t k) { double x; __builtin_memcpy(&x, &k, 8); return x; }

// 2^n for a whole number n from -126 to 127.
INLINE float power_of_2_f32(float n) { return from_bits_f32((bits_f32(n + 12582912.f) + 127) << 23); }

// 2^n for a whole number n from -1022 to 1023.
INLINE double power_of_2_f64(double n) { return from_bits_f64((bits_f64(n + 6755399441055744.0) + 1023) << 52); }

// |x|
INLINE float abs_f32(float x) { return __builtin_fabsf(x); }

// |x|
INLINE double abs_f64(double x) { return __builtin_fabs(x); }

// |x|, of the least number itself
INLINE int64_t abs_i64(int64_t x) { return x < 0 ? (int64_t)(0 - (uint64_t)x) : x; }

// x * x
INLINE float square_f32(float x) { return x * x; }

// x * x
INLINE double square_f64(double x) { return x * x; }

// x * x
INLINE int64_t square_i64(int64_t x) { return (int64_t)((uint64_t)x * (uint64_t)x); }

// -1, 0 or 1; NaN of NaN
INLINE float sign_f32(float x) { return x > 0.f ? 1.f : x < 0.f ? -1.f : x; }

// -1, 0 or 1; NaN of NaN
INLINE double sign_f64(double x) { return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : x; }

// -1, 0 or 1
INLINE int64_t sign_i64(int64_t x) { return (x > 0) - (x < 0); }

// max(0, x), NaN of NaN
INLINE float relu_f32(float x) { return x <= 0.f ? 0.f : x; }

// max(0, x), NaN of NaN
INLINE double relu_f64(double x) { return x <= 0.0 ? 0.0 : x; }

// max(0, x)
INLINE int64_t relu_i64(int64_t x) { return x <= 0 ? 0 : x; }

// The smaller one, NaN if one is.
INLINE float min_f32(float x, float y) { return x != x ? x : x < y ? x : y; }

// The smaller one, NaN if one is.
INLINE double min_f64(double x, double y) { return x != x ? x : x < y ? x : y; }

// The smaller one.
INLINE int64_t min_i64(int64_t x, int64_t y) { return x < y ? x : y; }

// The larger one, NaN if one is.
INLINE float max_f32(float x, float y) { return x != x ? x : x > y ? x : y; }

// The larger one, NaN if one is.
INLINE double max_f64(double x, double y) { return x != x ? x : x > y ? x : y; }

// The larger one.
INLINE int64_t max_i64(int64_t x, int64_t y) { return x > y ? x : y; }

// min(max(x, low), high)
INLINE float clip_f32(float x, float low, float high) { return min_f32(max_f32(x, low), high); }

// min(max(x, low), high)
INLINE double clip_f64(double x, double low, double high) { return min_f64(max_f64(x, low), high); }

// min(max(x, low), high)
INLINE int64_t clip_i64(int64_t x, int64_t low, int64_t high) { return min_i64(max_i64(x, low), high); }

// The largest whole number that is not above x.
INLINE float floor_f32(float x) { return __builtin_floorf(x); }

// The largest whole number that is not above x.
INLINE double floor_f64(double x) { return __builtin_floor(x); }

// The smallest whole number that is not below x.
INLINE float ceil_f32(float x) { return __builtin_ceilf(x); }

// The smallest whole number that is not below x.
INLINE double ceil_f64(double x) { return __builtin_ceil(x); }

// The nearest whole number, ties to even.
INLINE float rint_f32(float x) { return __builtin_rintf(x); }

// The nearest whole number, ties to even.
INLINE double rint_f64(double x) { return __builtin_rint(x); }

// The whole part.
INLINE float trunc_f32(float x) { return __builtin_truncf(x); }

// The whole part.
INLINE double trunc_f64(double x) { return __builtin_trunc(x); }

// Is it not a number?
INLINE int isnan_f32(float x) { return x != x; }

// Is it not a number?
INLINE int isnan_f64(double x) { return x != x; }

// Is it infinite?
INLINE int isinf_f32(float x) { return __builtin_fabsf(x) == __builtin_inff(); }

// Is it infinite?
INLINE int isinf_f64(double x) { return __builtin_fabs(x) == __builtin_inf(); }

// Is it finite?
INLINE int isfinite_f32(float x) { return __builtin_fabsf(x) < __builtin_inff(); }

// Is it finite?
INLINE int isfinite_f64(double x) { return __builtin_fabs(x) < __builtin_inf(); }

// The square root.
INLINE float sqrt_f32(float x) { return __builtin_sqrtf(x); }

// The square root.
INLINE double sqrt_f64(double x) { return __builtin_sqrt(x); }

// 1 / sqrt(x)
INLINE float rsqrt_f32(float x) { return 1.f / __builtin_sqrtf(x); }

// 1 / sqrt(x)
INLINE double rsqrt_f64(double x) { return 1.0 / __builtin_sqrt(x); }

// x / y rounded down; 0 where y is 0.
INLINE int64_t floor_divide_i64(int64_t x, int64_t y) {
    if (y == 0 || y == -1) return y ? (int64_t)(0 - (uint64_t)x) : 0;
    int64_t q = x / y;
    return q - ((x % y != 0) & ((x ^ y) < 0));
}

// The remainder of x / y, of the sign of y; 0 where y is 0.
INLINE int64_t remainder_i64(int64_t x, int64_t y) {
    if (y == 0 || y == -1) return 0;
    int64_t r = x % y;
    return r + ((r != 0) & ((r ^ y) < 0) ? y : 0);
}

// x^n, modulo 2^64; for n < 0 the whole part.
INLINE int64_t power_i64(int64_t x, int64_t n) {
    if (n < 0) return x == 1 ? 1 : x == -1 ? (n & 1 ? -1 : 1) : 0;
    uint64_t p = 1;
    for (uint64_t b = (uint64_t)x; n; n >>= 1, b *= b) p = n & 1 ? p * b : p;
    return (int64_t)p;
}

// The w of e^(x + low) = 2^n (1 + w) for n, the whole number nearest to x / log 2, and low small: by a polynomial.
INLINE float exp_rest_f32(float x, float low, float n) {
    float r = (x - n * 0.693359375f) + (n * 2.12194440e-4f + low);
    float p = 0.00139357755f;
    p = p * r + 0.00836924277f;
    p = p * r + 0.0416664556f;
    p = p * r + 0.166665152f;
    p = p * r + 0.5f;
    return p * (r * r) + r;
}

// 2^k e^x, k whole: 2^(n + k) comes in two factors, for the sake of subnormals. Only one bound is one of floats: with
// two, gcc makes a path of each.
INLINE float exp_scaled_f32(float x, float k) {
    x = x < -105.f ? -105.f : x;
    int32_t b = bits_f32(x * 1.44269504f + 12583166.f), most = 0x4b400000 + 254 + 130;
    b = b < most ? b : most;
    float w = exp_rest_f32(x, -0.f, from_bits_f32(b) - 12583166.f);
    uint32_t both = b + (int32_t)k, half = both >> 1;
    return (w + 1.f) * from_bits_f32(half << 23) * from_bits_f32((both - half) << 23);
}

// e^x
INLINE float exp_f32(float x) { return exp_scaled_f32(x, -0.f); }

// 2^x
INLINE float exp2_f32(float x) {
    x = x < -151.f ? -151.f : x;
    x = x > 129.f ? 129.f : x;
    float n = (x + 12582912.f) - 12582912.f, r = x - n;
    float p = 0.000154563575f;
    p = p * r + 0.00133916433f;
    p = p * r + 0.00961807743f;
    p = p * r + 0.0555035807f;
    p = p * r + 0.240226507f;
    p = p * r + 0.693147182f;
    p = p * r + 1.f;
    float half = (n * 0.5f + 12582912.f) - 12582912.f;
    return p * power_of_2_f32(half) * power_of_2_f32(n - half);
}

// e^x - 1 = 2^n (e^r - 1) + (2^n - 1), with a factor 2 put off so that 2^n exists.
INLINE float expm1_f32(float x) {
    float y = x < -20.f ? -20.f : x;
    y = y > 89.f ? 89.f : y;
    float n = (y * 1.44269504f + 12582912.f) - 12582912.f;
    float r = (y - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 0.000199584538f;
    p = p * r + 0.00139337103f;
    p = p * r + 0.00833319221f;
    p = p * r + 0.0416664779f;
    p = p * r + 0.166666672f;
    p = p * r + 0.5f;
    p = p * (r * r) + r;
    float s = power_of_2_f32(n - 1.f);
    return __builtin_fabsf(x) < 1e-8f ? x : (s * p + (s - 0.5f)) * 2.f;
}

// x = 2^n (1 + f) with 1 + f from sqrt(1/2) to sqrt(2): returns f.
INLINE float split_f32(float x, float *n) {
    int small = x < 1.17549435e-38f;
    uint32_t b = bits_f32(small ? x * 8388608.f : x) + 0x4afb0d;  // 1 - sqrt(1/2)
    *n = (float)((int32_t)(b >> 23) - 127) - (small ? 23.f : 0.f);
    return from_bits_f32((b & 0x7fffff) + 0x3f3504f3) - 1.f;
}

// log(1 + f) + low for f from split_f32
INLINE float log_near_1_f32(float f, float low) {
    float s = f * f;
    float p = -7.634498040e-02f;
    p = p * f + 1.276157740e-01f;
    p = p * f - 1.316018197e-01f;
    p = p * f + 1.420175792e-01f;
    p = p * f - 1.662335738e-01f;
    p = p * f + 2.000122688e-01f;
    p = p * f - 2.500082103e-01f;
    p = p * f + 3.333333171e-01f;
    return ((p * f * s + low) - 0.5f * s) + f;
}

// A logarithm y of x, right where x is 0, negative, infinite or NaN.
INLINE float log_edges_f32(float x, float y) {
    y = x < 0.f ? __builtin_nanf("") : y;
    y = x == 0.f ? -__builtin_inff() : y;
    return x < __builtin_inff() ? y : x;
}

// log(x)
INLINE float log_f32(float x) {
    float n, f = split_f32(x, &n);
    return log_edges_f32(x, log_near_1_f32(f, n * -2.12194440e-4f) + n * 0.693359375f);
}

// log2(x)
INLINE float log2_f32(float x) {
    float n, f = split_f32(x, &n);
    return log_edges_f32(x, log_near_1_f32(f, -0.f) * 1.44269504f + n);
}

// log10(x)
INLINE float log10_f32(float x) {
    float n, f = split_f32(x, &n);
    return log_edges_f32(x, (log_near_1_f32(f, -0.f) * 0.434294482f + n * 4.60503907e-06f) + n * 0.301025391f);
}

// log(1 + x): what is lost in u = 1 + x comes back as (1 + x - u) / u.
INLINE float log1p_f32(float x) {
    float u = 1.f + x, lost = x < 1.f ? x - (u - 1.f) : 1.f - (u - x);
    float n, f = split_f32(u, &n);
    float y = log_edges_f32(u, log_near_1_f32(f, n * -2.12194440e-4f + lost / u) + n * 0.693359375f);
    return x == 0.f ? x : y;
}

// 1 / (1 + e^-x), both sides of the fraction times 2^-64, which keeps e^-x finite where its inverse is subnormal.
INLINE float sigmoid_f32(float x) {
    float y = x > 40.f ? -40.f : -x;
    int32_t b = bits_f32(y * 1.44269504f + 12582975.f), most = 0x4b400000 + 254;
    b = b < most ? b : most;
    float w = exp_rest_f32(y, -0.f, from_bits_f32(b) - 12582975.f), scale = from_bits_f32((uint32_t)b << 23);
    return 0x1p-64f / (w * scale + (scale + 0x1p-64f));
}

// log(1 + e^x)
INLINE float softplus_f32(float x) { return (x < 0.f ? 0.f : x) + log1p_f32(exp_f32(-__builtin_fabsf(x))); }

// tanh(x): odd polynomial, from 0.625 on 1 - 2 / (e^2x + 1).
INLINE float tanh_f32(float x) {
    float a = __builtin_fabsf(x), s = a * a;
    float p = -0.00570163503f;
    p = p * s + 0.0206354298f;
    p = p * s - 0.0537382923f;
    p = p * s + 0.133314192f;
    p = p * s - 0.333332807f;
    float y = a > 20.f ? 40.f : a + a, n = y * 1.44269504f + 12583039.f;
    float w = exp_rest_f32(y, -0.f, n - 12583039.f), scale = from_bits_f32(bits_f32(n) << 23);
    float near = a + a * s * p, far = 1.f - 2.f / (w * scale + (scale + 1.f));
    return __builtin_copysignf(a < 0.625f ? near : far, x);
}

// sinh(x): odd polynomial, from 1 on from e^x.
INLINE float sinh_f32(float x) {
    float a = __builtin_fabsf(x), s = a * a, e = exp_scaled_f32(a, -1.f);
    float p = 2.79153824e-06f;
    p = p * s + 0.0001984142f;
    p = p * s + 0.00833331607f;
    p = p * s + 0.166666672f;
    float near = a + a * s * p, far = e - 0.25f / e;
    return __builtin_copysignf(a < 1.f ? near : far, x);
}

// cosh(x)
INLINE float cosh_f32(float x) {
    float e = exp_scaled_f32(__builtin_fabsf(x), -1.f);
    return e + 0.25f / e;
}

// (erf(a) - a) / a for s = a^2 up to 1
INLINE float erf_near_0_f32(float s) {
    float p = 7.91990169e-05f;
    p = p * s - 0.000803065428f;
    p = p * s + 0.0051907259f;
    p = p * s - 0.0268551242f;
    p = p * s + 0.112836182f;
    p = p * s - 0.376126289f;
    p = p * s + 0.128379166f;
    return p;
}

// a^2 as a sum of two numbers, exactly: the result, and what it lacks in *low.
INLINE float square_parts_f32(float a, float *low) {
#if defined __FMA__ || defined __ARM_FEATURE_FMA
    float s = a * a;
    *low = __builtin_fmaf(a, a, -s);
    return s;
#else
    float high = from_bits_f32(bits_f32(a) & 0xfffff000);
    *low = (a - high) * (a + high);
    return high * high;
#endif
}

// e^(u^2 / 2) times the chance that a normal number is above u = c a, for u from 0 to 14.3: a quotient of polynomials
// in a, even and odd powers apart.
INLINE float tail_f32(float a, double c) {
    const float p0 = 0.870148376, p1 = 0.762061536 * c, p2 = 0.318363361 * (c * c), p3 = 0.0705384317 * (c * c * c);
    const float q0 = 1.74029675, q1 = 2.9126797 * c, q2 = 2.09055236 * (c * c), q3 = 0.815644934 * (c * c * c);
    const float p4 = 0.00713752703 * (c * c * c * c), q4 = 0.176825089 * (c * c * c * c);
    const float q5 = 0.0178909127 * (c * c * c * c * c);
    float s = a * a, p = (p4 * s + p2) * s + p0, q = (q4 * s + q2) * s + q0;
    return (p + a * (p3 * s + p1)) / (q + a * ((q5 * s + q3) * s + q1));
}

// y e^(sign * a^2) for a from 0 to 11 or, with a sign of -0.5, to 15; *e becomes that without y. A factor 2^64 or 2^-64
// is put off, for the sake of numbers out of range, and y (1 + w) is rounded once.
INLINE float times_exp_square_f32(float y, float a, float sign, float *e) {
    float low, x = sign * square_parts_f32(a, &low), off = sign < 0.f ? -64.f : 64.f, shift = 12583039.f - off;
    float n = x * 1.44269504f + shift, w = exp_rest_f32(x, sign * low, n - shift);
    float scale = from_bits_f32(bits_f32(n) << 23), last = power_of_2_f32(off);
    *e = (w * scale + scale) * last;
    return (w * y + y) * scale * last;
}

// The chance that a normal number is below x; *e becomes e^(-x^2 / 2), of which the density is a multiple. Numbers far
// out are left out in the end: of a bound at the start, gcc makes a path of its own.
INLINE float normal_cdf_exp_f32(float x, float *e) {
    float u = __builtin_fabsf(x), q = times_exp_square_f32(tail_f32(u, 1.0), u, -0.5f, e);
    q = u > 15.f ? 0.f : q, *e = u > 15.f ? 0.f : *e;
    return x < 0.f ? q : 1.f - q;
}

// The chance that a normal number is below x.
INLINE float normal_cdf_f32(float x) { float e; return normal_cdf_exp_f32(x, &e); }

// 1 - erf(x)
INLINE float erfc_f32(float x) {
    float a = __builtin_fabsf(x), e;
    float q = times_exp_square_f32(2.f * tail_f32(a, 1.4142135623730951), a, -1.f, &e);
    q = a > 11.f ? 0.f : q;
    return x < 0.f ? 2.f - q : q;
}

// e^(x^2) erfc(x): from 10 on by the first terms of its series in 1 / x.
INLINE float erfcx_f32(float x) {
    float a = __builtin_fabsf(x), t = 1.f / a, s = t * t, e;
    float far = 0.564189584f * t, near = 2.f * tail_f32(a, 1.4142135623730951);
    far += far * s * ((0.75f - 1.875f * s) * s - 0.5f);
    float q = a > 10.f ? far : near;
    times_exp_square_f32(0.f, a, 1.f, &e);
    e = a > 10.f ? __builtin_inff() : e;
    return x < 0.f ? 2.f * e - q : q;
}

// The error function: odd polynomial, from 1 on 1 - erfc(x).
INLINE float erf_f32(float x) {
    float a = __builtin_fabsf(x), s = a * a;
    float far = 1.f - exp_scaled_f32(-s, 1.f) * tail_f32(a > 5.f ? 5.f : a, 1.4142135623730951);
    return __builtin_copysignf(a < 1.f ? a + a * erf_near_0_f32(s) : far, x);
}

// x in quarter turns: the nearest whole number of them modulo 4 in *turns, and what is left, from -1/2 to 1/2.
INLINE double quarter_turns(float x, uint64_t *turns) {
    double m = x, a = __builtin_fabs(m);
    double high = 0.6366197690367699, middle = 3.3308114738561656e-09, low = 2.276010073078396e-18;
    int far;  // x = m 2^(24 i); high + middle + low is 2^(24 i) 2/pi modulo 4, and m times the first two is exact
    far = a >= 0x1p47, m = far ? m * 0x1p-24 : m, high = far ? 3.4308817386627197 : high;
    middle = far ? 4.9276286245847345e-09 : middle, low = far ? 4.76073975187604e-18 : low;
    far = a >= 0x1p71, m = far ? m * 0x1p-24 : m, high = far ? 0.0826718881726265 : high;
    middle = far ? 1.7096864618482144e-09 : middle, low = far ? 2.8658837463471963e-18 : low;
    far = a >= 0x1p95, m = far ? m * 0x1p-24 : m, high = far ? 0.15368377417325974 : high;
    middle = far ? 4.9375250554817285e-09 : middle, low = far ? 1.1892889840965575e-17 : low;
    far = a >= 0x1p119, m = far ? m * 0x1p-24 : m, high = far ? 1.957837924361229 : high;
    middle = far ? 1.995295734191771e-10 : middle, low = far ? 8.306908000946013e-18 : low;
    double y = m * high, k = (y + 6755399441055744.0) - 6755399441055744.0, z = m * middle;
    double j = (z + 6755399441055744.0) - 6755399441055744.0;
    y = (y - k) + (z - j) + m * low;
    double h = (y + 6755399441055744.0) - 6755399441055744.0;
    *turns = (bits_f64(k + 6755399441055744.0) + bits_f64(j + h + 6755399441055744.0)) & 3;
    return y - h;
}

// The sine of quarter turns from -1/2 to 1/2, good for float.
INLINE double sine_of_quarter(double r) {
    double s = r * r;
    double p = 0.0001582043035447166;
    p = p * s - 0.0046812653950012465;
    p = p * s + 0.07969258261261487;
    p = p * s - 0.6459640961422272;
    p = p * s + 1.5707963267880727;
    return p * r;
}

// The cosine of quarter turns from -1/2 to 1/2, good for float.
INLINE double cosine_of_quarter(double r) {
    double s = r * r;
    double p = -2.4850642439748793e-05;
    p = p * s + 0.0009191615582785123;
    p = p * s - 0.020863467967978458;
    p = p * s + 0.2536695071510802;
    p = p * s - 1.2337005501200913;
    p = p * s + 0.9999999999999442;
    return p;
}

// sin(x)
INLINE float sin_f32(float x) {
    uint64_t q;
    double r = quarter_turns(x, &q), y = q & 1 ? cosine_of_quarter(r) : sine_of_quarter(r);
    return (float)from_bits_f64(bits_f64(y) ^ (q >> 1) << 63);
}

// cos(x)
INLINE float cos_f32(float x) {
    uint64_t q;
    double r = quarter_turns(x, &q), y = q & 1 ? sine_of_quarter(r) : cosine_of_quarter(r);
    return (float)from_bits_f64(bits_f64(y) ^ ((q + 1) >> 1) << 63);
}

// tan(x)
INLINE float tan_f32(float x) {
    uint64_t q;
    double r = quarter_turns(x, &q), s = sine_of_quarter(r), c = cosine_of_quarter(r);
    return (float)((q & 1 ? -c : s) / (q & 1 ? s : c));
}

// asin(a) for a from 0 to 1/2
INLINE float asin_near_0_f32(float a) {
    float s = a * a;
    float p = 0.0375497714f;
    p = p * s + 0.0144094061f;
    p = p * s + 0.0318174586f;
    p = p * s + 0.0445154309f;
    p = p * s + 0.0750051513f;
    p = p * s + 0.166666597f;
    return a + a * s * p;
}

// asin(x): from 1/2 on pi/2 - 2 asin(sqrt((1 - x) / 2)).
INLINE float asin_f32(float x) {
    float a = __builtin_fabsf(x), y = asin_near_0_f32(a < 0.5f ? a : __builtin_sqrtf(0.5f - 0.5f * a));
    return __builtin_copysignf(a < 0.5f ? y : 1.57079637f - (2.f * y + 4.37113883e-8f), x);
}

// acos(x)
INLINE float acos_f32(float x) {
    float a = __builtin_fabsf(x), y = asin_near_0_f32(a < 0.5f ? a : __builtin_sqrtf(0.5f - 0.5f * a));
    float far = x < 0.f ? 3.14159274f - (2.f * y + 8.74227766e-8f) : 2.f * y;
    return a < 0.5f ? 1.57079637f - (__builtin_copysignf(y, x) + 4.37113883e-8f) : far;
}

// The angle of the point (x, y) with x, y >= 0: by tan(u - pi/4) = (tan(u) - 1) / (tan(u) + 1) near a polynomial.
INLINE float angle_f32(float y, float x) {
    int steep = y > x;
    float a = steep ? x : y, b = steep ? y : x;
    int far = a > 0.414213562f * b;
    float t = (far ? a - b : a) / (far ? a + b : b), s = t * t;
    float p = -0.0605808645f;
    p = p * s + 0.105850525f;
    p = p * s - 0.142421931f;
    p = p * s + 0.19998388f;
    p = p * s - 0.333333135f;
    float u = t + t * s * p;
    u = far ? 0.785398185f + (u - 2.18556941e-8f) : u;
    return steep ? 1.57079637f - (u + 4.37113883e-8f) : u;
}

// atan(x)
INLINE float atan_f32(float x) {
    float a = __builtin_fabsf(x);
    return __builtin_copysignf(angle_f32(a > 1e30f ? 1e30f : a, 1.f), x);
}

// The angle of the point (x, y).
INLINE float atan2_f32(float y, float x) {
    float a = __builtin_fabsf(y), b = __builtin_fabsf(x), scale = a > 8e37f || b > 8e37f ? 0.25f : 1.f;
    float u = angle_f32(a == b && a != 0.f ? 1.f : a * scale, a == b ? 1.f : b * scale);
    u = bits_f32(x) >> 31 ? 3.14159274f - (u + 8.74227766e-8f) : u;
    return x != x || y != y ? x + y : __builtin_copysignf(u, y);
}

// The w of e^(x + low) = 2^n (1 + w) for n, the whole number nearest to x / log 2, and low small: by a polynomial.
INLINE double exp_rest_f64(double x, double low, double n) {
    double r = (x - n * 0.6931471803691238) + (n * -1.9082149292705877e-10 + low);
    double p = 2.0921746450514524e-09;
    p = p * r + 2.511271681988834e-08;
    p = p * r + 2.755725187960932e-07;
    p = p * r + 2.7557232721529935e-06;
    p = p * r + 2.480158734915305e-05;
    p = p * r + 0.00019841269898777635;
    p = p * r + 0.0013888888888873296;
    p = p * r + 0.008333333333315925;
    p = p * r + 0.041666666666666685;
    p = p * r + 0.16666666666666685;
    p = p * r + 0.5;
    return p * (r * r) + r;
}

// 2^k e^x, k whole: 2^(n + k) comes in two factors, for the sake of subnormals. Only one bound is one of floats: with
// two, gcc makes a path of each.
INLINE double exp_scaled_f64(double x, double k) {
    x = x < -747.0 ? -747.0 : x;
    int64_t b = bits_f64(x * 1.4426950408889634 + 6755399441057790.0), most = 0x4338000000000000 + 2046 + 1026;
    b = b < most ? b : most;
    double w = exp_rest_f64(x, -0.0, from_bits_f64(b) - 6755399441057790.0);
    uint64_t both = b + (int64_t)k, half = both >> 1;
    return (w + 1.0) * from_bits_f64(half << 52) * from_bits_f64((both - half) << 52);
}

// e^x
INLINE double exp_f64(double x) { return exp_scaled_f64(x, -0.0); }

// 2^x
INLINE double exp2_f64(double x) {
    x = x < -1076.0 ? -1076.0 : x;
    x = x > 1025.0 ? 1025.0 : x;
    double n = (x + 6755399441055744.0) - 6755399441055744.0, r = x - n;
    double p = 2.5516229374576724e-11;
    p = p * r + 4.465566876693066e-10;
    p = p * r + 7.055064417702341e-09;
    p = p * r + 1.0177985498407719e-07;
    p = p * r + 1.321548631277418e-06;
    p = p * r + 1.5252734037022652e-05;
    p = p * r + 0.000154035303940562;
    p = p * r + 0.0013333558146164316;
    p = p * r + 0.009618129107628048;
    p = p * r + 0.055504108664822936;
    p = p * r + 0.24022650695910072;
    p = p * r + 0.6931471805599453;
    p = p * r + 1.0;
    double half = (n * 0.5 + 6755399441055744.0) - 6755399441055744.0;
    return p * power_of_2_f64(half) * power_of_2_f64(n - half);
}

// x = 2^n (1 + f) with 1 + f from sqrt(1/2) to sqrt(2): returns f.
INLINE double split_f64(double x, double *n) {
    int small = x < 2.2250738585072014e-308;
    uint64_t b = bits_f64(small ? x * 18014398509481984.0 : x) + 0x95f619980c433;  // 1 - sqrt(1/2)
    *n = (from_bits_f64((b >> 52) | 0x4330000000000000) - 4503599627371519.0) - (small ? 54.0 : 0.0);
    return from_bits_f64((b & 0xfffffffffffff) + 0x3fe6a09e667f3bcd) - 1.0;
}

// log(1 + f) + low for f from split_f64: f - s (f - R) with s = f / (2 + f), R from the series of the inverse tanh.
INLINE double log_near_1_f64(double f, double low) {
    double s = f / (2.0 + f), z = s * s, h = 0.5 * f * f;
    double p = 0.14799487338446551;
    p = p * z + 0.1531368752092414;
    p = p * z + 0.1818357906686337;
    p = p * z + 0.22222198273544116;
    p = p * z + 0.28571428745551214;
    p = p * z + 0.3999999999939863;
    p = p * z + 0.6666666666666737;
    return f - (h - (s * (h + p * z) + low));
}

// A logarithm y of x, right where x is 0, negative, infinite or NaN.
INLINE double log_edges_f64(double x, double y) {
    y = x < 0.0 ? __builtin_nan("") : y;
    y = x == 0.0 ? -__builtin_inf() : y;
    return x < __builtin_inf() ? y : x;
}

// log(x)
INLINE double log_f64(double x) {
    double n, f = split_f64(x, &n);
    return log_edges_f64(x, log_near_1_f64(f, n * 1.9082149292705877e-10) + n * 0.6931471803691238);
}

// log2(x)
INLINE double log2_f64(double x) {
    double n, f = split_f64(x, &n);
    return log_edges_f64(x, log_near_1_f64(f, -0.0) * 1.4426950408889634 + n);
}

// log10(x)
CALL double log10_f64(double x) { return log10(x); }

// log(1 + x): what is lost in u = 1 + x comes back as (1 + x - u) / u.
INLINE double log1p_f64(double x) {
    double u = 1.0 + x, lost = x < 1.0 ? x - (u - 1.0) : 1.0 - (u - x);
    double n, f = split_f64(u, &n);
    double y = log_edges_f64(u, log_near_1_f64(f, n * 1.9082149292705877e-10 + lost / u) + n * 0.6931471803691238);
    return x == 0.0 ? x : y;
}

// asinh(x), by way of double
INLINE float asinh_f32(float x) {
    double a = __builtin_fabsf(x);
    return a < 2e-4 ? x : __builtin_copysignf((float)log_f64(a + __builtin_sqrt(a * a + 1.0)), x);
}

// acosh(x), by way of double
INLINE float acosh_f32(float x) {
    double a = x;
    return (float)log_f64(a < 1.0 ? __builtin_nan("") : a + __builtin_sqrt(a * a - 1.0));
}

// atanh(x), by way of double
INLINE float atanh_f32(float x) {
    double a = __builtin_fabsf(x);
    return a < 2e-4 ? x : __builtin_copysignf((float)(0.5 * log_f64((1.0 + a) / (1.0 - a))), x);
}

// sqrt(x^2 + y^2), by way of double; infinite if one is.
INLINE float hypot_f32(float x, float y) {
    double a = x, b = y;
    float r = (float)__builtin_sqrt(a * a + b * b);
    return isinf_f32(x) || isinf_f32(y) ? __builtin_inff() : r;
}

// x^y = 2^(y log2 |x|), by way of double; NaN of a negative number to a power that is not whole.
INLINE float power_f32(float x, float y) {
    float a = __builtin_fabsf(x);
    float r = a == 1.f && y == y ? 1.f : (float)exp2_f64((double)y * log2_f64(a));
    float half = 0.5f * y;
    int whole = __builtin_rintf(y) == y, odd = whole && __builtin_rintf(half) != half;
    r = odd ? __builtin_copysignf(r, x) : r;
    r = x < 0.f && !whole && isfinite_f32(x) && isfinite_f32(y) ? __builtin_nanf("") : r;
    return y == 0.f || x == 1.f ? 1.f : r;
}

// e^x - 1
CALL double expm1_f64(double x) { return expm1(x); }

// sin(x)
CALL double sin_f64(double x) { return sin(x); }

// cos(x)
CALL double cos_f64(double x) { return cos(x); }

// tan(x)
CALL double tan_f64(double x) { return tan(x); }

// asin(x)
CALL double asin_f64(double x) { return asin(x); }

// acos(x)
CALL double acos_f64(double x) { return acos(x); }

// atan(x)
CALL double atan_f64(double x) { return atan(x); }

// The angle of the point (x, y).
CALL double atan2_f64(double y, double x) { return atan2(y, x); }

// sqrt(x^2 + y^2)
CALL double hypot_f64(double x, double y) { return hypot(x, y); }

// sinh(x)
CALL double sinh_f64(double x) { return sinh(x); }

// cosh(x)
CALL double cosh_f64(double x) { return cosh(x); }

// asinh(x)
CALL double asinh_f64(double x) { return asinh(x); }

// acosh(x)
CALL double acosh_f64(double x) { return acosh(x); }

// atanh(x)
CALL double atanh_f64(double x) { return atanh(x); }

// x^y
CALL double power_f64(double x, double y) { return pow(x, y); }

// 1 / (1 + e^-x), both sides of the fraction times 2^-512, which keeps e^-x finite where its inverse is subnormal.
INLINE double sigmoid_f64(double x) {
    double y = x > 100.0 ? -100.0 : -x;
    int64_t b = bits_f64(y * 1.4426950408889634 + 6755399441056255.0), most = 0x4338000000000000 + 2046;
    b = b < most ? b : most;
    double w = exp_rest_f64(y, -0.0, from_bits_f64(b) - 6755399441056255.0), scale = from_bits_f64((uint64_t)b << 52);
    return 0x1p-512 / (w * scale + (scale + 0x1p-512));
}

// log(1 + e^x)
INLINE double softplus_f64(double x) { return (x < 0.0 ? 0.0 : x) + log1p_f64(exp_f64(-__builtin_fabs(x))); }

// tanh(x): odd polynomial, from 0.625 on 1 - 2 / (e^2x + 1).
INLINE double tanh_f64(double x) {
    double a = __builtin_fabs(x), s = a * a;
    double p = -2.237009110443665e-06;
    p = p * s + 1.1703591903323667e-05;
    p = p * s - 3.651980059991326e-05;
    p = p * s + 9.567926628025734e-05;
    p = p * s - 0.00023873921091922132;
    p = p * s + 0.0005899397770516435;
    p = p * s - 0.0014558203399430065;
    p = p * s + 0.003592126452186787;
    p = p * s - 0.008863235407411496;
    p = p * s + 0.021869488529956224;
    p = p * s - 0.05396825396806402;
    p = p * s + 0.13333333333333028;
    p = p * s - 0.3333333333333333;
    double y = a > 30.0 ? 60.0 : a + a, n = y * 1.4426950408889634 + 6755399441056767.0;
    double w = exp_rest_f64(y, -0.0, n - 6755399441056767.0), scale = from_bits_f64(bits_f64(n) << 52);
    double near = a + a * s * p, far = 1.0 - 2.0 / (w * scale + (scale + 1.0));
    return __builtin_copysign(a < 0.625 ? near : far, x);
}

// (erf(a) - a) / a for s = a^2 up to 1
INLINE double erf_near_0_f64(double s) {
    double p = 6.762802504727901e-11;
    p = p * s - 1.1876556064934921e-09;
    p = p * s + 1.4798357345126292e-08;
    p = p * s - 1.637237190617396e-07;
    p = p * s + 1.6463247308282152e-06;
    p = p * s - 1.4925748180263297e-05;
    p = p * s + 0.00012055338161402357;
    p = p * s - 0.0008548327199358301;
    p = p * s + 0.00522397762924565;
    p = p * s - 0.026866170645631897;
    p = p * s + 0.11283791670958783;
    p = p * s - 0.37612638903183876;
    p = p * s + 0.1283791670955126;
    return p;
}

// e^(b^2) erfc(b) for b = a + low from 0.7 on: a polynomial in t = 4 / (a + 4), and what rounding t takes away near 0.
INLINE double erfcx_right_f64(double a, double low) {
    double d = a + 4.0, t = 4.0 / d;
    double p = 0.0011022947834869964;
    p = p * t - 0.010616122192773643;
    p = p * t + 0.04587435060185041;
    p = p * t - 0.11739738229698926;
    p = p * t + 0.1994643884585308;
    p = p * t - 0.24232387589005888;
    p = p * t + 0.22319624486970002;
    p = p * t - 0.15933939150658868;
    p = p * t + 0.08793666143347993;
    p = p * t - 0.04164212953662198;
    p = p * t + 0.01321028734352843;
    p = p * t - 0.0023058547003732832;
    p = p * t + 0.008362035630541866;
    p = p * t + 0.01638604238127282;
    p = p * t + 0.029161415377819036;
    p = p * t + 0.04476058404108734;
    p = p * t + 0.06249612416591234;
    p = p * t + 0.08106522507194922;
    p = p * t + 0.09903620895949466;
    p = p * t + 0.11501423394490869;
    p = p * t + 0.1278242025225583;
    p = p * t + 0.1366396647654731;
    p = p * t + 0.14104739588693907;
    double last = p * t, sum = last + 0.14104739588693907, other = sum - 0.14104739588693907, z = sum * t;
    double lost = (0.14104739588693907 - (sum - other)) + (last - other); // by the rounding of this sum
    double high = from_bits_f64(bits_f64(a) & 0xfffffffff8000000);
    double t_high = from_bits_f64(bits_f64(t) & 0xfffffffff8000000);
    double rest = (t_high * (high + 4.0) - 4.0) + (t - t_high) * (high + 4.0) + (a - high) * t;
    return d < 1e6 ? sum * t + (lost * t + (0.25 * rest * d + low) * (2.0 * a * z - 1.1283791670955126)) : z;
}

// a^2 as a sum of two numbers, exactly: the result, and what it lacks in *low.
INLINE double square_parts_f64(double a, double *low) {
#if defined __FMA__ || defined __ARM_FEATURE_FMA
    double s = a * a;
    *low = __builtin_fma(a, a, -s);
    return s;
#else
    double high = from_bits_f64(bits_f64(a) & 0xfffffffff8000000);
    *low = (a - high) * (a + high);
    return high * high;
#endif
}

// y e^(sign * a^2) for a from 0 to 28 or, with a sign of -0.5, to 40; *e becomes that without y. A factor 2^512 or
// 2^-512 is put off, for the sake of numbers out of range, and y (1 + w) is rounded once.
INLINE double times_exp_square_f64(double y, double a, double sign, double *e) {
    double low, x = sign * square_parts_f64(a, &low), off = sign < 0.0 ? -512.0 : 512.0;
    double shift = 6755399441056767.0 - off;
    double n = x * 1.4426950408889634 + shift, w = exp_rest_f64(x, sign * low, n - shift);
    double scale = from_bits_f64(bits_f64(n) << 52), last = power_of_2_f64(off);
    *e = (w * scale + scale) * last;
    return (w * y + y) * scale * last;
}

// The chance that a normal number is below x; *e becomes e^(-x^2 / 2), of which the density is a multiple. Numbers far
// out are left out in the end: of a bound at the start, gcc makes a path of its own.
INLINE double normal_cdf_exp_f64(double x, double *e) {
    double u = __builtin_fabs(x), a = u * 0.7071067811865476, high = from_bits_f64(bits_f64(u) & 0xfffffffff8000000);
    double low = ((high * 0.7071067690849304 - a) + (u - high) * 0.7071067690849304) + u * 1.210161710447897e-08;
    double q = 0.5 * times_exp_square_f64(erfcx_right_f64(a, low), u, -0.5, e);
    q = u > 40.0 ? 0.0 : q, *e = u > 40.0 ? 0.0 : *e;
    double y = x * 0.7071067811865476, s = y * y;
    double near = y * erf_near_0_f64(s) + (x < 0.0 ? -low : low) * (1.1283791670955126 * *e);
    return s < 1.0 ? 0.5 * ((1.0 + y) + near) : x < 0.0 ? q : 1.0 - q;
}

// The chance that a normal number is below x.
INLINE double normal_cdf_f64(double x) { double e; return normal_cdf_exp_f64(x, &e); }

// erfc(|x|), without care for those near 0
INLINE double erfc_right_f64(double x) {
    double a = __builtin_fabs(x), e, q = times_exp_square_f64(erfcx_right_f64(a, 0.0), a, -1.0, &e);
    return a > 28.0 ? 0.0 : q;
}

// 1 - erf(x)
INLINE double erfc_f64(double x) {
    double q = erfc_right_f64(x), s = x * x;
    return s < 1.0 ? (1.0 - x) - x * erf_near_0_f64(s) : x < 0.0 ? 2.0 - q : q;
}

// e^(x^2) erfc(x)
INLINE double erfcx_f64(double x) {
    double a = __builtin_fabs(x), q = erfcx_right_f64(a, 0.0), s = x * x, e;
    double near = times_exp_square_f64((1.0 - x) - x * erf_near_0_f64(s), a, 1.0, &e);
    e = a > 27.0 ? __builtin_inf() : e;
    return s < 0.75 ? near : x < 0.0 ? 2.0 * e - q : q;
}

// The error function: odd polynomial, from 1 on 1 - erfc(x).
INLINE double erf_f64(double x) {
    double a = __builtin_fabs(x), s = a * a;
    return __builtin_copysign(s < 1.0 ? a + a * erf_near_0_f64(s) : 1.0 - erfc_right_f64(x), x);
}

// The inverse of erf to some seven digits, from w = -log(1 - x^2).
INLINE double erfinv_start(double x, double w) {
    double p = 1.229407983043754e-10;
    p = p * w - 2.9457572228072984e-09;
    p = p * w + 2.0530155209304534e-08;
    p = p * w + 6.609615791935995e-08;
    p = p * w - 1.5240617543084105e-06;
    p = p * w + 3.349920070382078e-06;
    p = p * w + 4.453383977722401e-05;
    p = p * w - 0.00012607628853240465;
    p = p * w - 0.0023361730979476057;
    p = p * w + 0.011549638988509085;
    p = p * w + 0.23201363461800797;
    p = p * w + 0.8862269260168463;
    double v = __builtin_sqrt(w) - 4.0;
    double q = -2.032656942497618e-07;
    q = q * v + 8.159375846984972e-07;
    q = q * v + 2.1105547779886416e-07;
    q = q * v - 6.489033059483631e-06;
    q = q * v + 2.2671564786199644e-05;
    q = q * v - 8.179281329455615e-05;
    q = q * v + 0.000293735207069435;
    q = q * v - 0.0008554904954437513;
    q = q * v + 0.0012541923958467583;
    q = q * v + 1.009495164460644;
    q = q * v + 3.8397835466785573;
    return w < 5.0 ? x * p : __builtin_copysign(q, x);
}

// The inverse of erf.
INLINE float erfinv_f32(float x) {
    double y = x;
    float r = (float)erfinv_start(y, -log_f64((1.0 - y) * (1.0 + y)));
    return __builtin_fabsf(x) == 1.f ? __builtin_copysignf(__builtin_inff(), x) : r;
}

// The inverse of erf: one step of Halley's method on erf, from 3/4 on on erfc.
INLINE double erfinv_f64(double x) {
    double y = __builtin_fabs(x), c = 1.0 - y, a = erfinv_start(y, -(log_f64(c) + log1p_f64(y)));
    double error = y < 0.75 ? (a + a * erf_near_0_f64(a * a)) - y : c - erfc_right_f64(a);
    double e;
    a -= error / (times_exp_square_f64(1.1283791670955126, a, -1.0, &e) + a * error);
    a = y < 1e-9 ? y * 0.8862269254527580 : a;
    return __builtin_copysign(y == 1.0 ? __builtin_inf() : a, x);
}

// sin(pi r) for r from -1/2 to 1/2
INLINE double sine_of_half(double r) {
    double s = r * r;
    double p = -2.2349496241332842e-08;
    p = p * s + 7.949258550754241e-07;
    p = p * s - 2.1915282936922626e-05;
    p = p * s + 0.0004663027953932472;
    p = p * s - 0.007370430944817341;
    p = p * s + 0.08214588661108466;
    p = p * s - 0.599264529320791;
    p = p * s + 2.5501640398773455;
    p = p * s - 5.16771278004997;
    return r * 3.141592653589793 + r * (s * p);
}

// cos(pi r) for r from -1/2 to 1/2
INLINE double cosine_of_half(double r) { return sine_of_half(0.5 - __builtin_fabs(r)); }

// log |gamma(x)|: a polynomial at 2, Stirling's series far out, reflection below 1/2; all of it in double.
INLINE float lgamma_f32(float x) {
    double y = x, a = y < 0.5 ? 1.0 - y : y;
    double s = a < 1.5 ? a - 1.0 : a < 2.5 ? a - 2.0 : 0.0;
    double near = 2.7475390051909663e-07;
    near = near * s - 5.811277768921246e-07;
    near = near * s + 9.242852225162277e-07;
    near = near * s - 1.9743106888421067e-06;
    near = near * s + 4.3828545383846665e-06;
    near = near * s - 9.45628851510172e-06;
    near = near * s + 2.050601970174762e-05;
    near = near * s - 4.4923727564247656e-05;
    near = near * s + 9.945761692157133e-05;
    near = near * s - 2.2315497746292723e-04;
    near = near * s + 5.096695196526673e-04;
    near = near * s - 1.1927539009983087e-03;
    near = near * s + 2.890510330865901e-03;
    near = near * s - 7.385551028935545e-03;
    near = near * s + 2.058080842778338e-02;
    near = near * s - 6.735230105319563e-02;
    near = near * s + 3.224670334241132e-01;
    near = near * s + 4.2278433509846713e-01;
    near *= s;
    int low = a < 10.0;
    double b = low ? a + 8.0 : a, square = a * (a + 7.0);  // a (a + 1) ... (a + 7) in pairs
    double product = square * (square + 6.0) * ((square + 10.0) * (square + 12.0));
    double r = 1.0 / b, rr = r * r;
    double series = 0.0008417508417508417;
    series = series * rr - 0.0005952380952380953;
    series = series * rr + 0.0007936507936507937;
    series = series * rr - 0.002777777777777778;
    series = series * rr + 0.08333333333333333;
    double log_b = log_f64(b), other = log_f64(a < 1.5 ? a : low ? product : 1.0);
    double far = ((b - 0.5) * (log_b - 1.0) + (series * r + 0.4189385332046727)) - other;
    double right = a < 1.5 ? near - other : a < 2.5 ? near : far;
    double turned = log_f64(3.141592653589793 / __builtin_fabs(sine_of_half(y - __builtin_rint(y)))) - right;
    float result = (float)(y < 0.5 ? turned : right);
    return isinf_f32(x) ? __builtin_inff() : result;
}

// log |gamma(x)|; `lgamma` itself would write the sign of gamma(x) where all threads see it.
CALL double lgamma_f64(double x) {
    extern double lgamma_r(double, int *);
    int sign;
    return lgamma_r(x, &sign);
}

// The derivative of lgamma: a series from 10 on and ten steps to there, a polynomial below 3, reflection below 0. Near
// its roots below 0 a large term meets another: the two are subtracted first, and what is small comes after.
INLINE double digamma_f64(double x) {
    double a = x < 0.0 ? 1.0 - x : x, c = a * (a + 9.0), p = 1.0, q = c;
    int low = a < 10.0;
    p = p * (c + 8.0) + q, q *= c + 8.0;  // p / q = 1/c + 1/(c + 8) + ..., with c + 8 = (a + 1) (a + 8)
    p = p * (c + 14.0) + q, q *= c + 14.0;
    p = p * (c + 18.0) + q, q *= c + 18.0;
    p = p * (c + 20.0) + q, q *= c + 20.0;
    double r = 1.0 / (low ? a + 10.0 : a), rr = r * r;
    double series = 0.08333333333333333;
    series = series * rr - 0.021092796092796094;
    series = series * rr + 0.007575757575757576;
    series = series * rr - 0.004166666666666667;
    series = series * rr + 0.003968253968253968;
    series = series * rr - 0.008333333333333333;
    series = series * rr + 0.08333333333333333;
    double large = log_f64(low ? a + 10.0 : a);
    double small = (low ? (2.0 * a + 9.0) * p / q : 0.0) + (0.5 * r + series * rr);
    double t = a < 1.0 ? a - 0.5 : a < 2.0 ? a - 1.5 : a - 2.5;
    double near = -3.3731748624289513e-08;
    near = near * t + 8.352968085904161e-08;
    near = near * t - 1.689491193064166e-07;
    near = near * t + 4.239080335219694e-07;
    near = near * t - 1.081837267380096e-06;
    near = near * t + 2.71139186439816e-06;
    near = near * t - 6.798744830352896e-06;
    near = near * t + 1.7088819558604737e-05;
    near = near * t - 4.3052709096313345e-05;
    near = near * t + 0.00010882587646435264;
    near = near * t - 0.0002764392528862845;
    near = near * t + 0.0007073881631882985;
    near = near * t - 0.0018305640383170945;
    near = near * t + 0.004821409821455783;
    near = near * t - 0.013073166646112765;
    near = near * t + 0.03731764146954112;
    near = near * t - 0.11810202582086371;
    near = near * t + 0.49035775610023485;
    near = near * t + 0.7031566406452432;
    double shift = (a < 1.0 ? 2.0 * a + 1.0 : 1.0) / (a < 1.0 ? a * (a + 1.0) : a);
    large = a < 3.0 ? near : large;
    small = a >= 3.0 ? small : a < 2.0 ? shift : 0.0;
    double whole = __builtin_rint(x), f = x - whole;  // pi / tan(pi f) = 1/f - 2f/(1 - f^2) - 2f (zeta(2) - 1 + ...)
    double s = f * f, curve = 7.450668049576915e-09;
    curve = curve * s + 2.9803109656730085e-08;
    curve = curve * s + 1.1921637810251896e-07;
    curve = curve * s + 4.76901005455466e-07;
    curve = curve * s + 1.9079240677455924e-06;
    curve = curve * s + 7.63458652999968e-06;
    curve = curve * s + 3.056451881730374e-05;
    curve = curve * s + 0.00012249627011740966;
    curve = curve * s + 0.0004921731066160966;
    curve = curve * s + 0.0019891502556361705;
    curve = curve * s + 0.00815471239588868;
    curve = curve * s + 0.03468612396889828;
    curve = curve * s + 0.16464646742227637;
    curve = curve * s + 1.2898681336964528;
    double quotient = 3.141592653589793 * cosine_of_half(f) / sine_of_half(f), right = large - small;
    double turned = s > 0.14 ? right - quotient : (large - 1.0 / f) - (small - f * (2.0 / (1.0 - s) + curve));
    double pole = x == 0.0 ? -__builtin_copysign(__builtin_inf(), x) : __builtin_nan("");
    return x <= 0.0 && f == 0.0 ? pole : x < 0.0 ? turned : right;
}

// The derivative of lgamma, by way of double.
INLINE float digamma_f32(float x) { return (float)digamma_f64(x); }

// The derivative of digamma, in the same way.
INLINE double trigamma_f64(double x) {
    double a = x < 0.0 ? 1.0 - x : x, p = 1.0, q = (a + 1.0) * (a + 1.0), c;
    int low = a < 10.0;
    c = (a + 2.0) * (a + 2.0), p = p * c + q, q *= c;  // p / q = 1/(a + 1)^2 + 1/(a + 2)^2 + ...
    c = (a + 3.0) * (a + 3.0), p = p * c + q, q *= c;
    c = (a + 4.0) * (a + 4.0), p = p * c + q, q *= c;
    c = (a + 5.0) * (a + 5.0), p = p * c + q, q *= c;
    c = (a + 6.0) * (a + 6.0), p = p * c + q, q *= c;
    c = (a + 7.0) * (a + 7.0), p = p * c + q, q *= c;
    c = (a + 8.0) * (a + 8.0), p = p * c + q, q *= c;
    c = (a + 9.0) * (a + 9.0), p = p * c + q, q *= c;
    double r = 1.0 / (low ? a + 10.0 : a), rr = r * r;
    double series = -7.092156862745098;
    series = series * rr + 1.1666666666666667;
    series = series * rr - 0.2531135531135531;
    series = series * rr + 0.07575757575757576;
    series = series * rr - 0.03333333333333333;
    series = series * rr + 0.023809523809523808;
    series = series * rr - 0.03333333333333333;
    series = series * rr + 0.16666666666666666;
    double right = ((r + rr * (0.5 + series * r)) + (low ? p / q : 0.0)) + (low ? 1.0 / (a * a) : 0.0);
    double sine = sine_of_half(x - __builtin_rint(x)), turned = 9.869604401089358 / (sine * sine) - right;
    return x == -__builtin_inf() ? __builtin_inf() : x < 0.0 ? turned : right;
}

// The derivative of digamma, by way of double.
INLINE float trigamma_f32(float x) { return (float)trigamma_f64(x); }

// The sum of (x + k)^-s: ten terms, and the rest by Euler and Maclaurin.
CALL double zeta_f64(double s, double x) {
    static const double divisors[12] = {
        12, -720, 30240, -1209600, 47900160, -1892437580.3183792, 74724249600.0, -2950130727918.1642,
        116467828143500.67, -4597978722407472.6, 181521054019435460.0, -7166165256175667000.0,
    };
    double total = 0.0, a = x + 10.0;
    double power = pow(a, -s), term = s * power / a, rest = power * (a / (s - 1.0) + 0.5);
    for (int k = 1; k <= 12; k++) {
        rest += term / divisors[k - 1];
        term = term * ((s + (2 * k - 1)) / a) * ((s + 2 * k) / a);
    }
    for (int k = 9; k >= 0; k--) total += pow(x + k, -s);
    return x < 0.0 ? __builtin_nan("") : x == __builtin_inf() ? 0.0 : total + rest;
}

// The sum of (x + k)^-s, by way of double.
INLINE float zeta_f32(float s, float x) { return (float)zeta_f64(s, x); }

// One round of Philox: two words of the counter are multiplied, and all are mixed.
INLINE void philox_round(uint32_t c[4], uint32_t k0, uint32_t k1) {
    uint64_t high = (uint64_t)c[0] * 0xD2511F53u, low = (uint64_t)c[2] * 0xCD9E8D57u;
    uint32_t c0 = (uint32_t)(low >> 32) ^ c[1] ^ k0, c2 = (uint32_t)(high >> 32) ^ c[3] ^ k1;
    c[0] = c0, c[1] = (uint32_t)low, c[2] = c2, c[3] = (uint32_t)high;
}

// A number in [0, 1): Philox 4x32-10 keyed by the seed, counted by element and site; `lane` picks one of four words.
INLINE float uniform_f32(uint64_t seed, uint32_t site, int64_t element, int lane) {
    uint32_t c[4] = {(uint32_t)element, (uint32_t)((uint64_t)element >> 32), site, 0};
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    philox_round(c, k0, k1);
    philox_round(c, k0 + 1 * 0x9E3779B9u, k1 + 1 * 0xBB67AE85u);
    philox_round(c, k0 + 2 * 0x9E3779B9u, k1 + 2 * 0xBB67AE85u);
    philox_round(c, k0 + 3 * 0x9E3779B9u, k1 + 3 * 0xBB67AE85u);
    philox_round(c, k0 + 4 * 0x9E3779B9u, k1 + 4 * 0xBB67AE85u);
    philox_round(c, k0 + 5 * 0x9E3779B9u, k1 + 5 * 0xBB67AE85u);
    philox_round(c, k0 + 6 * 0x9E3779B9u, k1 + 6 * 0xBB67AE85u);
    philox_round(c, k0 + 7 * 0x9E3779B9u, k1 + 7 * 0xBB67AE85u);
    philox_round(c, k0 + 8 * 0x9E3779B9u, k1 + 8 * 0xBB67AE85u);
    philox_round(c, k0 + 9 * 0x9E3779B9u, k1 + 9 * 0xBB67AE85u);
    uint32_t word = lane == 0 ? c[0] : lane == 1 ? c[1] : lane == 2 ? c[2] : c[3];
    return (float)(int32_t)(word >> 31 ? ~word : word) * 4.6566127342e-10f;
}

// The same number in a module of doubles.
INLINE double uniform_f64(uint64_t seed, uint32_t site, int64_t element, int lane) {
    return uniform_f32(seed, site, element, lane);
}
