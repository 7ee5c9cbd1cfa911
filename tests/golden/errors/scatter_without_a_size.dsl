fn totals(x: [M, K], group: i32[M]) -> y: [K]:
    sums[group[m], k] += x[m, k]
    y[k] = max[g](sums[g, k])
