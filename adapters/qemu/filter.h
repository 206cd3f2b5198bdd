/* The caches of one processor: which accesses reach memory, and when its own clock says so.
 *
 * The first cache is looked up by virtual addresses, as processors do; the others by the place in
 * memory. Least recently used lines go first, changed lines are written back to the next cache that
 * holds them, and what leaves the last one is posted to the ring. Prefetchers are the model's.
 * Nothing here knows of QEMU.
 */
#ifndef CXLAB_FILTER_H
#define CXLAB_FILTER_H

#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ring.h"

#define CXLAB_LEVELS 4
#define CXLAB_LINE 64ull
#define CXLAB_CHANGED 1ull /* in the low bits of a place */
#define CXLAB_STREAMS 16
#define CXLAB_SPINS 256    /* looks in a row before others may run */
#define CXLAB_YIELDS 4096  /* and before it sleeps between looks */
#define CXLAB_NAP_NS 50000

/* Sizes of a cache. Sets are a power of two. */
struct cxlab_geometry {
    uint64_t sets, ways, access_ps;
};

struct cxlab_slot {
    uint64_t tag;   /* line number + 1; 0 is empty. Of virtual addresses in the first cache */
    uint64_t place; /* where the line is, with CXLAB_CHANGED */
};

struct cxlab_level {
    struct cxlab_geometry is;
    struct cxlab_slot *slots;
};

struct cxlab_filter {
    struct cxlab_lane *lane;
    uint64_t own_ps;
    uint64_t idle_ps; /* skipped while all processors slept, when this one last woke */
    uint64_t tell_ps; /* how far its own time goes before it is told without a record; 0 for ever */
    uint64_t tell_at;
    uint64_t head;  /* records written, also those that the model does not see yet */
    uint64_t known; /* records charged, when last looked */
    uint64_t counters[CXLAB_COUNTERS];
    uint64_t last;           /* the line of the last access, + 1 */
    struct cxlab_slot *slot; /* and its slot */
    uint64_t streams[CXLAB_STREAMS]; /* lines last seen, of as many walks */
    unsigned oldest;
    bool locking;    /* an atomic instruction is executed */
    bool was_shared; /* its last access was to memory that guests share */
    unsigned levels;
    struct cxlab_level level[CXLAB_LEVELS];
};

/* False when there is no memory for it. */
static inline bool cxlab_filter_init(struct cxlab_filter *f, struct cxlab_lane *lane,
                                     const struct cxlab_geometry *levels, unsigned count)
{
    memset(f, 0, sizeof *f);
    f->lane = lane;
    f->levels = count;
    for (unsigned i = 0; i < count; i++) {
        f->level[i].is = levels[i];
        f->level[i].slots = calloc(levels[i].sets * levels[i].ways, sizeof(struct cxlab_slot));
        if (!f->level[i].slots)
            return false;
    }
    return true;
}

/* Makes visible what was written. */
static inline void cxlab_publish(struct cxlab_filter *f)
{
    for (unsigned i = 0; i < CXLAB_COUNTERS; i++)
        __atomic_store_n(&f->lane->counters[i], f->counters[i], __ATOMIC_RELAXED);
    __atomic_store_n(&f->lane->head, f->head, __ATOMIC_RELEASE);
    __atomic_store_n(&f->lane->now_ps, f->own_ps, __ATOMIC_RELEASE);
}

/* Its own time went on. */
static inline void cxlab_pass(struct cxlab_filter *f, uint64_t ps)
{
    f->own_ps += ps;
    if (f->tell_ps && f->own_ps >= f->tell_at) {
        f->tell_at = f->own_ps + f->tell_ps;
        cxlab_publish(f);
    }
}

/* Waits until at most `behind` records are not charged. */
static inline void cxlab_wait(struct cxlab_filter *f, uint64_t behind)
{
    cxlab_publish(f);
    for (unsigned spins = 0;; spins++) {
        f->known = __atomic_load_n(&f->lane->tail, __ATOMIC_ACQUIRE);
        if (f->head - f->known <= behind)
            return;
        struct timespec nap = {0, CXLAB_NAP_NS};
        if (spins < CXLAB_SPINS)
            __builtin_ia32_pause();
        else if (spins < CXLAB_SPINS + CXLAB_YIELDS)
            sched_yield();
        else /* the model waits for another guest, maybe for long */
            nanosleep(&nap, NULL);
    }
}

static inline void cxlab_post(struct cxlab_filter *f, uint64_t what)
{
    if (f->head - f->known >= CXLAB_ENTRIES)
        cxlab_wait(f, CXLAB_ENTRIES - 1);
    struct cxlab_record *record = &f->lane->records[f->head % CXLAB_ENTRIES];
    record->at_ps = f->own_ps + f->idle_ps;
    record->what = what;
    if (++f->head % 64 == 0)
        cxlab_publish(f);
}

