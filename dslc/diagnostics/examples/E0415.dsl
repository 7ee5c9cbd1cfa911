fn polar(x: [N], y: [N]) -> (radius: [N], angle: [N]):
    radius[n] = hypot(x[n], y[n])
    angle[n] = atan2(y[n], x[n])

fn turned(x: [N], y: [N]) -> t: [N]:
    t = polar(x, y).angel + pi
