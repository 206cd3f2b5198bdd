/* stream [KIB [TIMES]]: how fast arrays of KIB each are copied, scaled, added and combined (the four
 * kernels of McCalpin's STREAM, written anew). A line of 64 bytes that is written counts once, as there. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}

int main(int count, char **words)
{
    long kib = count > 1 ? atol(words[1]) : 2730, times = count > 2 ? atol(words[2]) : 2;
    if (kib < 1 || kib > 1 << 22 || times < 1 || times > 1000) {
        fprintf(stderr, "usage: stream [KIB, 1 to 4194304 [TIMES, 1 to 1000]]\n");
        return 2;
    }
    long n = kib * 1024 / sizeof(double);
    double *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b), *c = malloc(n * sizeof *c);
    if (!a || !b || !c)
        return 1;
    for (long i = 0; i < n; i++)
        a[i] = 1, b[i] = 2, c[i] = 0;
    static const char *const names[] = {"copy", "scale", "add", "triad"};
    static const int arrays[] = {2, 2, 3, 3};
    double best[4] = {1e30, 1e30, 1e30, 1e30};
    for (long k = 0; k < times; k++) {
        for (int kernel = 0; kernel < 4; kernel++) {
            double began = now();
            switch (kernel) {
            case 0:
                for (long i = 0; i < n; i++)
                    c[i] = a[i];
                break;
            case 1:
                for (long i = 0; i < n; i++)
                    b[i] = 3 * c[i];
                break;
            case 2:
                for (long i = 0; i < n; i++)
                    c[i] = a[i] + b[i];
                break;
            default:
                for (long i = 0; i < n; i++)
                    a[i] = b[i] + 3 * c[i];
            }
            double took = now() - began;
            best[kernel] = took < best[kernel] ? took : best[kernel];
        }
    }
    /* What the loops must have made, in the same order of operations. */
    double x = 1, y = 2, z = 0;
    for (long k = 0; k < times; k++)
        z = x, y = 3 * z, z = x + y, x = y + 3 * z;
    for (long i = 0; i < n; i++) {
        if (a[i] != x || b[i] != y || c[i] != z) {
            fprintf(stderr, "stream: element %ld is wrong\n", i);
            return 1;
        }
    }
    for (int kernel = 0; kernel < 4; kernel++)
        printf("stream %s %.1f MB/s\n", names[kernel], arrays[kernel] * 8e-6 * n / best[kernel]);
    return 0;
}
