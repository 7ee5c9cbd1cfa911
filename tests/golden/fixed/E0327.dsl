fn backwards(x: [N, T]) -> y: [N, T]:
    y = x[:, ::-1]
