"""The checks of `dslc verify`: each gives its largest relative error, and what it may be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import cycle
from typing import Any

import numpy as np

from dslc import pipeline
from dslc.autodiff.reverse import NoDerivative, gradients, ones
from dslc.backends.triton.target import TARGET
from dslc.builder.build import Unit, build, build_train
from dslc.builder.paths import separate, together
from dslc.check import program as p
from dslc.ir import nodes as ir
from dslc.meaning.contracting import Contracting, as_product
from dslc.meaning.interpret import Array, Interpreter
from dslc.passes.transform import run_passes
from dslc.pipeline import EARLY, trained
from dslc.schedule.prepare import prepared
from dslc.source import Span
from dslc.verification.backends import Loaded
from dslc.verification.precision import (
    HALVES,
    LARGEST,
    TRIALS,
    Noise,
    Wanted,
    computed_in,
    kept,
    length,
    rounding,
    solving,
    watching,
)
from dslc.verification.sample import draw_inputs
from dslc.verification.undefined import FILLINGS, changing, defined, filling, undefined

#: between a module in float64 and the interpreter: in general, with draws (which are float32), with storage in 16 bits
EXACT, DRAWN, HALF = 1e-9, 1e-5, 2e-2
#: between a derivative and central differences
DIFFERENCES = 1e-6
STEPS = (1e-5, 1e-6, 1e-4, 1e-7)
#: an array over all indices of one value that the interpreter may make, and past which products are done by einsum
MOST_ELEMENTS, MANY_ELEMENTS = 2**26, 2**20


@dataclass
class Check:
    """One row of the table: `error` is None when the check could not be made, and `note` says why."""

    backend: str
    name: str
    error: float | None
    tolerance: float
    note: str = ""

    @property
    def ok(self) -> bool:
        return self.error is None or self.error <= self.tolerance

    @property
    def badness(self) -> float:
        """How large the error is, as a share of what it may be."""
        return -1.0 if self.error is None else self.error / self.tolerance if self.error else 0.0


@dataclass
class Subject:
    """A spec at particular sizes, with parameters of a dtype."""

    model: p.Instance
    train: p.TrainProgram | None
    sizes: Mapping[str, int]
    seed: int
    dtype: str = "f64"
    #: whether errors are shares of the largest result that is compared at the same time: long sums of what cancels are
    #: farther from 0 than a few roundings
    at_once: bool = False
    units: dict[str, Unit] = field(default_factory=dict)
    #: what a step of training should give, once it is known
    step: Wanted | None = None
    #: the outputs, once they are known, and the nodes of matrices that are nearly singular
    first: dict[str, Array] | None = None
    singular: list[ir.Node] = field(default_factory=list)

    def unit(self, mode: str) -> Unit:
        if mode not in self.units:
            if mode == "outputs":
                self.units[mode] = build(self.model, "inference")
            else:
                assert self.train is not None
                self.units[mode] = build_train(self.train, mode)
        return self.units[mode]

    def inputs(self, mode: str) -> dict[str, Array]:
        """Random values; the same for each backend."""
        unit = self.unit(mode)
        declared = self.model.inputs if mode == "outputs" or self.train is None else self.train.instance.inputs
        return kept(unit, draw_inputs(unit, declared, self.sizes, np.random.default_rng(self.seed)), self.dtype)

    def makes_sense(self) -> bool:
        """Whether the interpreter can run it; a `where` of the spec may exclude these sizes."""
        return self.tried() is not None

    def infinite(self) -> set[str]:
        """The outputs that are not finite, as their formulas are written: a long product is 0, its logarithm -inf."""
        return {name for name, x in (self.tried() or {}).items() if not np.isfinite(x).all()}

    def is_regular(self) -> bool:
        """Whether all systems of equations have a solution: one of too few rows has one by its roundings alone."""
        return self.makes_sense() and not self.singular

    def tried(self) -> dict[str, Array] | None:
        """The outputs by the interpreter; nothing where it fails, or has too much to do to be asked."""
        if self.first is not None:
            return self.first
        unit = self.unit("outputs")
        roots = tuple(unit.outputs.values())
        if too_large(roots, self.sizes):
            return {}
        values = self.inputs("outputs")
        machine = solving(type(self.interpreter(values, roots)), self.singular)
        try:
            with np.errstate(all="ignore"):
                self.first = machine(values, self.sizes, self.seed).run(unit.outputs)
        except (AssertionError, IndexError, ValueError):
            return None
        return self.first

    def is_finite(self) -> bool:
        """Whether the loss is a number; where there is none, or it is too large to compute, it counts as one."""
        if self.train is None or too_large((self.unit("training").outputs["loss"],), self.sizes):
            return True
        return bool(np.isfinite(self.loss()))

    def overflow(self) -> str:
        """Which value of the spec is larger than any of the module's dtype, in words, or nothing."""
        if self.dtype not in LARGEST:
            return ""
        modes = ["outputs"] if self.train is None else ["outputs", "inference", "training"]
        past: list[ir.Node] = []
        for mode in modes:
            results = of_a_step(self) if mode == "training" else self.unit(mode).outputs
            values = self.inputs(mode)
            machine = watching(type(self.interpreter(values, tuple(results.values()))), self.dtype, past)
            with np.errstate(all="ignore"):
                machine(values, self.sizes, self.seed).run(results)
        names = [name for x in past if (name := getattr(x, "name", ""))]
        what = f"`{names[0]}` is" if names else "values are"
        return f"{what} past {LARGEST[self.dtype]:.0f}, the largest of {self.dtype}" if past else ""

    def wanted(self, mode: str, results: Mapping[str, ir.Tensor]) -> Wanted:
        """What the interpreter gives for the results of a program, exactly and with roundings."""
        values = self.inputs(mode)
        exact, without = self.plain(values, results)
        if without:
            exact = defined(exact, self.run(values, self.stable(mode), None), without)

        def moved(results: Mapping[str, ir.Tensor]) -> list[dict[str, Array]]:
            return [self.run(values, results, np.random.default_rng((self.seed, k))) for k in range(TRIALS)]

        def near() -> list[dict[str, Array]]:
            found = moved(results)
            if not without and not any(undefined(x) for x in found):
                return found
            return [defined(*each, without) for each in zip(found, moved(self.stable(mode)), strict=True)]

        def other() -> list[dict[str, Array]]:
            return moved(prepared(self.stable(mode), TARGET))

        return Wanted(exact, near, other if self.dtype in HALVES else None)

    def plain(
        self, values: Mapping[str, Array], results: Mapping[str, ir.Tensor]
    ) -> tuple[dict[str, Array], dict[str, Array]]:
        """The interpreter's results, and where they have no value; nothing if they all have one."""
        kind, met = type(self.interpreter(values, tuple(results.values()))), list[ir.Node]()

        def run(scale: float) -> dict[str, Array]:
            machine = filling(kind, scale, self.seed, met)
            with np.errstate(all="ignore"):
                return machine(values, self.sizes, self.seed).run(results)

        first = run(FILLINGS[0])
        return first, changing([first, *map(run, FILLINGS[1:])]) if met else {}

    def loss(self) -> float:
        """The loss of a step of training."""
        return float(self.wanted("training", {"loss": self.unit("training").outputs["loss"]}).exact["loss"])

    def run(
        self, values: Mapping[str, Array], results: Mapping[str, ir.Tensor], rng: np.random.Generator | None
    ) -> dict[str, Array]:
        """The interpreter's results; with random numbers, those with all values on the way off by a few roundings."""
        machine = self.interpreter(values, tuple(results.values()))
        if rng is not None:
            machine = rounding(type(machine), self.dtype, rng)(values, self.sizes, self.seed)
        with np.errstate(all="ignore"):
            return machine.run(results)

    def stable(self, mode: str) -> dict[str, ir.Tensor]:
        """The results of a program in stable forms: they say what a row is that is masked as a whole."""
        if mode == "outputs":
            return pipeline.forward(self.model).outputs
        assert self.train is not None
        return (pipeline.training if mode == "training" else pipeline.evaluation)(self.train).outputs

    def judged(
        self,
        title: str,
        backend: str,
        found: Mapping[str, Any],
        wanted: Wanted,
        limit: float,
        stored: str | None = None,
    ) -> Check:
        """Whether results agree: in float64 up to a limit, else and in other dtypes as far as roundings go.

        Modules in 16 bits give losses, gradients and states in float32; what they give in 16 bits is said by `stored`.
        """
        stored = stored or computed_in(self.dtype)
        check = self.compared(title, backend, found, wanted, limit, stored)
        other = None if check.ok else wanted.otherwise()
        return check if other is None else self.compared(title, backend, found, other, limit, stored)

    def compared(
        self, title: str, backend: str, found: Mapping[str, Any], wanted: Wanted, limit: float, stored: str
    ) -> Check:
        least = max(map(largest_of, wanted.exact.values())) if self.at_once else 0.0
        rows = [(error_of(found.get(k, np.nan), v, least), limit, k) for k, v in wanted.exact.items()]
        if not self.at_once and (self.dtype != "f64" or any(error > limit for error, _, _ in rows)):
            coarse = [k for error, _, k in rows if self.dtype != "f64" or error > limit]
            largest = max(map(length, wanted.exact.values()))
            rows = [row for row in rows if row[2] not in coarse] + wanted.only(coarse).errors(found, stored, largest)
        wrong = [row for row in rows if not row[0] <= row[1]]
        error, most, name = max(wrong, key=lambda row: row[0] / row[1]) if wrong else max(rows)
        return Check(backend, title, error, most, f"largest at {name}")

    def interpreter(self, values: Mapping[str, Array], roots: tuple[ir.Tensor, ...]) -> Interpreter:
        """The plain interpreter, or for a large program the one that does products quickly."""
        largest = largest_grid(roots, self.sizes, products=True)
        kind = Interpreter if largest <= MANY_ELEMENTS else Contracting
        return kind(values, self.sizes, self.seed)


