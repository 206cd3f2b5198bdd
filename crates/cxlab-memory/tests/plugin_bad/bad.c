/* Libraries that are wrong in one way each, chosen by a macro. */
#include <stddef.h>

#include "cxlab_medium.h"

static int here;
static int held;
static uint32_t last;

static void *create(const char *config, uint64_t capacity, uint64_t seed, char *error,
                    size_t error_bytes) {
    (void)config, (void)capacity, (void)seed, (void)error, (void)error_bytes;
#ifdef SILENT_REFUSAL
    return NULL;
#else
    return &here;
#endif
}

static void destroy(void *medium) { (void)medium; }

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
    return 1;
}

static void enqueue(void *medium, uint64_t now, const struct cxlab_request *request) {
    (void)medium, (void)now;
    held = 1;
    last = request->id;
}

static uint64_t next_event(void *medium) {
    (void)medium;
#ifdef FORGETS
    return CXLAB_NEVER;
#else
    return held ? 1000 : CXLAB_NEVER;
#endif
}

static size_t advance(void *medium, uint64_t now, struct cxlab_completion *done, size_t room) {
    (void)medium;
    size_t count = 1;
    done[0].at = now;
    done[0].id = last;
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
    count = 0;
#endif
    (void)room;
    held = count == 0;
    return count;
}

static const struct cxlab_medium_table table = {
#ifdef OTHER_ABI
    2,
#else
    CXLAB_MEDIUM_ABI,
#endif
#ifdef OTHER_SIZE
    8,
#else
    sizeof(struct cxlab_medium_table),
#endif
    create, destroy, granule, can_accept, enqueue, next_event,
#ifdef NO_ADVANCE
    NULL,
#else
    advance,
#endif
    NULL,
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
