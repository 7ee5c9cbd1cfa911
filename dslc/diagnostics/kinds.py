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


# ---- E00: the text -------------------------------------------------------------------------------

UNREADABLE = _kind(
    "E0001",
    "cannot read {name}: {reason}",
    cause="The file does not exist, is a folder, or may not be read.",
    cure="Check the path and its permissions.",
)
NOT_UTF8 = _kind(
    "E0002",
    "expected UTF-8 text, found byte 0x{byte:02x} at offset {offset}",
    "save the file as UTF-8; a spec is plain text",
    cause="The file holds bytes that are not UTF-8: another encoding, or not a text at all.",
    cure="Save it as UTF-8.",
)
CONTROL_CHARACTER = _kind(
    "E0003",
    "expected text, found the control character {character}",
    "delete it; only newlines, spaces and printable characters belong in a spec",
    cause="A NUL or another control character stands in the file, often because it is not a text file.",
    cure="Delete the character, or check that the file is a spec.",
)
FILE_TOO_LONG = _kind(
    "E0004",
    "expected at most {limit} bytes, found {found}",
    "split the spec and `import` its parts; use `for` for what repeats",
    cause="A spec is a short text. dslc bounds its size, so that no input can exhaust the machine.",
    cure="Split the file, or say repetition with `for`.",
)
LINE_TOO_LONG = _kind(
    "E0005",
    "expected at most {limit} characters in a line, found {found}",
    "break the line inside brackets",
    cause="A line is far longer than anyone could read.",
    cure="Break it: inside brackets a newline does not end the statement.",
)
EMPTY = _kind(
    "E0006",
    "expected a definition, found an empty file",
    "begin with `model NAME(x: f32[N, 4]) -> y: [N]:`",
    cause="The file has no definition: it is empty, or all of it is comments.",
    cure="Write at least one `fn`, `layer`, `model`, `optimizer` or `train`.",
)
TAB = _kind(
    "E0007",
    "expected spaces, found a tab in the indentation",
    "indent with spaces; `dslc fmt` uses four",
    cause="Tabs look like spaces but have no fixed width, so a block's end would depend on the editor.",
    cure="Indent with spaces.",
)
STRANGE_CHARACTER = _kind(
    "E0008",
    "expected an ASCII character, found {character}",
    cause="Names and operators are ASCII: letters of other scripts that look alike would make two names that "
    "a reader cannot tell apart. Comments and strings may hold any printable character.",
    cure="Write the ASCII character or a spelled-out name (`alpha`, `mu`).",
)
INVISIBLE_CHARACTER = _kind(
    "E0009",
    "expected visible text, found the invisible character {character}",
    "delete it",
    cause="Invisible and direction-changing characters can make a text read differently from what it says.",
    cure="Delete the character.",
)

# ---- E01: syntax ---------------------------------------------------------------------------------

SYNTAX = _kind(
    "E0101",
    "expected {expected}, found {found}",
    cause="The text is not a sentence of the language at this place.",
    cure="See docs/language.md for the form of each statement.",
)
BRACKET_NOT_CLOSED = _kind(
    "E0102",
    "`{bracket}` is never closed",
    "add the closing bracket",
    cause="A bracket was opened and the definition ends before it is closed.",
    cure="Add the closing bracket.",
)
BRACKET_NOT_OPEN = _kind(
    "E0103",
    "`{bracket}` closes nothing",
    "delete it, or add the opening bracket",
    cause="A closing bracket has no opening one.",
    cure="Delete it or add its partner.",
)
BRACKET_MISMATCH = _kind(
    "E0104",
    "expected `{expected}`, found `{found}`",
    "close brackets in the reverse order of opening",
    cause="A bracket is closed by one of another kind.",
    cure="Close brackets in the reverse order of opening.",
)
DEDENT = _kind(
    "E0105",
    "expected an indentation of {expected} spaces, found {found}",
    "line the statement up with the block that it belongs to",
    cause="A line is indented less than its block but not as much as any block around it.",
    cure="Line it up with one of the enclosing blocks.",
)
BLOCK_EXPECTED = _kind(
    "E0106",
    "expected an indented block after `:`, found {found}",
    "indent the statements of the block by four spaces",
    cause="A line that ends in `:` opens a block, and the next line is not indented.",
    cure="Indent the block.",
)
UNEXPECTED_INDENT = _kind(
    "E0107",
    "expected a statement of the same block, found a deeper indentation",
    "remove the extra spaces, or end the line above with `:` if it opens a block",
    cause="A line is indented more than the one above although that one opens no block.",
    cure="Line it up.",
)
COLON_EXPECTED = _kind(
    "E0108",
    "expected `:` before {found}",
    "end the line that opens a block with `:`",
    cause="`layer`, `model`, `train`, `for`, `scan`, `if` and their like open a block and end in `:`.",
    cure="Add the colon.",
)
TOO_DEEP = _kind(
    "E0109",
    "expected at most {limit} nested {what}",
    "name an inner part with an equation of its own",
    cause="Nesting is bounded, so that no input can exhaust the compiler; nobody reads so deep a formula either.",
    cure="Give inner parts names.",
)
RESERVED_WORD = _kind(
    "E0110",
    "expected {expected}, found the word `{word}` of the language",
    "choose another name, for example `{word}_`",
    cause="Words such as `state`, `size` or `start` have a meaning and cannot be names.",
    cure="Choose another name.",
)
PYTHON_NAME = _kind(
    "E0111",
    "expected a name, found `{name}`, which {what}",
    "choose another name",
    cause="Generated modules are Python and use the names of the spec, so a name may not be a Python keyword "
    "or begin with two underscores.",
    cure="Choose another name.",
)
NAME_TOO_LONG = _kind(
    "E0112",
    "expected a name of at most {limit} characters, found one of {length}",
    "choose a shorter name",
    cause="Names are bounded in length.",
    cure="Choose a shorter name.",
)
CHAINED_COMPARISON = _kind(
    "E0113",
    "expected one comparison, found a chain of {count}",
    cause="`a < b < c` reads differently in different languages, so dslc has no chains.",
    cure="Join two comparisons with `and`.",
)
FOREIGN_OPERATOR = _kind(
    "E0114",
    "expected an operator of dslc, found `{found}`",
    "write `{instead}`",
    cause="The operator belongs to another language.",
    cure="Powers are `^`, logic is `and`, `or`, `not`, matrix products are written with indices.",
)
NUMBER_FORM = _kind(
    "E0115",
    "expected digits on both sides of the point, found `{found}`",
    "write `{instead}`",
    cause="`.5` and `5.` are easily misread beside ranges (`0..5`).",
    cure="Write the zero.",
)
STRING_NOT_CLOSED = _kind(
    "E0116",
    "the string is not closed on its line",
    "end it with a double quote",
    cause="A string begins with a double quote and has no second one on its line.",
    cure="Close it; strings do not span lines.",
)
NUMBER_TOO_LARGE = _kind(
    "E0117",
    "expected a number of at most {limit}, found `{found}`",
    cause="Numbers are bounded: whole numbers by 2^63 - 1, others by the range of a double.",
    cure="Write a smaller number; `inf` is infinity.",
)

