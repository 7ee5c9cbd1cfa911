# A function put together from bins (appendix B): each bin is the difference of two steep sigmoids, a hidden layer with
# two units, and as high as the function is on average there. More bins, a better fit.

# As high as a where x is above s, 0 below: one unit.
fn unit_step(x, a, w, s) = a * sigmoid(w * (x - s))

# As high as a in an interval of the given width round s, 0 elsewhere: two units.
fn bin(x, a, w, s, width) = unit_step(x, a, w, s - width / 2) - unit_step(x, a, w, s + width / 2)

fn wave(x) = sin(x) / x if x != 0 else 1

model bins(x: f64[N], m = 15, steepness = 10000.0, parts = 64) -> (y: [N], exact: [N], error: []):
    size M = m
    width = 10 / M
    height[j: M] = mean[k: parts](wave(width * (j + (k + 0.5) / parts)))
    y[n] = sum[j](bin(x[n], height[j], steepness, width * (j + 0.5), width))
    exact[n] = wave(x[n])
    error = mean[n]((y[n] - exact[n])^2)
