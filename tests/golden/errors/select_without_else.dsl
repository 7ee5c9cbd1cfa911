fn positive(x) = x if x > 0
