"""What is switched off among the pairs, since it shows a fault that is not mended yet. The list should be empty."""

from __future__ import annotations

#: name of a feature: the fault that it shows
OFF: dict[str, str] = {}


def on(feature: str) -> bool:
    return feature not in OFF
