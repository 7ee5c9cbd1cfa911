"""Steps that are calls, as C text: scatters, operations along an axis, operations on matrices."""

from __future__ import annotations

from dslc.backends.c.formula import Formula
from dslc.backends.c.indices import LETTERS
from dslc.backends.c.kernel import Kernel
from dslc.backends.c.reductions import combined, neutral
from dslc.backends.c.region import COLUMNS
from dslc.backends.c.text import factor
from dslc.backends.record import CannotLower

from dslc.ir import nodes as ir
from dslc.ir.rewrite import plain_variable
from dslc.sizes import product


def call_lines(kernel: Kernel, node: ir.Scatter | ir.Along | ir.External) -> None:
    kernel.comment(node.span)
    match node:
        case ir.Scatter():
            scatter(kernel, node)
        case ir.Along(op="cumsum" | "cumprod" | "cummax" | "cummin"):
            running(kernel, node)
        case ir.Along(op="fft" | "ifft"):
            fourier(kernel, node)
        case ir.Along():
            ordered(kernel, node)
        case ir.External() if node.op in kernel.entry.histories:
            grown(kernel, node)
        case ir.External():
            matrices(kernel, node)


def grown(kernel: Kernel, node: ir.External) -> None:
    """Put the newest element into an entry of the cache."""
    history, element, shape = kernel.entry.histories[node.op], node.args[0], node.shapes[0]
    inner, room = kernel.size(product(shape[history.axis + 1 :])), kernel.size(shape[history.axis])
    x, y = kernel.pointer(element), part(kernel, node)
    o, i = kernel.names.fresh("o"), kernel.names.fresh("i")
    target = f"({o} * {factor(room)} + {kernel.size(history.newest)}) * {factor(inner)} + {i}"
    kernel.open(f"for (long {o} = 0; {o} < {kernel.size(product(shape[: history.axis]))}; {o}++)")
    kernel.line(f"for (long {i} = 0; {i} < {inner}; {i}++) {y}[{target}] = {x}[{o} * {factor(inner)} + {i}];")
    kernel.indent -= 1


def around(kernel: Kernel, node: ir.Along) -> tuple[str, str, str]:
    """How many entries there are in front of the axis of an operation, along it, and behind it."""
    shape = node.args[0].shape
    return tuple(  # type: ignore[return-value]
        kernel.size(product(part))
        for part in (shape[: node.axis], shape[node.axis : node.axis + 1], shape[node.axis + 1 :])
    )


def part(kernel: Kernel, node: ir.Node, number: int = 0) -> str:
    """The pointer to one of the values of a node; empty where nothing reads it."""
    found = [x for x in kernel.written if isinstance(x, ir.Part) and x.of is node and x.number == number]
    return kernel.pointer(found[0]) if found else ""


def running(kernel: Kernel, node: ir.Along) -> None:
    """Running sums, products and extremes: neighbours behind the axis run side by side."""
    _, length, inner = around(kernel, node)
    x, y = kernel.pointer(node.args[0]), part(kernel, node)
    kind = {"cumsum": "sum", "cumprod": "prod", "cummax": "max", "cummin": "min"}[node.op]
    like = ir.Comp((), (), kind, ir.const(0.0, "float"), node.dtypes[0])
    o, t, i = (kernel.names.fresh(name) for name in ("o", "t", "i"))
    at = f"({o} * {factor(length)} + {t}) * {factor(inner)} + {i}" if inner != "1" else f"{o} * {factor(length)} + {t}"
    before = f"{at} {'+' if node.reverse else '-'} {factor(inner)}"
    first = f"{length} - 1" if node.reverse else "0"
    kernel.open(f"for (long {o} = begin; {o} < end; {o}++) {{")
    steps = (
        f"for (long {t} = {length} - 1; {t} >= 0; {t}--) {{"
        if node.reverse
        else f"for (long {t} = 0; {t} < {length}; {t}++) {{"
    )
    kernel.open(steps)
    if inner != "1":
        kernel.line("#pragma omp simd")
        kernel.open(f"for (long {i} = 0; {i} < {inner}; {i}++) {{")
    name = kernel.names.fresh("total")
    ctype = kernel.types.of(node.dtypes[0])
    kernel.line(f"{ctype} {name} = {t} == {first} ? {neutral(like, kernel)} : {y}[{before}];")
    kernel.line(combined(like, name, f"{x}[{at}]", kernel))
    kernel.line(f"{y}[{at}] = {name};")
    for _ in range(3 if inner != "1" else 2):
        kernel.close()


