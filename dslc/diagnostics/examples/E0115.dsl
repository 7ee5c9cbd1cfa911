fn half(x) = .5 * x
