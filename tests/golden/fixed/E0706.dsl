model force(x: f32[K]) -> f: [K]:
    z = 2 * x
    energy = sum(z^4) / 4
    f = grad(energy, z)
