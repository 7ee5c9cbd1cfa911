layer lookup(id: f32[N], table: [V, K]) -> y: [N, K]:
    y = one_step(i32(round(id)), table)

fn one_step(id: i32[N], table: [V, K]) -> y: [N, K]:
    y[n, k] = table[clamp(id[n]), k]
