# Complex numbers as pairs: a real part and an imaginary part, each a tensor of its own, element by element. Sums are
# taken part by part; `re, im = complex_product(a, b, c, d)` is (a + ib)(c + id). Derivatives are those by the parts.

# The number whose imaginary part has the other sign.
fn conjugate(re, im) -> (out_re, out_im):
    out_re = re
    out_im = -im

# The length |z| of a complex number.
fn modulus(re, im) = hypot(re, im)

# The angle of a complex number, from -pi to pi.
fn argument(re, im) = atan2(im, re)

# The complex number of a length and an angle: r exp(i angle).
fn from_polar(r, angle) -> (re, im):
    re = r * cos(angle)
    im = r * sin(angle)

# The product of a + ib and c + id.
fn complex_product(a, b, c, d) -> (re, im):
    re = a * c - b * d
    im = a * d + b * c

# The quotient of a + ib and c + id.
fn complex_quotient(a, b, c, d) -> (re, im):
    # c^2 + d^2 may be too large or too small for a float; the quotient is the same for any scale, so no slope goes there
    scale = stop_grad(max(abs(c), abs(d)))
    u = c / scale
    v = d / scale
    square = u^2 + v^2
    re = (a * u + b * v) / square / scale
    im = (b * u - a * v) / square / scale

# The exponential of a complex number: Euler's formula.
fn complex_exp(re, im) -> (out_re, out_im):
    out_re, out_im = from_polar(exp(re), im)

# The principal logarithm: log |z| + i argument(z).
fn complex_log(re, im) -> (out_re, out_im):
    out_re = log(modulus(re, im))
    out_im = argument(re, im)

# The principal square root, whose real part is not negative.
fn complex_sqrt(re, im) -> (out_re, out_im):
    # selects and not abs, which has no slope at 0: the root is smooth on the imaginary axis, and on the cut from above
    long = sqrt((modulus(re, im) + (re if re >= 0 else -re)) / 2)
    short = im / (2 * long) if long > 0 else 0
    # the cut has two sides, which the sign of a zero tells apart
    out_re = long if re >= 0 else short if im > 0 or 1 / im > 0 else -short
    out_im = short if re >= 0 else long if im > 0 or 1 / im > 0 else -long

# A whole or broken power of a complex number with a real exponent, along the principal branch.
fn complex_power(re, im, exponent) -> (out_re, out_im):
    out_re, out_im = from_polar(modulus(re, im)^exponent, exponent * argument(re, im))

# The matrix product of A + iB and C + iD.
fn complex_matmul(
    A: [..., I, K], B: [..., I, K], C: [..., K, J], D: [..., K, J]
) -> (re: [..., I, J], im: [..., I, J]):
    re[..., i, j] = A[..., i, k] * C[..., k, j] - B[..., i, k] * D[..., k, j]
    im[..., i, j] = A[..., i, k] * D[..., k, j] + B[..., i, k] * C[..., k, j]

# The inner product of a + ib and c + id along the last axis, the first one conjugated.
fn complex_dot(a: [..., K], b: [..., K], c: [..., K], d: [..., K]) -> (re: [...], im: [...]):
    re[...] = a[..., k] * c[..., k] + b[..., k] * d[..., k]
    im[...] = a[..., k] * d[..., k] - b[..., k] * c[..., k]

# A real matrix of twice the size that acts on the parts (x, y) as A + iB acts on x + iy.
fn as_real(A: [K, K], B: [K, K]) -> M: [2 * K, 2 * K]:
    left[r, j] = concat[r](A[r, j], B[r, j])
    right[r, j] = concat[r](-B[r, j], A[r, j])
    M[r, c] = concat[c](left[r, c], right[r, c])

# The solution x + iy of (A + iB)(x + iy) = c + id.
fn complex_solve(A: [K, K], B: [K, K], c: [K], d: [K]) -> (x: [K], y: [K]):
    both[r] = concat[r](c[r], d[r])
    z = solve(as_real(A, B), both)
    x = z[0:K]
    y = z[K:2*K]

# Eigenvalues, ascending, and eigenvectors of a matrix A + iB that is its own conjugate transpose (A symmetric, B
# skew): vector k is x[:, k] + i y[:, k], up to a factor of length 1. Vectors are meaningful where eigenvalues differ.
fn hermitian_eigh(A: [K, K], B: [K, K]) -> (value: [K], x: [K, K], y: [K, K]):
    # each eigenvalue stands twice in the real matrix, with the vectors of z and of iz
    twice, vector = eigh(as_real(A, B))
    value = twice[::2]
    x = vector[0:K, ::2]
    y = vector[K:2*K, ::2]
