fn add(a, b) = a + b

fn running(x: [N, T]) -> y: [N, T]:
    y[n, t] = prefix[t](add, x[n, t])
