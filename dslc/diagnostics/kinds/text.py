"""What is wrong with the text of a spec and with its names."""

from __future__ import annotations

from dslc.diagnostics.kinds.record import kind

# ---- E00: the text -------------------------------------------------------------------------------

UNREADABLE = kind(
    "E0001",
    "cannot read {name}: {reason}",
    cause="The file does not exist, is a folder, or may not be read.",
    cure="Check the path and its permissions.",
)
NOT_UTF8 = kind(
    "E0002",
    "expected UTF-8 text, found byte 0x{byte:02x} at offset {offset}",
    "save the file as UTF-8; a spec is plain text",
    cause="The file holds bytes that are not UTF-8: another encoding, or not a text at all.",
    cure="Save it as UTF-8.",
)
CONTROL_CHARACTER = kind(
    "E0003",
    "expected text, found the control character {character}",
    "delete it; only newlines, spaces and printable characters belong in a spec",
    cause="A NUL or another control character stands in the file, often because it is not a text file.",
    cure="Delete the character, or check that the file is a spec.",
)
FILE_TOO_LONG = kind(
    "E0004",
    "expected at most {limit} bytes, found {found}",
    "split the spec and `import` its parts; use `for` for what repeats",
    cause="A spec is a short text. dslc bounds its size, so that no input can exhaust the machine.",
    cure="Split the file, or say repetition with `for`.",
)
LINE_TOO_LONG = kind(
    "E0005",
    "expected at most {limit} characters in a line, found {found}",
    "break the line inside brackets",
    cause="A line is far longer than anyone could read.",
    cure="Break it: inside brackets a newline does not end the statement.",
)
EMPTY = kind(
    "E0006",
    "expected a definition, found an empty file",
    "begin with `model NAME(x: f32[N, 4]) -> y: [N]:`",
    cause="The file has no definition: it is empty, or all of it is comments.",
    cure="Write at least one `fn`, `layer`, `model`, `optimizer` or `train`.",
)
TAB = kind(
    "E0007",
    "expected spaces, found a tab in the indentation",
    "indent with spaces; `dslc fmt` uses four",
    cause="Tabs look like spaces but have no fixed width, so a block's end would depend on the editor.",
    cure="Indent with spaces.",
)
STRANGE_CHARACTER = kind(
    "E0008",
    "expected an ASCII character, found {character}",
    cause="Names and operators are ASCII: letters of other scripts that look alike would make two names that "
    "a reader cannot tell apart. Comments and strings may hold any printable character.",
    cure="Write the ASCII character or a spelled-out name (`alpha`, `mu`).",
)
INVISIBLE_CHARACTER = kind(
    "E0009",
    "expected visible text, found the invisible character {character}",
    "delete it",
    cause="Invisible and direction-changing characters can make a text read differently from what it says.",
    cure="Delete the character.",
)

# ---- E01: syntax ---------------------------------------------------------------------------------

