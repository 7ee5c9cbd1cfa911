layer block(x: [N, K], kind = "smooth") -> y: [N, K]:
    if kind == "smooth:
        y = gelu(x)
    else:
        y = relu(x)
