/* tiers MODE [MIB [HOT_MIB [MILLISECONDS [SCAN_MS]]]]: what the kernel's tiering does for a program whose hot
 * data are in the slow memory, because cold data were there first and filled the fast one.
 *
 * MODE off leaves pages where they are, promote has the kernel bring hot pages to the fast node (NUMA balancing
 * by memory tier), and demote has it make room there too. SCAN_MS is the kernel's least time between two scans.
 * Nine of ten reads are of the hot part. Each line is of a tenth of MILLISECONDS. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 64, PAGE = 4096, READS = 5000, TENTHS = 10, MOST_ASKED = 1 << 16 };

static double now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e3 * time.tv_sec + 1e-6 * time.tv_nsec;
}

static uint64_t draw(void)
{
    static uint64_t state = 88172645463325252ull;
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state;
}

static int set(const char *path, long value)
{
    FILE *file = fopen(path, "w");
    int wrong = !file || fprintf(file, "%ld\n", value) < 0;
    if (file && fclose(file))
        wrong = 1;
    if (wrong)
        fprintf(stderr, "tiers: %s cannot be set to %ld\n", path, value);
    return wrong;
}

/* A counter of the kernel's memory management; 0 where it has none of that name. */
static long count(const char *name)
{
    char found[64];
    long value = 0, one;
    FILE *file = fopen("/proc/vmstat", "r");
    while (file && fscanf(file, "%63s %ld", found, &one) == 2)
        if (!strcmp(found, name))
            value = one;
    if (file)
        fclose(file);
    return value;
}

/* Part of the pages that are on the fast node. */
static double fast(char *base, long pages)
{
    static void *asked[MOST_ASKED];
    static int nodes[MOST_ASKED];
    long n = 0, step = (pages + MOST_ASKED - 1) / MOST_ASKED, here = 0;
    for (long page = 0; page < pages && n < MOST_ASKED; page += step)
        asked[n++] = base + page * PAGE;
    if (syscall(SYS_move_pages, 0, n, asked, NULL, nodes, 0))
        return -1;
    for (long i = 0; i < n; i++)
        here += nodes[i] == 0;
    return (double)here / n;
}

static int tiering(const char *mode, long scan_ms)
{
    int promote = strcmp(mode, "off") != 0, demote = !strcmp(mode, "demote");
    const char *scan = "/sys/kernel/debug/sched/numa_balancing/";
    char path[128];
    if (set("/proc/sys/kernel/numa_balancing", promote ? 2 : 0) ||
        set("/sys/kernel/mm/numa/demotion_enabled", demote))
        return 1;
    if (!promote || !scan_ms)
        return 0;
    const char *names[] = {"scan_delay_ms", "scan_period_min_ms", "scan_period_max_ms", "hot_threshold_ms"};
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s%s", scan, names[i]);
        if (set(path, scan_ms))
            return 1;
    }
    return 0;
}

int main(int words, char **word)
{
    const char *mode = words > 1 ? word[1] : "";
    long mib = words > 2 ? atol(word[2]) : 448, hot_mib = words > 3 ? atol(word[3]) : 32;
    long ms = words > 4 ? atol(word[4]) : 1000, scan_ms = words > 5 ? atol(word[5]) : 0;
    int known = !strcmp(mode, "off") || !strcmp(mode, "promote") || !strcmp(mode, "demote");
    if (!known || hot_mib < 1 || mib <= hot_mib || mib > 1 << 16 || ms < 10 || scan_ms < 0) {
        fprintf(stderr, "usage: tiers off|promote|demote [MIB [HOT_MIB [MILLISECONDS [SCAN_MS]]]]\n");
        return 2;
    }
    if (tiering(mode, scan_ms))
        return 1;
    long cold = (mib - hot_mib) << 20, all = mib << 20;
    char *base = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED || madvise(base, all, MADV_NOHUGEPAGE)) {
        perror("tiers");
        return 1;
    }
    for (long at = 0; at < all; at += PAGE)
        base[at] = 1;
    long promoted = count("pgpromote_success"), demoted = count("pgdemote_kswapd") + count("pgdemote_direct");
    printf("at ms  ns a read  hot on fast  promoted  demoted\n");
    printf("%5d  %9s  %10.1f%%  %8d  %7d\n", 0, "", 100 * fast(base + cold, (all - cold) / PAGE), 0, 0);
    /* A region of interest begins here (--from-roi). */
    asm volatile("nopl 0x0c1c1003(%rax,%rax,1)");
    double began = now_ms();
    uint64_t sum = 0;
    for (int line = 1; line <= TENTHS; line++) {
        double spent = 0;
        long reads = 0;
        while (now_ms() - began < (double)ms * line / TENTHS) {
            double from = now_ms();
            for (int i = 0; i < READS; i++) {
                uint64_t value = draw();
                long at = value % 10 ? cold + value / 10 % (all - cold) : value / 10 % cold;
                sum += base[at & -LINE];
            }
            spent += now_ms() - from;
            reads += READS;
        }
        printf("%5.0f  %9.1f  %10.1f%%  %8ld  %7ld\n", now_ms() - began, 1e6 * spent / reads,
               100 * fast(base + cold, (all - cold) / PAGE), count("pgpromote_success") - promoted,
               count("pgdemote_kswapd") + count("pgdemote_direct") - demoted);
        fflush(stdout);
    }
    asm volatile("nopl 0x0c1c1004(%rax,%rax,1)");
    return sum ? 0 : 1;
}
