"""What is wrong with types, calls, scans and states."""

from __future__ import annotations

from dslc.diagnostics.kinds.record import kind

# ---- E04: types ----------------------------------------------------------------------------------

WRONG_DTYPE = kind(
    "E0401",
    "expected {expected} for {what}, found {found}",
    cause="Floats, whole numbers and conditions are different things and are not converted silently.",
    cure="Convert on purpose: `float(x)`, `i32(round(x))`, `1 if c else 0`.",
)
BOOL_ARITHMETIC = kind(
    "E0402",
    "expected a number for `{op}`, found a condition",
    "write `(1 if condition else 0)`",
    cause="Conditions are not numbers.",
    cure="Choose numbers with `a if c else b`, or convert with `float(c)`.",
)
CONDITION_EXPECTED = kind(
    "E0403",
    "expected a condition, found {found}",
    cause="`if`, `and`, `or`, `not`, `any` and `all` need something that is true or false.",
    cure="Compare the value.",
)
DIFFERENTIATE_INTEGER = kind(
    "E0404",
    "expected a float to differentiate, found `{text}` ({found})",
    "make a float of the data first, `z = float(k)`, and compute with `z`",
    cause="Derivatives exist for floats only.",
    cure="Differentiate a float value by a float value.",
)
FLOAT_INDEX = kind(
    "E0405",
    "expected a whole number as a position, found {found}",
    cause="Positions are whole numbers.",
    cure="Round and convert: `i32(round(x))`.",
)
STATIC_NEEDED = kind(
    "E0406",
    "{what} must be known when the spec is compiled",
    cause="Repetition, choices by `if`, sizes and hyper-parameters are settled at compile time.",
    cure="Use static arguments and numbers.",
)
ARGUMENT_KIND = kind(
    "E0407",
    "expected {expected} for `{name}`, found {found}",
    cause="An argument is of another kind than the definition asks for.",
    cure="See the signature: `dslc show NAME`.",
)
CANNOT_COMPARE = kind(
    "E0408",
    "cannot compare {a} with {b} by `{op}`",
    cause="Only numbers are ordered; strings and conditions can be compared with `==` and `!=` among themselves.",
    cure="Compare like with like.",
)
WHOLE_EXPECTED = kind(
    "E0409",
    "expected whole numbers for `{op}`, found a float",
    cause="`//` and `%` work on whole numbers.",
    cure="Use `floor(a / b)` for floats.",
)
VALUE_BOUND = kind(
    "E0410",
    "expected values below {limit} for `{name}`, found values {found}",
    cause="Whole-number data that is used as a position needs a bound.",
    cure="Declare the bound where the data enters the model.",
)
ROUNDING_UNCLEAR = kind(
    "E0411",
    "expected a rounded number for `{name}`, found a float",
    cause="There are several ways to make a float whole.",
    cure="Say which: `round`, `floor`, `ceil` or `trunc`.",
)
SCALAR_EXPECTED = kind(
    "E0412",
    "expected a single number for `{name}`, found a tensor",
    "read one element of it with indices, or reduce it",
    cause="One number is needed here.",
    cure="Reduce or index the tensor.",
)
ELSE_NEEDS_READ = kind(
    "E0413",
    "expected `(tensor[...] else number)`",
    "for a choice write `a if condition else b`",
    cause="`(read else value)` gives the value that stands outside the range of a read.",
    cure="Put a read before `else` and a single number after it.",
)
SEVERAL_RESULTS = kind(
    "E0414",
    "expected one value, found {found} results",
    "name them first: `a, b = ...`",
    cause="A call with several results stands inside an expression.",
    cure="Take one result by its name, `f(x).y`, or give all of them names in an equation of their own.",
)
NO_SUCH_RESULT = kind(
    "E0415",
    "`{callee}` has no result `{name}`",
    cause="After a call, `.name` takes one of its results, by the name that the definition gives it after `->`.",
    cure="Mind the spelling; the signature of the definition has the names.",
)

# ---- E05: calls ----------------------------------------------------------------------------------

