fn share_inside(x: [N]) -> y: []:
    inside[n] = 1 if 0 < x[n] < 1 else 0
    y = mean(inside)
