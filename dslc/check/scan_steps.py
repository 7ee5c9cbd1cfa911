"""Statements in a scan that would change a value from outside of it: what to write instead."""

from __future__ import annotations

import re

from dslc.check.frame import Frame
from dslc.check.program import Tensor
from dslc.check.scans import ScanState
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Label
from dslc.source import Span
from dslc.syntax import tree as t


def assigns_outer(frame: Frame, target: t.Target, node: t.Equation | t.Accumulate) -> bool:
    """Report a statement of a scan that assigns a value from outside: each step would begin with the old one."""
    if any(target.name in state.sequences for state in frame.scans):
        return False
    for state in frame.scans:
        value = state.outer.get(target.name)
        if isinstance(value, Tensor) and value.role == "value":
            labels = (Label(target.span), Label(value.span, "defined outside of the scan"))
            index, name = state.node.name, target.name
            frame.report(kinds.SCAN_ASSIGNS(*labels, name=name, index=index, help=_carried(state, target, node, value)))
            return True
    return False


def _carried(state: ScanState, target: t.Target, node: t.Equation | t.Accumulate, value: Tensor) -> str:
    """The statement with the scanned index, its start, and how its last value is read."""
    name, index, reversed_ = target.name, state.node.name, state.node.reversed
    items = [":"] * len(value.shape)
    if target.items is not None and all(isinstance(i, t.Name) for i in target.items):
        items = [i.span.text for i in target.items]
    earlier = f"{index}+1" if reversed_ else f"{index}-1"

    def at(place: str, rest: list[str] = items) -> str:
        return f"{name}[{', '.join([place, *rest])}]"

    right = node.value.span.text
    if "\n" in right:
        right = "..."
    right = re.sub(rf"\b{name}\b(?!\[|\()", at(earlier, [":"] * len(value.shape)), right)
    right = re.sub(rf"\b{name}\[(?!{re.escape(earlier)})", f"{name}[{earlier}, ", right)
    if isinstance(node, t.Accumulate):
        right = f"{at(earlier)} + {right}" if node.op == "+" else f"{node.op}({at(earlier)}, {right})"
    high = state.node.high
    last = "0" if reversed_ else "" if high is None else _before(high)
    after = f", and after it `{at(last, [':'] * len(items))}`" if last else ""
    return f"carry it: `{at(index)} = {right}`, below the scan `start {_start(value)}`{after}"


def _before(high: t.Expr) -> str:
    """The last step of a scan that ends before `high`."""
    if isinstance(high, t.Number):
        return str(int(high.value) - 1)
    text = high.span.text
    return f"{text}-1" if re.fullmatch(r"\w+", text) else f"({text})-1"


def _start(value: Tensor) -> str:
    """The equation of a value, as it stands in the spec; on several lines, or as one of several targets, `z = ...`."""
    return _equation(value.span) or f"{value.name} = ..."


def _equation(target: Span) -> str | None:
    text = target.source.text
    end = text.find("\n", target.end)
    line = text[target.start : end if end >= 0 else None].split("#")[0].strip()
    found = re.fullmatch(r"\w+(\[[\w, ]*\])?\s*=\s*[^=].*", line)
    return line if found and line.count("(") == line.count(")") else None
