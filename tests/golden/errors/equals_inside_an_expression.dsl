layer chosen(x: [N, K], kind = "relu") -> y: [N, K]:
    if kind = "relu":
        y = relu(x)
    else:
        y = gelu(x)