# ---- E02: names ----------------------------------------------------------------------------------

UNKNOWN_NAME = _kind(
    "E0201",
    "expected the name of a {what}, found `{name}`, which is not defined",
    cause="Nothing of this name is in scope: no value, argument, size, definition or built-in function.",
    cure="Mind the spelling, define the name before its use, or import the file that defines it.",
)
DEFINED_TWICE = _kind(
    "E0202",
    "`{name}` is defined twice",
    "give one of them another name",
    cause="Two definitions, arguments, parameters or sizes in one scope have the same name.",
    cure="Rename one of them.",
)
REBINDS = _kind(
    "E0203",
    "`{name}` is {what} and cannot be defined again",
    cause="Local values may be rebound (`h = f(h)`), but arguments, parameters, states, sizes and layers keep "
    "their meaning through the whole definition.",
    cure="Choose another name, or `<-` to update a state.",
)
INDEX_SHADOWS = _kind(
    "E0204",
    "expected a free name for an index, found `{name}`, which is {what}",
    "choose another letter for the index",
    cause="An index has the name of a size or of another number in scope: a reader could not tell which is meant.",
    cure="Rename the index. By convention sizes are capitals and indices small letters.",
)
SHADOWS_BUILTIN = _kind(
    "E0205",
    "`{name}` is built into the language and cannot be redefined",
    "choose another name",
    cause="Reductions, draws, derivatives and the other special forms keep their names. "
    "Scalar functions and library definitions may be overridden.",
    cure="Choose another name.",
)
IMPORT_MISSING = _kind(
    "E0206",
    'cannot find the imported file "{path}"',
    cause="Import paths are relative to the file that imports.",
    cure="Mind the spelling and the folder.",
)
IMPORT_OUTSIDE = _kind(
    "E0207",
    'expected a path inside the folder of the spec, found "{path}"',
    "move the file into the folder of the main spec, or below it",
    cause="A spec is untrusted text and may not make the compiler read files elsewhere: no absolute paths, "
    "no `..` out of the folder of the main spec, no links that lead outside.",
    cure="Keep the files of a spec in one folder tree.",
)
IMPORT_CYCLE = _kind(
    "E0208",
    "files import each other in a circle: {steps}",
    "delete one of the imports; what both files need may go into a third one",
    cause="A file imports itself, directly or through others.",
    cure="Move the shared definitions into a file of their own.",
)
IMPORT_NAME = _kind(
    "E0209",
    'expected a definition of "{path}", found `{name}`, which it does not define',
    cause="`from ... import` names something that the file does not define itself.",
    cure="Mind the spelling; import from the file that defines it.",
)
RECURSION = _kind(
    "E0210",
    "`{name}` calls itself: {steps}",
    "use `for` to repeat a layer, or `scan` for steps along an axis",
    cause="Layers and functions are expanded when the spec is compiled, so they cannot be recursive.",
    cure="Repeat with `for` or `scan`.",
)
NOT_CALLABLE = _kind(
    "E0211",
    "expected a function or layer, found {what}",
    cause="Something that is not a function is called, or stands where a layer is named or passed.",
    cure="Tensors are read with brackets; functions are called with parentheses.",
)
NOT_INDEXABLE = _kind(
    "E0212",
    "expected a tensor before the brackets, found {what}",
    cause="Only tensors have axes that can be indexed.",
    cure="Index a tensor, or give an argument a type with axes.",
)
NO_MEMBERS = _kind(
    "E0213",
    "expected a layer named with `use` or a call before the dot, found {what}",
    cause="`a.b` names the parameter `b` of the layer `a`, which must have been named with `use a = ...`; `a(x).b` the "
    "result `b` of a call.",
    cure="Name the layer with `use`, or call a definition that names its results.",
)
NO_SUCH_MEMBER = _kind(
    "E0214",
    "`{owner}` has no parameter or layer `{name}`",
    cause="The path after the dot leads nowhere.",
    cure="`dslc show SPEC --stage program` lists the parameters with their paths.",
)
NOT_CALLED_YET = _kind(
    "E0215",
    "the parameters of `{name}` are not known yet",
    cause="A parameter of a layer is used before the first call of the layer, which fixes its sizes.",
    cure="Call the layer first.",
)
NOT_HERE = _kind(
    "E0216",
    "expected a statement for `{here}`, found `{word}`, which belongs in {allowed}",
    cause="Some statements have a meaning only in some definitions.",
    cure="Move the statement.",
)
PARAM_IN_FN = _kind(
    "E0217",
    "`fn {fn}` cannot have a `{word}` (`{name}`)",
    "write `layer` instead of `fn`, or pass the value as an argument",
    cause="A `fn` is a pure function: everything it uses comes in through its arguments.",
    cure="Make it a `layer`.",
)
LAYER_IN_FN = _kind(
    "E0218",
    "a `fn` cannot call the layer `{name}`",
    "write `layer` instead of `fn`, or pass the result as an argument",
    cause="A layer may have parameters, and a `fn` has no place to keep them.",
    cure="Make the function a `layer`.",
)
UNKNOWN_TYPE = _kind(
    "E0219",
    "expected a type, found `{name}`",
    "dtypes are f16, bf16, f32, f64, i32, i64 and bool; an argument may also be a size, int, float, bool, string, "
    "fn or layer",
    cause="The word before the brackets of a type is not a dtype, or the word after `:` is no kind of argument.",
    cure="dtypes: f16 bf16 f32 f64 i32 i64 bool; kinds: size int float bool string fn layer.",
)
UNKNOWN_INITIALIZER = _kind(
    "E0220",
    "expected an initialiser after `~`, found `{name}`",
    cause="After `~` stands one of the known initialisers.",
    cure="For a formula write `param A[i, j]: [N, M] = formula`.",
)
INITIALIZER_RANK = _kind(
    "E0221",
    "`{name}` needs a parameter with 2 axes, found {found}",
    "choose another initialiser, for example `normal(0.02)`",
    cause="Orthogonal and identity matrices have two axes.",
    cure="Choose another initialiser.",
)
OUTPUT_UNDEFINED = _kind(
    "E0222",
    "`{owner}` never defines `{name}`",
    "add an equation for it",
    cause="An output that the signature promises has no equation.",
    cure="Define it in the body.",
)
ONE_MODE = _kind(
    "E0223",
    "`{name}` is not defined in {other}",
    "define it in both `training:` and `inference:`",
    cause="A value is defined in only one of the two modes and used after them.",
    cure="Define it in both.",
)
STEP_LOCAL = _kind(
    "E0224",
    "`{name}` is known only inside a step of the scan over `{index}`",
    cause="Values without the scanned index on their left are local to a step.",
    cure="Give the value the scanned index to keep all steps.",
)
NOT_A_VALUE = _kind(
    "E0225",
    "expected a number or a tensor, found {found}",
    cause="A function or a string stands where a value is needed.",
    cure="Call the function; name layers with `use`.",
)

