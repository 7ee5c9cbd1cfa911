// One pool of threads for all loops of a file. Compiled with -DNO_THREADS, each loop runs on its caller alone.

// What the threads share. A job is open while `phase` is odd; `inside` counts the workers that may look at it.
#ifndef NO_THREADS
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
enum { MOST_THREADS = 256 };
static struct {
    atomic_int busy, wanted, asleep, waiting;
    atomic_uint phase, inside;
    int started, team; // workers that exist, threads that take part in this job
    void (*f)(void *context, long begin, long end);
    void *context;
    long n, grain;
    struct { _Alignas(64) atomic_long next; long end, step; } share[MOST_THREADS]; // counted in grains
    pthread_mutex_t lock;
    pthread_cond_t opened, finished;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .opened = PTHREAD_COND_INITIALIZER, .finished = PTHREAD_COND_INITIALIZER};
#endif

// The number of this thread among those of a loop: that of whoever begins the loop is 0.
#ifndef NO_THREADS
static _Thread_local long thread_number;
#else
enum { thread_number = 0 };
#endif

// Set how many threads a loop may use; 0: DSLC_THREADS from the environment, or the processors this process may use.
#ifndef NO_THREADS
static void threads(int n) {
    const char *text = getenv("DSLC_THREADS");
    if (n <= 0 && text) n = atoi(text);
#ifdef CPU_COUNT
    cpu_set_t set;
    if (n <= 0 && !sched_getaffinity(0, sizeof set, &set)) n = CPU_COUNT(&set);
#endif
    if (n <= 0) n = (int)sysconf(_SC_NPROCESSORS_ONLN);
    atomic_store(&pool.wanted, n < 1 ? 1 : n > MOST_THREADS ? MOST_THREADS : n);
}
#else
static void threads(int n) { (void)n; }
#endif

// How many threads a loop may use.
static long most_threads(void) {
#ifndef NO_THREADS
    if (!atomic_load(&pool.wanted)) threads(0);
    return atomic_load(&pool.wanted);
#else
    return 1;
#endif
}

// After a fork the child has none of the threads.
#ifndef NO_THREADS
static void pool_forked(void) {
    pool.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    pool.opened = pool.finished = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    pool.asleep = pool.waiting = pool.busy = pool.started = 0;
    pool.inside = 0u; // apart from those above: clang gives no number of one sign to an atomic one of the other
    pool.phase &= ~1u;
}
#endif

// Look again for some 30 microseconds whether `word` has become other than `value`: shorter than a sleep costs.
#ifndef NO_THREADS
static int pool_spin(atomic_uint *word, unsigned value) {
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        for (int i = 0; i < 16; i++) {
            if (atomic_load(word) != value) return 1;
#if defined __x86_64__ || defined __i386__
            __builtin_ia32_pause();
#elif defined __aarch64__
            __asm__ volatile("isb");
#endif
        }
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - begin.tv_sec) * 1000000000L + now.tv_nsec - begin.tv_nsec < 30000);
    return 0;
}
#endif

// Run chunks: those of the own share first, whose rows are in this core's cache, then what others have not begun.
#ifndef NO_THREADS
static void pool_work(int me) {
    for (int i = 0; i < pool.team; i++) {
        int from = (me + i) % pool.team;
        long end = pool.share[from].end, step = pool.share[from].step;
        while (atomic_load_explicit(&pool.share[from].next, memory_order_relaxed) < end) {
            long begin = atomic_fetch_add_explicit(&pool.share[from].next, step, memory_order_relaxed);
            if (begin >= end) break;
            long stop = begin + step < end ? begin + step : end;
            pool.f(pool.context, begin * pool.grain, stop * pool.grain < pool.n ? stop * pool.grain : pool.n);
        }
    }
}
#endif

