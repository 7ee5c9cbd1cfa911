"""What kernels need on a GPU, found without one: registers, shared memory, spills, an estimate of occupancy.

Needs triton and torch. Run as a program, in a process without Triton's interpreter:

    python -m dslc.backends.triton.resources MODULE.py ...

prints a line of JSON for each kernel and target. With `--types` it only asks the front end of Triton whether the
types in each kernel fit, some hundredths of a second each: the interpreter computes in mixed types what no GPU would.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib.util
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Target:
    """A GPU: what one program may have, and what the programs of one multiprocessor share."""

    backend: str
    arch: int | str
    lanes: int  # of a warp
    program_shared: int  # bytes
    shared: int  # bytes
    registers: int  # of 32 bits, for all lanes
    warps: int
    programs: int


#: From the vendors' tables: compute capability 8.0 and 9.0, and CDNA 3, whose four SIMDs hold 8 waves each.
TARGETS = {
    "sm80": Target("cuda", 80, 32, 166912, 167936, 65536, 64, 32),
    "sm90": Target("cuda", 90, 32, 232448, 233472, 65536, 64, 32),
    "gfx942": Target("hip", "gfx942", 64, 65536, 65536, 131072, 32, 32),
}


def occupancy(target: str, warps: int, registers: int, shared: int) -> float:
    """How many of the warps that a multiprocessor can hold it does hold, as far as registers and memory tell.

    >>> occupancy("sm80", 4, 128, 0), occupancy("sm80", 8, 32, 100_000)
    (0.25, 0.125)
    """
    gpu = TARGETS[target]
    of_warp = -(-max(registers, 1) // 8) * 8 * gpu.lanes
    by_registers = gpu.registers // of_warp // warps
    by_shared = gpu.programs if shared == 0 else gpu.shared // (shared + (1024 if gpu.backend == "cuda" else 0))
    programs = min(gpu.programs, gpu.warps // warps, by_registers, by_shared)
    return programs * warps / gpu.warps


# ---- kernels of a module -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Source:
    """A kernel of a module as it is compiled: equal keys are equal kernels, whatever their names."""

    name: str
    key: str
    blocks: Mapping[str, int]
    warps: int
    stages: int


def kernels_of(text: str) -> list[Source]:
    """The kernels of a module's text, each with a key that names and comments do not change."""
    tree = ast.parse(text)
    functions = {x.name: x for x in tree.body if isinstance(x, ast.FunctionDef) and is_kernel(x)}
    manifest: dict[str, Any] = {}
    for x in tree.body:
        if isinstance(x, ast.Assign) and isinstance(x.targets[0], ast.Name) and x.targets[0].id == "MANIFEST":
            manifest = ast.literal_eval(x.value)
    found = []
    for name, about in manifest["kernels"].items():
        blocks = {k: v if isinstance(v, int) else OPEN_BLOCK for k, v in about["blocks"].items()}
        key = canonical(functions, name, about, blocks)
        found.append(Source(name, key, blocks, about["warps"], about["stages"]))
    return found


#: what a block is taken to be whose length follows a size that is known only at run time
OPEN_BLOCK = 32


def is_kernel(node: ast.FunctionDef) -> bool:
    return any("triton.jit" in ast.unparse(d) for d in node.decorator_list)


def canonical(
    functions: Mapping[str, ast.FunctionDef], name: str, about: Mapping[str, Any], blocks: Mapping[str, int]
) -> str:
    """The text of a kernel with its own names numbered, and those of the functions that it calls, without comments."""
    used: list[str] = []
    pending = [name]
    while pending:
        one = pending.pop()
        if one not in used:
            used.append(one)
            pending += sorted(x.id for x in ast.walk(functions[one]) if isinstance(x, ast.Name) and x.id in functions)
    texts = [numbered(functions[one], "kernel" if one == name else one) for one in used]
    names = [a.arg for a in functions[name].args.args]
    types = [blocks.get(a, about["signature"].get(a)) for a in names]
    return json.dumps([texts, types, about["warps"], about["stages"]])


def numbered(function: ast.FunctionDef, name: str) -> str:
    copy = ast.parse(ast.unparse(function)).body[0]
    assert isinstance(copy, ast.FunctionDef)
    own = {a.arg for a in copy.args.args}
    own |= {x.id for x in ast.walk(copy) if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Store)}
    numbers: dict[str, str] = {}
    for x in ast.walk(copy.args):
        if isinstance(x, ast.arg):
            x.arg = numbers.setdefault(x.arg, f"v{len(numbers)}")
    if isinstance(copy.body[0], ast.Expr) and isinstance(copy.body[0].value, ast.Constant):
        copy.body = copy.body[1:]  # the docstring
    for statement in copy.body:
        for x in ast.walk(statement):
            if isinstance(x, ast.Name) and x.id in own:
                x.id = numbers.setdefault(x.id, f"v{len(numbers)}")
    copy.name, copy.decorator_list = name, []
    return ast.unparse(copy)


# ---- compiling -----------------------------------------------------------------------------------------


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@lru_cache(maxsize=1)
def tools() -> Path:
    """The folder of the assembler and its companions, which triton brings along."""
    import triton

    return Path(triton.__file__).parent / "backends/nvidia/bin"


