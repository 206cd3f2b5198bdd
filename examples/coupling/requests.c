/* A worked example of libcxlab in C: submits random requests to an external port and sums up what completes.
 *
 *   cc -O2 -I include -o requests examples/coupling/requests.c -lcxlab
 *   ./requests SCENARIO REQUESTS GAP_PS
 *
 * The scenario has a host called `outside`: [[hosts]] name = "outside", kind = "external". Requests are about
 * GAP_PS picoseconds apart. requests.cpp, requests.rs and requests.py submit the same ones.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cxlab.h"

/* The requests: the numbers of a xorshift generator. */
struct generator {
    uint64_t state;
};

static uint64_t next_number(struct generator *generator) {
    uint64_t x = generator->state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    generator->state = x;
    return x;
}

/* What has completed: how many requests, and a hash (FNV-1a) of their ids and times in their order. */
struct sum {
    uint64_t count;
    uint64_t hash;
};

static void add(struct sum *sum, uint64_t number) {
    for (int byte = 0; byte < 8; byte++) {
        sum->hash = (sum->hash ^ (number >> (8 * byte) & 0xff)) * UINT64_C(0x100000001b3);
    }
}

static void done(void *context, const struct cxlab_completed *completed) {
    struct sum *sum = context;
    sum->count++;
    add(sum, completed->id);
    add(sum, completed->issued);
    add(sum, completed->completed);
}

static void check(int32_t status) {
    if (status != CXLAB_OK) {
        fprintf(stderr, "error: %s\n", cxlab_last_error());
        exit(2);
    }
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: requests SCENARIO REQUESTS GAP_PS\n");
        return 2;
    }
    uint64_t requests = strtoull(argv[2], NULL, 10);
    uint64_t gap = strtoull(argv[3], NULL, 10);

    struct cxlab_options options;
    memset(&options, 0, sizeof options);
    options.bytes = sizeof options;
    options.path = argv[1];
    cxlab_system system;
    check(cxlab_create(&options, &system));
    uint32_t port;
    check(cxlab_find_port(system, "outside", &port));
    struct cxlab_port_info info;
    check(cxlab_get_port_info(system, port, &info));
    struct sum sum = {0, UINT64_C(0xcbf29ce484222325)};
    check(cxlab_set_callback(system, done, &sum));

    struct generator generator = {UINT64_C(0x9e3779b97f4a7c15)};
    uint64_t time = 0;
    for (uint64_t id = 0; id < requests; id++) {
        uint64_t address = next_number(&generator) % (info.memory_bytes / 64) * 64;
        uint32_t kind = next_number(&generator) % 4 == 0 ? CXLAB_WRITE : CXLAB_READ;
        check(cxlab_advance(system, time));
        /* A full port takes requests again when time has passed. */
        int32_t status = cxlab_submit(system, port, id, address, 64, kind, time);
        while (status == CXLAB_ERROR_FULL) {
            check(cxlab_next_event(system, &time));
            check(cxlab_advance(system, ++time));
            status = cxlab_submit(system, port, id, address, 64, kind, time);
        }
        check(status);
        time += 1 + next_number(&generator) % (2 * gap);
    }
    check(cxlab_close_port(system, port));
    check(cxlab_drain(system));

    uint64_t digest;
    check(cxlab_digest(system, &digest));
    printf("completed %" PRIu64 " hash %016" PRIx64 " digest %016" PRIx64 "\n", sum.count, sum.hash, digest);
    check(cxlab_destroy(system));
    return 0;
}
