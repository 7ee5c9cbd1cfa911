fn ramp[k](x) = x * k

fn weighted(x: [H, W]) -> y: [H, W]:
    y[h, w] = ramp[h, w](x[h, w])
