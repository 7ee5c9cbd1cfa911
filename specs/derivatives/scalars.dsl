# A graph of single numbers with branches that meet again (chapter 6): the adjoint of a value is the sum over all its
# uses. The formulas are those of the first example of the micrograd library, which knows scalars alone.

model scalars(a: f64[], b: f64[]) -> (g: [], d_a: [], d_b: []):
    c = a + b
    d = a * b + b^3
    c = c + c + 1
    c = c + 1 + c - a
    d = d + d * 2 + relu(b + a)
    d = d + 3 * d + relu(b - a)
    e = c - d
    f = e^2
    g = f / 2 + 10 / f
    d_a = grad(g, a)
    d_b = grad(g, b)
