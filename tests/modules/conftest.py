"""Triton's interpreter must be chosen before triton is imported; it warns of what NumPy warns of."""

import os

os.environ["TRITON_INTERPRET"] = "1"
