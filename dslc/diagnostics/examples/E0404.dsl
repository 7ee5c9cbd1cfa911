model counted(count: i32[N]) -> g: [N]:
    total = sum(count)
    g = grad(total, count)
