/* chase [KIB [STEPS]]: the time of a load whose address the one before gives, in a random cycle
 * through all lines of KIB. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LINE = 64 };

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}

static uint64_t draw(void)
{
    static uint64_t state = 88172645463325252ull;
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state;
}

int main(int count, char **words)
{
    long kib = count > 1 ? atol(words[1]) : 8192, steps = count > 2 ? atol(words[2]) : 20000;
    if (kib < 1 || kib > 1 << 22 || steps < 1) {
        fprintf(stderr, "usage: chase [KIB, 1 to 4194304 [STEPS]]\n");
        return 2;
    }
    long n = kib * 1024 / LINE;
    char *base = aligned_alloc(4096, (n * LINE + 4095) / 4096 * 4096);
    if (!base)
        return 1;
    /* Sattolo's shuffle in place: the lines hold each other's addresses in one cycle. */
    for (long i = 0; i < n; i++)
        *(void **)(base + i * LINE) = base + i * LINE;
    for (long i = n - 1; i > 0; i--) {
        void **one = (void **)(base + i * LINE), **other = (void **)(base + draw() % i * LINE);
        void *kept = *one;
        *one = *other, *other = kept;
    }
    void **at = (void **)base;
    double began = now();
    for (long i = 0; i < steps; i++)
        at = *at;
    double took = now() - began;
    /* The address decides nothing, but must be computed. */
    printf("chase %.2f ns%s\n", took * 1e9 / steps, at ? "" : "?");
    return 0;
}
