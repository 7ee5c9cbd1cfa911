fn product(A: [I, 4], B: [5, J]) -> y: [I, J]:
    y = einsum("ik,kj->ij", A, B)
