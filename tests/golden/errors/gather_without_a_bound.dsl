fn looked_up(table: [V, K], word: i32[N, T]) -> y: [N, T, K]:
    y[n, t, k] = table[word[n, t], k]
