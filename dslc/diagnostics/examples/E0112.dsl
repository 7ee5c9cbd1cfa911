fn log_density(x: [N]) -> y: [N]:
    minus_one_half_of_the_squared_distance_to_the_mean_in_units_of_the_standard_deviation_of_it = -x^2 / 2
    y = minus_one_half_of_the_squared_distance_to_the_mean_in_units_of_the_standard_deviation_of_it - log(2 * pi) / 2