/* Brings the slot at `way` to the front of its set. */
static inline struct cxlab_slot *cxlab_front(struct cxlab_slot *set, uint64_t way)
{
    if (way) {
        struct cxlab_slot slot = set[way];
        memmove(set + 1, set, way * sizeof *set);
        *set = slot;
    }
    return set;
}

/* A slot's way in its set; `ways` when it is not there. */
static inline uint64_t cxlab_find(const struct cxlab_slot *set, uint64_t ways, uint64_t tag)
{
    uint64_t way = 0;
    while (way < ways && set[way].tag != tag)
        way++;
    return way;
}

static inline struct cxlab_slot *cxlab_set(struct cxlab_level *level, uint64_t line)
{
    return level->slots + (line & (level->is.sets - 1)) * level->is.ways;
}

/* A changed line left the cache before `from`. */
static inline void cxlab_write_back(struct cxlab_filter *f, unsigned from, uint64_t place)
{
    for (unsigned i = from; i < f->levels; i++) {
        struct cxlab_level *level = &f->level[i];
        struct cxlab_slot *set = cxlab_set(level, place / CXLAB_LINE);
        uint64_t way = cxlab_find(set, level->is.ways, place / CXLAB_LINE + 1);
        if (way < level->is.ways) {
            set[way].place |= CXLAB_CHANGED;
            return;
        }
    }
    cxlab_post(f, (place & ~(CXLAB_LINE - 1)) | CXLAB_WRITE_BACK);
}

/* Takes the last slot of a set for another line. */
static inline struct cxlab_slot *cxlab_fill(struct cxlab_filter *f, unsigned number,
                                            struct cxlab_slot *set, uint64_t tag, uint64_t place)
{
    uint64_t last = f->level[number].is.ways - 1;
    struct cxlab_slot old = set[last];
    cxlab_front(set, last);
    set->tag = tag;
    set->place = place;
    if (old.tag && (old.place & CXLAB_CHANGED))
        cxlab_write_back(f, number + 1, old.place);
    return set;
}

/* Looks a virtual address up in the first cache, without its physical one. */
static inline bool cxlab_first(struct cxlab_filter *f, uint64_t address, bool store)
{
    uint64_t tag = address / CXLAB_LINE + 1;
    f->counters[CXLAB_ACCESSES]++;
    if (tag != f->last) {
        struct cxlab_level *level = &f->level[0];
        struct cxlab_slot *set = cxlab_set(level, tag - 1);
        uint64_t way = cxlab_find(set, level->is.ways, tag);
        if (way == level->is.ways)
            return false;
        f->slot = cxlab_front(set, way);
        f->last = tag;
    }
    f->slot->place |= store ? CXLAB_CHANGED : 0;
    return true;
}

/* Whether a line lies beside one that was seen lately: part of a walk through an array, whose
 * lines the first cache's prefetcher brings from the next cache (assumed: always in time). */
static inline bool cxlab_walks(struct cxlab_filter *f, uint64_t line)
{
    for (unsigned i = 0; i < CXLAB_STREAMS; i++) {
        uint64_t apart = line - f->streams[i];
        if (apart + 1 <= 2) {
            f->streams[i] = line;
            return true;
        }
    }
    f->streams[f->oldest++ % CXLAB_STREAMS] = line;
    return false;
}

/* Looks a line up in the caches behind the first. Returns the level that has it; `levels` if none. */
static inline unsigned cxlab_look(struct cxlab_filter *f, uint64_t line, bool store)
{
    f->counters[CXLAB_FIRST_MISSES]++;
    /* Nobody waits for a look that stores or prefetchers make. */
    uint64_t look = cxlab_walks(f, line) || store ? 0 : 1;
    f->own_ps += look * f->level[0].is.access_ps;
    unsigned at = 1;
    for (; at < f->levels; at++) {
        struct cxlab_level *level = &f->level[at];
        struct cxlab_slot *set = cxlab_set(level, line);
        f->own_ps += look * level->is.access_ps;
        uint64_t way = cxlab_find(set, level->is.ways, line + 1);
        if (way < level->is.ways) {
            cxlab_front(set, way);
            break;
        }
    }
    return at;
}

/* Brings a line from the level that has it to all before. */
static inline void cxlab_bring(struct cxlab_filter *f, unsigned at, uint64_t address, uint64_t place,
                               bool store)
{
    uint64_t tag = address / CXLAB_LINE + 1, line = place / CXLAB_LINE;
    while (--at > 0)
        cxlab_fill(f, at, cxlab_set(&f->level[at], line), line + 1, place);
    struct cxlab_slot *set = cxlab_set(&f->level[0], tag - 1);
    f->slot = cxlab_fill(f, 0, set, tag, place | (store ? CXLAB_CHANGED : 0));
    f->last = tag;
}

/* After a miss of the first cache: `place` is where the line lies. */
static inline void cxlab_missed(struct cxlab_filter *f, uint64_t address, uint64_t place, bool store)
{
    uint64_t line = place / CXLAB_LINE;
    place = line * CXLAB_LINE;
    unsigned at = cxlab_look(f, line, store);
    if (at == f->levels) {
        f->counters[CXLAB_MISSES]++;
        cxlab_post(f, place | (store ? CXLAB_STORE : CXLAB_LOAD));
    }
    cxlab_bring(f, at, address, place, store);
}

