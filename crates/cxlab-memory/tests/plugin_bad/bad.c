/* Libraries that are wrong in one way each, chosen by a macro, from the request on whose number `config` says. They
 * serve one request at a time, in 1 ns. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cxlab_medium.h"

#ifdef MARKS_LOADING
/* Who is loaded has been run. */
__attribute__((constructor)) static void loaded(void) {
    fclose(fopen(MARKS_LOADING, "w"));
}
#endif

static int here, held;
static uint64_t due;
static uint32_t last;
static long served, after;

/* A write to where nothing is: a signal that somebody raises can be ignored. */
static volatile int *volatile nowhere;

static int wrong(void) { return served >= after; }

static void *create(const char *config, uint64_t capacity, uint64_t seed, char *error,
                    size_t error_bytes) {
    (void)capacity, (void)seed, (void)error, (void)error_bytes;
    after = atol(config);
#if defined(SILENT_REFUSAL)
    return NULL;
#elif defined(CRASHES_IN_CREATE)
    *nowhere = 1;
#elif defined(PRINTS)
    puts("a line of the library");
    fflush(stdout);
#endif
    return &here;
}

static void destroy(void *medium) {
    (void)medium;
#ifdef HANGS_IN_DESTROY
    for (;;)
        pause();
#endif
}

static uint32_t granule(void *medium) {
    (void)medium;
#ifdef BAD_GRANULE
    return 48;
#else
    return 64;
#endif
}

static int can_accept(void *medium, uint64_t now, int write) {
    (void)medium, (void)now, (void)write;
#ifdef ABORTS_IN_CAN_ACCEPT
    if (wrong())
        abort();
#endif
    return !held;
}

static void enqueue(void *medium, uint64_t now, const struct cxlab_request *request) {
    (void)medium;
#ifdef EXITS_IN_ENQUEUE
    if (wrong())
        exit(0);
#endif
    held = 1;
    due = now + 1000;
    last = request->id;
}

static uint64_t next_event(void *medium) {
    (void)medium;
#ifdef FORGETS
    if (wrong())
        return CXLAB_NEVER;
#endif
#ifdef GOES_BACK
    if (wrong() && held)
        return due - 1001;
#endif
    return held ? due : CXLAB_NEVER;
}

static size_t advance(void *medium, uint64_t now, struct cxlab_completion *done, size_t room) {
    (void)medium, (void)room;
    if (!held || due > now)
        return 0;
    size_t count = 1;
    done[0].at = now;
    done[0].id = last;
    done[0].reserved = 0;
    if (wrong()) {
#if defined(TWICE)
        done[1] = done[0];
        count = 2;
#elif defined(UNKNOWN_ID)
        done[0].id = 77;
#elif defined(TOO_EARLY)
        done[0].at = now + 1;
#elif defined(TOO_MANY)
        count = room + 1;
#elif defined(STANDS_STILL)
        return 0;
#elif defined(CRASHES_IN_ADVANCE)
        *nowhere = 1;
#elif defined(HANGS_IN_ADVANCE)
        for (;;)
            pause();
#endif
    }
    held = 0;
    served++;
    return count;
}

#ifdef CRASHES_IN_STATISTIC
static int statistic(void *medium, size_t number, const char **name, double *value) {
    (void)medium, (void)number, (void)name, (void)value;
    *nowhere = 1;
    return 0;
}
#else
#define statistic NULL
#endif

static const struct cxlab_medium_table table = {
#if defined(OTHER_ABI)
    CXLAB_MEDIUM_ABI + 1,
#elif defined(FIRST_ABI)
    1,
#else
    CXLAB_MEDIUM_ABI,
#endif
#if defined(OTHER_SIZE)
    8,
#elif defined(FIRST_ABI)
    offsetof(struct cxlab_medium_table, begin_measurement),
#else
    sizeof(struct cxlab_medium_table),
#endif
    create, destroy, granule, can_accept, enqueue, next_event,
#ifdef NO_ADVANCE
    NULL,
#else
    advance,
#endif
    statistic,
#ifdef FIRST_ABI
    /* Not part of a table of version 1, and so never called. */
    (void (*)(void *, uint64_t))abort,
#else
    NULL,
#endif
};

#ifdef NO_FUNCTION
const struct cxlab_medium_table *another_name(void);
const struct cxlab_medium_table *another_name(void) { return &table; }
#else
const struct cxlab_medium_table *cxlab_medium(void) {
#ifdef NO_TABLE
    (void)table;
    return NULL;
#else
    return &table;
#endif
}
#endif