def pieces(kernel: Kernel, node: ir.Scatter | ir.Along | ir.External) -> tuple[str, int] | None:
    """How many pieces a call consists of that have nothing to do with each other, and how many are worth a thread."""
    if isinstance(node, ir.Along) and node.op in ("cumsum", "cumprod", "cummax", "cummin"):
        return around(kernel, node)[0], 1
    if isinstance(node, ir.Scatter) and apart(node):
        return kernel.size(node.shape[-1]), COLUMNS // 4
    return None


def scratch(kernel: Kernel, *sizes: str) -> list[str]:
    """Pointers to parts of the memory that all calls work in, of so many bytes each."""
    names: list[str] = []
    at = ""
    for size in sizes:
        name = kernel.names.fresh("scratch" if not names else "more")
        kernel.head[name] = f"char *{name} = {kernel.frame}scratch{at};"
        at += f" + padded({size})"
        names.append(name)
    kernel.entry.scratch.append((at.removeprefix(" + "), kernel))
    return names


def rows_along(kernel: Kernel, node: ir.Along, length: str) -> tuple[str, str, str]:
    """Loops over all rows along an axis: the place of a row, and how far its entries are apart."""
    outer, _, inner = around(kernel, node)
    o, i = kernel.names.fresh("o"), kernel.names.fresh("i")
    kernel.open(f"for (long {o} = 0; {o} < {outer}; {o}++) {{")
    if inner == "1":
        return f"{o} * {factor(length)}", "1", o
    kernel.open(f"for (long {i} = 0; {i} < {inner}; {i}++) {{")
    return f"{o} * {factor(length)} * {factor(inner)} + {i}", inner, o


def closed(kernel: Kernel, step: str) -> None:
    kernel.close()
    if step != "1":
        kernel.close()


def ordered(kernel: Kernel, node: ir.Along) -> None:
    """Sorted values, their positions, the largest ones."""
    _, length, _ = around(kernel, node)
    given = node.args[0]
    whole = kernel.types.of(given.dtype) in ("int64_t", "uint8_t")
    suffix = "_f64" if whole else kernel.types.suffix(given.dtype)
    x = kernel.pointer(given)
    kept = kernel.size(node.shapes[0][node.axis])
    parts = [part(kernel, node, k) for k in range(len(node.shapes))]
    sizes = [
        f"ordering_bytes{suffix}({length})",
        f"8 * {factor(length)}",
        f"8 * {factor(length)}",
        f"8 * {factor(length)}",
    ]
    work, row, values, spare = scratch(kernel, *sizes)
    at, step, o = rows_along(kernel, node, length)
    target, _ = (
        (at, step) if kept == length else (at.replace(f"{o} * {factor(length)}", f"{o} * {factor(kept)}", 1), "")
    )
    source, apart = f"{x} + {at}", step
    if whole:  # exact up to 2^53
        kernel.line(
            f"for (long k = 0; k < {length}; k++) ((double *){row})[k] = (double){x}[{at} + k * {factor(step)}];"
        )
        source, apart = f"(double *){row}", "1"
    if node.reverse:
        source, apart = f"{source} + ({length} - 1) * {factor(apart)}", f"-{factor(apart)}"
    out = f"(double *){values}" if whole else f"{parts[0]} + {target}" if parts[0] else ""
    gap = "1" if whole else step
    if node.op == "argsort":
        kernel.line(f"argsort{suffix}({length}, {source}, {apart}, {parts[0]} + {target}, {step}, {work});")
        if node.reverse:
            raise CannotLower("`argsort` from the end", node)
    elif node.op == "sort":
        if node.reverse:
            out, gap = f"{out} + ({length} - 1) * {factor(gap)}", f"-{factor(gap)}"
        kernel.line(f"sort{suffix}({length}, {source}, {apart}, {out}, {gap}, {work});")
    else:
        real = "double" if suffix == "_f64" else "float"
        first = out or f"({real} *){values}"
        second = f"{parts[1]} + {target}" if parts[1] else f"(int64_t *){spare}"
        gaps = (gap if out else "1"), (step if parts[1] else "1")
        kernel.line(
            f"top_k{suffix}({length}, {kept}, {source}, {apart}, {first}, {gaps[0]}, {second}, {gaps[1]}, {work});"
        )
    if whole and node.op != "argsort" and parts[0]:
        ctype = kernel.types.of(given.dtype)
        back = f"{parts[0]}[{target} + k * {factor(step)}] = ({ctype})((double *){values})[k];"
        kernel.line(f"for (long k = 0; k < {kept}; k++) {back}")
    closed(kernel, step)


