model network(x: i32[N, 16]) -> y: [N, 4]:
    y = dense(x, 4)