def largest_grid(roots: tuple[ir.Tensor, ...], sizes: Mapping[str, int], products: bool = False) -> int:
    """The number of elements of the largest array over all indices of a value, with or without products of tensors."""
    machine = Contracting({}, sizes)
    largest = 0
    for node in ir.every_node(roots):
        if not products and as_product(node) is not None:
            continue
        ranges = (*node.shape, *node.reduced) if isinstance(node, ir.Comp) else getattr(node, "ranges", ())
        largest = max(largest, int(np.prod([machine.number(size) for size in ranges], dtype=float)))
    return largest


def too_large(roots: tuple[ir.Tensor, ...], sizes: Mapping[str, int]) -> bool:
    """Whether a program is more than the interpreter can do in a reasonable time."""
    machine = Interpreter({}, sizes)
    inputs = (x for x in ir.schedule(roots) if isinstance(x, ir.Input))
    held = sum(float(np.prod(machine.shape(x.shape), dtype=float)) for x in inputs)
    return held > MOST_ELEMENTS / 4 or largest_grid(roots, sizes) > MOST_ELEMENTS


# ---- comparing -----------------------------------------------------------------------------------------


def error_of(found: Any, expected: Any, least: float = 0.0) -> float:
    """The largest difference relative to the largest value, or to a larger one that is given.

    It is infinite where one is NaN and the other not.

    >>> error_of(np.array([1.0, 2.0]), np.array([1.0, 4.0]))
    0.5
    """
    a, b = np.asarray(found, float), np.asarray(expected, float)
    if a.shape != b.shape or not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return float("inf")
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return float("inf")
    difference, largest = float(np.abs(a[finite] - b[finite]).max(initial=0.0)), max(largest_of(b), least)
    return 0.0 if difference == 0 else difference / largest if largest else float("inf")


