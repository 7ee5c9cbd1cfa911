fn rounded(x: [N]) -> k: i32[N]:
    k[n] = i32(x[n] * 10)
