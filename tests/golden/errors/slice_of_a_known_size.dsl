fn front(x: [N, 4]) -> y: [N, 5]:
    y = x[:, 0:5]
