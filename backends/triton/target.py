"""The GPU that kernels are made for: one choice serves sm80, sm90 and gfx942."""

from __future__ import annotations

from dslc.schedule.target import Target

#: it has some hundred multiprocessors, and threads with 255 registers
TARGET = Target(longest_row=4096, tiles=True, accumulators=4, programs=256, lanes=32, words=112)
