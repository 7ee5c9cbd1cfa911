"""What is wrong with indices and sizes."""

from __future__ import annotations

from dslc.diagnostics.kinds.record import kind

# ---- E03: indices and sizes ----------------------------------------------------------------------

SIZES_DIFFER = kind(
    "E0301",
    "expected equal sizes, found {a} and {b}, which {how}",
    cause="Two sizes that must agree differ, or cannot be shown to agree.",
    cure="Mend one of them; if they always agree, say so in a `where`.",
)
INDEX_TWO_SIZES = kind(
    "E0302",
    "expected one range for the index `{name}`, found {a} and {b}, which {how}",
    cause="An index runs over every axis that it indexes, so all of them must have the same size.",
    cure="Use two indices, or check the order of the indices; if the sizes always agree, say so in a `where`.",
)
LONE_INDEX = kind(
    "E0303",
    "the index `{name}` is absent on the left and stands alone inside `{what}`: sum before or after?",
    cause="An index that is absent on the left is summed over the product that holds it. Inside a nonlinear "
    "function a lone use could mean the sum of results or the result of the sum.",
    cure="Write `sum[i](...)` where the sum is meant.",
)
OUTPUT_INDEX = kind(
    "E0304",
    "expected the index `{name}` on the right, found it only on the left",
    cause="An output index that nothing on the right uses is usually a slip.",
    cure="Use it on the right, or give it an explicit range to repeat the value along it.",
)
WRONG_INDEX_COUNT = kind(
    "E0305",
    "expected {expected} for `{name}`, found {found}",
    cause="Every axis of a tensor needs an index, a slice or `:`.",
    cure="Name each axis; `...` stands for the leading ones.",
)
RANGE_UNKNOWN = kind(
    "E0306",
    "nothing says how far the index `{name}` runs",
    "give it a range: `{name}: SIZE` where it is introduced, or `where {name} = SIZE`",
    cause="An index takes its range from an axis that it indexes plainly, from a bound, or from the declared type "
    "of the left-hand side. Inside an affine expression with `else` no range is implied.",
    cure="State the range.",
)
MAY_LEAVE_RANGE = kind(
    "E0307",
    "`{text}` may leave the range of `{name}`",
    cause="A read outside of a tensor must be provably impossible, or have a meaning.",
    cure="Say what stands outside (`else`, `wrap`, `clamp`), or state in a `where` why it cannot happen; "
    "declare the bound of whole-number data with `<`.",
)
LEAVES_RANGE = kind(
    "E0308",
    "`{text}` leaves the range of `{name}`",
    cause="The read is outside of the tensor for every size. Positions count from 0 to the size minus 1; "
    "negative ones do not count from the end.",
    cure="Mend the index, or say what stands outside (`else`, `wrap`, `clamp`).",
)
NOT_DIVISIBLE = kind(
    "E0309",
    "expected a whole number, found {a} / {b}, which {how}",
    cause="A size must be a whole number, and `/` on sizes is exact division.",
    cure="State the divisibility in a `where`, or round down with `//`.",
)
SHAPES_DIFFER = kind(
    "E0310",
    "expected equal shapes, found {a} and {b}",
    cause="Without indices, operations go element by element and need equal shapes. Size 1 is not special: "
    "(4, 1) and (4) do not silently become (4, 4).",
    cure="Write the indices; an absent index broadcasts.",
)
INDEX_BOUND_TWICE = kind(
    "E0311",
    "the index `{name}` is already in use here",
    "choose another name for the inner index",
    cause="One pair of brackets binds an index twice, or binds `...` where the left-hand side keeps it.",
    cure="Name each index once; name the axes of one `...`.",
)
INDEX_REPEATED = kind(
    "E0312",
    "expected each index once on the left, found `{name}` twice",
    cause="The left-hand side names the axes of the result; two axes cannot share an index.",
    cure="Give each axis its own index.",
)
AXES_LEFT = kind(
    "E0313",
    "expected {expected} without an index, found {found}",
    cause="The left-hand side must name, or keep with `:`, every axis of the right-hand side.",
    cure="Index the tensors on the right, or write `:` on the left.",
)
INDICES_LEFT = kind(
    "E0314",
    "expected the axes of `{target}` in brackets, found none, and {names} on the right",
    cause="Without brackets on the left a whole tensor or a single number is meant. Indices on the right are then "
    "summed, where a sum can be meant: in a product of reads, but not inside of a function, nor in a result for each "
    "position, nor when the target has axes.",
    cure="Name the axes on the left.",
)
NOT_A_POSITION = kind(
    "E0316",
    "expected an index or a position, found {what}",
    cause="Between the brackets of a read stand indices, affine expressions, slices, groups or `...`.",
    cure="See docs/language.md, index expressions.",
)
WHERE_CONTRADICTS = kind(
    "E0317",
    "`{text}` {what}",
    "no sizes satisfy all conditions; drop or mend one of them",
    cause="The conditions of a `where` exclude each other, or one of them is never true.",
    cure="Mend the conditions.",
)
WHERE_FAILS = kind(
    "E0318",
    "`{callee}` needs `{text}`, which {how}",
    cause="The `where` of a layer must be provable at every call.",
    cure="Pass other sizes, or state the condition in the `where` of the calling definition.",
)
WHERE_FORM = kind(
    "E0319",
    "expected a comparison of sizes",
    cause="A `where` of a definition states facts about sizes.",
    cure="Write comparisons such as `E % heads == 0`.",
)
WHERE_INDEX = kind(
    "E0320",
    "expected `index = size` in the `where` of an equation",
    "write for example `where a = 8`; facts about sizes belong in the `where` of the definition",
    cause="The `where` of an equation gives indices their range.",
    cure="Write `index = size`.",
)
SIZE_EXPECTED = kind(
    "E0321",
    "expected a whole number for {what}, found {found}",
    cause="Sizes are whole numbers that are known when the spec is compiled, or symbols of the signature.",
    cure="Use sizes, static arguments and whole numbers.",
)
SIZE_TOO_SMALL = kind(
    "E0322",
    "expected at least {least} for {what}, found {found}",
    cause="A size is at least 1.",
    cure="Mend the arithmetic.",
)
SIZE_MAY_BE_SMALL = kind(
    "E0323",
    "expected at least {least} for {what}, found `{found}`, which may be smaller",
    cause="A size is at least 1, and this one cannot be shown to be.",
    cure="State the missing fact in a `where`.",
)
SIZE_BOUND = kind(
    "E0324",
    "expected a size of at most {limit}, found {found}",
    cause="Sizes are bounded, so that no input can exhaust the machine.",
    cure="Use a smaller size.",
)
REST_MISUSE = kind(
    "E0325",
    "`...` cannot stand here: {why}",
    cause="`...` stands for the same axes everywhere in a statement, and the types of the arguments say how many.",
    cure="Name the axes, or use `...` once in each place.",
)
GROUP_UNKNOWN = kind(
    "E0326",
    "expected the sizes of all but one index of the group, found none for {names}",
    cause="A grouped axis `(h a)` is split by dividing; only one of its sizes can be found that way.",
    cure="Give the others a size with `where a = 8`.",
)
SLICE_STEP = kind(
    "E0327",
    "expected a step that is a positive number, or `::-1`, found `{found}`",
    "`::-1` reverses a whole axis; for other steps write an index: `x[T-1-2*t]`",
    cause="Slices take a fixed positive step; a whole axis may be reversed with `::-1`.",
    cure="Write the read with an index: `x[T-1-2*t]`.",
)
SLICE_RANGE = kind(
    "E0328",
    "the slice {slice} of `{name}` {how}",
    cause="A slice must lie inside its axis, provably, and hold at least one element.",
    cure="Mend the bounds or state in a `where` why they fit.",
)
ONLY_IN_DENOMINATOR = kind(
    "E0329",
    "the index `{name}` is absent on the left and stands only in a denominator: sum where?",
    cause="`a / b[i]` could mean the sum of quotients or the quotient by a sum.",
    cure="Write `sum[i](...)` where it is meant.",
)
EINSUM_STRING = kind(
    "E0330",
    "the einsum does not fit its tensors: {why}",
    'write a letter for each axis: `einsum("ij,jk->ik", A, B)`, or write the equation with indices',
    cause="The string of an einsum names the axes of each tensor and of the result.",
    cure="Mend the string, or write the equation with indices.",
)
UNUSED_BOUND_INDEX = kind(
    "E0331",
    "`{function}` binds the index `{name}`, which its argument does not use",
    "use the index, drop it, or give it a range",
    cause="A reduction over an index that does not occur is usually a slip.",
    cure="Use the index; with an explicit range (`sum[i: 5](...)`) it is allowed.",
)
ONE_INDEX = kind(
    "E0332",
    "`{name}` works along one index, found {found}",
    "name exactly one index between the brackets",
    cause="Running sums, sorting and joining go along one axis.",
    cure="Name one index.",
)
BRACKET_NAMES = kind(
    "E0333",
    "expected names of indices between the brackets of `{name}`",
    cause="The brackets before the arguments bind indices.",
    cure="Write names, with a range if needed.",
)
BRACKETS_NEEDED = kind(
    "E0334",
    "`{name}` needs to know its index",
    cause="Functions that work along an axis name the index in brackets.",
    cure="Write `name[i](...)`.",
)
NO_BRACKETS = kind(
    "E0335",
    "`{name}` takes no index in brackets",
    "drop the brackets; indices go into the arguments",
    cause="Only reductions, functions along an axis, draws and functions with an axis of their own take one.",
    cure="Drop the brackets.",
)
LEFT_SIDE = kind(
    "E0336",
    "expected an index on the left-hand side, found `{found}`",
    cause="An equation defines all of a tensor at once: its left-hand side names the axes.",
    cure="Define the parts and join them with `concat`, or scatter with `+=`.",
)
TARGET_RANK = kind(
    "E0337",
    "expected {expected} for `{name}`, found {found}",
    cause="The left-hand side has another number of axes than the declared or earlier type of the value.",
    cure="Name as many axes as the type has.",
)
SCATTER_SIZE = kind(
    "E0338",
    "nothing says how long the scattered axis of `{name}` is",
    cause="The size of an axis that is written through data comes from the bound of the data, from the declared "
    "type of the target, or from a stated size.",
    cure="State the size.",
)
TOP_K_TOO_MANY = kind(
    "E0339",
    "cannot take {k} of {size} values",
    cause="`top_k` needs at least as many values as it gives.",
    cure="Take fewer, or state in a `where` that there are enough.",
)
SCAN_FROM_ZERO = kind(
    "E0340",
    "expected a reversed scan down to 0, found one down to {found}",
    "go down to 0, and leave out steps with a condition: `x[t] if t >= {found} else ...`",
    cause="A reversed scan ends with its step 0: nothing would stand at the places before.",
    cure="Go down to 0.",
)
NOT_A_NUMBER = kind(
    "E0341",
    "`{name}` stands for several indices here and is no single number",
    cause="A function with an axis was called with several indices in its brackets, and uses the axis as a number.",
    cure="Call it with one index.",
)
SQUARE_EXPECTED = kind(
    "E0342",
    "`{name}` expects a square matrix, found the shape {found}",
    "keep two axes of equal size, as in `A[n, :, :]`; if their sizes always agree, say so in a `where`",
    cause="The operation is defined for square matrices, given as the two positional axes of its argument.",
    cure="Pass a matrix with two equal axes.",
)
RIGHT_HAND_SIDE = kind(
    "E0343",
    "expected a right-hand side of shape {expected}, found {found}",
    "to solve for many right-hand sides, map over them: `x[n, :] = solve(A, b[n, :])`",
    cause="`solve(A, b)` needs as many rows in `b` as in `A`.",
    cure="Pass a vector or a matrix with that many rows.",
)
OUTPUT_TYPE = kind(
    "E0344",
    "expected the shape {expected} for `{name}`, found {found}",
    cause="A value does not have the shape that is declared for its name.",
    cure="Mend the equation or the declaration.",
)
DIVISION_BY_ZERO = kind(
    "E0345",
    "division by zero",
    cause="A static number is divided by zero.",
    cure="Mend the arithmetic.",
)
CARRIED_SIZE = kind(
    "E0346",
    "the shape of `{text}` is not known yet, and the call of `{callee}` needs it",
    "let the carried value start from a tensor of its shape, or declare it as an output of the definition",
    cause="Inside a scan a carried value goes into a call before its own equation has told its shape.",
    cure="Let the shape be known earlier: from the declared type of an output, or from a tensor after `start`.",
)

