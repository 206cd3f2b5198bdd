// Follows pointers in a shuffled ring of lines, then checks that it saw each once. Exit code 0 if so.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct line {
    struct line *next;
    uint64_t number, unused[6];
};

int main(int count, char **arguments) {
    const uint64_t lines = count > 1 ? strtoull(arguments[1], NULL, 10) : 65536;
    struct line *ring = aligned_alloc(64, lines * sizeof *ring);
    uint64_t *order = malloc(lines * sizeof *order);
    if (lines < 2 || ring == NULL || order == NULL) {
        fprintf(stderr, "lines: found %s; allowed: 2 or more that fit memory\n",
                count > 1 ? arguments[1] : "");
        return 2;
    }
    uint64_t state = 1;
    for (uint64_t i = 0; i < lines; ++i) {
        order[i] = i;
    }
    for (uint64_t i = lines - 1; i > 0; --i) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const uint64_t j = (state >> 33) % (i + 1), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
    for (uint64_t i = 0; i < lines; ++i) {
        ring[order[i]].next = &ring[order[(i + 1) % lines]];
        ring[order[i]].number = order[i] + 1;
    }
    uint64_t sum = 0;
    struct line *at = ring;
    for (uint64_t i = 0; i < lines; ++i, at = at->next) {
        sum += at->number;
    }
    printf("%llu lines, sum %llu\n", (unsigned long long)lines, (unsigned long long)sum);
    return at == ring && sum == lines * (lines + 1) / 2 ? 0 : 1;
}
