"""Triton's interpreter must be chosen before triton is imported."""

import os

os.environ["TRITON_INTERPRET"] = "1"
