layer split(x: [N, E], heads = 8) -> y: [N, heads, E / heads] where E % heads == 0:
    y[n, h, d] = x[n, (h d)] where h = heads
