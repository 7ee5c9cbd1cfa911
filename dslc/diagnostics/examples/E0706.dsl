model force(x: f32[K]) -> f: [K]:
    energy = sum(x^4) / 4
    f = grad(energy, 2 * x)
