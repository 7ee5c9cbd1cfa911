model averaged(x: f32[T]) -> y: []:
    state w: [] = 1
    scan t:
        w <- 0.5 * w + x[t]
    y = w
