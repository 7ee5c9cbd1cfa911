model language(token: i32[N, T] < 1000, vocabulary = 1000) -> y: [N, T - 1, 64] where T >= 2:
    past = token[:, 0:T-1]
    y = embedding(past, vocabulary, 64)
