fn most_common(word: i32[N] < V, V: size) -> y: []:
    count[word[n]] += 1
    y = max(count) / N
