fn scaled(x, α = 0.5) = α * x
