# A table as a predictor: the stored answer where the input is known, a default elsewhere. It is never wrong on what it
# has seen, and has learnt nothing (chapter 3).

model lookup(x: f64[M, D], stored: f64[N, D], answer: f64[N], default: f64[]) -> y: [M]:
    distance[m, n] = sum[i]((x[m, i] - stored[n, i])^2)
    place[m] = argmin[n](distance[m, n])
    y[m] = answer[place[m]] if min[n](distance[m, n]) == 0 else default
