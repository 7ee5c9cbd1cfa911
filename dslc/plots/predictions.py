"""What a trained model says about labelled rows: probabilities of classes beside the right ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dslc.arrays import Array, Arrays
from dslc.check import program as p
from dslc.data.fields import Field, fields_of
from dslc.run_errors import RunError

#: how far probabilities may be from adding up to 1
TOLERANCE = 1e-3


@dataclass(frozen=True)
class Predictions:
    """Of each row the probabilities of classes, or that of 1 where labels are 0 and 1; and the label."""

    run: str
    #: what rows they are, in words
    rows: str
    p: Array
    label: Array
    #: how the numbers of the model became probabilities, in words
    scores: str
    classes: Sequence[str] = ()

    @property
    def binary(self) -> bool:
        return self.p.ndim == 1

    @property
    def choice(self) -> Array:
        return (self.p > 0.5).astype(int) if self.binary else self.p.argmax(1)

    @property
    def accuracy(self) -> float:
        return float((self.choice == self.label).mean())

    @property
    def count(self) -> int:
        """Of classes."""
        return 2 if self.binary else int(self.p.shape[1])


def label_of(train: p.Instance, model: p.Instance, wanted: str | None) -> Field:
    """The input that holds labels: whole numbers below a bound, or 0 and 1, and none that the model takes."""
    others = [f for f in fields_of(train) if f.name not in {t.name for t in model.inputs}]
    there = ", ".join(f"`{f.name}`: {f.declared}" for f in others) or "none"
    if wanted is not None:
        for field in others:
            if field.name == wanted:
                return field
        help = f"beside the inputs of the model there are {there}"
        raise RunError(f"--labels {wanted}: the `train` has no such input", train.span, help)
    labels = [f for f in others if f.below is not None or f.refinement == "binary" or f.dtype == "bool"]
    if len(labels) == 1:
        return labels[0]
    if labels:
        names = " or ".join(f"--labels {f.name}" for f in labels)
        raise RunError("the `train` has several inputs that may be labels", labels[0].span, f"choose {names}")
    help = f"labels are declared as i32[N] < classes, or as binary f32[N]; beside the inputs of the model are {there}"
    raise RunError("the `train` has no input that holds labels", train.span, help)


def scores_of(outputs: Arrays, label: Array, classes: int | None, wanted: str | None, model: p.Instance) -> str:
    """The output that holds a number for each class, or a number for each label of 0 or 1."""
    there = ", ".join(f"`{name}` {list(x.shape)}" for name, x in outputs.items())
    if wanted is not None and wanted not in outputs:
        raise RunError(f"--scores {wanted}: the model has no such output", model.span, f"there are {there}")

    def fits(x: Array) -> bool:
        if x.dtype.kind != "f":
            return False
        if x.shape[: label.ndim] != label.shape:
            return False
        rest = x.shape[label.ndim :]
        return rest[0] == (classes or rest[0]) if len(rest) == 1 else not rest and classes == 2

    found = [name for name, x in outputs.items() if fits(x) and name == (wanted or name)]
    if len(found) == 1:
        return found[0]
    if found:
        names = " or ".join(f"--scores {name}" for name in found)
        raise RunError("several outputs of the model may hold scores of the labels", model.span, f"choose {names}")
    message = f"{f'`{wanted}` holds no' if wanted else 'no output of the model holds'} scores of the labels"
    help = f"labels are {list(label.shape)}, so scores have that shape and an axis of classes behind; there are {there}"
    raise RunError(message, model.span, help)


def probabilities(name: str, x: Array, binary: bool) -> tuple[Array, str]:
    """Probabilities as they are; other numbers are logits.

    >>> probabilities("z", np.array([[0.0, 0.0]]), False)
    (array([[0.5, 0.5]]), 'softmax of `z`')
    """
    x = x.astype(np.float64)
    if not np.isfinite(x).all():
        raise RunError(f"`{name}` is not finite for all rows", help="compare with `dslc run`")
    if x.min() >= 0 and (x.max() <= 1 if binary else np.abs(x.sum(-1) - 1).max() <= TOLERANCE):
        return x, f"`{name}` as probabilities"
    if binary:
        return np.exp(-np.logaddexp(0, -x)), f"sigmoid of `{name}`"
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True), f"softmax of `{name}`"


def predictions_of(
    run: str, rows: str, outputs: Arrays, label: Array, field: Field, model: p.Instance,
    scores: str | None = None, encoding: Mapping[str, object] | None = None,
) -> Predictions:  # fmt: skip
    """Outputs of a model and labels as predictions, one behind the other whatever axes they have."""
    from dslc.data.files import classes_of

    classes = field.below if isinstance(field.below, int) else None if field.below is not None else 2
    if label.dtype.kind not in "iub" and not np.isin(label, (0, 1)).all():
        raise RunError(f"`{field.name}` holds numbers that are no classes", field.span, "choose others with --labels")
    name = scores_of(outputs, label, classes, scores, model)
    x = outputs[name]
    binary = x.shape == label.shape
    p_of, words = probabilities(name, x.reshape(-1) if binary else x.reshape(-1, x.shape[-1]), binary)
    return Predictions(run, rows, p_of, label.reshape(-1).astype(int), words, classes_of(encoding))
