model curvature(x: f32[K]) -> h: [K, K]:
    y = tanh(x)
    h = hessian(y, x)
