"""Every error and warning of dslc, worded in one place, in the order of their codes."""

from dslc.diagnostics.kinds.record import KINDS as KINDS
from dslc.diagnostics.kinds.record import Kind as Kind

# isort: split
from dslc.diagnostics.kinds.text import *  # noqa: F403

# isort: split
from dslc.diagnostics.kinds.sizes import *  # noqa: F403

# isort: split
from dslc.diagnostics.kinds.meaning import *  # noqa: F403

# isort: split
from dslc.diagnostics.kinds.training import *  # noqa: F403
