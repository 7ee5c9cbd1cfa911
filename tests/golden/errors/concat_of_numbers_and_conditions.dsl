fn joined(x: [T], keep: bool[S]) -> y: [T + S]:
    y[t] = concat[t](x[t], keep[t])
