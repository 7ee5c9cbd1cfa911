fn polar(x: [N], y: [N]) -> (radius: [N], angle: [N]):
    radius[n] = hypot(x[n], y[n])