# ---- E03: indices and sizes ----------------------------------------------------------------------

SIZES_DIFFER = _kind(
    "E0301",
    "expected equal sizes, found {a} and {b}, which {how}",
    cause="Two sizes that must agree differ, or cannot be shown to agree.",
    cure="Mend one of them; if they always agree, say so in a `where`.",
)
INDEX_TWO_SIZES = _kind(
    "E0302",
    "expected one range for the index `{name}`, found {a} and {b}, which {how}",
    cause="An index runs over every axis that it indexes, so all of them must have the same size.",
    cure="Use two indices, or check the order of the indices; if the sizes always agree, say so in a `where`.",
)
LONE_INDEX = _kind(
    "E0303",
    "the index `{name}` is absent on the left and stands alone inside `{what}`: sum before or after?",
    cause="An index that is absent on the left is summed over the product that holds it. Inside a nonlinear "
    "function a lone use could mean the sum of results or the result of the sum.",
    cure="Write `sum[i](...)` where the sum is meant.",
)
OUTPUT_INDEX = _kind(
    "E0304",
    "expected the index `{name}` on the right, found it only on the left",
    cause="An output index that nothing on the right uses is usually a slip.",
    cure="Use it on the right, or give it an explicit range to repeat the value along it.",
)
WRONG_INDEX_COUNT = _kind(
    "E0305",
    "expected {expected} for `{name}`, found {found}",
    cause="Every axis of a tensor needs an index, a slice or `:`.",
    cure="Name each axis; `...` stands for the leading ones.",
)
RANGE_UNKNOWN = _kind(
    "E0306",
    "nothing says how far the index `{name}` runs",
    "give it a range: `{name}: SIZE` where it is introduced, or `where {name} = SIZE`",
    cause="An index takes its range from an axis that it indexes plainly, from a bound, or from the declared type "
    "of the left-hand side. Inside an affine expression with `else` no range is implied.",
    cure="State the range.",
)
MAY_LEAVE_RANGE = _kind(
    "E0307",
    "`{text}` may leave the range of `{name}`",
    cause="A read outside of a tensor must be provably impossible, or have a meaning.",
    cure="Say what stands outside (`else`, `wrap`, `clamp`), or state in a `where` why it cannot happen; "
    "declare the bound of whole-number data with `<`.",
)
LEAVES_RANGE = _kind(
    "E0308",
    "`{text}` leaves the range of `{name}`",
    cause="The read is outside of the tensor for every size. Positions count from 0 to the size minus 1; "
    "negative ones do not count from the end.",
    cure="Mend the index, or say what stands outside (`else`, `wrap`, `clamp`).",
)
NOT_DIVISIBLE = _kind(
    "E0309",
    "expected a whole number, found {a} / {b}, which {how}",
    cause="A size must be a whole number, and `/` on sizes is exact division.",
    cure="State the divisibility in a `where`, or round down with `//`.",
)
SHAPES_DIFFER = _kind(
    "E0310",
    "expected equal shapes, found {a} and {b}",
    cause="Without indices, operations go element by element and need equal shapes. Size 1 is not special: "
    "(4, 1) and (4) do not silently become (4, 4).",
    cure="Write the indices; an absent index broadcasts.",
)
INDEX_BOUND_TWICE = _kind(
    "E0311",
    "the index `{name}` is already in use here",
    "choose another name for the inner index",
    cause="One pair of brackets binds an index twice, or binds `...` where the left-hand side keeps it.",
    cure="Name each index once; name the axes of one `...`.",
)
INDEX_REPEATED = _kind(
    "E0312",
    "expected each index once on the left, found `{name}` twice",
    cause="The left-hand side names the axes of the result; two axes cannot share an index.",
    cure="Give each axis its own index.",
)
AXES_LEFT = _kind(
    "E0313",
    "expected {expected} without an index, found {found}",
    cause="The left-hand side must name, or keep with `:`, every axis of the right-hand side.",
    cure="Index the tensors on the right, or write `:` on the left.",
)
INDICES_LEFT = _kind(
    "E0314",
    "expected the axes of `{target}` in brackets, found none, and {names} on the right",
    cause="Without brackets on the left a whole tensor or a single number is meant. Indices on the right are then "
    "summed, where a sum can be meant: in a product of reads, but not inside of a function, nor in a result for each "
    "position, nor when the target has axes.",
    cure="Name the axes on the left.",
)
NOT_A_POSITION = _kind(
    "E0316",
    "expected an index or a position, found {what}",
    cause="Between the brackets of a read stand indices, affine expressions, slices, groups or `...`.",
    cure="See docs/language.md, index expressions.",
)
WHERE_CONTRADICTS = _kind(
    "E0317",
    "`{text}` {what}",
    "no sizes satisfy all conditions; drop or mend one of them",
    cause="The conditions of a `where` exclude each other, or one of them is never true.",
    cure="Mend the conditions.",
)
WHERE_FAILS = _kind(
    "E0318",
    "`{callee}` needs `{text}`, which {how}",
    cause="The `where` of a layer must be provable at every call.",
    cure="Pass other sizes, or state the condition in the `where` of the calling definition.",
)
WHERE_FORM = _kind(
    "E0319",
    "expected a comparison of sizes",
    cause="A `where` of a definition states facts about sizes.",
    cure="Write comparisons such as `E % heads == 0`.",
)
WHERE_INDEX = _kind(
    "E0320",
    "expected `index = size` in the `where` of an equation",
    "write for example `where a = 8`; facts about sizes belong in the `where` of the definition",
    cause="The `where` of an equation gives indices their range.",
    cure="Write `index = size`.",
)
SIZE_EXPECTED = _kind(
    "E0321",
    "expected a whole number for {what}, found {found}",
    cause="Sizes are whole numbers that are known when the spec is compiled, or symbols of the signature.",
    cure="Use sizes, static arguments and whole numbers.",
)
SIZE_TOO_SMALL = _kind(
    "E0322",
    "expected at least {least} for {what}, found {found}",
    cause="A size is at least 1.",
    cure="Mend the arithmetic.",
)
SIZE_MAY_BE_SMALL = _kind(
    "E0323",
    "expected at least {least} for {what}, found `{found}`, which may be smaller",
    cause="A size is at least 1, and this one cannot be shown to be.",
    cure="State the missing fact in a `where`.",
)
SIZE_BOUND = _kind(
    "E0324",
    "expected a size of at most {limit}, found {found}",
    cause="Sizes are bounded, so that no input can exhaust the machine.",
    cure="Use a smaller size.",
)
REST_MISUSE = _kind(
    "E0325",
    "`...` cannot stand here: {why}",
    cause="`...` stands for the same axes everywhere in a statement, and the types of the arguments say how many.",
    cure="Name the axes, or use `...` once in each place.",
)
GROUP_UNKNOWN = _kind(
    "E0326",
    "expected the sizes of all but one index of the group, found none for {names}",
    cause="A grouped axis `(h a)` is split by dividing; only one of its sizes can be found that way.",
    cure="Give the others a size with `where a = 8`.",
)
SLICE_STEP = _kind(
    "E0327",
    "expected a step that is a positive number, or `::-1`, found `{found}`",
    "`::-1` reverses a whole axis; for other steps write an index: `x[T-1-2*t]`",
    cause="Slices take a fixed positive step; a whole axis may be reversed with `::-1`.",
    cure="Write the read with an index: `x[T-1-2*t]`.",
)
SLICE_RANGE = _kind(
    "E0328",
    "the slice {slice} of `{name}` {how}",
    cause="A slice must lie inside its axis, provably, and hold at least one element.",
    cure="Mend the bounds or state in a `where` why they fit.",
)
ONLY_IN_DENOMINATOR = _kind(
    "E0329",
    "the index `{name}` is absent on the left and stands only in a denominator: sum where?",
    cause="`a / b[i]` could mean the sum of quotients or the quotient by a sum.",
    cure="Write `sum[i](...)` where it is meant.",
)
EINSUM_STRING = _kind(
    "E0330",
    "the einsum does not fit its tensors: {why}",
    'write a letter for each axis: `einsum("ij,jk->ik", A, B)`, or write the equation with indices',
    cause="The string of an einsum names the axes of each tensor and of the result.",
    cure="Mend the string, or write the equation with indices.",
)
UNUSED_BOUND_INDEX = _kind(
    "E0331",
    "`{function}` binds the index `{name}`, which its argument does not use",
    "use the index, drop it, or give it a range",
    cause="A reduction over an index that does not occur is usually a slip.",
    cure="Use the index; with an explicit range (`sum[i: 5](...)`) it is allowed.",
)
ONE_INDEX = _kind(
    "E0332",
    "`{name}` works along one index, found {found}",
    "name exactly one index between the brackets",
    cause="Running sums, sorting and joining go along one axis.",
    cure="Name one index.",
)
BRACKET_NAMES = _kind(
    "E0333",
    "expected names of indices between the brackets of `{name}`",
    cause="The brackets before the arguments bind indices.",
    cure="Write names, with a range if needed.",
)
BRACKETS_NEEDED = _kind(
    "E0334",
    "`{name}` needs to know its index",
    cause="Functions that work along an axis name the index in brackets.",
    cure="Write `name[i](...)`.",
)
NO_BRACKETS = _kind(
    "E0335",
    "`{name}` takes no index in brackets",
    "drop the brackets; indices go into the arguments",
    cause="Only reductions, functions along an axis, draws and functions with an axis of their own take one.",
    cure="Drop the brackets.",
)
LEFT_SIDE = _kind(
    "E0336",
    "expected an index on the left-hand side, found `{found}`",
    cause="An equation defines all of a tensor at once: its left-hand side names the axes.",
    cure="Define the parts and join them with `concat`, or scatter with `+=`.",
)
TARGET_RANK = _kind(
    "E0337",
    "expected {expected} for `{name}`, found {found}",
    cause="The left-hand side has another number of axes than the declared or earlier type of the value.",
    cure="Name as many axes as the type has.",
)
SCATTER_SIZE = _kind(
    "E0338",
    "nothing says how long the scattered axis of `{name}` is",
    cause="The size of an axis that is written through data comes from the bound of the data, from the declared "
    "type of the target, or from a stated size.",
    cure="State the size.",
)
TOP_K_TOO_MANY = _kind(
    "E0339",
    "cannot take {k} of {size} values",
    cause="`top_k` needs at least as many values as it gives.",
    cure="Take fewer, or state in a `where` that there are enough.",
)
SCAN_FROM_ZERO = _kind(
    "E0340",
    "expected a reversed scan down to 0, found one down to {found}",
    "go down to 0, and leave out steps with a condition: `x[t] if t >= {found} else ...`",
    cause="A reversed scan ends with its step 0: nothing would stand at the places before.",
    cure="Go down to 0.",
)
NOT_A_NUMBER = _kind(
    "E0341",
    "`{name}` stands for several indices here and is no single number",
    cause="A function with an axis was called with several indices in its brackets, and uses the axis as a number.",
    cure="Call it with one index.",
)
SQUARE_EXPECTED = _kind(
    "E0342",
    "`{name}` expects a square matrix, found the shape {found}",
    "keep two axes of equal size, as in `A[n, :, :]`; if their sizes always agree, say so in a `where`",
    cause="The operation is defined for square matrices, given as the two positional axes of its argument.",
    cure="Pass a matrix with two equal axes.",
)
RIGHT_HAND_SIDE = _kind(
    "E0343",
    "expected a right-hand side of shape {expected}, found {found}",
    "to solve for many right-hand sides, map over them: `x[n, :] = solve(A, b[n, :])`",
    cause="`solve(A, b)` needs as many rows in `b` as in `A`.",
    cure="Pass a vector or a matrix with that many rows.",
)
OUTPUT_TYPE = _kind(
    "E0344",
    "expected the shape {expected} for `{name}`, found {found}",
    cause="A value does not have the shape that is declared for its name.",
    cure="Mend the equation or the declaration.",
)
DIVISION_BY_ZERO = _kind(
    "E0345",
    "division by zero",
    cause="A static number is divided by zero.",
    cure="Mend the arithmetic.",
)
CARRIED_SIZE = _kind(
    "E0346",
    "the shape of `{text}` is not known yet, and the call of `{callee}` needs it",
    "let the carried value start from a tensor of its shape, or declare it as an output of the definition",
    cause="Inside a scan a carried value goes into a call before its own equation has told its shape.",
    cure="Let the shape be known earlier: from the declared type of an output, or from a tensor after `start`.",
)

