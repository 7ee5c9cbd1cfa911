fn scaled_tanh(x, a) -> y:
    y = tanh(a * x)
    backward (dy) -> (dx, da):
        dx = dy * a * (1 - y^2)
        da = dy * x * (1 - y^2)
