fn volume(A: [N, I, J]) -> v: [N] where I == J:
    v[n] = det(A[n, :, :])