WHERE_UNUSED = _kind(
    "E0347",
    "expected an index of the equation in its `where`, found `{name}`, which it does not use",
    "its indices are {names}",
    cause="The `where` of an equation gives its indices their range, and none of them has this name.",
    cure="Mind the spelling, or drop the condition.",
)

OPEN_PARAMETER = _kind(
    "E0348",
    "expected a known size for the parameter `{path}`, found `{size}`, which only the data tell",
    cause="Parameters are made before there is any data, and a parameter has the size of an input that is left open.",
    cure="Give the size a value with `--set`, in Python as an argument, or write the number in the type. `dslc train` "
    "takes it from the data.",
)

CONTRACTED_TWICE = _kind(
    "E0349",
    "the index `{name}` is absent on the left and contracted in more than one part of a product: one sum, or one in "
    "each?",
    cause="An index that is absent on the left is summed over the smallest product that holds all its uses. Here parts "
    "of the product are sums over it by themselves, so that a reader could take it either way: `a^2` with `a = S x` is "
    "not the sum of the squares.",
    cure="Write `sum[i](...)` where the sums are meant, or use another index in each part.",
)

# ---- E04: types ----------------------------------------------------------------------------------

WRONG_DTYPE = _kind(
    "E0401",
    "expected {expected} for {what}, found {found}",
    cause="Floats, whole numbers and conditions are different things and are not converted silently.",
    cure="Convert on purpose: `float(x)`, `i32(round(x))`, `1 if c else 0`.",
)
BOOL_ARITHMETIC = _kind(
    "E0402",
    "expected a number for `{op}`, found a condition",
    "write `(1 if condition else 0)`",
    cause="Conditions are not numbers.",
    cure="Choose numbers with `a if c else b`, or convert with `float(c)`.",
)
CONDITION_EXPECTED = _kind(
    "E0403",
    "expected a condition, found {found}",
    cause="`if`, `and`, `or`, `not`, `any` and `all` need something that is true or false.",
    cure="Compare the value.",
)
DIFFERENTIATE_INTEGER = _kind(
    "E0404",
    "expected a float to differentiate, found `{text}` ({found})",
    "make a float of the data first, `z = float(k)`, and compute with `z`",
    cause="Derivatives exist for floats only.",
    cure="Differentiate a float value by a float value.",
)
FLOAT_INDEX = _kind(
    "E0405",
    "expected a whole number as a position, found {found}",
    cause="Positions are whole numbers.",
    cure="Round and convert: `i32(round(x))`.",
)
STATIC_NEEDED = _kind(
    "E0406",
    "{what} must be known when the spec is compiled",
    cause="Repetition, choices by `if`, sizes and hyper-parameters are settled at compile time.",
    cure="Use static arguments and numbers.",
)
ARGUMENT_KIND = _kind(
    "E0407",
    "expected {expected} for `{name}`, found {found}",
    cause="An argument is of another kind than the definition asks for.",
    cure="See the signature: `dslc show NAME`.",
)
CANNOT_COMPARE = _kind(
    "E0408",
    "cannot compare {a} with {b} by `{op}`",
    cause="Only numbers are ordered; strings and conditions can be compared with `==` and `!=` among themselves.",
    cure="Compare like with like.",
)
WHOLE_EXPECTED = _kind(
    "E0409",
    "expected whole numbers for `{op}`, found a float",
    cause="`//` and `%` work on whole numbers.",
    cure="Use `floor(a / b)` for floats.",
)
VALUE_BOUND = _kind(
    "E0410",
    "expected values below {limit} for `{name}`, found values {found}",
    cause="Whole-number data that is used as a position needs a bound.",
    cure="Declare the bound where the data enters the model.",
)
ROUNDING_UNCLEAR = _kind(
    "E0411",
    "expected a rounded number for `{name}`, found a float",
    cause="There are several ways to make a float whole.",
    cure="Say which: `round`, `floor`, `ceil` or `trunc`.",
)
SCALAR_EXPECTED = _kind(
    "E0412",
    "expected a single number for `{name}`, found a tensor",
    "read one element of it with indices, or reduce it",
    cause="One number is needed here.",
    cure="Reduce or index the tensor.",
)
ELSE_NEEDS_READ = _kind(
    "E0413",
    "expected `(tensor[...] else number)`",
    "for a choice write `a if condition else b`",
    cause="`(read else value)` gives the value that stands outside the range of a read.",
    cure="Put a read before `else` and a single number after it.",
)
SEVERAL_RESULTS = _kind(
    "E0414",
    "expected one value, found {found} results",
    "name them first: `a, b = ...`",
    cause="A call with several results stands inside an expression.",
    cure="Take one result by its name, `f(x).y`, or give all of them names in an equation of their own.",
)
NO_SUCH_RESULT = _kind(
    "E0415",
    "`{callee}` has no result `{name}`",
    cause="After a call, `.name` takes one of its results, by the name that the definition gives it after `->`.",
    cure="Mind the spelling; the signature of the definition has the names.",
)

