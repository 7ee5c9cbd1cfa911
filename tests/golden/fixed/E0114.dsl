fn mean_square(x: [N], y: [N]) -> e: []:
    d = x - y
    e = mean(d ^ 2)