// The life of a worker: wait until a job opens, take part, and say so when the last one leaves.
#ifndef NO_THREADS
static void *pool_worker(void *number) {
    int me = (int)(intptr_t)number;
    unsigned last = 0;
    thread_number = me;
    for (;;) {
        unsigned phase = atomic_load(&pool.phase);
        while (!(phase & 1) || phase == last) {
            if (!pool_spin(&pool.phase, phase)) {
                pthread_mutex_lock(&pool.lock);
                atomic_fetch_add(&pool.asleep, 1);
                while (atomic_load(&pool.phase) == phase) pthread_cond_wait(&pool.opened, &pool.lock);
                atomic_fetch_sub(&pool.asleep, 1);
                pthread_mutex_unlock(&pool.lock);
            }
            phase = atomic_load(&pool.phase);
        }
        last = phase;
        atomic_fetch_add(&pool.inside, 1);
        if (atomic_load(&pool.phase) == phase && me < pool.team) pool_work(me);
        if (atomic_fetch_sub(&pool.inside, 1) == 1 && atomic_load(&pool.waiting)) {
            pthread_mutex_lock(&pool.lock);
            pthread_cond_signal(&pool.finished);
            pthread_mutex_unlock(&pool.lock);
        }
    }
    return 0;
}
#endif

// Wait until the workers have left the job: looking first, then asleep, which lets one that was held up have this core.
#ifndef NO_THREADS
static void pool_finish(void) {
    for (unsigned inside; (inside = atomic_load(&pool.inside));)
        if (!pool_spin(&pool.inside, inside)) {
            pthread_mutex_lock(&pool.lock);
            atomic_store(&pool.waiting, 1);
            while (atomic_load(&pool.inside)) pthread_cond_wait(&pool.finished, &pool.lock);
            atomic_store(&pool.waiting, 0);
            pthread_mutex_unlock(&pool.lock);
        }
}
#endif

// Start workers until the team is complete; signals stay with the threads of the program.
#ifndef NO_THREADS
static void pool_start(void) {
    if (!pool.started) pthread_atfork(0, 0, pool_forked);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (pool.started + 1 < pool.team) {
        pthread_t thread;
        if (pthread_create(&thread, 0, pool_worker, (void *)(intptr_t)(pool.started + 1))) break;
        pthread_detach(thread);
        pool.started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, 0);
    pool.team = pool.started + 1;
}
#endif

// Run f on chunks of 0..n-1, each beginning at a multiple of grain, by so many threads at most. Where the pool is in
// use, the caller runs them all.
static void parallel_on(long most, void (*f)(void *context, long begin, long end), void *context, long n, long grain) {
#ifndef NO_THREADS
    long grains = n / grain + (n % grain != 0), wanted = most_threads();
    if (wanted < most) most = wanted;
    int team = (int)(most < grains ? most : grains);
    if (team > 1 && !atomic_exchange(&pool.busy, 1)) {
        if ((pool.team = team) > pool.started + 1) pool_start();
        pool.f = f, pool.context = context, pool.n = n, pool.grain = grain;
        for (int i = 0; i < pool.team; i++) {
            long begin = grains / pool.team * i + grains % pool.team * i / pool.team;
            long end = grains / pool.team * (i + 1) + grains % pool.team * (i + 1) / pool.team;
            pool.share[i].end = end, pool.share[i].step = end - begin > 16 ? (end - begin + 7) / 8 : 2;
            atomic_store_explicit(&pool.share[i].next, begin, memory_order_relaxed);
        }
        atomic_fetch_add(&pool.phase, 1);
        if (atomic_load(&pool.asleep)) {
            pthread_mutex_lock(&pool.lock);
            pthread_cond_broadcast(&pool.opened);
            pthread_mutex_unlock(&pool.lock);
        }
        pool_work(0);
        atomic_fetch_add(&pool.phase, 1);
        pool_finish();
        atomic_store(&pool.busy, 0);
        return;
    }
#endif
    (void)grain, (void)most;
    if (n > 0) f(context, 0, n);
}

// The same by as many threads as a loop may use.
static void parallel(void (*f)(void *context, long begin, long end), void *context, long n, long grain) {
    parallel_on(most_threads(), f, context, n, grain);
}
