/* Drives the caches and the ring of the plugin without QEMU: drive FD ACCESSES SETS WAYS LINES. The
 * second cache has eight times the sets. Addresses and stores are drawn; every eighth access goes on
 * behind the one before. Prints the seconds of processor time that it took. */
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>

#include "filter.h"

int main(int count, char **words)
{
    if (count != 6)
        return 2;
    struct cxlab_shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, atoi(words[1]), 0);
    if (shared == MAP_FAILED || shared->magic != CXLAB_MAGIC || shared->layout != CXLAB_LAYOUT)
        return 3;
    uint64_t accesses = strtoull(words[2], NULL, 10), sets = strtoull(words[3], NULL, 10);
    uint64_t ways = strtoull(words[4], NULL, 10), lines = strtoull(words[5], NULL, 10);
    struct cxlab_geometry levels[] = {{sets, ways, 1000}, {8 * sets, ways, 7000}};
    struct cxlab_filter filter;
    if (!cxlab_filter_init(&filter, &shared->lane[1], levels, 2))
        return 4;
    filter.tell_ps = 10000;
    uint64_t state = 88172645463325252ull, line = 0;
    struct timespec from, to;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    cxlab_mark(&filter, 1);
    for (uint64_t i = 0; i < accesses; i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        line = i % 8 == 7 ? line + 1 : (state >> 32) * lines >> 32;
        uint64_t address = line * 64 + (state & 63);
        bool store = state >> 40 & 1;
        cxlab_pass(&filter, 250);
        /* Pages lie elsewhere in memory than in the program. */
        if (!cxlab_first(&filter, address, store))
            cxlab_missed(&filter, address, (address ^ 5 << 12) | CXLAB_CXL, store);
    }
    cxlab_mark(&filter, 2);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    printf("%.6f\n", to.tv_sec - from.tv_sec + 1e-9 * (to.tv_nsec - from.tv_nsec));
    return 0;
}
