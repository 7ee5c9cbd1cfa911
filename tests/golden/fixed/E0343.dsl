fn solved(A: [K, K], b: [N, K]) -> x: [N, K]:
    x[n, :] = solve(A, b[n, :])
