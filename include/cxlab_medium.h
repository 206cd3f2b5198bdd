/* A memory medium in a shared library, for cxlab: memory = { kind = "plugin", library = "..." }.
 *
 * The library exports one function, cxlab_medium, which returns a table of functions. All of them
 * are called by one thread at a time for each medium, not always the same one; two media may be
 * called at once. None may call exit, throw, or jump out. Times are in picoseconds since the start
 * of the run and never run backwards for one medium. See docs/guide/plugins.md and
 * examples/plugin/medium.c. Licensed like cxlab, under Apache-2.0 or MIT.
 */
#ifndef CXLAB_MEDIUM_H
#define CXLAB_MEDIUM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this interface. Version 2 added begin_measurement to version 1, whose libraries are
 * still accepted: a table that ends before begin_measurement is one of version 1. A library of
 * another version is refused. */
#define CXLAB_MEDIUM_ABI 2u

/* Nothing happens. */
#define CXLAB_NEVER UINT64_MAX

/* A request. */
struct cxlab_request {
    uint64_t address;  /* first byte, counted from the beginning of the device; a multiple of 64 */
    uint32_t id;       /* comes back in the completion */
    uint16_t lines;    /* lines of 64 bytes, 1 to 1024 */
    uint16_t write;    /* 1 for a write, 0 for a read */
};

/* A request that is done. */
struct cxlab_completion {
    uint64_t at;       /* when it was done */
    uint32_t id;       /* of the request */
    uint32_t reserved; /* 0 */
};

/* What a medium can do. Every pointer must be set but `statistic` and `begin_measurement`. */
struct cxlab_medium_table {
    uint32_t abi;   /* CXLAB_MEDIUM_ABI */
    uint32_t bytes; /* sizeof(struct cxlab_medium_table) */

    /* A new medium for a device of so many bytes, with the text of `config` in the scenario.
     * NULL if that cannot be: then `error`, of `error_bytes` bytes, says why, ended by a zero. */
    void *(*create)(const char *config, uint64_t capacity, uint64_t seed, char *error,
                    size_t error_bytes);
    /* The end of a medium. */
    void (*destroy)(void *medium);
    /* Bytes that it reads and writes as a whole: a power of two from 64 to 1 GiB. */
    uint32_t (*granule)(void *medium);
    /* Whether one more request can be taken at `now`: 1 or 0. */
    int (*can_accept)(void *medium, uint64_t now, int write);
    /* Takes a request; only after can_accept said 1. */
    void (*enqueue)(void *medium, uint64_t now, const struct cxlab_request *request);
    /* When something happens next, be it a completion or room after there was none; CXLAB_NEVER
     * if nothing does. */
    uint64_t (*next_event)(void *medium);
    /* Brings the medium up to `now` and writes up to `room` completions, in order of time, none
     * later than `now`. How many it wrote; it is called again while it fills the room. */
    size_t (*advance)(void *medium, uint64_t now, struct cxlab_completion *done, size_t room);
    /* May be NULL. The statistic of that number, from 0 on: its name, in snake case with its
     * unit, which must stay until the next call, and its value. 0 if there is none. The report
     * of the device has all of them. */
    int (*statistic)(void *medium, size_t number, const char **name, double *value);
    /* Since version 2. May be NULL: then statistics count from the start of the run, warm-up
     * included. The measurement begins at `now`: statistics count from there; nothing else of the
     * medium changes. */
    void (*begin_measurement)(void *medium, uint64_t now);
};

/* What the library exports. The table must stay. */
const struct cxlab_medium_table *cxlab_medium(void);

#ifdef __cplusplus
}
#endif
#endif
