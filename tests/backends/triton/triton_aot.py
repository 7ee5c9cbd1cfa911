"""Compiles every kernel of a generated module ahead of time and prints what it needs; run as a script, without a GPU.

python aot.py MODULE.py [KERNEL ...]  ->  JSON: kernel -> target -> registers, shared memory, spilled bytes
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

TARGETS = {"sm80": ("cuda", 80, 32), "sm90": ("cuda", 90, 32), "gfx942": ("hip", "gfx942", 64)}
#: bytes of shared memory that one program may have
SHARED = {"sm80": 166912, "sm90": 232448, "gfx942": 65536}


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def spilled_on_cuda(ptx: str, target: str) -> tuple[int, int]:
    """Registers and spilled bytes as ptxas reports them."""
    import triton

    arch = TARGETS[target][1]
    tool = "ptxas-blackwell" if int(arch) >= 90 else "ptxas"
    folder = Path(triton.__file__).parent / "backends/nvidia/bin"
    with tempfile.TemporaryDirectory() as place:
        source = Path(place) / "kernel.ptx"
        source.write_text(ptx)
        name = f"sm_{arch}a" if int(arch) >= 90 else f"sm_{arch}"
        command = [str(folder / tool), "-v", f"--gpu-name={name}", str(source), "-o", os.devnull]
        report = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    registers = re.search(r"Used (\d+) registers", report)
    stores = re.search(r"(\d+) bytes spill stores", report)
    assert registers and stores, report
    return int(registers[1]), int(stores[1])


def resources(compiled: Any, target: str) -> dict[str, int]:
    if TARGETS[target][0] == "cuda":
        registers, spilled = spilled_on_cuda(compiled.asm["ptx"], target)
    else:
        text = compiled.asm["amdgcn"]
        found = {k: int(v) for k, v in re.findall(r"\.(vgpr_count|vgpr_spill_count):\s+(\d+)", text)}
        registers, spilled = found["vgpr_count"], found["vgpr_spill_count"]
    return {"registers": registers, "shared": compiled.metadata.shared, "spilled": spilled}


def compile_kernel(module: Any, name: str, target: str) -> dict[str, int]:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    about = module.MANIFEST["kernels"][name]
    function = getattr(module, name)
    blocks = {k: v if isinstance(v, int) else 32 for k, v in about["blocks"].items()}
    signature = {a: "constexpr" if a in blocks else about["signature"][a] for a in function.arg_names}
    aligned = {
        (k,): [["tt.divisibility", 16]] for k, a in enumerate(function.arg_names) if str(signature[a]).startswith("*")
    }
    source = ASTSource(function, signature, blocks, aligned)
    options = {"num_warps": about["warps"], "num_stages": about["stages"], "enable_fp_fusion": True}
    return resources(triton.compile(source, target=GPUTarget(*TARGETS[target]), options=options), target)


def main() -> None:
    module = load(Path(sys.argv[1]))
    wanted = sys.argv[2:] or list(module.MANIFEST["kernels"])
    found: dict[str, dict[str, Any]] = {}
    for name in wanted:
        found[name] = {}
        for target in TARGETS:
            try:
                found[name][target] = compile_kernel(module, name, target)
            except Exception as error:
                found[name][target] = {"error": f"{type(error).__name__}: {str(error)[-600:]}"}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