# ---- E05: calls ----------------------------------------------------------------------------------

MISSING_ARGUMENT = _kind(
    "E0501",
    "`{callee}` needs the argument `{name}`",
    cause="An argument without a default is not given.",
    cure="Pass it, or pipe it in with `|>`.",
)
TOO_MANY_ARGUMENTS = _kind(
    "E0502",
    "expected at most {expected} for `{callee}`, found one more",
    "it takes {names}",
    cause="More arguments are given than the definition has.",
    cure="See the signature: `dslc show NAME`.",
)
UNKNOWN_ARGUMENT = _kind(
    "E0503",
    "`{callee}` has no argument `{name}`",
    cause="A named argument does not exist.",
    cure="See the signature: `dslc show NAME`.",
)
ARGUMENT_TWICE = _kind(
    "E0504",
    "the argument `{name}` of `{callee}` is given twice",
    "drop one of them",
    cause="An argument is given by place and by name, or twice by name.",
    cure="Give it once.",
)
ARGUMENT_RANK = _kind(
    "E0505",
    "expected {expected} for `{name}`, found {found}",
    cause="A tensor has another number of axes than the signature declares, or than another argument of that type.",
    cure="Pass a tensor of that rank, or map over the other axes with indices: `f(x[n, :, :])`.",
)
ARGUMENT_SIZE = _kind(
    "E0506",
    "expected `{expected}` for an axis of `{name}` of `{callee}`, found `{found}`: they {how}",
    cause="The sizes of the arguments must fit the signature, in which one name means one size.",
    cure="Pass tensors that fit; if the sizes always agree, say so in a `where`.",
)
RESULT_COUNT = _kind(
    "E0507",
    "expected as many names as results, found {expected} and {found}",
    "name every result: `a, b = ...`",
    cause="The number of names on the left differs from the number of results on the right.",
    cure="Name every result.",
)
ARITY = _kind(
    "E0508",
    "`{name}` takes {expected}, found {found}",
    cause="A built-in function is called with the wrong number of arguments.",
    cure="See docs/language.md, functions.",
)
NO_NAMED_ARGUMENTS = _kind(
    "E0509",
    "`{name}` takes no named arguments",
    "pass the argument by place",
    cause="Built-in functions take their arguments by place.",
    cure="Drop the name.",
)
DEFAULT_OF_TENSOR = _kind(
    "E0510",
    "a tensor argument (`{name}`) cannot have a default",
    cause="Only static arguments have defaults.",
    cure="Drop the default.",
)
SHARED_DIFFERS = _kind(
    "E0511",
    "`{name}` is called with sizes that need other parameters than before",
    "name a second layer with `use`",
    cause="A layer named with `use` has one set of parameters, and its calls must agree on their sizes.",
    cure="Use one layer for each set of sizes.",
)
TOO_MUCH_WORK = _kind(
    "E0512",
    "expected at most {limit} {what}",
    "reduce the repetition; a spec this large is hardly meant",
    cause="The work that a spec may ask for is bounded, so that no input can hang the compiler.",
    cure="Use fewer repetitions or smaller definitions.",
)
PREFIX_FUNCTION = _kind(
    "E0513",
    "expected a function of {expected} arguments with {outputs} for `prefix`",
    "it combines an earlier with a later element: `fn op(a1, a2) = ...` for one tensor, "
    "`fn op(a1, b1, a2, b2) -> (a, b):` for two",
    cause="The function of `prefix` combines two elements into one of the same kind.",
    cure="Give it two arguments and one result for each tensor.",
)
ONLY_IN_INDEX = _kind(
    "E0514",
    "`{name}` stands only around a position: `x[{name}(t+1)]`",
    "to limit values write `clip(x, low, high)`",
    cause="`wrap` and `clamp` say what happens to a position outside of its axis.",
    cure="Write it inside the brackets; `clip(x, low, high)` clips values.",
)

