fn add(a1, b1, a2, b2) -> (a, b):
    a = a1 + a2
    b = b1 + b2

fn running(x: [N, T]) -> y: [N, T]:
    y[n, t] = prefix[t](add, x[n, t])