MISSING_ARGUMENT = kind(
    "E0501",
    "`{callee}` needs the argument `{name}`",
    cause="An argument without a default is not given.",
    cure="Pass it, or pipe it in with `|>`.",
)
TOO_MANY_ARGUMENTS = kind(
    "E0502",
    "expected at most {expected} for `{callee}`, found one more",
    "it takes {names}",
    cause="More arguments are given than the definition has.",
    cure="See the signature: `dslc show NAME`.",
)
UNKNOWN_ARGUMENT = kind(
    "E0503",
    "`{callee}` has no argument `{name}`",
    cause="A named argument does not exist.",
    cure="See the signature: `dslc show NAME`.",
)
ARGUMENT_TWICE = kind(
    "E0504",
    "the argument `{name}` of `{callee}` is given twice",
    "drop one of them",
    cause="An argument is given by place and by name, or twice by name.",
    cure="Give it once.",
)
ARGUMENT_RANK = kind(
    "E0505",
    "expected {expected} for `{name}`, found {found}",
    cause="A tensor has another number of axes than the signature declares, or than another argument of that type.",
    cure="Pass a tensor of that rank, or map over the other axes with indices: `f(x[n, :, :])`.",
)
ARGUMENT_SIZE = kind(
    "E0506",
    "expected `{expected}` for an axis of `{name}` of `{callee}`, found `{found}`: they {how}",
    cause="The sizes of the arguments must fit the signature, in which one name means one size.",
    cure="Pass tensors that fit; if the sizes always agree, say so in a `where`.",
)
RESULT_COUNT = kind(
    "E0507",
    "expected as many names as results, found {expected} and {found}",
    "name every result: `a, b = ...`",
    cause="The number of names on the left differs from the number of results on the right.",
    cure="Name every result.",
)
ARITY = kind(
    "E0508",
    "`{name}` takes {expected}, found {found}",
    cause="A built-in function is called with the wrong number of arguments.",
    cure="See docs/language.md, functions.",
)
NO_NAMED_ARGUMENTS = kind(
    "E0509",
    "`{name}` takes no named arguments",
    "pass the argument by place",
    cause="Built-in functions take their arguments by place.",
    cure="Drop the name.",
)
DEFAULT_OF_TENSOR = kind(
    "E0510",
    "a tensor argument (`{name}`) cannot have a default",
    cause="Only static arguments have defaults.",
    cure="Drop the default.",
)
SHARED_DIFFERS = kind(
    "E0511",
    "`{name}` is called with sizes that need other parameters than before",
    "name a second layer with `use`",
    cause="A layer named with `use` has one set of parameters, and its calls must agree on their sizes.",
    cure="Use one layer for each set of sizes.",
)
TOO_MUCH_WORK = kind(
    "E0512",
    "expected at most {limit} {what}",
    "reduce the repetition; a spec this large is hardly meant",
    cause="The work that a spec may ask for is bounded, so that no input can hang the compiler.",
    cure="Use fewer repetitions or smaller definitions.",
)
PREFIX_FUNCTION = kind(
    "E0513",
    "expected a function of {expected} arguments with {outputs} for `prefix`",
    "it combines an earlier with a later element: `fn op(a1, a2) = ...` for one tensor, "
    "`fn op(a1, b1, a2, b2) -> (a, b):` for two",
    cause="The function of `prefix` combines two elements into one of the same kind.",
    cure="Give it two arguments and one result for each tensor.",
)
ONLY_IN_INDEX = kind(
    "E0514",
    "`{name}` stands only around a position: `x[{name}(t+1)]`",
    "to limit values write `clip(x, low, high)`",
    cause="`wrap` and `clamp` say what happens to a position outside of its axis.",
    cure="Write it inside the brackets; `clip(x, low, high)` clips values.",
)
AXIS_OF_BLOCK = kind(
    "E0515",
    "expected one formula for `{name}[{axis}]`, found a block",
    "give it whole axes, as in `fn {name}(x: [K]) -> y: [K]:`, and call it for each row: `y[n, :] = {name}(x[n, :])`",
    cause="A function with an axis in brackets stands for its formula at the place of the call, and a block is none.",
    cure="Write one formula, with the help of other functions, or a function of tensors, whose types have the axis.",
)

# ---- E06: scans, states, derivatives given by hand -----------------------------------------------

READS_FUTURE = kind(
    "E0601",
    "the scan over `{index}` reads a step of `{name}` that is {what}",
    cause="Inside a scan a value may be read a fixed number of steps back, and at the current step below its equation.",
    cure="Read earlier steps; use `scan ... reversed:` to go from the end. To read all earlier steps, carry them in a "
    "value with an axis for them.",
)
NO_START = kind(
    "E0602",
    "`{name}` is carried from step to step and has no start",
    cause="The first step reads the step before it, which nothing defines.",
    cure="Write `start NAME = ...` below the scan.",
)
START_UNKNOWN = kind(
    "E0603",
    "`start {name}` belongs to no value of a scan: {why}",
    "put `start` directly below the scan, for a value with the scanned index on its left",
    cause="A `start` names a value that the scan above it does not build.",
    cure="Mind the name and the place.",
)
MODES_DIFFER = kind(
    "E0604",
    "expected one type for `{name}` in both modes, found {a} and {b}",
    cause="What follows `training:` and `inference:` sees one value, so both must give it the same type.",
    cure="Mend one of them.",
)
UPDATE_TARGET = kind(
    "E0605",
    "expected a state on the left of `<-`, found `{name}`",
    cause="Only what is declared with `state` (or `slot` in an optimizer) lives from step to step.",
    cure="Declare it, or write `=` for an ordinary value.",
)
BACKWARD_SIGNATURE = kind(
    "E0606",
    "expected {expected} in the `backward` of `{name}`, {why}, found {found}",
    cause="A derivative by hand takes one cotangent for each output and gives one adjoint for each float argument.",
    cure="List them in the order of the signature.",
)
SCAN_ASSIGNS = kind(
    "E0607",
    "expected the scanned index `{index}` on the left, found `{name}`, a value from outside of the scan",
    cause="A step of a scan sees a value from outside as it was before: what a step assigns to it would be lost.",
    cure="Give it the scanned index, read its step before, and say what stands before the first step with `start`.",
)
STATE_IN_STEPS = kind(
    "E0608",
    "expected one update of the state `{name}` in a call, found one {where}",
    cause="A module hands each state on from one call to the next: it has one value before a call and one after it. "
    "Steps of a scan, and elements that a layer is called for one by one, would each have their own.",
    cure="Carry a value of the scan that starts from the state, and update the state once, after the scan.",
)
