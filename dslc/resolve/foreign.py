"""Names that other frameworks have and the language has not: what takes their place."""

from __future__ import annotations

_GROUP = "axes are split and joined by a group: `y[n, (h w)] = x[n, h, w]`"
_ORDER = "axes change places by their indices: `y[k, n] = x[n, k]`"
_PRODUCT = "an index that is absent on the left is summed: `y[n, o] = x[n, k] * W[k, o]`"
_JOIN = "arrays are joined along an index: `y[i] = concat[i](a[i], b[i])`"
_FILL = "an equation with bounds fills a tensor: `y[i: N] = 0`"
_MASK = "a mask is a condition on indices: `y[t, s] = x[t, s] if s <= t else 0`"
_AXIS = "an axis of one entry is an index with that bound: `y[n, c: 1] = x[n]`"

#: name -> help
FOREIGN = {
    "linear": "a linear map of the last axis is a layer: `y = dense(x, 64)`",
    "conv": "a convolution over one, two or three axes is a layer of its own: `y = conv2d(x, 64)`",
    **dict.fromkeys(("reshape", "view", "rearrange"), _GROUP),
    **dict.fromkeys(("permute", "transpose", "swapaxes", "moveaxis"), _ORDER),
    **dict.fromkeys(("matmul", "mm", "bmm", "tensordot"), _PRODUCT),
    **dict.fromkeys(("cat", "stack", "concatenate", "hstack", "vstack"), _JOIN),
    **dict.fromkeys(("zeros_like", "ones_like", "full", "full_like"), _FILL),
    **dict.fromkeys(("tril", "triu", "masked_fill"), _MASK),
    **dict.fromkeys(("squeeze", "unsqueeze", "expand_dims"), _AXIS),
    **dict.fromkeys(("maximum", "fmax"), "the larger one of two numbers is `y = max(x, 0)`"),
    **dict.fromkeys(("minimum", "fmin"), "the smaller one of two numbers is `y = min(x, 0)`"),
    **dict.fromkeys(("mse", "mse_loss", "MSE"), "it is called `y = mean_squared_error(x, t)`"),
    **dict.fromkeys(("mae", "l1_loss", "MAE"), "it is called `y = mean_absolute_error(x, t)`"),
    **dict.fromkeys(("bce", "BCE"), "of a logit it is `y = binary_cross_entropy(x, t)`"),
    **{f"arc{word}": f"it is called `y = a{word}(x)`" for word in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    "arctan2": "it is called `y = atan2(x, t)`",
    "eye": "a diagonal is a condition on indices: `y[i: N, j: N] = 1 if i == j else 0`",
    "trace": "a trace is the sum over one index: `y = sum[i](A[i, i])`",
    "outer": "two indices make an outer product: `y[i, j] = a[i] * b[j]`",
    "ln": "the natural logarithm is `y = log(x)`",
    "power": "a power is `y = x^2`",
    "arange": "an index is a number, too: `y[i: N] = i`",
    "roll": "`wrap` goes on at the other end: `y[i: N] = a[wrap(i - 1)]`",
    "randn": "a draw has an index for each of its entries: `y[i: N] = normal[i]()`",
    "rand": "a draw has an index for each of its entries: `y[i: N] = uniform[i]()`",
}

#: what arrays of other frameworks have behind a dot -> help
FOREIGN_MEMBERS = {
    **dict.fromkeys(("T", "mT", "H"), _ORDER),
    **dict.fromkeys(("shape", "size", "ndim"), "sizes have names in types: after `x: [N, K]`, `N` and `K` are numbers"),
}