def largest_of(x: Any) -> float:
    """The largest of the finite entries of an array, their signs apart."""
    x = np.asarray(x, float)
    return float(np.abs(x[np.isfinite(x)]).max(initial=0.0))


def tolerance(roots: tuple[ir.Tensor, ...]) -> float:
    """How far a module may be from the interpreter, which rounds nothing but what a spec has in 16 bits."""
    nodes = ir.every_node(roots)
    if rounds(roots):
        return HALF
    drawn = any(isinstance(s, ir.Rand) for x in nodes for b in ir.bodies(x) for s in ir.scalars(b))
    return DRAWN if drawn else EXACT


def rounds(roots: tuple[ir.Tensor, ...]) -> bool:
    """Whether a spec keeps values in 16 bits: steps of its loss, not slopes, are what small differences find."""
    return any(getattr(x, "dtype", "") in ("f16", "bf16") for x in ir.every_node(roots))


#: why there are no differences to compare with
STEPPED = "values round to 16 bits"


def same_signs(node: ir.Tensor, found: Any, expected: Any) -> Any:
    """Eigenvectors, which have no sign of their own, with the signs that are expected; anything else as it is."""
    vectors = isinstance(node, ir.Part) and isinstance(node.of, ir.External) and node.of.op == "eigh" and node.number
    if not vectors or np.shape(found) != np.shape(expected):
        return found
    return found * np.where(np.sum(found * expected, axis=-2, keepdims=True) < 0, -1.0, 1.0)


