fn the_exponential_of_minus_one_half_of_the_square_of_the_distance_to_the_mean_of_the_data(x) = exp(-x^2 / 2)
