"""What NumPy needs of a program before it is written: its own functions, and floats where floats are meant."""

from __future__ import annotations

from collections.abc import Iterable

from dslc.backends.numpy.floats import use_floats
from dslc.backends.numpy.known import use_known
from dslc.backends.numpy.onto import use_onto
from dslc.backends.numpy.peaks import use_peaks
from dslc.backends.numpy.powers import use_powers
from dslc.backends.numpy.shares import use_shares

from dslc.ir import nodes as ir
from dslc.passes.normal import use_normal
from dslc.passes.transform import Outputs


def prepared(outputs: Outputs, numbers: Iterable[ir.Node] = ()) -> dict[str, ir.Tensor]:
    """The program as it is printed; some inputs are known to be finite `numbers`."""
    return use_floats(use_powers(use_normal(use_onto(use_shares(use_peaks(use_known(outputs), numbers))))))
