fn rounded(x: [N]) -> k: i32[N]:
    k[n] = i32(round(x[n] * 10))
