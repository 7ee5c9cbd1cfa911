fn product(A: [N, I, K], B: [N, K, J]) -> y: [N, I, J]:
    y = einsum("ik,kj->ij", A, B)
