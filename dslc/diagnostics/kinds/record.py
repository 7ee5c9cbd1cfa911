"""What an error or a warning is: a code, a message, a cause and a cure.

A kind is called with the labels of a particular case and the values for its message, and gives a Diagnostic.
`dslc explain CODE` and docs/errors.md show its cause and cure beside the example in examples/CODE.dsl.
"""

from __future__ import annotations

from dataclasses import dataclass

from dslc.diagnostics.report import Diagnostic, Fix, Label


@dataclass(frozen=True)
class Kind:
    code: str
    message: str
    help: str | None
    cause: str
    cure: str

    def __call__(
        self,
        *labels: Label,
        notes: tuple[str, ...] = (),
        help: str | None = None,
        fix: Fix | None = None,
        **values: object,
    ) -> Diagnostic:
        wording = help if help is not None else self.help
        return Diagnostic(
            self.code,
            self.message.format(**values),
            labels,
            notes,
            wording.format(**values) if wording and help is None else wording,
            fix,
        )


#: code -> kind, in the order of the index
KINDS: dict[str, Kind] = {}


def kind(code: str, message: str, help: str | None = None, *, cause: str, cure: str) -> Kind:
    assert code not in KINDS, code
    KINDS[code] = Kind(code, message, help, cause, cure)
    return KINDS[code]