# ---- the checks ------------------------------------------------------------------------------------------


def outputs(subject: Subject, loaded: Loaded) -> Check:
    """The outputs for inference are those of the interpreter."""
    unit, values = subject.unit("outputs"), subject.inputs("outputs")
    result = loaded.call("forward", unit, values, subject.seed)
    wanted = subject.wanted("outputs", unit.outputs)
    named = result if isinstance(result, dict) else {next(iter(unit.outputs)): result}
    found = {k: same_signs(unit.outputs[k], named[k], v) for k, v in wanted.exact.items()}
    limit = tolerance(tuple(unit.outputs.values()))
    return subject.judged("outputs", loaded.name, found, wanted, limit, subject.dtype)


def of_a_step(subject: Subject) -> dict[str, ir.Tensor]:
    """What a step of training computes, on the formulas as they are written."""
    assert subject.train is not None
    unit = subject.unit("training")
    names = trained(unit, subject.train)
    slopes = gradients({unit.outputs["loss"]: ones(())}, [unit.inputs[n] for n in names])
    results = {**unit.outputs, **{f"state {k}": v for k, v in unit.updates.items()}}
    return results | {f"gradient {n}": g for n, g in zip(names, slopes, strict=True)}


def training(subject: Subject, loaded: Loaded) -> list[Check]:
    """Loss, metrics, next states and gradients are those of the interpreter on the plain formulas."""
    assert subject.train is not None
    unit, values = subject.unit("training"), subject.inputs("training")
    names, results = trained(unit, subject.train), of_a_step(subject)
    wanted = subject.step = subject.step or subject.wanted("training", results)
    loss, grads, metrics, states = loaded.call("loss_grad_metrics", unit, values, subject.seed)
    found = {"loss": loss, **metrics}
    found |= {f"state {k}": v for k, v in together(unit, states, unit.updates).items()}
    found |= {f"gradient {k}": v for k, v in together(unit, grads, names).items()}
    limit = tolerance(tuple(results.values()))
    checks = []
    for title, prefix in (("loss and metrics", ""), ("next states", "state "), ("gradients", "gradient ")):
        chosen = [k for k in results if (k.startswith(prefix) if prefix else not k.startswith(("state ", "gradient ")))]
        if chosen:
            check = subject.judged(title, loaded.name, found, wanted.only(chosen), limit)
            checks.append(replace(check, note=check.note.replace(f" at {prefix}", " at ")))
    return checks


def evaluation(subject: Subject, loaded: Loaded) -> Check:
    """Loss and metrics for inference are those of the interpreter."""
    unit, values = subject.unit("inference"), subject.inputs("inference")
    wanted = subject.wanted("inference", unit.outputs)
    loss, metrics = loaded.call("evaluate", unit, values, subject.seed)
    limit = tolerance(tuple(unit.outputs.values()))
    return subject.judged("loss for inference", loaded.name, {"loss": loss, **metrics}, wanted, limit)


#: how many steps two backends train before they are compared, and how far they may be apart in float64
TRAINED, APART = 10, 1e-7
#: how often the other backend trains with roundings: steps make them a thousand times larger, or hardly, as it comes.
#: Where roundings decide on which side of a kink a step goes, trainings part for good, and one more goes farther than
#: the 16 before it one time in 17, without a fault: what looks like a fault is judged again by more trainings.
RETRAINED, OFTEN = 16, 128


