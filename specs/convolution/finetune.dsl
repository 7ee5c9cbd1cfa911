# Fine-tuning: a trained backbone is kept fixed and a new head is trained on it (chapter 9).

from "resnet.dsl" import backbone

model finetune(image: f32[N, H, W, 3], classes = 5) -> logits: [N, classes]:
    use features = frozen backbone(width = 16)
    logits = image |> features |> dense(64) |> relu |> dense(classes)

train finetune(image, label: i32[N] < classes, batch = 32, epochs = 5):
    minimize cross_entropy(finetune(image), label)
    freeze dense.b
    using adamw(lr = 1e-3)
