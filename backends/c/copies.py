"""Values copied from one array to another: the start of a loop, what it stacks, results whose values lie elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dslc.ir import nodes as ir
from dslc.schedule.form import based
from dslc.sizes import product

if TYPE_CHECKING:
    from dslc.backends.c.entry import EntryText
    from dslc.backends.c.kernel import Kernel


def copied(
    target: str, source: str, node: ir.Node, entry: EntryText, kernel: Kernel, given: ir.Node,
    part: ir.Node | None = None, ctype: str | None = None,
) -> str:  # fmt: skip
    """The statement that copies a value, in another type if need be."""
    size = kernel.size(product(node.shape))  # type: ignore[union-attr]
    wanted = ctype or (entry.element_type(part) if part is not None else entry.types.of(node.dtype))  # type: ignore[union-attr]
    found = entry.element_type(based(given)) if not isinstance(based(given), ir.Step) else entry.types.of(given.dtype)  # type: ignore[union-attr]
    if wanted == found:
        return f"memcpy({target}, {source}, sizeof({wanted}) * ({size}));"
    value = f"({wanted})({source})[i]"
    if wanted == "f16_bits":
        value = f"bits_of_f16{entry.types.suffix('float')}(({source})[i])"
    elif wanted == "uint16_t":
        value = f"bits_of_bf16((float)({source})[i])"
    return f"for (long i = 0; i < {size}; i++) ({target})[i] = {value};"