# ---- E06: scans, states, derivatives given by hand -----------------------------------------------

READS_FUTURE = _kind(
    "E0601",
    "the scan over `{index}` reads a step of `{name}` that is {what}",
    cause="Inside a scan a value may be read a fixed number of steps back, and at the current step below its equation.",
    cure="Read earlier steps; use `scan ... reversed:` to go from the end. To read all earlier steps, carry them in a "
    "value with an axis for them.",
)
NO_START = _kind(
    "E0602",
    "`{name}` is carried from step to step and has no start",
    cause="The first step reads the step before it, which nothing defines.",
    cure="Write `start NAME = ...` below the scan.",
)
START_UNKNOWN = _kind(
    "E0603",
    "`start {name}` belongs to no value of a scan: {why}",
    "put `start` directly below the scan, for a value with the scanned index on its left",
    cause="A `start` names a value that the scan above it does not build.",
    cure="Mind the name and the place.",
)
MODES_DIFFER = _kind(
    "E0604",
    "expected one type for `{name}` in both modes, found {a} and {b}",
    cause="What follows `training:` and `inference:` sees one value, so both must give it the same type.",
    cure="Mend one of them.",
)
UPDATE_TARGET = _kind(
    "E0605",
    "expected a state on the left of `<-`, found `{name}`",
    cause="Only what is declared with `state` (or `slot` in an optimizer) lives from step to step.",
    cure="Declare it, or write `=` for an ordinary value.",
)
BACKWARD_SIGNATURE = _kind(
    "E0606",
    "expected {expected} in the `backward` of `{name}`, {why}, found {found}",
    cause="A derivative by hand takes one cotangent for each output and gives one adjoint for each float argument.",
    cure="List them in the order of the signature.",
)
SCAN_ASSIGNS = _kind(
    "E0607",
    "expected the scanned index `{index}` on the left, found `{name}`, a value from outside of the scan",
    cause="A step of a scan sees a value from outside as it was before: what a step assigns to it would be lost.",
    cure="Give it the scanned index, read its step before, and say what stands before the first step with `start`.",
)
STATE_IN_STEPS = _kind(
    "E0608",
    "expected one update of the state `{name}` in a call, found one {where}",
    cause="A module hands each state on from one call to the next: it has one value before a call and one after it. "
    "Steps of a scan, and elements that a layer is called for one by one, would each have their own.",
    cure="Carry a value of the scan that starts from the state, and update the state once, after the scan.",
)

