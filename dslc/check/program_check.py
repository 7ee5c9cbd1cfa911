"""The check of a whole spec: every definition by itself, then its models and trainings."""

from __future__ import annotations

from collections.abc import Mapping

from dslc.check import blocks, definitions, lint, matching, training
from dslc.check import rule_table as rule_table  # nothing is checked without the rules
from dslc.check.frame import Checker, Frame, GiveUp
from dslc.check.program import Instance, Program, SharedLayer, TrainProgram
from dslc.check.values import FunctionValue, Shared
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Label, Reporter
from dslc.resolve.files import Defined, File, did_you_mean, find_recursion
from dslc.sizes import MAX_WORK, Facts, TooComplex, limited_work
from dslc.syntax import tree as t


def check_program(file: File, reporter: Reporter, settings: Mapping[str, object] | None = None) -> Program:
    """Check all definitions of a file. What can be checked by itself is; the rest where it is called."""
    checker = Checker(reporter)
    program = Program()
    _check_settings(file, reporter, settings or {})
    recursive = find_recursion(file, reporter)
    checker.faulty |= recursive
    try:
        with limited_work():
            for defined in file.own:
                if defined.node in recursive:
                    continue
                _check_definition(checker, program, defined, settings or {})
            for train in file.trains:
                trained = check_train(checker, program, file, train, settings or {})
                if trained is not None:
                    program.trains.append(trained)
    except GiveUp:
        pass
    except TooComplex:
        reporter.add(kinds.TOO_MUCH_WORK(Label(checker.place), what="steps of arithmetic on sizes", limit=MAX_WORK))
    except RecursionError:
        what = "operations, those of called definitions included"
        reporter.add(kinds.TOO_DEEP(Label(checker.place), what=what, limit="some hundred"))
    return program


#: arguments of a `train` that `dslc train` has options for
OPTIONS = ("batch", "epochs")


def _check_settings(file: File, reporter: Reporter, settings: Mapping[str, object]) -> None:
    """Every setting must be an argument of a model or of its `train`."""
    models = [d for d in file.own if isinstance(d.node, t.Layer) and d.node.word == "model"]
    formals = [f for d in models for f in d.node.formals] + [f for train in file.trains for f in train.formals]
    names = [f.name for d in models for f in d.node.formals if not isinstance(f.kind, t.Type)]
    names += dict.fromkeys(
        dim.id for f in formals if isinstance(f.kind, t.Type) for dim in f.kind.dims if isinstance(dim, t.Name)
    )
    names += [f.name for x in file.trains for f in x.formals if f.default is not None and f.name not in OPTIONS]
    for name in settings:
        if name not in names and models:
            help = did_you_mean(name, names) or "it has " + (", ".join(f"`{n}`" for n in names) or "none")
            place = Label(models[-1].name_span)
            reporter.add(kinds.UNKNOWN_ARGUMENT(place, name=name, callee=models[-1].node.name, help=help))


def _check_definition(checker: Checker, program: Program, defined: Defined, settings: Mapping[str, object]) -> None:
    node = defined.node
    before = len(checker.reporter.diagnostics)
    if isinstance(node, t.Optimizer):
        instance = training.check_optimizer(checker, defined)
    else:
        own = settings if isinstance(node, t.Layer) and node.word == "model" else {}
        instance = definitions.check_by_itself(checker, defined, own)
    if any(d.severity == "error" for d in checker.reporter.diagnostics[before:]):
        checker.faulty.add(node)
    else:
        lint.definition(checker.reporter, defined)
    if instance is not None:
        program.definitions[node.name] = instance
        if isinstance(node, t.Layer) and node.word == "model":
            program.models[node.name] = instance


