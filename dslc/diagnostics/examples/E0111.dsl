fn decayed(x, lambda) = x * exp(-lambda)
