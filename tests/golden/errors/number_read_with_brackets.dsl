fn first(x) = x[0]
