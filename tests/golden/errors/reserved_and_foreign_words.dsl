fn class(x) = x

fn scaled(x, in) = x * in

fn both(x, y) = x && y

fn product(A: [I, K], B: [K, J]) -> y: [I, J]:
    y = A @ B
