"""`dslc cost`: what a spec costs, value by value."""

from __future__ import annotations

from pathlib import Path

import click

from dslc.cli.arguments import setting
from dslc.cli.compile import BACKEND, DTYPE, FOLD, MODEL, SPEC
from dslc.cli.cost_report import JSON_VERSION, counted, open_sizes, refuse_unknown, show, sorted_settings, summary


@click.command(short_help="Count the operations and bytes of a spec.")
@SPEC
@click.option(
    "--set",
    "given",
    metavar="NAME=VALUE",
    multiple=True,
    callback=lambda context, option, values: dict(map(setting, values)),
    help="A hyper-parameter of the model, or an open size such as N; may be repeated.",
)
@click.option("--inference", is_flag=True, help="Only the outputs for inference, though the spec has a `train`.")
@click.option("--forward-mode", is_flag=True, help="The derivative of the loss along one direction, not its gradient.")
@FOLD
@click.option("--json", "as_json", is_flag=True, help="Print the costs as JSON on standard output.")
@DTYPE
@MODEL
@BACKEND
@click.option("--resources", is_flag=True, help="With -b triton: registers, shared memory and spills on three GPUs.")
@click.option("--measure", is_flag=True, help="With -b c: run it; times, and shares of what this machine can do.")
@click.option("--fields", is_flag=True, help="Shapes, strides and receptive fields of the model's values instead.")
def cost(
    spec: Path, given: dict[str, object], inference: bool, forward_mode: bool, fold: bool, as_json: bool, dtype: str,
    model: str | None, backend: str, resources: bool, measure: bool, fields: bool,
) -> None:  # fmt: skip
    """Count operations, bytes and parameters of SPEC, for each value that it names.

    \b
    Examples:
        dslc cost mlp.dsl
        dslc cost mlp.dsl --set N=64 --set hidden=512
        dslc cost gpt.dsl --set N=8 --set T=128 --json
        dslc cost gpt.dsl --set N=8 --set T=1024 -b triton --resources
        dslc cost mlp.dsl --set N=64 -b c --measure

    Sizes that are not set stay symbols, and costs are formulas of them. A row is a value that an equation names,
    with the parts of its formula, or a gradient (its line begins with d). "operations" counts arithmetic and
    functions on floats, a product that is summed as two; "read" and "written" are bytes, each element once;
    "saved" are the bytes that the backward pass reads again; "held" are the most bytes of values at once, each
    until its last reader has it. The counts are those of the program before fusion.

    With --forward-mode, the loss is differentiated along one direction of the parameters by tangents that go along
    with the values: nothing is saved for a backward pass.

    With --json, standard output holds one object: "version" (1), "parameters" and "parameter_bytes", "optimizer" and
    "optimizer_bytes" (what it keeps from step to step) where the spec has a `train`, "held", "sizes" (the
    open ones), "rows" ("name", "file", "line", "backward", "count" and the four costs) and "total" (of "forward",
    "backward" and "all"). A cost is a number, or a formula as a string.

    With -b triton, a row is a kernel of the function that infers or of the one that trains: how often it is launched,
    operations, bytes, and operations for each byte ("intensity"); "buffers" are the bytes of what a function
    allocates. --resources compiles the kernels, without a GPU, for cuda 80, cuda 90 and hip gfx942.

    With --fold, the outputs for inference are counted as `dslc compile --fold` computes them, with linear maps merged.

    With --fields, a row is a value of the model and an input that it sees: its shape, its strides in memory (in
    entries), how many entries of each axis of the input one of its own entries depends on ("field"), and how far those
    of its neighbour are ("step", 0 where all see the same). A "?" stands where reads are not affine. Passes of a loop
    are numbered. With --json: "sizes" and "fields", of which each has "name", "file", "line", "shape", "strides", "of",
    "field" and "step".

    With -b c, a row is a region or a call of the schedule, and "runs" how often it runs; "workspace" are the bytes
    that a function works in, "packed" those of them for matrices that products read in another order, "thread" those
    that it needs beside for each thread. --measure runs the function on random data, a second long, and adds "time",
    the least of its calls, and operations and bytes as shares of what this machine was found to do in that time:
    products in registers, a copy of 64 MB, on all threads.
    With --json: "seconds", "of_arithmetic" and "of_memory" of each row, and "limits", by the second.
    """
    import json

    from dslc.cli.compiled import chosen, spec_errors
    from dslc.compiler import optimizer_of

    inference = inference or fold  # a training computes with the weights as they are
    if resources and backend != "triton":
        raise click.UsageError("--resources tells about kernels: add -b triton")
    if measure and backend != "c":
        raise click.UsageError("--measure times the steps of C modules: add -b c")
    if forward_mode and backend != "numpy":
        raise click.UsageError("--forward-mode counts values, not what a backend makes of them: leave -b out")
    settings, sizes = sorted_settings(spec, given, model)
    if fields:
        from dslc.cli.field_report import field_report, show_fields

        with spec_errors(as_json, JSON_VERSION):
            _, instance, _ = chosen(spec, settings, model)
            made = field_report(instance, sizes)
        if as_json:
            click.echo(json.dumps(made, indent=2))
        else:
            show_fields(made)
        return
    if backend == "triton":
        from dslc.cli.kernel_cost import kernel_report, show_kernels

        with spec_errors(as_json, JSON_VERSION):
            checked, instance, train = chosen(spec, settings, model)
            made = kernel_report(checked, instance, None if inference else train, spec, sizes, dtype, resources, fold)
        if as_json:
            click.echo(json.dumps(made, indent=2))
        else:
            show_kernels(made)
        return
    if backend == "c":
        from dslc.cli.schedule_cost import schedule_report, show_schedule

        with spec_errors(as_json, JSON_VERSION):
            checked, instance, train = chosen(spec, settings, model)
            made = schedule_report(checked, instance, None if inference else train, sizes, dtype, fold, measure)
        if as_json:
            click.echo(json.dumps(made, indent=2))
        else:
            show_schedule(made)
        return
    with spec_errors(as_json, JSON_VERSION):
        checked, instance, train = chosen(spec, settings, model)
        train = None if inference else train
        if forward_mode and train is None:
            raise click.UsageError("--forward-mode is for the loss of a `train`")
        found = counted(instance, train, dtype, fold, forward_mode)
    known = open_sizes(found.unit)
    refuse_unknown(sizes, known)
    report = summary(found, sizes, known, dtype, optimizer_of(checked, train))
    if as_json:
        click.echo(json.dumps(report, indent=2))
    else:
        show(report)