WHERE_UNUSED = kind(
    "E0347",
    "expected an index of the equation in its `where`, found `{name}`, which it does not use",
    "its indices are {names}",
    cause="The `where` of an equation gives its indices their range, and none of them has this name.",
    cure="Mind the spelling, or drop the condition.",
)

OPEN_PARAMETER = kind(
    "E0348",
    "expected a known size for the parameter `{path}`, found `{size}`, which only the data tell",
    cause="Parameters are made before there is any data, and a parameter has the size of an input that is left open.",
    cure="Give the size a value with `--set`, in Python as an argument, or write the number in the type. `dslc train` "
    "takes it from the data.",
)

UNTOLD_SIZE = kind(
    "E0350",
    "expected a known value for the size `{size}` of `{model}`, found none: no input has an axis of it",
    "give it a value: `--set {size}=8`, in Python `{size}=8`, or a default: `{size} = 8`",
    cause="A size that stands alone among the arguments of a model is read off the axes of its inputs when the module "
    "is called. None of them has it.",
    cure="Give it a value with `--set`, in Python as an argument, or a default in the signature.",
)

CONTRACTED_TWICE = kind(
    "E0349",
    "the index `{name}` is absent on the left and contracted in more than one part of a product: one sum, or one in "
    "each?",
    cause="An index that is absent on the left is summed over the smallest product that holds all its uses. Here parts "
    "of the product are sums over it by themselves, so that a reader could take it either way: `a^2` with `a = S x` is "
    "not the sum of the squares.",
    cure="Write `sum[i](...)` where the sums are meant, or use another index in each part.",
)