def on_cuda(compiled: Any, arch: int) -> dict[str, int]:
    """Registers from the binary; a stack may be an array of a function, so the assembler is asked what it spilled."""
    with tempfile.TemporaryDirectory() as folder:
        binary, source = Path(folder) / "kernel.cubin", Path(folder) / "kernel.ptx"
        binary.write_bytes(compiled.asm["cubin"])
        command = [str(tools() / "cuobjdump"), "-res-usage", str(binary)]
        usage = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        found = re.search(r"REG:(\d+) STACK:(\d+)", usage)
        assert found, usage
        registers, stack = int(found[1]), int(found[2])
        spilled = 0
        if stack:
            source.write_text(compiled.asm["ptx"])
            tool, name = ("ptxas-blackwell", f"sm_{arch}a") if arch >= 90 else ("ptxas", f"sm_{arch}")
            command = [str(tools() / tool), "-v", f"--gpu-name={name}", str(source), "-o", os.devnull]
            report = subprocess.run(command, capture_output=True, text=True, check=True).stderr
            stores = re.search(r"(\d+) bytes spill stores", report)
            assert stores, report
            spilled = int(stores[1])
    return {"registers": registers, "shared": compiled.metadata.shared, "spilled": spilled}


def on_hip(compiled: Any) -> dict[str, int]:
    text = compiled.asm["amdgcn"]
    found = {k: int(v) for k, v in re.findall(r"\.(vgpr_count|[sv]gpr_spill_count):\s+(\d+)", text)}
    return {
        "registers": found["vgpr_count"], "shared": compiled.metadata.shared, "spilled": 4 * found["vgpr_spill_count"],
        "scalars_in_lanes": found["sgpr_spill_count"],
    }  # fmt: skip


def source_of(module: Any, kernel: Source) -> Any:
    """A kernel as Triton's compiler takes it; pointers are aligned, as torch aligns memory."""
    from triton.compiler import ASTSource

    about = module.MANIFEST["kernels"][kernel.name]
    function = getattr(module, kernel.name)
    blocks = dict(kernel.blocks)
    signature = {a: "constexpr" if a in blocks else about["signature"][a] for a in function.arg_names}
    aligned = {
        (k,): [["tt.divisibility", 16]] for k, a in enumerate(function.arg_names) if str(signature[a]).startswith("*")
    }
    return ASTSource(function, signature, blocks, aligned)


def options_of(kernel: Source) -> dict[str, Any]:
    return {"num_warps": kernel.warps, "num_stages": kernel.stages, "enable_fp_fusion": True}


def needs(module: Any, kernel: Source, target: str) -> dict[str, Any]:
    """What a kernel needs on a target, or the error of the compiler."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.errors import TritonError

    gpu = TARGETS[target]
    source, options = source_of(module, kernel), options_of(kernel)
    try:
        compiled = triton.compile(source, target=GPUTarget(gpu.backend, gpu.arch, gpu.lanes), options=options)
    except (TritonError, RuntimeError) as error:  # MLIR passes fail with a RuntimeError
        return {"error": f"{type(error).__name__}: {str(error)[-600:]}"}
    found = on_cuda(compiled, int(gpu.arch)) if gpu.backend == "cuda" else on_hip(compiled)
    return {**found, "occupancy": round(occupancy(target, kernel.warps, found["registers"], found["shared"]), 3)}


def untyped(path: Path, target: str = "sm90") -> Iterator[dict[str, Any]]:
    """The kernels of a module in which types do not fit, with the error of the compiler's front end."""
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import make_backend
    from triton.errors import TritonError

    gpu = TARGETS[target]
    machine = GPUTarget(gpu.backend, gpu.arch, gpu.lanes)
    backend = make_backend(machine)
    module = load(path)
    for kernel in kernels_of(path.read_text(encoding="utf-8")):
        context = ir.context()
        ir.load_dialects(context)
        backend.load_dialects(context)
        options = backend.parse_options(options_of(kernel))
        functions = backend.get_codegen_implementation(options), backend.get_module_map()
        try:
            source_of(module, kernel).make_ir(machine, options, *functions, context)
        except TritonError as error:
            yield {"module": path.stem, "kernel": kernel.name, "error": str(error)[-600:]}


class Known:
    """Figures of kernels, kept in a file between runs: one that did not change is not compiled again."""

    def __init__(self, file: Path | None):
        import triton

        self.file, self.version = file, triton.__version__
        self.found: dict[str, dict[str, Any]] = {}
        for line in file.read_text(encoding="utf-8").splitlines() if file is not None and file.exists() else ():
            one = json.loads(line)
            self.found[one.pop("key")] = one

    def needs(self, module: Any, kernel: Source, target: str) -> dict[str, Any]:
        key = hashlib.sha256(f"{self.version} {target} {kernel.key}".encode()).hexdigest()[:24]
        if key not in self.found:
            self.found[key] = needs(module, kernel, target)
            if self.file is not None and "error" not in self.found[key]:  # what failed is tried again
                with self.file.open("a", encoding="utf-8") as stream:
                    stream.write(json.dumps({"key": key, **self.found[key]}) + "\n")
        return self.found[key]


def measured(path: Path, known: Known, wanted: Collection[str] = ()) -> Iterator[dict[str, Any]]:
    """What the kernels of a module need, one after another."""
    module = load(path)
    for kernel in kernels_of(path.read_text(encoding="utf-8")):
        for target in TARGETS if not wanted or kernel.name in wanted else ():
            yield {"module": path.stem, "kernel": kernel.name, "target": target, **known.needs(module, kernel, target)}


def main() -> None:
    parser = argparse.ArgumentParser(description="What the kernels of generated modules need on GPUs, as JSON lines.")
    parser.add_argument("modules", nargs="+", type=Path, metavar="MODULE.py")
    parser.add_argument("--kernel", action="append", default=[], help="only this one; may be repeated")
    parser.add_argument("--types", action="store_true", help="name the kernels in which types do not fit")
    parser.add_argument("--known", type=Path, help="a file of figures that are known, to which new ones are added")
    given = parser.parse_args()
    known = Known(given.known)
    for path in given.modules:
        for line in untyped(path) if given.types else measured(path, known, given.kernel):
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
