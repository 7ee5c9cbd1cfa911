fn looked_up(table: [V, K], place: [N]) -> y: [N, K]:
    y[n, k] = table[clamp(i32(round(place[n]))), k]
