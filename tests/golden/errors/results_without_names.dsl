fn polar(x: [N], y: [N]) -> (radius: [N], angle: [N]):
    radius[n] = hypot(x[n], y[n])
    angle[n] = atan2(y[n], x[n])

fn distance(x: [N], y: [N]) -> d: [N]:
    d = polar(x, y)
