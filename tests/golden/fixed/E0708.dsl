model force(x: f32[K]) -> f: [K]:
    energy = sum(x^2) / 2
    f = grad(energy, x)
