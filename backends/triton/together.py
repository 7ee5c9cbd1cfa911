"""Sums of parts that are added up together: one launch for all that a function still has to add up.

Each sum is a device function, and each program of the launch belongs to one of them:

    program = tl.program_id(0)
    if program < 64:
        add_up_d_Wo(program, d_Wo_parts_ptr, d_Wo_ptr, BLOCK_ROWS=64, BLOCK_COLUMNS=16)
    else:
        add_up_d_b(program - 64, d_b_parts_ptr, d_b_ptr, BLOCK_ROWS=64, BLOCK_COLUMNS=8)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dslc.backends.triton.body import Body
from dslc.backends.triton.kernels import KernelText

from dslc.ir import nodes as ir

#: more sums than these are several launches: a launch has an argument for each tensor
MOST_SUMS = 32


def can_join(text: KernelText) -> bool:
    """Has a kernel so many programs in a row, known when it is written, and nothing that a loop counts or draws?"""
    return len(text.grid) == 1 and text.grid[0].isdigit() and not text.body.counters.given and not text.body.random


def joined(texts: Sequence[KernelText], dtype: str, function: Callable[[KernelText], str]) -> KernelText:
    """One kernel for all these; `function` writes each of them as a device function, and gives its name."""
    assert texts and all(can_join(t) for t in texts)
    body = Body(dtype, texts[0].body.node)
    body.taken.add("program")
    outputs: list[ir.Tensor] = [x for t in texts for x in t.outputs]
    for t in texts:
        for tensor in t.body.pointers:
            if tensor not in outputs:
                body.pointer(tensor)
    for tensor in outputs:
        body.pointer(tensor)
    body.line("program = tl.program_id(0)")
    first = 0
    for k, t in enumerate(texts):
        count = int(t.grid[0])
        name = function(t)
        numbers = t.numbers()
        body.numbers |= {n: n for n in numbers}
        pointers = [body.pointer(tensor) for tensor in t.body.pointers]
        blocks = [f"{n}={v}" for n, v in t.blocks.items()]
        program = "program" if first == 0 else f"program - {first}"
        head = "else:" if k == len(texts) - 1 and k else f"{'el' if k else ''}if program < {first + count}:"
        body.line(head)
        body.line(f"    {name}({', '.join([program, *pointers, *numbers, *blocks])})")
        first += count
    warps = max(t.warps for t in texts)
    spans = [x for t in texts for x in t.spans]
    return KernelText("add_up", body, {}, [str(first)], warps, 1, outputs, spans, joined=list(texts))