# ---- E07: derivatives and training ---------------------------------------------------------------

LOSS_NOT_SCALAR = _kind(
    "E0701",
    "expected a single number for the {what}, found the shape {found}",
    cause="A loss is minimised, so it must be one number.",
    cure="Reduce it with `mean` or `sum`.",
)
NO_OBJECTIVE = _kind(
    "E0702",
    "`train {model}` has no `minimize`",
    "add `minimize LOSS`",
    cause="Training needs a loss.",
    cure="Add `minimize` or `maximize`.",
)
OBJECTIVE_TWICE = _kind(
    "E0703",
    "expected one {word} in a `train`, found two",
    "keep one of them",
    cause="A `train` has one objective and one optimizer.",
    cure="Keep one optimizer; add losses up.",
)
NO_OPTIMIZER = _kind(
    "E0704",
    "`train {model}` has no `using`",
    "add `using adamw(lr = 1e-3)`",
    cause="Training needs an optimizer.",
    cure="Add `using`.",
)
NOT_AN_OPTIMIZER = _kind(
    "E0705",
    "expected an optimizer after `using`, found `{name}`",
    cause="After `using` stands an optimizer of the library or one that the spec defines.",
    cure="Name an optimizer.",
)
DERIVATIVE_BY = _kind(
    "E0706",
    "expected the name of a value to differentiate by, found `{found}`",
    "give it a name with an equation of its own, and use the name before and here",
    cause="`grad(y, x)` and its relatives must know which value is varied.",
    cure="Name a whole tensor: an argument, a parameter or a local value.",
)
DERIVATIVE_SCALAR = _kind(
    "E0707",
    "expected a single number for `{kind}`, found {found}",
    cause="A gradient belongs to a single number; derivatives of tensors are `jacobian`, `jvp` and `vjp`.",
    cure="Reduce the value, or use one of the others.",
)
DERIVATIVE_ZERO = _kind(
    "E0708",
    "`{of}` does not depend on `{by}`, so its derivative is zero",
    "differentiate by a value that it is computed from",
    cause="The value was not computed from the one it is differentiated by; perhaps that name was rebound since.",
    cure="Name the value that goes into the formula.",
)
DIRECTION_SHAPE = _kind(
    "E0709",
    "expected a direction of the shape {expected} of `{like}` for `{kind}`, found {found}",
    cause="`jvp` takes a direction like its input, `vjp` one like its output.",
    cure="Pass a tensor of that shape.",
)
FREEZE_NOTHING = _kind(
    "E0710",
    "`{model}` has no parameters under `{path}`",
    cause="The path after `freeze` leads to no parameter.",
    cure="Mind the spelling of the path.",
)
OPTIMIZER_IDLE = _kind(
    "E0711",
    "the optimizer `{name}` never updates `param`",
    "add `param <- param - lr * grad` or its like",
    cause="An optimizer must say what becomes of the parameter.",
    cure="Add the update.",
)
TRAIN_ARGUMENT = _kind(
    "E0712",
    "`{name}` is no input of `{model}` and has no type",
    cause="Arguments of a `train` that are named like inputs of the model take their types from it; others need one.",
    cure="Give it a type.",
)
MODEL_NOT_USED = _kind(
    "E0713",
    "`train {model}` never calls `{model}`",
    "call it and use its result in the loss: `y = {model}(...)`",
    cause="The loss does not depend on the model.",
    cure="Call the model.",
)

