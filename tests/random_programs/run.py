"""Compare many random programs: `python tests/random_programs/run.py 0:5000`.

The numbers name the programs: the same numbers give the same programs on every tree, and one that fails is looked at
again by its number, `run.py 1234:1235`. Every program goes through the interpreter, each pass, torch to second order,
finite differences and its NumPy module, by parameters and by inputs. Failures are printed with the spec; the last lines
say how many programs were compared, how many of them differ from each other, and which comparisons had to be left out.
With `--backend c`, only the modules of that backend are compared with the interpreter.

Exits with 1 if a program fails.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
for folder in (HERE, HERE.parent):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from comparison import SKIPPED, compare, compare_backend  # noqa: E402
from generator import CONSTRUCTS, numbered  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("numbers", help="the first number and the one after the last, as 0:5000")
    parser.add_argument("--backend", default="", choices=("numpy", "c"), help="compare its modules alone")
    options = parser.parse_args()
    first, last = map(int, options.numbers.split(":"))
    warnings.simplefilter("ignore")
    texts: set[int] = set()
    covered: Counter[str] = Counter()
    failed: list[int] = []
    start = time.monotonic()
    for number in range(first, last):
        program = numbered(number)
        texts.add(hash(program.text))
        covered.update(set(program.tags))
        try:
            if options.backend:
                compare_backend(program, options.backend)
            else:
                compare(program)
        except Exception as failure:
            failed.append(number)
            words = " ".join(f"{type(failure).__name__}: {failure}".split())
            print(f"program {number}: {words[:600]}\n{program}\n", flush=True)
        if (number + 1 - first) % 100 == 0:
            seconds = time.monotonic() - start
            print(f"{number + 1 - first} compared, {len(failed)} failed, {seconds:.0f} s", flush=True)
    print(f"{last - first} programs compared, {len(texts)} of them different; {len(failed)} failed {failed}")
    print(f"constructs that no program had: {[c for c in CONSTRUCTS if not covered[c]]}")
    print(f"comparisons left out: {dict(SKIPPED)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