SYNTAX = kind(
    "E0101",
    "expected {expected}, found {found}",
    cause="The text is not a sentence of the language at this place.",
    cure="See docs/language.md for the form of each statement.",
)
BRACKET_NOT_CLOSED = kind(
    "E0102",
    "`{bracket}` is never closed",
    "add the closing bracket",
    cause="A bracket was opened and the definition ends before it is closed.",
    cure="Add the closing bracket.",
)
BRACKET_NOT_OPEN = kind(
    "E0103",
    "`{bracket}` closes nothing",
    "delete it, or add the opening bracket",
    cause="A closing bracket has no opening one.",
    cure="Delete it or add its partner.",
)
BRACKET_MISMATCH = kind(
    "E0104",
    "expected `{expected}`, found `{found}`",
    "close brackets in the reverse order of opening",
    cause="A bracket is closed by one of another kind.",
    cure="Close brackets in the reverse order of opening.",
)
DEDENT = kind(
    "E0105",
    "expected an indentation of {expected} spaces, found {found}",
    "line the statement up with the block that it belongs to",
    cause="A line is indented less than its block but not as much as any block around it.",
    cure="Line it up with one of the enclosing blocks.",
)
BLOCK_EXPECTED = kind(
    "E0106",
    "expected an indented block after `:`, found {found}",
    "indent the statements of the block by four spaces",
    cause="A line that ends in `:` opens a block, and the next line is not indented.",
    cure="Indent the block.",
)
UNEXPECTED_INDENT = kind(
    "E0107",
    "expected a statement of the same block, found a deeper indentation",
    "remove the extra spaces, or end the line above with `:` if it opens a block",
    cause="A line is indented more than the one above although that one opens no block.",
    cure="Line it up.",
)
COLON_EXPECTED = kind(
    "E0108",
    "expected `:` before {found}",
    "end the line that opens a block with `:`",
    cause="`layer`, `model`, `train`, `for`, `scan`, `if` and their like open a block and end in `:`.",
    cure="Add the colon.",
)
TOO_DEEP = kind(
    "E0109",
    "expected at most {limit} nested {what}",
    "name an inner part with an equation of its own",
    cause="Nesting is bounded, so that no input can exhaust the compiler; nobody reads so deep a formula either.",
    cure="Give inner parts names.",
)
RESERVED_WORD = kind(
    "E0110",
    "expected {expected}, found the word `{word}` of the language",
    "choose another name, for example `{word}_`",
    cause="Words such as `state`, `size` or `start` have a meaning and cannot be names.",
    cure="Choose another name.",
)
PYTHON_NAME = kind(
    "E0111",
    "expected a name, found `{name}`, which {what}",
    "choose another name",
    cause="Generated modules are Python and use the names of the spec, so a name may not be a Python keyword "
    "or begin with two underscores.",
    cure="Choose another name.",
)
NAME_TOO_LONG = kind(
    "E0112",
    "expected a name of at most {limit} characters, found one of {length}",
    "choose a shorter name",
    cause="Names are bounded in length.",
    cure="Choose a shorter name.",
)
CHAINED_COMPARISON = kind(
    "E0113",
    "expected one comparison, found a chain of {count}",
    cause="`a < b < c` reads differently in different languages, so dslc has no chains.",
    cure="Join two comparisons with `and`.",
)
FOREIGN_OPERATOR = kind(
    "E0114",
    "expected an operator of dslc, found `{found}`",
    "write `{instead}`",
    cause="The operator belongs to another language.",
    cure="Powers are `^`, logic is `and`, `or`, `not`, matrix products are written with indices.",
)
NUMBER_FORM = kind(
    "E0115",
    "expected digits on both sides of the point, found `{found}`",
    "write `{instead}`",
    cause="`.5` and `5.` are easily misread beside ranges (`0..5`).",
    cure="Write the zero.",
)
STRING_NOT_CLOSED = kind(
    "E0116",
    "the string is not closed on its line",
    "end it with a double quote",
    cause="A string begins with a double quote and has no second one on its line.",
    cure="Close it; strings do not span lines.",
)
NUMBER_TOO_LARGE = kind(
    "E0117",
    "expected a number of at most {limit}, found `{found}`",
    cause="Numbers are bounded: whole numbers by 2^63 - 1, others by the range of a double.",
    cure="Write a smaller number; `inf` is infinity.",
)

# ---- E02: names ----------------------------------------------------------------------------------

