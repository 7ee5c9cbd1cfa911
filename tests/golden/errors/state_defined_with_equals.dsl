layer counted(x: [N, K]) -> y: [N, K]:
    state seen: [] = 0
    seen = seen + 1
    y = x / seen
