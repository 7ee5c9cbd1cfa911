"""Runs a range of seeds: `python tests/pairs/run.py 0:1000 [--backend triton|c] [--dtype f32] [--shrink]`."""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
sys.path.insert(0, str(Path(__file__).parents[2]))


def run_seed(job: tuple[int, str, str, bool, str]) -> tuple[int, str, str, list[str]]:
    """The seed, the kind of its failure (or nothing), a report and the kinds of its statements."""
    import torch

    torch.set_num_threads(1)
    from tests.pairs.compare import Failure, NotComparable, compare
    from tests.pairs.generate import plan_of
    from tests.pairs.shrink import report, shrunk

    seed, backend, dtype, shrink, only = job
    plan = plan_of(seed, only)
    kinds = [s.kind for s in plan.statements]
    dtype = dtype or dtype_of(seed)
    try:
        failure = compare(plan, backend, dtype)
    except NotComparable:
        return seed, "not comparable", "", kinds
    except Exception as error:  # a fault of this generator
        failure = Failure(f"torch: {error}", traceback.format_exc()[-1500:])
        return seed, "torch program", report(plan, failure, seed, backend, dtype), kinds
    if failure is None:
        return seed, "", "", kinds
    if shrink:
        plan, failure = shrunk(plan, failure, backend, dtype)
    return seed, failure.kind, report(plan, failure, seed, backend, dtype), kinds


def dtype_of(seed: int) -> str:
    from tests.pairs.switches import on

    return "f32" if seed % 3 == 2 and on("f32") else "f64"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seeds", help="FIRST:LAST, or one seed")
    parser.add_argument("--backend", default="numpy", choices=("numpy", "triton", "c"))
    parser.add_argument("--dtype", default="", help="f32 or f64; without it the seed decides")
    parser.add_argument("--shrink", action="store_true", help="make failures small")
    parser.add_argument("--only", default="", help="a kind of statement that each program begins with")
    parser.add_argument("--show", action="store_true", help="print the programs, run nothing")
    parser.add_argument("-j", "--jobs", type=int, default=1)
    options = parser.parse_args()
    if options.backend == "triton":
        os.environ["TRITON_INTERPRET"] = "1"
    first, _, last = options.seeds.partition(":")
    seeds = range(int(first), int(last or int(first) + 1))
    if options.show:
        from tests.pairs.generate import plan_of

        for seed in seeds:
            print(plan_of(seed, options.only).spec(), plan_of(seed, options.only).torch(), sep="\n")
        return 0
    jobs = [(seed, options.backend, options.dtype, options.shrink, options.only) for seed in seeds]
    began, found, ran, blamed = time.time(), Counter(), Counter(), Counter()
    with ProcessPoolExecutor(options.jobs) as pool:
        for _seed, kind, text, kinds in pool.map(run_seed, jobs) if options.jobs > 1 else map(run_seed, jobs):
            found[kind or "agree"] += 1
            ran.update(kinds)
            if text:
                blamed.update(set(kinds))
                print(text, flush=True)
    print(f"{len(seeds)} programs in {time.time() - began:.0f} s: {dict(found)}")
    print("statements:", dict(ran))
    return int(any(kind not in ("agree", "not comparable") for kind in found))


if __name__ == "__main__":
    sys.exit(main())
