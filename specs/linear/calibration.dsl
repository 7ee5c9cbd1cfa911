# Temperature scaling: one number, fitted to held-out logits, corrects confidence (chapter 4).
# The metric is the expected calibration error over equal bins of confidence.

model calibration(logits: f32[N, classes], classes = 10) -> p: [N, classes]:
    param log_temperature: [] = 0
    p[n, k] = softmax[k](logits[n, k] * exp(-log_temperature))

train calibration(logits, label: i32[N] < classes, batch = 256, epochs = 20):
    p = calibration(logits)
    minimize -mean[n](log(p[n, label[n]]))
    count, confidence, accuracy = reliability(p, label)
    expose count, confidence, accuracy
    metric calibration_error = calibration_error(p, label)
    metric worst_bin = maximum_calibration_error(p, label)
    using adam(lr = 0.01)
