fn scaled_tanh(x, a) -> y:
    y = tanh(a * x)
    backward (dy) -> dx:
        dx = dy * a * (1 - y^2)
