model force(x: f32[K]) -> f: [K]:
    u = tanh(x)
    energy = sum(x^2) / 2
    f = grad(energy, u)
