"""The compiler of a C module, as a part of the module: its text is copied, and needs Python alone.

A library is compiled where a module is first imported, and found again under a hash of all that it depends on.
"""

import contextlib
import ctypes
import hashlib
import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import warnings

# ---- copied into modules ----

#: how the C text is compiled, `-march` apart; DSLC_CFLAGS stands in the place of all of it
CFLAGS = "-O2 -funswitch-loops -fopenmp-simd -fno-math-errno -fno-trapping-math -ffp-contract=fast"


def library(name, text, march="native", *defined):
    """The C text as a library: compiled at the first import, then found in a folder of the user."""
    compiler, file = compiler_command()
    flags, about = [*compiler_flags(march), *defined], os.stat(file)
    parts = [text, *compiler, os.path.realpath(file), about.st_size, about.st_mtime_ns, *flags, *processor()]
    key = hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:32]
    target = os.path.join(cache_folder(), f"{name[:64]}-{key}{'.dll' if os.name == 'nt' else '.so'}")
    if os.path.isfile(target):
        with contextlib.suppress(OSError):  # a damaged file is compiled again
            return ctypes.CDLL(target)
    try:
        os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
        return compiled(name, text, compiler, flags, target)
    except OSError as error:
        folder = tempfile.mkdtemp(prefix="dslc-")
        warnings.warn(
            f"cannot keep the compiled {name} in {os.path.dirname(target)} ({error}): it is compiled at each import; "
            "set DSLC_CACHE to a folder that can be written and run from",
            RuntimeWarning, stacklevel=2,
        )  # fmt: skip
        try:
            return compiled(name, text, compiler, flags, os.path.join(folder, os.path.basename(target)))
        except OSError as again:
            raise RuntimeError(
                f"what {shlex.join(compiler)} made of {name}.c cannot be loaded ({again}); choose another compiler "
                "by CC, or by DSLC_CACHE a folder that can be written and run from"
            ) from None
        finally:
            shutil.rmtree(folder, ignore_errors=True)  # what is loaded stays in memory


def compiled(name, text, compiler, flags, target):
    """Compile in a folder beside the target, and put the result in its place in one step."""
    with tempfile.TemporaryDirectory(prefix=".", dir=os.path.dirname(target)) as folder:
        source, made = os.path.join(folder, f"{name[:64]}.c"), os.path.join(folder, os.path.basename(target))
        with open(source, "x", encoding="utf-8") as file:
            file.write(text)
        command = [*compiler, *flags, "-shared", "-fPIC", "-pthread", "-o", made, source, "-lm"]
        english = {**os.environ, "LC_ALL": "C"}
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, env=english)
            failed, told = done.returncode, (done.stderr or done.stdout).decode(errors="replace")
        except OSError as error:
            failed, told = 1, str(error)
        if failed or not os.path.isfile(made):
            said = "\n".join(told.replace(folder + os.sep, "").splitlines()[-20:]) or "it said nothing"
            cure = "choose another compiler by CC, or other flags by DSLC_CFLAGS"
            raise RuntimeError(f"{shlex.join(command[:-4])} failed on {name[:64]}.c; {cure}\n{said}")
        with open(made, "rb") as file:
            os.fsync(file.fileno())  # half a library would end the process that loads it
        os.replace(made, target)
    return ctypes.CDLL(target)


def compiler_command():
    """The C compiler of this machine, and a file that is another one where the compiler is another version."""
    if os.environ.get("CC", "").strip():
        chosen = shlex.split(os.environ["CC"])
        file = shutil.which(chosen[0])
        if file is None:
            raise RuntimeError(f"there is no C compiler {chosen[0]}, which CC names: set CC to another, or to nothing")
        return chosen, file
    for name in ("cc", "gcc", "clang"):
        if file := shutil.which(name):
            return [name], file
    if (package := importlib.util.find_spec("ziglang")) and package.origin:
        return [sys.executable, "-m", "ziglang", "cc"], package.origin
    raise RuntimeError("there is no C compiler: install gcc or clang, or `pip install ziglang`, or set CC to one")


def compiler_flags(march):
    """What the C text is compiled with."""
    if os.environ.get("DSLC_CFLAGS") is not None:
        return shlex.split(os.environ["DSLC_CFLAGS"])
    machine = "-mcpu" if platform.machine().lower() in ("arm64", "aarch64") else "-march"
    return [*CFLAGS.split(), f"{machine}={march}"]


def processor():
    """What a library compiled for the processor of this machine can rely on."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith(("flags", "Features")):
                return [platform.machine(), line.strip()]
    return [platform.machine(), platform.processor()]


def cache_folder():
    """Where compiled libraries are kept."""
    if os.environ.get("DSLC_CACHE"):
        return os.path.abspath(os.environ["DSLC_CACHE"])
    home = os.path.expanduser("~")
    if not os.path.isabs(home):
        home = os.devnull  # nobody's: a folder below it cannot be made, and the warning tells the cure
    return os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.join(home, ".cache"), "dslc")