def fourier(kernel: Kernel, node: ir.Along) -> None:
    """Fourier transforms of rows: real and imaginary parts."""
    _, length, _ = around(kernel, node)
    suffix = kernel.types.suffix(node.dtypes[0])
    real = kernel.types.of(node.dtypes[0])
    x = kernel.pointer(node.args[0])
    y = kernel.pointer(node.args[1]) if len(node.args) > 1 else ""
    re, im = part(kernel, node, 0), part(kernel, node, 1)
    sizes = [f"fourier_table_bytes({length})", f"fourier_work_bytes({length})", f"8 * {factor(length)}"]
    table, work, spare = scratch(kernel, *sizes)
    kernel.line(f"fourier_table({length}, {table}, {work});")
    at, step, _ = rows_along(kernel, node, length)
    imaginary = f"{y} + {at}, {step}" if y else "NULL, 0"
    results = [f"{x} + {at}, {step}" if x else f"({real} *){spare}, 1" for x in (re, im)]
    inverse = int(node.op == "ifft")
    kernel.line(
        f"fourier{suffix}({length}, {inverse}, {x} + {at}, {step}, {imaginary}, {', '.join(results)}, {table}, {work});"
    )
    closed(kernel, step)


#: what went wrong, by the code that an entry gives back
FAILURES = ("no error", "a matrix is singular", "a matrix is not positive definite", "eigenvalues do not converge")


def matrices(kernel: Kernel, node: ir.External) -> None:
    """Operations on the last axes, for each matrix."""
    a = node.args[0]
    n = kernel.size(a.shape[-1])
    dtype = node.dtypes[0]
    suffix, real = kernel.types.suffix(dtype), kernel.types.of(dtype)
    count = kernel.size(product(a.shape[:-2]))
    parts = [part(kernel, node, k) for k in range(len(node.shapes))]
    sizes = [f"sizeof({real}) * matrix_scratch{suffix}({n})", f"sizeof({real}) * {factor(n)} * {factor(n)}"]
    work, spare = (f"({real} *){x}" for x in scratch(kernel, *sizes))
    x = kernel.pointer(a)
    k = kernel.names.fresh("k")
    kernel.open(f"for (long {k} = 0; {k} < {count}; {k}++) {{")
    square = f"{k} * {factor(n)} * {factor(n)}"
    at = f"{x} + {square}"
    failed = ""
    match node.op:
        case "solve":
            b = kernel.pointer(node.args[1])
            columns = "1" if len(node.args[1].shape) < len(a.shape) else kernel.size(node.args[1].shape[-1])
            side = f"{k} * {factor(n)} * {factor(columns)}"
            failed = f"solve{suffix}({n}, {columns}, {at}, {b} + {side}, {parts[0]} + {side}, {work})"
        case "inv":
            failed = f"inv{suffix}({n}, {at}, {parts[0]} + {square}, {work})"
        case "det" | "logdet":
            kernel.line(f"{parts[0]}[{k}] = {node.op}{suffix}({n}, {at}, {work});")
        case "cholesky":
            failed = f"cholesky{suffix}({n}, {at}, {parts[0]} + {square})"
        case "eigh":
            values = f"{parts[0]} + {k} * {factor(n)}" if parts[0] else spare
            vectors = f"{parts[1]} + {square}" if parts[1] else spare
            failed = f"eigh{suffix}({n}, {at}, {values}, {vectors}, {work})"
        case "matexp":
            kernel.line(f"matexp{suffix}({n}, {at}, {parts[0]} + {square}, {work});")
        case _:
            raise CannotLower(f"`{node.op}`", node)
    if failed:
        code = {"cholesky": 2, "eigh": 3}.get(node.op, 1)
        kernel.entry.fails = True
        kernel.line(f"if ({failed}) *f->error = {code}; // {FAILURES[code]}")
    kernel.close()


