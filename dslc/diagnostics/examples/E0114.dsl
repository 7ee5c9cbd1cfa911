fn squared_error(x, y) = (x - y) ** 2
