# Nearest neighbours among stored vectors, by distance and by angle (chapters 3, 8).

model nearest(
    query: f32[Q, D], stored: f32[V, D], label: i32[V] < classes, near = 5, classes = 10
) -> (first: i32[Q] < V, vote: [Q, classes], ranking: i32[Q, V] < V) where near <= V:
    distance[q, v] = sum[d]((query[q, d] - stored[v, d])^2)
    first[q] = argmin[v](distance[q, v])
    ranking[q, v] = argsort[v](distance[q, v])
    angle[q, v] = cosine[d](query[q, d], stored[v, d])
    best[q, j], id[q, j] = top_k[v -> j: near](angle[q, v])
    vote[q, k: classes] = mean[j](1.0 if label[id[q, j]] == k else 0.0)