def apart(node: ir.Scatter) -> bool:
    """Is the last axis of a scatter a loop's own? Then neighbours along it never meet, nor do threads that share it."""
    last = plain_variable(node.places[-1]) if node.places else None
    if last is None or last != len(node.ranges) - 1 or node.ranges[-1] != node.shape[-1]:
        return False
    for place in node.places[:-1]:
        if isinstance(place, ir.Data) and last in ir.variables(place.value):
            return False
        if isinstance(place, ir.Affine) and any(n == last for n, _ in place.terms):
            return False
    return True


def scatter(kernel: Kernel, node: ir.Scatter) -> None:
    """A result that grows element by element, in the order of the variables."""
    target = kernel.pointer(node)
    op = {"+": "sum"}.get(node.op, node.op)
    like = ir.Comp(node.shape, (), op, node.body, node.dtype, node.name, node.span)
    side_by_side = apart(node)
    i = kernel.names.fresh("i")
    start = neutral(like, kernel) if node.base is None else f"{kernel.pointer(node.base)}[{{}}]"
    if side_by_side:
        rows, width = kernel.size(product(node.shape[:-1])), kernel.size(node.shape[-1])
        c = kernel.names.fresh("c")
        at = f"{i} * {factor(width)} + {c}"
        kernel.line(f"for (long {i} = 0; {i} < {rows}; {i}++)")
        kernel.line(f"    for (long {c} = begin; {c} < end; {c}++) {target}[{at}] = {start.format(at)};")
    else:
        size = kernel.size(product(node.shape))
        kernel.line(f"for (long {i} = 0; {i} < {size}; {i}++) {target}[{i}] = {start.format(i)};")
    count = len(node.ranges)
    names = {k: kernel.names.fresh(*LETTERS) for k in range(count)}
    lines: list[list[str]] = [[] for _ in range(count + 1)]
    formula = Formula(kernel, names, {k: k + 1 for k in range(count)}, node.ranges, lines)
    data = [x.value for x in node.places if isinstance(x, ir.Data)]
    formula.add([node.body, *data])
    text = formula.text(node.body)
    for x in data:
        formula.text(x)
    positions = [formula.position(p, n, False)[0] for p, n in zip(node.places, node.shape, strict=True)]
    inner = [combined(like, f"{target}[{kernel.offset(node.shape, positions)}]", text, kernel)]
    for line in lines[0]:
        kernel.line(line)
    for k in range(count):
        low, high = "0", kernel.size(node.ranges[k])
        if k == count - 1 and side_by_side:
            low, high = "begin", "end"
            kernel.line("#pragma omp simd")
        kernel.open(f"for (long {names[k]} = {low}; {names[k]} < {high}; {names[k]}++) {{")
        for line in lines[k + 1]:
            kernel.line(line)
    for line in inner:
        kernel.line(line)
    for _ in range(count):
        kernel.close()
