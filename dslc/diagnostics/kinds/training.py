"""What is wrong with derivatives, training and compilation; warnings."""

from __future__ import annotations

from dslc.diagnostics.kinds.record import kind

# ---- E07: derivatives and training ---------------------------------------------------------------

LOSS_NOT_SCALAR = kind(
    "E0701",
    "expected a single number for the {what}, found the shape {found}",
    cause="A loss is minimised, so it must be one number.",
    cure="Reduce it with `mean` or `sum`.",
)
NO_OBJECTIVE = kind(
    "E0702",
    "`train {model}` has no `minimize`",
    "add `minimize LOSS`",
    cause="Training needs a loss.",
    cure="Add `minimize` or `maximize`.",
)
OBJECTIVE_TWICE = kind(
    "E0703",
    "expected one {word} in a `train`, found two",
    "keep one of them",
    cause="A `train` has one objective and one optimizer.",
    cure="Keep one optimizer; add losses up.",
)
NO_OPTIMIZER = kind(
    "E0704",
    "`train {model}` has no `using`",
    "add `using adamw(lr = 1e-3)`",
    cause="Training needs an optimizer.",
    cure="Add `using`.",
)
NOT_AN_OPTIMIZER = kind(
    "E0705",
    "expected an optimizer after `using`, found `{name}`",
    cause="After `using` stands an optimizer of the library or one that the spec defines.",
    cure="Name an optimizer.",
)
DERIVATIVE_BY = kind(
    "E0706",
    "expected the name of a value to differentiate by, found `{found}`",
    "give it a name with an equation of its own, and use the name before and here",
    cause="`grad(y, x)` and its relatives must know which value is varied.",
    cure="Name a whole tensor: an argument, a parameter or a local value.",
)
DERIVATIVE_SCALAR = kind(
    "E0707",
    "expected a single number for `{kind}`, found {found}",
    cause="A gradient belongs to a single number; derivatives of tensors are `jacobian`, `jvp` and `vjp`.",
    cure="Reduce the value, or use one of the others.",
)
DERIVATIVE_ZERO = kind(
    "E0708",
    "`{of}` does not depend on `{by}`, so its derivative is zero",
    "differentiate by a value that it is computed from",
    cause="The value was not computed from the one it is differentiated by; perhaps that name was rebound since.",
    cure="Name the value that goes into the formula.",
)
DIRECTION_SHAPE = kind(
    "E0709",
    "expected a direction of the shape {expected} of `{like}` for `{kind}`, found {found}",
    cause="`jvp` takes a direction like its input, `vjp` one like its output.",
    cure="Pass a tensor of that shape.",
)
FREEZE_NOTHING = kind(
    "E0710",
    "`{model}` has no parameters under `{path}`",
    cause="The path after `freeze` leads to no parameter.",
    cure="Mind the spelling of the path.",
)
OPTIMIZER_IDLE = kind(
    "E0711",
    "the optimizer `{name}` never updates `param`",
    "add `param <- param - lr * grad` or its like",
    cause="An optimizer must say what becomes of the parameter.",
    cure="Add the update.",
)
TRAIN_ARGUMENT = kind(
    "E0712",
    "`{name}` is no input of `{model}` and has no type",
    cause="Arguments of a `train` that are named like inputs of the model take their types from it; others need one.",
    cure="Give it a type.",
)
MODEL_NOT_USED = kind(
    "E0713",
    "`train {model}` never calls `{model}`",
    "call it and use its result in the loss: `y = {model}(...)`",
    cause="The loss does not depend on the model.",
    cure="Call the model.",
)

METRIC_NAME = kind(
    "E0714",
    "expected a name of its own for the metric, found `{name}`, {why}",
    "call it something else, for example `{name}2`",
    cause="Losses and metrics are reported together, each under its name; `loss` is what is minimised.",
    cure="Give the metric another name.",
)

# ---- E09: compilation ---------------------------------------------------------------------------------

NOT_COMPILED = kind(
    "E0901",
    "the {backend} backend cannot compile {what} yet",
    "write it another way; see docs/language.md",
    cause="The spec is right, but this version of the compiler cannot translate one of its constructs.",
    cure="Write the part in other terms, or wait for a version that can.",
)

TOO_MANY_OPERATIONS = kind(
    "E0902",
    "expected a program of at most {limit} operations, found more on the way through the compiler",
    "each derivative of a derivative is some three times as long; write equal parts once, in a `for` or a `scan`",
    cause="The spec is right, but its program grows past all bounds, as do repeated gradients of gradients.",
    cure="Take fewer derivatives of derivatives, and repeat equal parts with `for` or `scan`: they are compiled once.",
)

# ---- W08: warnings -------------------------------------------------------------------------------

UNUSED_PARAMETER = kind(
    "W0801",
    "the parameter `{name}` of `{owner}` is never used",
    "use it or delete it",
    cause="A parameter that no equation reads is trained for nothing.",
    cure="Use it or delete it.",
)
UNUSED_ARGUMENT = kind(
    "W0802",
    "the argument `{name}` of `{owner}` is never used",
    "use it or delete it",
    cause="An argument that nothing reads is usually a slip.",
    cure="Use it or delete it.",
)
UNUSED_VALUE = kind(
    "W0803",
    "`{name}` is defined and never used",
    "use it, delete it, or `expose` it as an extra output",
    cause="A value that nothing reads is usually a slip.",
    cure="Use it, delete it, or expose it.",
)

LOOP_ONE_BY_ONE = kind(
    "W0804",
    "the {passes} passes of this `for` are written one by one: the module has {lines} lines",
    "passes that are equal but for their parameters become one loop; read numbers that differ from a tensor",
    cause="The passes of a `for` differ, or take derivatives: each has a text of its own in the module.",
    cure="Make the passes equal: read what differs from a tensor at the number of the pass, or write a `scan`.",
)

FLAT_LOSS = kind(
    "W0805",
    "the gradient of the loss of `train {model}` is zero by every parameter",
    "minimise a smooth loss, and report this one with `metric`",
    cause="The loss changes in steps alone: it is made of `round`, `sign`, `argmax` or comparisons; or "
    "no parameter is in it. Training leaves all of them as they are.",
    cure="Minimise a smooth loss in its place, such as `cross_entropy` or `hinge`, and keep this one as a metric.",
)
STILL_PARAMETERS = kind(
    "W0806",
    "the gradient of the loss is zero by {names}",
    "use it in the loss, or say that it stays: `freeze`",
    cause="The loss does not depend on some parameters, or only in steps such as those of `round` or of a comparison. "
    "Training leaves them as they are.",
    cure="Let the loss depend on them smoothly, delete them, or `freeze` them.",
)