/* Drops a line from all caches. In the first, memory that guests share is found by its place. */
static inline void cxlab_drop(struct cxlab_filter *f, uint64_t place)
{
    uint64_t line = place / CXLAB_LINE;
    for (unsigned at = 0; at < f->levels; at++) {
        struct cxlab_slot *set = cxlab_set(&f->level[at], line);
        uint64_t ways = f->level[at].is.ways, way = cxlab_find(set, ways, line + 1);
        if (way == ways)
            continue;
        memmove(set + way, set + way + 1, (ways - way - 1) * sizeof *set);
        memset(set + ways - 1, 0, sizeof *set);
    }
    f->last = 0;
}

/* Drops a line of the guest's memory, or of a window, from all caches: another has taken it. The first cache
 * is searched, as it is looked up by virtual addresses. */
static inline void cxlab_take(struct cxlab_filter *f, uint64_t place)
{
    for (unsigned at = 0; at < f->levels; at++) {
        struct cxlab_level *level = &f->level[at];
        uint64_t ways = level->is.ways, page = 4096 / CXLAB_LINE;
        /* Virtual and physical addresses are equal within a page. */
        uint64_t step = at == 0 && page < level->is.sets ? page : level->is.sets;
        uint64_t set = place / CXLAB_LINE & (step - 1);
        for (; set < level->is.sets; set += step) {
            struct cxlab_slot *slots = level->slots + set * ways;
            for (uint64_t way = 0; way < ways && slots[way].tag; way++) {
                if ((slots[way].place & ~(CXLAB_LINE - 1)) != place)
                    continue;
                memmove(slots + way, slots + way + 1, (ways - way - 1) * sizeof *slots);
                memset(slots + ways - 1, 0, sizeof *slots);
                break;
            }
        }
    }
    f->last = 0;
}

/* Writes the lines that the caches hold, as many as there is room for. Returns their number. A line that several
 * caches hold is written several times. */
static inline uint64_t cxlab_list(const struct cxlab_filter *f, uint64_t *lines, uint64_t most)
{
    uint64_t count = 0;
    for (unsigned at = 0; at < f->levels; at++) {
        const struct cxlab_level *level = &f->level[at];
        for (uint64_t slot = 0; slot < level->is.sets * level->is.ways && count < most; slot++)
            if (level->slots[slot].tag)
                lines[count++] = level->slots[slot].place;
    }
    return count;
}

/* An access to a register of a device, which no cache holds. Waits until the model has done it. */
static inline uint64_t cxlab_register(struct cxlab_filter *f, uint64_t place, unsigned operation,
                                      unsigned bytes, uint64_t value)
{
    f->counters[CXLAB_DEVICE_ACCESSES]++;
    f->lane->access = operation | (place % CXLAB_LINE) << 8 | bytes << 16;
    f->lane->value = value;
    cxlab_post(f, (place & ~(CXLAB_LINE - 1)) | CXLAB_SHARED);
    cxlab_wait(f, 0);
    return f->lane->reply;
}

/* An access to memory that guests share, within one line, or a flush of it; a fence has no place. Waits
 * until the model has done it, and returns the bytes of a load. The caches have only tags: the
 * model knows what other guests have taken. */
static inline uint64_t cxlab_share(struct cxlab_filter *f, uint64_t place, unsigned operation,
                                   unsigned bytes, uint64_t value)
{
    uint64_t line = place & ~(CXLAB_LINE - 1);
    bool store = operation == CXLAB_SHARED_STORE, cached = true;
    if (operation == CXLAB_SHARED_LOAD || store) {
        cached = cxlab_first(f, place, store);
        if (!cached) {
            unsigned at = cxlab_look(f, line / CXLAB_LINE, store);
            cached = at < f->levels;
            f->counters[CXLAB_MISSES] += !cached;
            cxlab_bring(f, at, place, line, store);
        }
    } else if (operation == CXLAB_FLUSH) {
        cxlab_drop(f, place);
    }
    uint64_t flags = (f->locking ? CXLAB_LOCKED : 0) | (cached ? CXLAB_CACHED : 0);
    /* No record of kind CXLAB_SHARED is in the ring but this. */
    f->lane->access = operation | (place % CXLAB_LINE) << 8 | bytes << 16 | flags << 24;
    f->lane->value = value;
    cxlab_post(f, line | CXLAB_SHARED);
    cxlab_wait(f, 0);
    return f->lane->reply;
}

/* Tells the model where the guest is, and waits until it knows. */
static inline void cxlab_mark(struct cxlab_filter *f, uint64_t number)
{
    cxlab_post(f, number * CXLAB_LINE | CXLAB_MARK);
    cxlab_wait(f, 0);
}

#endif
