# Temperature scaling: one number, fitted to held-out logits, corrects confidence (chapter 4).
# The metric is the expected calibration error over equal bins of confidence.

fn calibration_error(p: [N, K], label: i32[N] < K, bins: int = 10) -> error: []:
    confidence[n] = max[k](p[n, k])
    right[n] = 1.0 if argmax[k](p[n, k]) == label[n] else 0.0
    bin[n] = clip(i32(floor(confidence[n] * bins)), 0, bins - 1)
    gap[b: bins] = sum[n](right[n] - confidence[n] if bin[n] == b else 0)
    error = sum[b](abs(gap[b])) / N

model calibration(logits: f32[N, classes], classes = 10) -> p: [N, classes]:
    param log_temperature: [] = 0
    p[n, k] = softmax[k](logits[n, k] * exp(-log_temperature))

train calibration(logits, label: i32[N] < classes, batch = 256, epochs = 20):
    p = calibration(logits)
    minimize -mean[n](log(p[n, label[n]]))
    metric calibration_error = calibration_error(p, label)
    using adam(lr = 0.01)