METRIC_NAME = _kind(
    "E0714",
    "expected a name of its own for the metric, found `{name}`, {why}",
    "call it something else, for example `{name}2`",
    cause="Losses and metrics are reported together, each under its name; `loss` is what is minimised.",
    cure="Give the metric another name.",
)

# ---- E09: compilation ---------------------------------------------------------------------------------

NOT_COMPILED = _kind(
    "E0901",
    "the {backend} backend cannot compile {what} yet",
    "write it another way; see docs/language.md",
    cause="The spec is right, but this version of the compiler cannot translate one of its constructs.",
    cure="Write the part in other terms, or wait for a version that can.",
)

TOO_MANY_OPERATIONS = _kind(
    "E0902",
    "expected a program of at most {limit} operations, found more on the way through the compiler",
    "each derivative of a derivative is some three times as long; write equal parts once, in a `for` or a `scan`",
    cause="The spec is right, but its program grows past all bounds, as do repeated gradients of gradients.",
    cure="Take fewer derivatives of derivatives, and repeat equal parts with `for` or `scan`: they are compiled once.",
)

# ---- W08: warnings -------------------------------------------------------------------------------

UNUSED_PARAMETER = _kind(
    "W0801",
    "the parameter `{name}` of `{owner}` is never used",
    "use it or delete it",
    cause="A parameter that no equation reads is trained for nothing.",
    cure="Use it or delete it.",
)
UNUSED_ARGUMENT = _kind(
    "W0802",
    "the argument `{name}` of `{owner}` is never used",
    "use it or delete it",
    cause="An argument that nothing reads is usually a slip.",
    cure="Use it or delete it.",
)
UNUSED_VALUE = _kind(
    "W0803",
    "`{name}` is defined and never used",
    "use it, delete it, or `expose` it as an extra output",
    cause="A value that nothing reads is usually a slip.",
    cure="Use it, delete it, or expose it.",
)

LOOP_ONE_BY_ONE = _kind(
    "W0804",
    "the {passes} passes of this `for` are written one by one: the module has {lines} lines",
    "passes that are equal but for their parameters become one loop; read numbers that differ from a tensor",
    cause="The passes of a `for` differ, or take derivatives: each has a text of its own in the module.",
    cure="Make the passes equal: read what differs from a tensor at the number of the pass, or write a `scan`.",
)
