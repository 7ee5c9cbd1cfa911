# mlp.dsl: a small network for digits.
# To do: write the model.