def check_train(
    checker: Checker, program: Program, file: File, node: t.Train, settings: Mapping[str, object]
) -> TrainProgram | None:
    """`train model(x, label: i32[N]):`: arguments named as the model's take their types from it."""
    checker.new_root()
    instance = Instance(node.model, "train", span=node.span)
    frame = Frame(checker, file, "train", instance, Facts())
    defined = file.lookup(node.model)
    if node.model in file.broken and node.model not in file.names:
        return None
    if defined is None or not isinstance(defined.node, t.Layer):
        if not (defined is None and file.incomplete):
            models = [n for n in file.names if isinstance(file.names[n].node, t.Layer)]
            help = did_you_mean(node.model, models)
            if help is None and len(models) == 1:
                help = f"a `train` has the name of its model: `train {models[0]}`"
            place = Label(node.span.word(node.model))
            frame.report(kinds.UNKNOWN_NAME(place, what="model", name=node.model, help=help))
        return None
    model = defined.node
    if model in checker.faulty:
        return None
    statics = definitions.own_statics(checker, frame, defined, settings)
    if statics is None:
        return None
    frame.names.update(statics)  # type: ignore[arg-type]
    model_formals = {f.name: f for f in model.formals if isinstance(f.kind, t.Type)}
    if definitions.own_types(frame, defined, model.where, settings) is None:
        return None
    formals: list[t.Formal] = []
    for formal in node.formals:
        if formal.kind is None and formal.default is None:
            if formal.name not in model_formals:
                names = ", ".join(f"`{n}`" for n in model_formals) or "none"
                help = f"give it a type, for example `{formal.name}: i32[N]`; the inputs of `{node.model}` are {names}"
                frame.report(kinds.TRAIN_ARGUMENT(Label(formal.span), name=formal.name, model=node.model, help=help))
                return None
            formal = t.Formal(formal.name, model_formals[formal.name].kind, None, span=formal.span)
        formals.append(formal)
    as_layer = Defined(t.Layer("layer", node.model, tuple(formals), (), (), (), span=node.span), file)
    own = definitions.own_statics(checker, frame, as_layer, settings)
    if own is None:
        return None
    frame.names.update(own)  # type: ignore[arg-type]
    types = definitions.own_types(frame, as_layer, node.where, settings)
    if types is None:
        return None
    if not matching.bind_signature(frame, None, as_layer, types):
        return None
    bound = tuple((k, v) for k, v in statics.items())
    shared = Shared(FunctionValue(defined, None, bound), "", False, node.span, SharedLayer("", frame.instance))
    frame.names[node.model] = shared
    by_itself = program.models.get(node.model)
    if by_itself is not None:
        frame.paths.taken |= _heads(by_itself)
    blocks.block(frame, node.body)
    first_line = node.span.first_line
    if frame.training.objective is None:
        frame.report(kinds.NO_OBJECTIVE(Label(first_line), model=node.model))
    if frame.training.using is None:
        frame.report(kinds.NO_OPTIMIZER(Label(first_line), model=node.model))
    if frame.had_error or not definitions.finish(frame):
        return None
    if shared.instance is None:
        frame.report(kinds.MODEL_NOT_USED(Label(first_line), model=node.model))
        return None
    _told_apart(frame, shared.instance)
    trained = TrainProgram(
        instance,
        shared.instance,
        frame.training.loss,
        metrics=frame.training.metrics,
        optimizer=frame.training.optimizer,
    )
    trained.maximize = frame.training.objective is not None and frame.training.objective.sense == "maximize"
    trained.optimizer_args = frame.training.arguments
    for freeze in frame.training.freezes:
        for path in freeze.paths:
            known = lint.parameter_paths(shared.instance)
            if not any(p == path or p.startswith(path + ".") for p in known):
                tops = sorted({p.split(".")[0] for p in known})
                help = did_you_mean(path, known) or "it has " + ", ".join(f"`{p}`" for p in tops[:8])
                frame.report(
                    kinds.FREEZE_NOTHING(Label(freeze.span.word(path)), path=path, model=node.model, help=help)
                )
            trained.frozen.append(path)
    for each in (shared.instance, by_itself):
        if each is not None:
            each.named |= instance.named | set(trained.frozen)
    lint.train(checker.reporter, node)
    return trained if not frame.had_error else None


def _heads(instance: Instance) -> set[str]:
    """What the paths of the parameters of an instance begin with."""
    return {path.split(".")[0] for path in (*instance.children, *(d.tensor.name for d in instance.params))}


def _told_apart(frame: Frame, model: Instance) -> None:
    """Arguments and parameters of a training are inputs of one program; its loss, metrics, exposed values results."""
    places = {x.name: x.span for x in (*(d.tensor for d in model.params), *(d.tensor for d in model.states))}
    for tensor in frame.instance.inputs:
        if tensor.name in places:
            labels = (Label(tensor.span), Label(places[tensor.name], f"part of the model `{model.name}`"))
            frame.report(kinds.DEFINED_TWICE(*labels, name=tensor.name))
    for path, layer in frame.instance.children.items():
        if path and path.split(".")[0] in _heads(
            model
        ):  # an imported model, whose parts are known after its first call
            labels = (Label(layer.span.first_line), Label(model.span.first_line, f"it has a part `{path}` of its own"))
            frame.report(kinds.DEFINED_TWICE(*labels, name=path, help="call the model before other layers"))
    results = {name: tensor.span for name, tensor in (*frame.training.metrics, *model.exposed.items())}
    if frame.training.objective is not None:
        results["loss"] = frame.training.objective.span
    for name, tensor in frame.instance.exposed.items():
        if name in results:
            labels = (Label(tensor.span), Label(results[name], "a result of the training"))
            frame.report(kinds.DEFINED_TWICE(*labels, name=name))
