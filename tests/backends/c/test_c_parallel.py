"""The pool of threads: each chunk runs once, nobody waits for anybody else's job, and a fork begins anew."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from compiled import built, source

PROGRAM = """
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define HOLDS(condition) do { if (!(condition)) { printf("line %d: %s\\n", __LINE__, #condition); exit(1); } } while (0)

enum { MOST = 5000 };
typedef struct { int count[MOST]; long grain; _Atomic long chunks; int nested; atomic_int *started; } marks;

static void nothing(void *context, long begin, long end) { (void)context, (void)begin, (void)end; }

static void mark(void *context, long begin, long end) {
    marks *m = context;
    HOLDS(begin % m->grain == 0 && begin < end);
    for (long i = begin; i < end; i++) m->count[i]++;
    m->chunks++;
    if (m->nested) {
        marks *own = calloc(1, sizeof *own);
        own->grain = 3;
        parallel(mark, own, 100, 3);
        for (long i = 0; i < 100; i++) HOLDS(own->count[i] == 1);
        free(own);
    }
}

static void each_once(long n, long grain, int nested) {
    marks *m = calloc(1, sizeof *m);
    m->grain = grain, m->nested = nested;
    parallel(mark, m, n, grain);
    for (long i = 0; i < MOST; i++) HOLDS(m->count[i] == (i < n));
    if (n <= grain) HOLDS(m->chunks == (n > 0));
    free(m);
}

static void *caller(void *unused) {
    for (int i = 0; i < 200; i++) each_once(1 + i * 7 % 600, 1 + i % 5, 0);
    return unused;
}

static void many_callers(void) {
    pthread_t t[8];
    for (int i = 0; i < 8; i++) HOLDS(!pthread_create(t + i, 0, caller, 0));
    for (int i = 0; i < 8; i++) pthread_join(t[i], 0);
}

// A job that waits inside a chunk for another thread's job to end: it would never end if that one waited for the pool.
static atomic_int other_ended;
static void *other(void *unused) { each_once(500, 1, 0); other_ended = 1; return unused; }
static void wait_for_other(void *context, long begin, long end) {
    if (begin == 0) {
        pthread_t t;
        HOLDS(!pthread_create(&t, 0, other, context));
        while (!other_ended) usleep(100);
        pthread_join(t, 0);
    }
    (void)end;
}

// Two chunks that meet: each waits until the other has begun, so they run on two threads.
static void meet(void *context, long begin, long end) {
    marks *m = context;
    (void)begin, (void)end;
    m->chunks++;
    for (int i = 0; m->chunks < 2; i++) {
        HOLDS(i < 100000);
        usleep(100);
    }
}
static void meets(void) {
    threads(2);
    marks *m = calloc(1, sizeof *m);
    parallel(meet, m, 2, 1);
    HOLDS(m->chunks == 2);
    free(m);
}

static void forked(void) {
    each_once(1000, 1, 0);
    pid_t child = fork();
    if (!child) {
        each_once(1000, 1, 0);
        meets();
        many_callers();
        _exit(0);
    }
    int status = 1;
    HOLDS(waitpid(child, &status, 0) == child && status == 0);
    each_once(1000, 1, 0);
}

// While one thread holds the pool another one forks: the child must not find it taken for ever.
static void fork_inside(void *context, long begin, long end) {
    (void)context, (void)end;
    if (begin) return;
    pid_t child = fork();
    if (!child) { each_once(1000, 1, 0), meets(); _exit(0); }
    int status = 1;
    HOLDS(waitpid(child, &status, 0) == child && status == 0);
}

int main(int count, char **arguments) {
    HOLDS(count == 2);
    const char *which = arguments[1];
    if (!strcmp(which, "counts")) {
        for (int round = 0; round < 3; round++) {
            for (long grain = 1; grain < 40; grain += 3)
                for (long n = 0; n < 300; n += 11) each_once(n, grain, 0);
            each_once(5000, 1, 0);
            usleep(2000); // the workers fall asleep
        }
    } else if (!strcmp(which, "numbers")) {
        for (int n = 1; n < 9; n++) threads(n), each_once(1000, 3, 0), each_once(2, 1, 0);
        for (int n = 8; n > 0; n--) threads(n), each_once(1000, 3, 0), each_once(2, 1, 0);
    } else if (!strcmp(which, "callers")) many_callers();
    else if (!strcmp(which, "nested")) each_once(100, 1, 1);
    else if (!strcmp(which, "waiting")) parallel(wait_for_other, 0, 100, 1);
    else if (!strcmp(which, "fork")) forked();
    else if (!strcmp(which, "fork inside")) parallel(fork_inside, 0, 100, 1);
    else if (!strcmp(which, "together")) meets();
    else if (!strcmp(which, "storm")) {
        for (int i = 0; i < 100000; i++) parallel(nothing, &i, 2 + i % 3, 1);
    } else if (!strcmp(which, "alone")) {
        marks *m = calloc(1, sizeof *m);
        m->grain = 1;
        parallel(mark, m, 4000, 1);
        HOLDS(m->chunks == 1);
        free(m);
    }
    parallel(nothing, 0, 0, 1);
    return 0;
}
"""
CASES = ["counts", "numbers", "callers", "nested", "waiting", "fork", "fork inside", "together", "storm"]


def run(program: Path, case: str, **environment: str) -> None:
    done = subprocess.run(
        [str(program), case], env=os.environ | environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr[:2000]


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("parallel"), source(["parallel"], PROGRAM))


@pytest.mark.parametrize("count", ["1", "2", "5"])
@pytest.mark.parametrize("case", CASES)
def test_a_pool_of_threads(program: Path, case: str, count: str) -> None:
    run(program, case, DSLC_THREADS=count)


def test_one_thread_runs_all_in_one_chunk(program: Path) -> None:
    run(program, "alone", DSLC_THREADS="1")


@pytest.fixture(scope="session")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("watched")
    return built(folder, source(["parallel"], PROGRAM), "-O1", "-g", "-fsanitize=thread")


@pytest.mark.parametrize("case", [case for case in CASES if not case.startswith("fork")])
def test_no_two_threads_use_one_number_at_once(watched: Path, case: str) -> None:
    run(watched, case, DSLC_THREADS="4", TSAN_OPTIONS="halt_on_error=1")


def test_without_threads_a_loop_is_one_chunk(tmp_path: Path) -> None:
    program = built(tmp_path, source(["parallel"], PROGRAM), "-DNO_THREADS")
    for case in ("counts", "numbers", "callers", "nested", "alone"):
        run(program, case)
