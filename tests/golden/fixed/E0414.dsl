fn polar(x: [N], y: [N]) -> (radius: [N], angle: [N]):
    radius[n] = hypot(x[n], y[n])
    angle[n] = atan2(y[n], x[n])

fn doubled(x: [N], y: [N]) -> d: [N]:
    a, b = polar(x, y)
    d = 2 * a
