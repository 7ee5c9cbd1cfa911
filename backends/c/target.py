"""The processor that C is made for: a core whose first cache holds a row of some thousand numbers."""

from __future__ import annotations

from dslc.schedule.target import Memory, Target

TARGET = Target(longest_row=4096, results=512, part=64, memory=Memory(worth=64, share=0.2))
