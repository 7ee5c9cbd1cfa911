layer block(x: [N, K]) -> y: [N, K]:
h = dense(x, K)
h = relu(h)
y = x + h

fn bent(x) = x if x > 0 else unknown
