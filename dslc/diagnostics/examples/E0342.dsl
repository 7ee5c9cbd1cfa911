fn volume(A: [N, I, J]) -> v: [N]:
    v[n] = det(A[n, :, :])
