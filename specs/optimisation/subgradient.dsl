# Subgradient descent on |x - centre| (section 6.4.4): a step of fixed length jumps to and fro across the kink, steps
# that shrink as 1 / sqrt(t) come to rest in it.

fn slope(x: [], centre: []) -> g: []:
    height = abs(x - centre)
    g = grad(height, x)

model subgradient(
    begin: f64[], centre: f64[], lr = 0.45, steps = 100
) -> (fixed: [S = steps], shrinking: [S]):
    scan t in 0..steps:
        fixed[t] = fixed[t-1] - lr * slope(fixed[t-1], centre)
        shrinking[t] = shrinking[t-1] - lr / sqrt(t + 1) * slope(shrinking[t-1], centre)
    start fixed = begin
    start shrinking = begin
