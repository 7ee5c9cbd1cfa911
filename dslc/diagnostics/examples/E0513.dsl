fn add(a, b, c) = a + b + c

fn running(x: [N, T]) -> y: [N, T]:
    y[n, t] = prefix[t](add, x[n, t])