def same_training(subject: Subject, loaded: Loaded, reference: Loaded, steps: int = TRAINED) -> Check:
    """Some steps of training, random draws and all, move the parameters as another backend does, with its losses.

    Steps make roundings large, for instance where an optimiser divides a gradient by its own size. How large, the other
    backend's own steps say when their gradients are off by what roundings make of those of the interpreter.
    """
    unit, values = subject.unit("training"), subject.inputs("training")

    def trained_on(backend: Loaded, noise: Noise | None = None) -> dict[str, Array]:
        ends, losses = backend.train(unit, values, subject.seed, steps, noise)
        starts = separate(unit, values, (n for n in unit.params if n in values))
        moves = {k: np.asarray(x, float) - starts.get(k, 0.0) for k, x in ends.items()}
        return {"losses": np.array(losses), **moves}

    def moved(step: Wanted, often: int) -> list[dict[str, Array]]:
        sizes = [apart(unit, {k: each[k] - x for k, x in step.exact.items()}) for each in step.near]
        generators = map(np.random.default_rng, range(often))
        noises = (Noise(x, subject.dtype, rng) for x, rng in zip(cycle(sizes), generators, strict=False))
        return [trained_on(reference, noise) for noise in noises]

    step = subject.step = subject.step or subject.wanted("training", of_a_step(subject))
    otherwise = step.otherwise()
    general = tolerance((unit.outputs["loss"],))
    title, limit = f"{steps} steps as {reference.name}", APART if general == EXACT else general
    found, exact = trained_on(loaded), trained_on(reference, Noise({}, subject.dtype, np.random.default_rng()))

    def judged(often: int) -> Check:
        other = (lambda: moved(otherwise, often)) if otherwise is not None else None
        wanted = Wanted(exact, lambda: moved(step, often), other)
        return subject.judged(title, loaded.name, found, wanted, limit)

    check = judged(RETRAINED)
    if not check.ok:
        check = judged(OFTEN)
    kind = f"; {reference.name} in {reference.dtype}" if reference.dtype != subject.dtype else ""
    return replace(check, note=check.note + kind)


def apart(unit: Unit, step: Mapping[str, Array]) -> dict[str, Array]:
    """The results of a step with the gradients and states of equal layers one by one."""
    found = dict(step)
    for kind in ("gradient", "state"):
        ours = {k.removeprefix(f"{kind} "): x for k, x in step.items() if k.startswith(f"{kind} ")}
        found |= {f"{kind} {k}": x for k, x in separate(unit, ours, ours).items()}
    return found


class Held:
    """Values of `stop_grad` from the point where a derivative is taken: differences must not move them.

    They are kept for each node: nodes share equal formulas, whose values have other axes in each of them.
    """

    def __init__(self) -> None:
        self.past: dict[tuple[int, int], list[Any]] = {}

    def interpreter(self, values: Mapping[str, Array], sizes: Mapping[str, int], seed: int) -> Interpreter:
        past, turns = self.past, dict[tuple[int, int], int]()

        class Holding(Contracting):
            node = 0

            def evaluate(self, node: ir.Node) -> Any:
                self.node = id(node)
                return super().evaluate(node)

            def one(self, s: ir.Scalar, variables: list[Array], done: Mapping[int, Any]) -> Any:
                value = super().one(s, variables, done)
                if not isinstance(s, ir.Op) or s.name != "stop_grad":
                    return value
                key = (self.node, id(s))
                kept = past.setdefault(key, [])
                turn = turns[key] = turns.get(key, -1) + 1
                if turn == len(kept):
                    kept.append(value)
                return kept[turn]

        return Holding(values, sizes, seed)


def by_hand(roots: tuple[ir.Tensor, ...]) -> Span | None:
    """Where a derivative is written by hand, if one is: it need not be the true one."""
    for node in ir.every_node(roots):
        if isinstance(node, ir.Part) and isinstance(node.of, ir.Custom):
            if not isinstance(node.of.rule, ir.Apart | ir.Recompute):
                return node.span
    return None


def differences(subject: Subject, loaded: Loaded) -> Check:
    """The gradient along a random direction is the slope of the loss there."""
    assert subject.train is not None
    unit, values = subject.unit("training"), subject.inputs("training")
    if rounds((unit.outputs["loss"],)):
        return Check(loaded.name, "gradient against differences", None, HALF, STEPPED)
    if not np.isfinite(subject.loss()):
        return Check(loaded.name, "gradient against differences", None, DIFFERENCES, f"the loss is {subject.loss()}")
    rng = np.random.default_rng(subject.seed + 1)
    _, apart, _, _ = loaded.call("loss_grad_metrics", unit, values, subject.seed)
    grads = together(unit, apart, trained(unit, subject.train))
    directions = {n: rng.standard_normal(values[n].shape) for n in grads}
    slope = float(sum(np.sum(np.asarray(g, float) * directions[n]) for n, g in grads.items()))
    loss = unit.outputs["loss"]
    held = Held() if stops((loss,)) else None

    def at(distance: float) -> float:
        moved = {**values, **{n: values[n] + distance * v for n, v in directions.items()}}
        if held is None:
            return float(loaded.call("loss_grad_metrics", unit, moved, subject.seed)[0])
        with np.errstate(all="ignore"):
            return float(held.interpreter(moved, subject.sizes, subject.seed).tensor(loss))

    limit = differences_tolerance((loss,))
    check = Check(
        loaded.name, "gradient against differences", slope_error(slope, at, limit), limit, "a random direction"
    )
    span = by_hand((loss,))
    if not check.ok and span is not None:
        line = f" on line {span.line}" if span.source.text else ""
        return Check(
            loaded.name, check.name, None, check.tolerance, f"differs, but a derivative is given by hand{line}"
        )
    return check


