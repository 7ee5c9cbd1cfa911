"""Every error and warning of dslc, worded in one place.

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


def _kind(code: str, message: str, help: str | None = None, *, cause: str, cure: str) -> Kind:
    assert code not in KINDS, code
    KINDS[code] = Kind(code, message, help, cause, cure)
    return KINDS[code]


# ---- E00: the text ------------------------------------------------------------------------------------

UNREADABLE = _kind(
    "E0001", "cannot read {name}: {reason}",
    cause="The file does not exist, is a folder, or may not be read.",
    cure="Check the path and its permissions.",
)
NOT_UTF8 = _kind(
    "E0002", "expected UTF-8 text, found byte 0x{byte:02x} at offset {offset}",
    "save the file as UTF-8; a spec is plain text",
    cause="The file holds bytes that are not UTF-8: another encoding, or not a text at all.",
    cure="Save it as UTF-8.",
)
CONTROL_CHARACTER = _kind(
    "E0003", "expected text, found the control character {character}",
    "delete it; only newlines, spaces and printable characters belong in a spec",
    cause="A NUL or another control character stands in the file, often because it is not a text file.",
    cure="Delete the character, or check that the file is a spec.",
)
FILE_TOO_LONG = _kind(
    "E0004", "expected at most {limit} bytes, found {found}",
    "split the spec and `import` its parts; use `for` for what repeats",
    cause="A spec is a short text. dslc bounds its size, so that no input can exhaust the machine.",
    cure="Split the file, or say repetition with `for`.",
)
LINE_TOO_LONG = _kind(
    "E0005", "expected at most {limit} characters in a line, found {found}",
    "break the line inside brackets",
    cause="A line is far longer than anyone could read.",
    cure="Break it: inside brackets a newline does not end the statement.",
)
EMPTY = _kind(
    "E0006", "expected a definition, found an empty file",
    "begin with `model NAME(x: f32[N, 4]) -> y: [N]:`",
    cause="The file has no definition: it is empty, or all of it is comments.",
    cure="Write at least one `fn`, `layer`, `model`, `optimizer` or `train`.",
)
TAB = _kind(
    "E0007", "expected spaces, found a tab in the indentation",
    "indent with spaces; `dslc fmt` uses four",
    cause="Tabs look like spaces but have no fixed width, so a block's end would depend on the editor.",
    cure="Indent with spaces.",
)
STRANGE_CHARACTER = _kind(
    "E0008", "expected an ASCII character, found {character}",
    cause="Names and operators are ASCII: letters of other scripts that look alike would make two names that "
    "a reader cannot tell apart. Comments and strings may hold any printable character.",
    cure="Write the ASCII character or a spelled-out name (`alpha`, `mu`).",
)
INVISIBLE_CHARACTER = _kind(
    "E0009", "expected visible text, found the invisible character {character}",
    "delete it",
    cause="Invisible and direction-changing characters can make a text read differently from what it says.",
    cure="Delete the character.",
)

# ---- E01: syntax ----------------------------------------------------------------------------------------

SYNTAX = _kind(
    "E0101", "expected {expected}, found {found}",
    cause="The text is not a sentence of the language at this place.",
    cure="See docs/language.md for the form of each statement.",
)
BRACKET_NOT_CLOSED = _kind(
    "E0102", "`{bracket}` is never closed",
    cause="A bracket was opened and the definition ends before it is closed.",
    cure="Add the closing bracket.",
)
BRACKET_NOT_OPEN = _kind(
    "E0103", "`{bracket}` closes nothing",
    "delete it, or add the opening bracket",
    cause="A closing bracket has no opening one.",
    cure="Delete it or add its partner.",
)
BRACKET_MISMATCH = _kind(
    "E0104", "expected `{expected}`, found `{found}`",
    cause="A bracket is closed by one of another kind.",
    cure="Close brackets in the reverse order of opening.",
)
DEDENT = _kind(
    "E0105", "expected an indentation of {expected} spaces, found {found}",
    "line the statement up with the block that it belongs to",
    cause="A line is indented less than its block but not as much as any block around it.",
    cure="Line it up with one of the enclosing blocks.",
)
BLOCK_EXPECTED = _kind(
    "E0106", "expected an indented block after `:`, found {found}",
    "indent the statements of the block by four spaces",
    cause="A line that ends in `:` opens a block, and the next line is not indented.",
    cure="Indent the block.",
)
UNEXPECTED_INDENT = _kind(
    "E0107", "expected a statement of the same block, found a deeper indentation",
    "remove the extra spaces, or end the line above with `:` if it opens a block",
    cause="A line is indented more than the one above although that one opens no block.",
    cure="Line it up.",
)
COLON_EXPECTED = _kind(
    "E0108", "expected `:` at the end of the line, found {found}",
    "end the line that opens a block with `:`",
    cause="`layer`, `model`, `train`, `for`, `scan`, `if` and their like open a block and end in `:`.",
    cure="Add the colon.",
)
TOO_DEEP = _kind(
    "E0109", "expected at most {limit} nested {what}",
    "name an inner part with an equation of its own",
    cause="Nesting is bounded, so that no input can exhaust the compiler; nobody reads so deep a formula either.",
    cure="Give inner parts names.",
)
RESERVED_WORD = _kind(
    "E0110", "expected {expected}, found the word `{word}` of the language",
    "choose another name, for example `{word}_`",
    cause="Words such as `state`, `size` or `start` have a meaning and cannot be names.",
    cure="Choose another name.",
)
PYTHON_NAME = _kind(
    "E0111", "expected a name, found `{name}`, which {what}",
    "choose another name",
    cause="Generated modules are Python and use the names of the spec, so a name may not be a Python keyword "
    "or begin with two underscores.",
    cure="Choose another name.",
)
NAME_TOO_LONG = _kind(
    "E0112", "expected a name of at most {limit} characters, found one of {length}",
    "choose a shorter name",
    cause="Names are bounded in length.",
    cure="Choose a shorter name.",
)
CHAINED_COMPARISON = _kind(
    "E0113", "expected one comparison, found a chain of {count}",
    cause="`a < b < c` reads differently in different languages, so dslc has no chains.",
    cure="Join two comparisons with `and`.",
)
FOREIGN_OPERATOR = _kind(
    "E0114", "expected an operator of dslc, found `{found}`",
    "write `{instead}`",
    cause="The operator belongs to another language.",
    cure="Powers are `^`, logic is `and`, `or`, `not`, matrix products are written with indices.",
)
NUMBER_FORM = _kind(
    "E0115", "expected digits on both sides of the point, found `{found}`",
    "write `{instead}`",
    cause="`.5` and `5.` are easily misread beside ranges (`0..5`).",
    cure="Write the zero.",
)
STRING_NOT_CLOSED = _kind(
    "E0116", "the string is not closed on its line",
    "end it with a double quote",
    cause="A string begins with a double quote and has no second one on its line.",
    cure="Close it; strings do not span lines.",
)
NUMBER_TOO_LARGE = _kind(
    "E0117", "expected a number of at most {limit}, found `{found}`",
    cause="Numbers are bounded: whole numbers by 2^63 - 1, others by the range of a double.",
    cure="Write a smaller number; `inf` is infinity.",
)
