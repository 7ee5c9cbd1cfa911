"""Threads that share a batch: copied into modules whose functions can be computed for some rows at a time."""

from __future__ import annotations

import functools
import threading

import numpy as np

#: how many threads share a batch; None: as many as NumPy's matrix products have, up to eight
THREADS = None

#: calls with less work than this are not shared, counted in operations of a matrix product: about a millisecond
LEAST_WORK = 100_000_000


class Member:
    """One of the threads that share a batch: it has some rows, and adds up with the others what all have."""

    size, number, first, turn = 1, 0, 0, 0

    def __init__(self, rows, team=None, number=0):
        self.rows = self.last = rows
        if team is not None:
            self.team, self.size, self.number = team, team.size, number
            self.first, self.last = (rows * k // team.size for k in (number, number + 1))

    def exchange(self, x):
        """What the members give at this point, in their order."""
        self.turn += 1
        given = self.team.given.setdefault(self.turn, [None] * self.size)
        given[self.number] = x
        self.team.barrier.wait()
        return given

    def sum(self, x):
        return x if self.size == 1 else functools.reduce(np.add, self.exchange(x))

    def max(self, x):
        return x if self.size == 1 else functools.reduce(np.maximum, self.exchange(x))

    def min(self, x):
        return x if self.size == 1 else functools.reduce(np.minimum, self.exchange(x))

    def total(self, x):
        """The sum, but only when all members have returned: the last one adds it up in memory of the first."""
        if self.size > 1:
            self.turn += 1
            given = self.team.given.setdefault(self.turn, {})
            with self.team.lock:
                given[self.number] = x
                last = len(given) == self.size
            if last:
                for k in range(1, self.size):
                    given[0] += given[k]
        return x

    def empty(self, name, shape, dtype, axis=0):
        """Memory for the rows of a result, next to that of the others."""
        if self.size == 1:
            return np.empty(shape, dtype)
        with self.team.lock:
            whole = self.team.results.get(name)
            if whole is None:
                whole = np.empty((*shape[:axis], self.rows, *shape[axis + 1 :]), dtype)
                self.team.results[name] = whole
        return whole[(slice(None),) * axis + (slice(self.first, self.last),)]

    def whole(self, name, x, axis=0):
        """The rows of all members: there when all have returned."""
        if self.size == 1:
            return x
        mine = self.empty(name, x.shape, x.dtype, axis)
        if mine.__array_interface__ != x.__array_interface__:
            mine[...] = x
        return self.team.results[name]


class Team:
    """What the members of one call have in common."""

    def __init__(self, size):
        self.size = size
        self.barrier, self.lock = threading.Barrier(size), threading.Lock()
        self.given, self.results = {}, {}


class Blas:
    """The threads of NumPy's own matrix products: while members run, each has one."""

    lock, calls, before = threading.Lock(), 0, 1

    @staticmethod
    @functools.cache
    def functions():
        """Those that ask and tell OpenBLAS how many threads it uses; None where NumPy has no OpenBLAS."""
        import ctypes

        try:
            library = ctypes.CDLL(np._core._multiarray_umath.__file__)
        except (AttributeError, OSError):
            return None
        for name in ("scipy_openblas_{}_num_threads64_", "scipy_openblas_{}_num_threads", "openblas_{}_num_threads"):
            if hasattr(library, name.format("set")) and hasattr(library, name.format("get")):
                return getattr(library, name.format("get")), getattr(library, name.format("set"))
        return None

    @classmethod
    def threads(cls):
        """How many there are while no members run: as many members share a call whatever runs beside it."""
        with cls.lock:
            return 1 if cls.functions() is None else cls.before if cls.calls else cls.functions()[0]()

    @classmethod
    def __enter__(cls):
        with cls.lock:
            if cls.calls == 0 and cls.functions():
                cls.before = cls.functions()[0]()
                cls.functions()[1](1)
            cls.calls += 1

    @classmethod
    def __exit__(cls, *error):
        with cls.lock:
            cls.calls -= 1
            if cls.calls == 0 and cls.functions():
                cls.functions()[1](cls.before)


def members(work):
    """How many threads a call of so much work pays for: more than eight would wait for Python's lock.

    Where matrix products have many more threads than that, they make better use of them than members do.
    """
    if work < LEAST_WORK:
        return 1
    if THREADS is not None:
        return THREADS
    found = Blas.threads()
    return min(found, 8, max(2, int(work // (3 * LEAST_WORK)))) if found <= 16 else 1


def share(task, arrays, others, work, space):
    """Call a task for the rows of arrays, in several threads where that pays; gives what the first returns."""
    rows = len(arrays[0])
    for x in arrays[1:]:
        if len(x) != rows:
            raise ValueError(f"the arrays of a batch must have as many rows each, found {[len(x) for x in arrays]}")
    size = min(rows, members(work)) if rows > 1 else 1
    if size <= 1:
        return task(Member(rows), space, *arrays, *others)
    team = Team(size)

    def run(number):
        member = Member(rows, team, number)
        try:
            return task(member, space.of(number), *(x[member.first : member.last] for x in arrays), *others)
        except BaseException:
            team.barrier.abort()
            raise

    with Blas():
        return in_threads(run, size)


def divide(task, items, work):
    """Call a task for each of some items, whatever their order, in several threads where that pays."""
    waiting = iter(items)

    def run(number):
        for item in waiting:
            task(*item)

    in_threads(run, members(work))


def in_threads(run, size):
    """Call `run` with the numbers below `size` at the same time; gives what the first call returns.

    Each call has threads of its own: members wait for each other, and in a pool that all calls share some would
    wait for threads that wait for them.
    """
    results, errors = {}, {}

    def call(number):
        try:
            results[number] = run(number)
        except BaseException as error:
            errors[number] = error

    threads = [threading.Thread(target=call, args=(number,)) for number in range(1, size)]
    for thread in threads:
        thread.start()
    call(0)
    for thread in threads:
        thread.join()
    if errors:
        first = [errors[number] for number in sorted(errors)]
        raise next((x for x in first if not isinstance(x, threading.BrokenBarrierError)), first[0])
    return results[0]
