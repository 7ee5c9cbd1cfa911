fn inside(x) = 1 if 0 < x < 1 else 0