def stops(roots: tuple[ir.Tensor, ...]) -> bool:
    """Whether a spec stops gradients, so that they are not the slopes of its loss."""
    bodies = (b for x in ir.every_node(roots) for b in ir.bodies(x))
    return any(isinstance(s, ir.Op) and s.name == "stop_grad" for b in bodies for s in ir.scalars(b))


def differences_tolerance(roots: tuple[ir.Tensor, ...]) -> float:
    return max(DIFFERENCES, tolerance(roots) if tolerance(roots) != EXACT else 0.0)


def slope_error(slope: float, at: Callable[[float], float], limit: float) -> float:
    """How far a slope is from central differences; steps are tried until one agrees, for each may hit a kink."""
    here = at(0.0)
    best = float("inf")
    for step in STEPS:
        expected = (at(step) - at(-step)) / (2 * step)
        error = abs(slope - expected) / max(abs(expected), abs(here), 1e-3)
        best = min(best, error) if np.isfinite(error) else best
        if best <= limit / 10:
            break
    return best


def second_order(subject: Subject) -> Check:
    """The slope of the gradient: differentiated twice, against differences of the first derivative."""
    assert subject.train is not None
    unit, values = subject.unit("training"), subject.inputs("training")
    name = "second derivative against differences"
    if rounds((unit.outputs["loss"],)):
        return Check("interpreter", name, None, HALF, STEPPED)
    if not np.isfinite(subject.loss()):
        return Check("interpreter", name, None, DIFFERENCES, f"the loss is {subject.loss()}")
    loss = run_passes({"loss": unit.outputs["loss"]}, EARLY, [])["loss"]
    names = trained(unit, subject.train)
    rng = np.random.default_rng(subject.seed + 2)
    directions: dict[str, Array] = {n: np.asarray(rng.standard_normal(values[n].shape)) for n in names}
    given = {f"along {n}": v for n, v in directions.items()}
    try:
        first = along(loss, unit, names)
        second = along(first, unit, names)
    except NoDerivative as reason:
        return Check("interpreter", name, None, DIFFERENCES, f"not defined: {reason.what}")
    if too_large((second,), subject.sizes):
        return Check("interpreter", name, None, DIFFERENCES, "too large; choose smaller sizes")
    held = Held()

    def at(distance: float, node: ir.Tensor = first) -> float:
        moved: dict[str, Array] = {**values, **given, **{n: values[n] + distance * v for n, v in directions.items()}}
        with np.errstate(all="ignore"):
            return float(held.interpreter(moved, subject.sizes, subject.seed).tensor(node))

    slope = at(0.0, second)
    limit = max(1e-5, differences_tolerance((second,)))
    check = Check("interpreter", name, slope_error(slope, at, limit), limit, "a random direction")
    if not check.ok and by_hand((loss,)) is not None:
        return Check("interpreter", name, None, limit, "differs, but a derivative is given by hand")
    return check


def along(f: ir.Tensor, unit: Unit, names: list[str]) -> ir.Tensor:
    """The derivative of `f` along a direction, which is an input `along NAME` for each parameter."""
    total: ir.Scalar = ir.const(0.0, "float")
    slopes = gradients({f: ones((), f.dtype)}, [unit.inputs[n] for n in names])
    for name, slope in zip(names, slopes, strict=True):
        direction = ir.intern(ir.Input(f"along {name}", "input", "f64", slope.shape))
        product = ir.op("*", (ir.whole(direction), ir.whole(slope)), "float")
        part = ir.comp((), product, "sum", slope.shape) if slope.shape else ir.comp((), product)
        total = ir.op("+", (total, ir.whole(part)), "float")
    return ir.comp((), total)
