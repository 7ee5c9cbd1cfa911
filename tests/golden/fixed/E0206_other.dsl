fn doubled(x) = 2 * x
