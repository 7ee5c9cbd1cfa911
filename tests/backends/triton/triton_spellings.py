"""Attention in eight spellings: one formula, written as different people write it."""

from __future__ import annotations

TRAIN = """
model whole(x: f32[N, H, T, 16]) -> y: [N, H, T, 16]:
    param a, b, c: [16] ~ ones
    q[n, h, t, d] = x[n, h, t, d] * a[d]
    k[n, h, t, d] = x[n, h, t, d] * b[d]
    v[n, h, t, d] = x[n, h, t, d] * c[d]
    y = attend(q, k, v)

train whole(x, target: f32[N, H, T, 16]):
    minimize mean[n, h, t, d]((whole(x)[n, h, t, d] - target[n, h, t, d])^2)
    using sgd(lr = 0.1)
"""

LAYER = "layer attend(q: [N, H, T, D], k: [N, H, T, D], v: [N, H, T, D]) -> y: [N, H, T, D]:\n"

BODIES = {
    "divided": """
    score[n, h, t, s] = q[n, h, t, d] * k[n, h, s, d] / sqrt(D)
    a[n, h, t, s] = softmax[s](score[n, h, t, s] if s <= t else -inf)
    y[n, h, t, d] = a[n, h, t, s] * v[n, h, s, d]
""",
    "multiplied": """
    score[n, h, t, s] = q[n, h, t, d] * k[n, h, s, d] * (1 / sqrt(D))
    a[n, h, t, s] = softmax[s](score[n, h, t, s] if s <= t else -inf)
    y[n, h, t, d] = a[n, h, t, s] * v[n, h, s, d]
""",
    "scaled query": """
    scaled[n, h, t, d] = q[n, h, t, d] / sqrt(D)
    score[n, h, t, s] = scaled[n, h, t, d] * k[n, h, s, d]
    a[n, h, t, s] = softmax[s](score[n, h, t, s] if s <= t else -inf)
    y[n, h, t, d] = a[n, h, t, s] * v[n, h, s, d]
""",
    "scaled after the mask": """
    score[n, h, t, s] = q[n, h, t, d] * k[n, h, s, d]
    seen[n, h, t, s] = score[n, h, t, s] if s <= t else -inf
    a[n, h, t, s] = softmax[s](seen[n, h, t, s] / sqrt(D))
    y[n, h, t, d] = a[n, h, t, s] * v[n, h, s, d]
""",
    "naive softmax": """
    score[n, h, t, s] = q[n, h, t, d] * k[n, h, s, d] / sqrt(D)
    e[n, h, t, s] = exp(score[n, h, t, s]) if s <= t else 0
    a[n, h, t, s] = e[n, h, t, s] / sum[r](e[n, h, t, r])
    y[n, h, t, d] = a[n, h, t, s] * v[n, h, s, d]
""",
    "other order of axes": """
    score[s, t, h, n] = q[n, h, t, d] * k[n, h, s, d] / sqrt(D)
    a[t, s, n, h] = softmax[s](score[s, t, h, n] if s <= t else -inf)
    y[n, h, t, d] = a[t, s, n, h] * v[n, h, s, d]
""",
    "einsum": """
    score = einsum("nhtd,nhsd->nhts", q, k)
    a[n, h, t, s] = softmax[s](score[n, h, t, s] / sqrt(D) if s <= t else -inf)
    y = einsum("nhts,nhsd->nhtd", a, v)
""",
    "normalised last": """
    score[n, h, t, s] = q[n, h, t, d] * k[n, h, s, d] / sqrt(D)
    e[n, h, t, s] = exp(score[n, h, t, s] if s <= t else -inf)
    total[n, h, t] = sum[s](e[n, h, t, s])
    mixed[n, h, t, d] = e[n, h, t, s] * v[n, h, s, d]
    y[n, h, t, d] = mixed[n, h, t, d] / total[n, h, t]
""",
}

SPELLINGS = {name: LAYER + body.strip("\n") + "\n" + TRAIN for name, body in BODIES.items()}
