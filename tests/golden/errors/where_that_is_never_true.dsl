layer halves(x: [N, 7]) -> y: [N, 7] where 7 % 2 == 0:
    y = 2 * x
