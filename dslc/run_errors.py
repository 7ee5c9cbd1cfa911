"""What can go wrong in a run for reasons that a person can mend: data, checkpoints, disks, losses."""

from __future__ import annotations

from dslc.quoting import printable
from dslc.source import NOWHERE, Span


class RunError(Exception):
    """What happened, the line of the spec that it concerns, and what to do about it.

    >>> print(RunError("x.npz has no array `label`", help="add it").text())
    error: x.npz has no array `label`
      = help: add it
    """

    def __init__(self, message: str, place: Span = NOWHERE, help: str = ""):
        super().__init__(message)
        self.message = message
        self.place = place
        self.help = help

    def text(self) -> str:
        """The error as the command line shows it."""
        lines = [f"error: {printable(self.message)}"]
        if self.place.source.text:
            lines.append(f"  --> {printable(str(self.place))}")
            lines.append(f"   | {printable(self.place.source.line(self.place.line))}")
        if self.help:
            lines.append(f"  = help: {printable(self.help)}")
        return "\n".join(lines)

    def to_json(self) -> dict[str, object]:
        """The error as `--json` prints it; `file` and `line` are null where no line of the spec is concerned."""
        known = bool(self.place.source.text)
        return {
            "message": self.message,
            "file": self.place.source.name if known else None,
            "line": self.place.line if known else None,
            "help": self.help or None,
        }


class Stopped(Exception):
    """A run that was asked to stop, and has written its checkpoint."""

    def __init__(self, step: int, epoch: int, folder: object = ""):
        super().__init__(f"stopped after step {step}")
        self.step = step
        self.epoch = epoch
        self.folder = folder
