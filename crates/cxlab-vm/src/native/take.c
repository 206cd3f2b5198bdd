/* What the plugin does for an accelerator, without QEMU: says where ring.h has the words behind the rings; fills caches,
 * lists them, takes some lines, and says which of them are left, hit and missed. */
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>

#include "filter.h"

enum { LINES = 1500, MOST = 100000 };

static uint64_t lines[MOST];

/* A page lies elsewhere in memory than in the program. */
static uint64_t place_of(uint64_t address)
{
    return (address ^ 5 << 12) | CXLAB_CXL;
}

static bool holds(const struct cxlab_filter *filter, uint64_t place, bool *changed)
{
    uint64_t count = cxlab_list(filter, lines, MOST);
    bool found = false;
    *changed = false;
    for (uint64_t i = 0; i < count; i++) {
        if ((lines[i] & ~(CXLAB_LINE - 1)) == place) {
            found = true;
            *changed |= lines[i] & CXLAB_CHANGED;
        }
    }
    return found;
}

int main(void)
{
    size_t bytes = sizeof(struct cxlab_shared);
    struct cxlab_shared *shared =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    printf("words %zu %zu %zu %zu %zu %zu\n", offsetof(struct cxlab_shared, own) / 8,
           offsetof(struct cxlab_shared, window) / 8, offsetof(struct cxlab_shared, listed) / 8,
           offsetof(struct cxlab_shared, dropped) / 8, offsetof(struct cxlab_shared, lines) / 8,
           bytes / 8);
    /* The first cache has more sets than a page has lines. All misses fit the ring, which nobody empties. */
    struct cxlab_geometry levels[] = {{128, 4, 1000}, {1024, 8, 7000}};
    struct cxlab_filter filter;
    if (shared == MAP_FAILED || !cxlab_filter_init(&filter, &shared->lane[0], levels, 2))
        return 1;
    for (uint64_t line = 0; line < LINES; line++) {
        uint64_t address = line * CXLAB_LINE;
        if (!cxlab_first(&filter, address, line % 3 == 0))
            cxlab_missed(&filter, address, place_of(address), line % 3 == 0);
    }
    unsigned held = 0, left = 0, kept = 0, wrong = 0;
    bool changed;
    for (uint64_t line = 0; line < LINES; line++) {
        uint64_t place = place_of(line * CXLAB_LINE);
        held += holds(&filter, place, &changed);
        wrong += changed != (line % 3 == 0);
    }
    for (uint64_t line = 0; line < LINES; line += 2)
        cxlab_take(&filter, place_of(line * CXLAB_LINE));
    for (uint64_t line = 0; line < LINES; line++) {
        bool there = holds(&filter, place_of(line * CXLAB_LINE), &changed);
        left += line % 2 == 0 && there;
        kept += line % 2 == 1 && there;
    }
    uint64_t before = filter.counters[CXLAB_MISSES];
    for (uint64_t line = 0; line < LINES; line++) {
        uint64_t address = line * CXLAB_LINE;
        if (!cxlab_first(&filter, address, false))
            cxlab_missed(&filter, address, place_of(address), false);
    }
    printf("held %u wrong %u left %u kept %u missed %lu\n", held, wrong, left, kept,
           (unsigned long)(filter.counters[CXLAB_MISSES] - before));
    return 0;
}
