"""Loops lose what nothing reads, and nothing else."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from programs import evaluate, unit

from dslc.compiler import compile_text
from dslc.ir import nodes as ir
from dslc.passes.transform import everything
from dslc.passes.unread import drop_unread

ROOT = Path(__file__).parents[2]

#: `b` needs both carried values, `a` its own alone
TWO = """
fn f(x: [T]) -> (a: [T], b: [T]):
    scan t:
        b[t] = b[t-1] + a[t-1] * x[t]
        a[t] = 0.5 * a[t-1] + x[t]
    start a = 1
    start b = 0
"""


def scan_of(outputs: dict[str, ir.Tensor]) -> ir.Scan:
    (found,) = (x for x in everything(outputs) if isinstance(x, ir.Scan))
    return found


@pytest.mark.parametrize(("wanted", "left"), [("a", 1), ("b", 2)])
def test_a_value_that_only_carries_itself_on_is_dropped(wanted: str, left: int) -> None:
    program = unit(TWO)
    outputs = {wanted: program.outputs[wanted]}
    trimmed = drop_unread(outputs)
    assert len(scan_of(outputs).carries) == 2
    assert len(scan_of(trimmed).carries) == len(scan_of(trimmed).starts) == left
    assert len(scan_of(trimmed).results) == 1
    before, after = (evaluate(program, {"x": np.linspace(-1, 1, 5)}, x)[wanted] for x in (outputs, trimmed))
    np.testing.assert_array_equal(before, after)


def test_a_program_in_which_all_is_read_stays_as_it_is() -> None:
    outputs = dict(unit(TWO).outputs)
    assert scan_of(drop_unread(drop_unread(outputs))) is scan_of(drop_unread(outputs))
    assert len(scan_of(drop_unread(outputs)).carries) == 2


def test_a_stack_of_the_steps_of_an_array_is_that_array() -> None:
    program = unit(TWO)
    x = ir.comp(program.inputs["x"].shape, ir.op("exp", (ir.whole(program.inputs["x"]),), "f64"))
    scan = scan_of(dict(program.outputs))
    (step,) = (s for s in ir.inside(scan)[0] if isinstance(s, ir.Step) and s.kind == "number")
    piece = ir.comp((), ir.read(x, (ir.intern(ir.At(step)),)))
    more = ir.intern(replace(scan, results=(*scan.results, piece)))
    part = ir.intern(ir.Part(more, len(scan.results), x.dtype, x.shape))
    assert drop_unread({"y": part})["y"] is x


def test_training_keeps_no_attention_weights_of_a_whole_batch() -> None:
    text = compile_text(ROOT / "specs/transformer/gpt.dsl")
    assert not re.findall(r"space\([^()]*\bT, T\b[^()]*\)", text)
