# A function and its Taylor polynomials around a point (chapter 2): the derivatives are taken
# inside the model.

fn f(x) = x^2 - 1.5 * x + sin(x) / 4

model taylor(x: f64[N], at: f64[]) -> (exact: [N], linear: [N], quadratic: [N]):
    y = f(at)
    slope = grad(y, at)
    curvature = grad(slope, at)
    exact[n] = f(x[n])
    linear[n] = y + slope * (x[n] - at)
    quadratic[n] = linear[n] + curvature * (x[n] - at)^2 / 2
