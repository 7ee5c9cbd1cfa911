fn decayed(x, λ) = x * exp(-λ)

fn scaled(x) = x * Σ

fn shifted(x, Α) = x + Α
