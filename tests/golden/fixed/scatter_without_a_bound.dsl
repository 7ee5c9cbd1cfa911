fn totals(x: [M, K], group: i32[M]) -> y: [8, K]:
    y[clip(group[m], 0, 7), k] += x[m, k]
