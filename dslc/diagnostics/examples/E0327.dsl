fn backwards(x: [N, T]) -> y: [N, T]:
    y = x[:, T:0:-1]
