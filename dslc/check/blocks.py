"""Blocks of statements: which may stand where, and which belong together."""

from __future__ import annotations

from collections.abc import Sequence

from dslc.check import wording
from dslc.check.frame import Frame
from dslc.check.rules import STATEMENTS
from dslc.check.values import POISON
from dslc.diagnostics import kinds
from dslc.diagnostics.report import Label
from dslc.syntax import tree as t

#: which statements may stand where (by the word of the definition)
PLACES: dict[type, tuple[str, ...]] = {
    t.Parameter: ("layer", "model"),
    t.State: ("layer", "model"),
    t.Use: ("layer", "model"),
    t.Expose: ("layer", "model", "train"),
    t.Slots: ("optimizer",),
    t.Update: ("layer", "model", "optimizer"),
    t.Backward: ("fn",),
    t.Objective: ("train",),
    t.Using: ("train",),
    t.Metric: ("train",),
    t.Freeze: ("train",),
    t.Mode: ("layer", "model", "train"),
}


def block(frame: Frame, statements: Sequence[t.Statement]) -> None:
    """Check statements in order; `start` lines belong to the scan above them, modes go in pairs."""
    place = 0
    while place < len(statements):
        statement = statements[place]
        place += 1
        frame.checker.step(statement.span)
        if not _may_stand_here(frame, statement):
            continue
        if isinstance(statement, t.Scan):
            starts: list[t.Start] = []
            while place < len(statements) and isinstance(following := statements[place], t.Start):
                starts.append(following)
                place += 1
            STATEMENTS[t.Scan](frame, statement, starts)
        elif isinstance(statement, t.Mode):
            pair = [statement]
            if (
                place < len(statements)
                and isinstance(other := statements[place], t.Mode)
                and other.mode != statement.mode
            ):
                pair.append(other)
                place += 1
            STATEMENTS[t.Mode](frame, pair)
        else:
            STATEMENTS[type(statement)](frame, statement)


def _may_stand_here(frame: Frame, statement: t.Statement) -> bool:
    places = PLACES.get(type(statement))
    if places is None or frame.word in places:
        return True
    word = statement.span.text.split(maxsplit=1)[0].rstrip(":")
    if frame.word == "fn" and isinstance(statement, t.Parameter | t.State):
        name = statement.targets[0].name if isinstance(statement, t.Parameter) else statement.name
        frame.report(kinds.PARAM_IN_FN(Label(statement.span), word=word, name=name, fn=frame.instance.name))
    else:
        allowed = wording.listed(places, "or")
        frame.report(kinds.NOT_HERE(Label(statement.span.first_line), word=word, here=frame.word, allowed=allowed))
    poison_all(frame, [statement])
    return False


def poison_all(frame: Frame, body: Sequence[t.Statement]) -> None:
    """Everything that a block would have defined has an error already."""
    for statement in body:
        for node in statement.walk():
            match node:
                case t.Equation() | t.Parameter():
                    names = [target.name for target in node.targets]
                case t.Accumulate():
                    names = [node.target.name]
                case t.State() | t.Use() | t.Size() | t.Metric() | t.SlotValue():
                    names = [node.name]
                case _:
                    names = []
            frame.names.update(dict.fromkeys(names, POISON))
