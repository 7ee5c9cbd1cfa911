"""Statements in a scan that would change a value from outside of it: what to write instead."""

from __future__ import annotations

import re

from dslc.check import wording
from dslc.check.frame import Frame
from dslc.check.program import Tensor
from dslc.check.scan_state import ScanState
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Label
from dslc.sizes import tidy
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
            frame.report(
                kinds.SCAN_ASSIGNS(*labels, name=name, index=index, help=_carried(frame, state, target, node, value))
            )
            return True
    return False


def _carried(frame: Frame, state: ScanState, target: t.Target, node: t.Equation | t.Accumulate, value: Tensor) -> str:
    """The statement with the scanned index, its start, and how its last value is read."""
    name, index, reversed_ = target.name, state.node.name, state.node.reversed
    earlier = f"{index}+1" if reversed_ else f"{index}-1"
    if isinstance(node, t.Equation) and len(node.targets) > 1:
        names = wording.listed([x.name for x in node.targets])
        return f"carry {names}: give each the index `{index}` on the left, read it at `{earlier}`, and `start` it"
    items = [":"] * len(value.shape)
    places: list[str] = []
    if target.items is not None and not any(isinstance(i, t.Slice | t.Rest | t.Group) for i in target.items):
        plain = [i.span.text for i in target.items if isinstance(i, t.Name)]
        fresh = iter(wording.letters(len(target.items), frame, [index, *plain]))
        items = [i.span.text if isinstance(i, t.Name) else next(fresh) for i in target.items]
        places = [
            f"{x} == {i.span.text}" for x, i in zip(items, target.items, strict=True) if not isinstance(i, t.Name)
        ]

    own = f"{name}_steps" if name in frame.types.outputs else name  # an output has other axes

    def at(place: str, rest: list[str] = items) -> str:
        return f"{own}[{', '.join([place, *rest])}]"

    right = node.value.span.text
    if "\n" in right:
        right = "..."
    right = re.sub(rf"\b{name}\b(?!\[|\()", at(earlier, [":"] * len(value.shape)), right)
    right = re.sub(rf"\b{name}\[(?!{re.escape(earlier)})", f"{own}[{earlier}, ", right)
    if isinstance(node, t.Accumulate):
        right = f"{at(earlier)} + {right}" if node.op == "+" else f"{node.op}({at(earlier)}, {right})"
    if places:
        right = f"{right} if {' and '.join(places)} else {at(earlier)}"
    high, size = state.node.high, state.index.size
    last = "0" if reversed_ else "" if size is None else frame.show(tidy(size - 1)) if high is None else _before(high)
    after = f"`{at(last, [':'] * len(items))}`" if last else "its last step"
    start = f"{own} = ..." if frame.paths.loop else own + _start(value).removeprefix(name)
    return f"carry it: `{at(index)} = {right}`, below the scan `start {start}`, and after it {after}"


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
    found = re.fullmatch(r"\w+(\[[\w,: ]*\])?\s*=\s*[^=].*", line)
    return line if found and line.count("(") == line.count(")") else None
