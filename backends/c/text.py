"""Pieces of C text: types, sizes, constants, names."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from dslc.backends.c.brackets import plain
from dslc.backends.c.runtime import FUNCTIONS

from dslc.ir import nodes as ir
from dslc.passes.narrow import HALVES
from dslc.polynomials import Function, Polynomial, Symbol
from dslc.size_text import atom_order
from dslc.sizes import Size

#: words of C and of C++, which reads the header, and names that a compiler knows as functions
RESERVED = """
auto break case char const continue default do double else enum extern float for goto if inline int long register
restrict return short signed sizeof static struct switch typedef union unsigned void volatile while asm typeof bool
true false NULL main errno size_t int8_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t begin end context worker
f16_bits threads parallel f w a at memcpy memset malloc free and or not xor unix linux
y0 y1 yn j0 j1 jn gamma index exp log sin cos tan abs div time signal exit abort log2 log10 pow sqrt floor ceil round
trunc erf erfc tgamma lgamma hypot cbrt remainder rint scalb significand drem gamma_r
workspace INFINITY NAN HUGE_VAL HUGE_VALF M_E M_LOG2E M_LOG10E M_LN2 M_LN10 M_PI M_PI_2 M_PI_4 M_1_PI M_2_PI
M_2_SQRTPI M_SQRT2 M_SQRT1_2 SIZE_MAX INT32_MIN INT32_MAX INT64_MIN INT64_MAX UINT64_MAX FP_NAN FP_INFINITE FP_ZERO
alignas alignof and_eq bitand bitor catch char8_t char16_t char32_t class compl concept consteval constexpr constinit
const_cast co_await co_return co_yield decltype delete dynamic_cast explicit export friend mutable namespace new
noexcept not_eq nullptr operator or_eq private protected public reinterpret_cast requires static_assert static_cast
template this thread_local throw try typeid typename using virtual wchar_t xor_eq
I complex imaginary EOF BUFSIZ RAND_MAX stdin stdout stderr assert offsetof noreturn
BIG_ENDIAN LITTLE_ENDIAN PDP_ENDIAN BYTE_ORDER CLOCKS_PER_SEC CPU_SETSIZE CSIGNAL MAXFLOAT MB_CUR_MAX MINSIGSTKSZ
NFDBITS NGREG NSIG F_LOCK F_OK F_TEST F_TLOCK F_ULOCK L_INCR L_SET L_XTND R_OK W_OK X_OK WCONTINUED WEXITED WNOHANG
WNOWAIT WSTOPPED WUNTRACED math_errhandling sched_priority
"""
#: words of C, and what generated code calls: a value of such a name would stand in front of the function
KEYWORDS = frozenset(RESERVED.split()) | FUNCTIONS.keys()
#: what macros of the headers are called; others than functions, a macro takes its name away from everything
MACRO = re.compile(
    r"(?!\w*_\d*$)"  # another name is found by such an ending
    r"((ADJ|ATOMIC|BUS|CLD|CLOCK|CLONE|CLOSE|EXIT|FD|FP|FPE|HUGE|ILL|M|MATH|MOD|POLL|PTHREAD|PTRDIFF|REG|SA|SCHED|SEEK"
    r"|SEGV|SI|SIZE|SS|STA|STDERR|STDIN|STDOUT|TIME|TIMER|TRAP|WCHAR|WINT)_[A-Z0-9_]+[a-z0-9]*"
    r"|U?INT\w*_(MAX|MIN|WIDTH)|SIG[A-Z0-9_]+|SNAN\w*|s[ai]_\w+|sigev_\w+)"
)


def reserved(name: str) -> bool:
    """Does a name mean something in C, its headers or the definitions beside it?"""
    return name in KEYWORDS or MACRO.fullmatch(name) is not None


def identifier(wish: str) -> str:
    """A name of C near to a wish.

    >>> identifier("block.*.W"), identifier("2b"), identifier("double")
    ('block_W', 'v_2b', 'double_')
    """
    base = re.sub(r"[^A-Za-z0-9]+", "_", wish).strip("_") or "value"
    base = f"v_{base}" if base[0].isdigit() else base
    return f"{base}_" if reserved(base) else base


@dataclass
class Names:
    """Names that are taken, here and around."""

    taken: set[str] = field(default_factory=set)

    def fresh(self, *wishes: str) -> str:
        """The first wish that is free, or the last one with a number."""
        names = [identifier(x) for x in wishes]
        free = next((x for x in names if x not in self.taken), None)
        number = 2
        while free is None:
            name = f"{names[0]}_{number}" if names[0][-1].isdigit() else f"{names[0]}{number}"
            free = None if name in self.taken or reserved(name) else name
            number += 1
        self.taken.add(free)
        return free

    def inner(self) -> Names:
        return Names(set(self.taken))


def size_text(size: Size, names: dict[str, str] | None = None) -> str:
    """A size as C, in whole numbers.

    >>> from dslc.sizes import symbol
    >>> N = symbol("N"); size_text(N * 3 + 1), size_text(N * (N + 1) / 2)
    ('3 * N + 1', '(N * N + N) / 2')
    """
    return _text(size, names or {}, False)


def number_text(size: Size, names: dict[str, str], dtype: str) -> str:
    """A size as a number of C: quotients are those of floats."""
    if isinstance(size, int):
        return f"{size}"
    whole = size.is_integer
    if whole:
        return f"({dtype})({size_text(size, names)})"
    return f"({dtype})({_text(size, names, True)})"


def _text(size: Size, names: dict[str, str], floats: bool) -> str:
    if isinstance(size, int):
        return f"{size}.0" if floats else (f"{size}L" if abs(size) >= 2**31 else f"{size}")
    denominator = math.lcm(*(Fraction(c).denominator for c in size.terms.values()))
    terms: list[str] = []
    ordered = sorted(
        size.terms.items(), key=lambda t: (not t[0], -sum(k for _, k in t[0]), sorted(atom_order(a) for a, _ in t[0]))
    )
    for monomial, c in ordered:
        count = Fraction(c) * denominator
        atoms = sorted(monomial, key=lambda factor: atom_order(factor[0]))
        above = [_atom(a, names, floats) for a, k in atoms for _ in range(max(k, 0))]
        below = [_atom(a, names, floats) for a, k in atoms for _ in range(max(-k, 0))]
        number = abs(count.numerator)
        parts = ([f"{number}.0" if floats else f"{number}"] if number != 1 or not above else []) + above
        text = " * ".join(parts)
        if below:
            text = f"{text} / {below[0] if len(below) == 1 else '(' + ' * '.join(below) + ')'}"
        sign = "-" if count < 0 else "+"
        terms.append(f" {sign} {text}" if terms else (f"-{text}" if count < 0 else text))
    text = "".join(terms)
    if denominator != 1:
        text = (
            f"({text}) / {denominator}{'.0' if floats else ''}"
            if len(terms) > 1
            else f"{text} / {denominator}{'.0' if floats else ''}"
        )
    return text


def _atom(a: Symbol | Function, names: dict[str, str], floats: bool) -> str:
    if isinstance(a, Symbol):
        name = names.get(a.name, identifier(a.name))
        return f"(double){name}" if floats else name
    args = [_text(x, names, floats) for x in a.args]
    if a.name == "sum":
        return f"({args[0]})"
    if a.name == "floor":
        # whole numbers: of a quotient the part above and the part below
        if floats:
            return f"floor({args[0]})"
        inner = a.args[0]
        assert isinstance(inner, Polynomial)
        above, below = inner.as_numer_denom()
        return f"floor_divide_i64({_text(above, names, False)}, {_text(below, names, False)})"
    if a.name == "log2":
        return f"log2({args[0]})"
    return f"{a.name}_size({', '.join(args)})" if len(args) == 2 else _folded(a.name, args)


def _folded(name: str, args: list[str]) -> str:
    text = args[0]
    for x in args[1:]:
        text = f"{name}_size({text}, {x})"
    return text


def factor(text: str) -> str:
    """A text that can stand beside `*`.

    >>> factor("N + 1"), factor("N"), factor("f(x, y)")
    ('(N + 1)', 'N', 'f(x, y)')
    """
    depth = 0
    for c in text:
        depth += (c in "([") - (c in ")]")
        if depth == 0 and c in " ":
            return f"({text})"
    return f"({text})" if text.startswith("-") else text


def bare(text: str) -> str:
    """A whole expression, without brackets that it does not need.

    >>> bare("((a + b))"), bare("(a) + (b)"), bare("(a - (b - c))")
    ('a + b', 'a + b', 'a - (b - c)')
    """
    return plain(text)


#: how long a line of code is at most, where it can be broken
WIDTH = 120


def without_zeros(at: str) -> str:
    """A sum without its zeros."""
    parts = [x for x in at.split(" + ") if x != "0" and not x.endswith("* 0")]
    return " + ".join(parts) or "0"


def broken(line: str, width: int = WIDTH) -> list[str]:
    """A line of code on several where it is too long: after a comma, or before an operator, as far out as that can be.

    >>> for x in broken("y[i] = f(a[i], 100) + f(b[i], 200) + f(c[i], 300);", 40): print(x)
    y[i] = f(a[i], 100) + f(b[i], 200)
            + f(c[i], 300);
    """
    if line.lstrip().startswith(("#", "//", "/*")) or '"' in line or "//" in line:
        return [line]
    margin = " " * (len(line) - len(line.lstrip()) + 8)
    lines: list[str] = []
    while len(line) > width and (at := _place(line, width)):
        lines.append(line[:at])
        line = margin + line[at:].lstrip()
    return [*lines, line]


def _place(line: str, width: int) -> int:
    """Where a long line is broken; 0 where it cannot be."""
    indent = len(line) - len(line.lstrip())
    depth, places = 0, []
    for k, c in enumerate(line[: width - 1]):
        depth += (c in "([{") - (c in ")]}")
        comma, after = line[k - 1] == ",", line[k + 1 : k + 4]
        if c == " " and k > indent + 4 and (comma or after in ("&& ", "|| ") or after[:2] in BREAKS):
            places.append((depth, not comma, -k))
    late = [x for x in places if -x[2] > width // 2]
    return -min(late or places)[2] if places else 0


#: operators that a line may begin with
BREAKS = frozenset({"+ ", "- ", "* ", "/ ", "? ", ": ", "= "})


#: dtype -> what one element of an array of the caller is in C
TYPES = {
    "f16": "f16_bits", "bf16": "uint16_t", "f32": "float", "f64": "double", "i32": "int32_t", "i64": "int64_t",
    "bool": "uint8_t",
}  # fmt: skip


def constant(s: ir.Const, ctype: str) -> str:
    value = s.value
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float) and value.is_integer() and ctype == "int64_t" and abs(value) < 2**31:
        value = int(value)
    if isinstance(value, float) or ctype in ("float", "double"):
        value = float(value)
        if value != value:
            return "NAN"
        if math.isinf(value):
            return "INFINITY" if value > 0 else "-INFINITY"
        text = repr(value)
        if "." not in text and "e" not in text:
            text += ".0"
        return text + ("f" if ctype == "float" else "")
    if value == -(2**63):
        return "INT64_MIN"
    return f"{value}L" if abs(value) >= 2**31 else f"{value}"


def c_type(dtype: str) -> str:
    """The type of the elements of an array that the caller hands over."""
    return TYPES[dtype]


def types_of(dtype: str) -> Types:
    """What the dtypes of a spec are in C, where parameters are kept in a dtype."""
    return Types("f32", dtype) if dtype in HALVES else Types(dtype)


@dataclass(frozen=True)
class Types:
    """What the dtypes of a spec are in C."""

    #: what floats are computed with: f32 or f64
    precision: str
    #: what parameters are kept in, where that is f16 or bf16
    half: str = ""

    def of(self, dtype: str) -> str:
        match dtype:
            case "f64":
                return "double"
            case "i32" | "i64":
                return "int64_t"
            case "bool":
                return "uint8_t"
        return "float" if self.precision == "f32" else "double"

    def suffix(self, dtype: str) -> str:
        return "_f32" if self.of(dtype) == "float" else "_f64"

    def kept(self, dtype: str) -> str:
        """The dtype of an array of this dtype that the caller hands over."""
        return self.precision if dtype in ("float", "f32") else dtype

    def computed(self, dtype: str) -> str:
        """The dtype of an array of this dtype in the workspace: 64 bits for whole numbers, no float has 16."""
        return "i64" if dtype == "i32" else self.precision if dtype in HALVES else self.kept(dtype)


def lines_of(words: Sequence[str], width: int) -> list[str]:
    """Words with blanks between them, in lines of at most a width.

    >>> lines_of(["a,", "bc,", "d,"], 5)
    ['a,', 'bc,', 'd,']
    >>> lines_of(["a,", "bc,", "d,"], 8)
    ['a, bc,', 'd,']
    """
    lines: list[str] = []
    for word in words:
        if lines and len(lines[-1]) + 1 + len(word) < width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines
