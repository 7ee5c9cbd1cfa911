fn product(A: [B, I, K], C: [B, K, J]) -> y: [B, I, J]:
    y = einsum("bik,bkj->bij", A, C)
