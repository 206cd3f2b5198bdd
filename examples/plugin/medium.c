/* A worked example of a medium in a shared library: one request at a time, in order of arrival.
 *
 *   cc -shared -fPIC -O2 -I include -o libmedium.so examples/plugin/medium.c
 *
 *   memory = { kind = "plugin", library = "./libmedium.so", config = "latency_ps=80000 queue=32" }
 *
 * A wrapper of a simulator such as DRAMsim3 has the same functions: enqueue adds a transaction,
 * advance clocks the simulator up to `now` and collects what its callbacks report, and next_event
 * says when it must be clocked next.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cxlab_medium.h"

struct medium {
    uint64_t latency;                /* picoseconds of a line */
    uint64_t busy_until;
    size_t queue;                    /* requests at once */
    size_t first, held;              /* a ring of completions, in order of time */
    struct cxlab_completion *ring;
    uint64_t lines;
};

static void *create(const char *config, uint64_t capacity, uint64_t seed, char *error,
                    size_t error_bytes) {
    unsigned long long latency = 100000, queue = 16;
    int used = 0;
    (void)capacity;
    (void)seed;
    if (*config && (sscanf(config, "latency_ps=%llu queue=%llu%n", &latency, &queue, &used) != 2 ||
                    config[used] || queue < 1 || queue > 65536)) {
        snprintf(error, error_bytes,
                 "found `%s`; allowed: nothing, or `latency_ps=N queue=N` with a queue of 1 to 65536",
                 config);
        return NULL;
    }
    struct medium *m = calloc(1, sizeof *m);
    if (m)
        m->ring = calloc(queue, sizeof *m->ring);
    if (!m || !m->ring) {
        free(m);
        snprintf(error, error_bytes, "out of memory");
        return NULL;
    }
    m->latency = latency;
    m->queue = queue;
    return m;
}

static void destroy(void *medium) {
    struct medium *m = medium;
    free(m->ring);
    free(m);
}

static uint32_t granule(void *medium) {
    (void)medium;
    return 64;
}

static int can_accept(void *medium, uint64_t now, int write) {
    struct medium *m = medium;
    (void)now;
    (void)write;
    return m->held < m->queue;
}

static void enqueue(void *medium, uint64_t now, const struct cxlab_request *request) {
    struct medium *m = medium;
    uint64_t begin = now > m->busy_until ? now : m->busy_until;
    m->busy_until = begin + m->latency * request->lines;
    m->lines += request->lines;
    struct cxlab_completion *done = &m->ring[(m->first + m->held++) % m->queue];
    done->at = m->busy_until;
    done->id = request->id;
    done->reserved = 0;
}

static uint64_t next_event(void *medium) {
    struct medium *m = medium;
    return m->held ? m->ring[m->first].at : CXLAB_NEVER;
}

static size_t advance(void *medium, uint64_t now, struct cxlab_completion *done, size_t room) {
    struct medium *m = medium;
    size_t count = 0;
    while (count < room && m->held && m->ring[m->first].at <= now) {
        done[count++] = m->ring[m->first];
        m->first = (m->first + 1) % m->queue;
        m->held--;
    }
    return count;
}

static int statistic(void *medium, size_t number, const char **name, double *value) {
    struct medium *m = medium;
    if (number > 0)
        return 0;
    *name = "lines";
    *value = (double)m->lines;
    return 1;
}

static void begin_measurement(void *medium, uint64_t now) {
    struct medium *m = medium;
    (void)now;
    m->lines = 0;
}

static const struct cxlab_medium_table table = {
    CXLAB_MEDIUM_ABI, sizeof(struct cxlab_medium_table),
    create, destroy, granule, can_accept, enqueue, next_event, advance, statistic,
    begin_measurement,
};

const struct cxlab_medium_table *cxlab_medium(void) {
    return &table;
}
