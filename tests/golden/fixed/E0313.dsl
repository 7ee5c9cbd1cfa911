layer projected(x: [N, I]) -> y: [N, 8]:
    y[n, o] = dense(x, 8)[n, o]
