model slopes(x: f32[N], k: i32[N]) -> g: [N]:
    energy = sum[n](x[n] * k[n])
    g = grad(energy, k)