UNKNOWN_NAME = kind(
    "E0201",
    "expected the name of a {what}, found `{name}`, which is not defined",
    cause="Nothing of this name is in scope: no value, argument, size, definition or built-in function.",
    cure="Mind the spelling, define the name before its use, or import the file that defines it.",
)
DEFINED_TWICE = kind(
    "E0202",
    "`{name}` is defined twice",
    "give one of them another name",
    cause="Two definitions, arguments, parameters or sizes in one scope have the same name.",
    cure="Rename one of them.",
)
REBINDS = kind(
    "E0203",
    "`{name}` is {what} and cannot be defined again",
    cause="Local values may be rebound (`h = f(h)`), but arguments, parameters, states, sizes and layers keep "
    "their meaning through the whole definition.",
    cure="Choose another name, or `<-` to update a state.",
)
INDEX_SHADOWS = kind(
    "E0204",
    "expected a free name for an index, found `{name}`, which is {what}",
    "choose another letter for the index",
    cause="An index has the name of a size or of another number in scope: a reader could not tell which is meant.",
    cure="Rename the index. By convention sizes are capitals and indices small letters.",
)
SHADOWS_BUILTIN = kind(
    "E0205",
    "`{name}` is built into the language and cannot be redefined",
    "choose another name",
    cause="Reductions, draws, derivatives and the other special forms keep their names. "
    "Scalar functions and library definitions may be overridden.",
    cure="Choose another name.",
)
IMPORT_MISSING = kind(
    "E0206",
    'cannot find the imported file "{path}"',
    cause="Import paths are relative to the file that imports.",
    cure="Mind the spelling and the folder.",
)
IMPORT_OUTSIDE = kind(
    "E0207",
    'expected a path inside the folder of the spec, found "{path}"',
    "move the file into the folder of the main spec, or below it",
    cause="A spec is untrusted text and may not make the compiler read files elsewhere: no absolute paths, "
    "no `..` out of the folder of the main spec, no links that lead outside.",
    cure="Keep the files of a spec in one folder tree.",
)
IMPORT_CYCLE = kind(
    "E0208",
    "files import each other in a circle: {steps}",
    "delete one of the imports; what both files need may go into a third one",
    cause="A file imports itself, directly or through others.",
    cure="Move the shared definitions into a file of their own.",
)
IMPORT_NAME = kind(
    "E0209",
    'expected a definition of "{path}", found `{name}`, which it does not define',
    cause="`from ... import` names something that the file does not define itself.",
    cure="Mind the spelling; import from the file that defines it.",
)
RECURSION = kind(
    "E0210",
    "`{name}` calls itself: {steps}",
    "use `for` to repeat a layer, or `scan` for steps along an axis",
    cause="Layers and functions are expanded when the spec is compiled, so they cannot be recursive.",
    cure="Repeat with `for` or `scan`.",
)
NOT_CALLABLE = kind(
    "E0211",
    "expected a function or layer, found {what}",
    cause="Something that is not a function is called, or stands where a layer is named or passed.",
    cure="Tensors are read with brackets; functions are called with parentheses.",
)
NOT_INDEXABLE = kind(
    "E0212",
    "expected a tensor before the brackets, found {what}",
    cause="Only tensors have axes that can be indexed.",
    cure="Index a tensor, or give an argument a type with axes.",
)
NO_MEMBERS = kind(
    "E0213",
    "expected a layer named with `use` or a call before the dot, found {what}",
    cause="`a.b` names the parameter `b` of the layer `a`, which must have been named with `use a = ...`; `a(x).b` the "
    "result `b` of a call.",
    cure="Name the layer with `use`, or call a definition that names its results.",
)
NO_SUCH_MEMBER = kind(
    "E0214",
    "`{owner}` has no parameter or layer `{name}`",
    cause="The path after the dot leads nowhere.",
    cure="`dslc show SPEC --stage program` lists the parameters with their paths.",
)
NOT_CALLED_YET = kind(
    "E0215",
    "the parameters of `{name}` are not known yet",
    cause="A parameter of a layer is used before the first call of the layer, which fixes its sizes.",
    cure="Call the layer first.",
)
NOT_HERE = kind(
    "E0216",
    "expected a statement for `{here}`, found `{word}`, which belongs in {allowed}",
    cause="Some statements have a meaning only in some definitions.",
    cure="Move the statement.",
)
PARAM_IN_FN = kind(
    "E0217",
    "`fn {fn}` cannot have a `{word}` (`{name}`)",
    "write `layer` instead of `fn`, or pass the value as an argument",
    cause="A `fn` is a pure function: everything it uses comes in through its arguments.",
    cure="Make it a `layer`.",
)
LAYER_IN_FN = kind(
    "E0218",
    "a `fn` cannot call the layer `{name}`",
    "write `layer` instead of `fn`, or pass the result as an argument",
    cause="A layer may have parameters, and a `fn` has no place to keep them.",
    cure="Make the function a `layer`.",
)
UNKNOWN_TYPE = kind(
    "E0219",
    "expected a type, found `{name}`",
    "dtypes are f16, bf16, f32, f64, i32, i64 and bool; an argument may also be a size, int, float, bool, string, "
    "fn or layer",
    cause="The word before the brackets of a type is not a dtype, or the word after `:` is no kind of argument.",
    cure="dtypes: f16 bf16 f32 f64 i32 i64 bool; kinds: size int float bool string fn layer.",
)
UNKNOWN_INITIALIZER = kind(
    "E0220",
    "expected an initialiser after `~`, found `{name}`",
    cause="After `~` stands one of the known initialisers.",
    cure="For a formula write `param A[i, j]: [N, M] = formula`.",
)
INITIALIZER_RANK = kind(
    "E0221",
    "`{name}` needs a parameter with 2 axes, found {found}",
    "choose another initialiser, for example `normal(0.02)`",
    cause="Orthogonal and identity matrices have two axes.",
    cure="Choose another initialiser.",
)
OUTPUT_UNDEFINED = kind(
    "E0222",
    "`{owner}` never defines `{name}`",
    "add an equation for it",
    cause="An output that the signature promises has no equation.",
    cure="Define it in the body.",
)
ONE_MODE = kind(
    "E0223",
    "`{name}` is not defined in {other}",
    "define it in both `training:` and `inference:`",
    cause="A value is defined in only one of the two modes and used after them.",
    cure="Define it in both.",
)
STEP_LOCAL = kind(
    "E0224",
    "`{name}` is known only inside a step of the scan over `{index}`",
    cause="Values without the scanned index on their left are local to a step.",
    cure="Give the value the scanned index to keep all steps.",
)
NOT_A_VALUE = kind(
    "E0225",
    "expected a number or a tensor, found {found}",
    cause="A function or a string stands where a value is needed.",
    cure="Call the function; name layers with `use`.",
)
