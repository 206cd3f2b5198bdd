/* offload MODULE axpy|histogram|walk [COUNT [GROUP]]: runs a kernel on the guest's accelerator, on memory of malloc, and
 * compares with the processor's own result. MODULE has the kernels axpy, histogram and walk. Prints how
 * long the processor took, how long the device took by its own clock, and both with the driver around. */
#include "accelerator.h"

static struct cxlab_accelerator device;
static char *module;
static size_t module_bytes;

static double now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static void *memory(size_t bytes)
{
    void *at = malloc(bytes);
    if (!at || cxlab_give(&device, memset(at, 0, bytes), bytes)) {
        fprintf(stderr, "offload: %s\n", at ? device.message : "no memory");
        exit(1);
    }
    return at;
}

/* Runs a kernel; returns how long the program waited for it. */
static double run(const char *kernel, uint64_t items, uint64_t group, unsigned count,
                  const uint64_t *arguments)
{
    struct cxlab_range range = {1, {items}, {group}, {0}};
    double began = now_ns();
    long number = cxlab_launch(&device, module, module_bytes, kernel, &range, count, arguments);
    if (number < 0 || cxlab_wait(&device, number)) {
        fprintf(stderr, "offload: %s\n", device.message);
        exit(1);
    }
    return now_ns() - began;
}

static void report(const char *kernel, double processor, double waited, int equal)
{
    printf("%s processor %.0f ns device %.0f ns waited %.0f ns result %s\n", kernel, processor,
           (double)device.registers[CXLAB_TIME] / 1000, waited, equal ? "equal" : "WRONG");
    exit(equal ? 0 : 1);
}

static void axpy(uint64_t count, uint64_t group)
{
    double *x = memory(count * 8), *y = memory(count * 8), *own = malloc(count * 8);
    for (uint64_t i = 0; i < count; i++) {
        x[i] = (double)i;
        own[i] = y[i] = 1.0 / (double)(i + 1);
    }
    double began = now_ns();
    for (uint64_t i = 0; i < count; i++)
        own[i] = 2.0 * x[i] + own[i];
    double processor = now_ns() - began;
    uint64_t arguments[] = {cxlab_double(2.0), (uintptr_t)x, (uintptr_t)y};
    double waited = run("axpy", count, group, 3, arguments);
    report("axpy", processor, waited, !memcmp(y, own, count * 8));
}

static void histogram(uint64_t count, uint64_t group)
{
    unsigned char *data = memory(count);
    uint32_t *bins = memory(256 * 4), own[256] = {0};
    uint64_t state = 88172645463325252ull;
    for (uint64_t i = 0; i < count; i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        data[i] = (unsigned char)state;
    }
    double began = now_ns();
    for (uint64_t i = 0; i < count; i++)
        own[data[i]]++;
    double processor = now_ns() - began;
    uint64_t arguments[] = {count, (uintptr_t)data, (uintptr_t)bins};
    double waited = run("histogram", 16 * group, group, 3, arguments);
    report("histogram", processor, waited, !memcmp(bins, own, sizeof own));
}

struct node {
    struct node *next;
    uint64_t value;
};

static void walk(uint64_t count)
{
    /* A node for each line, in an order that no prefetcher follows. */
    struct line {
        struct node node;
        char rest[48];
    } *lines = memory(count * sizeof *lines);
    uint64_t *total = memory(8), own = 0, at = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t next = (at + 7919) % count;
        lines[at].node.value = i;
        lines[at].node.next = i + 1 < count && !lines[next].node.next ? &lines[next].node : NULL;
        if (!lines[at].node.next)
            break;
        at = next;
    }
    double began = now_ns();
    for (struct node *node = &lines->node; node; node = node->next)
        own += node->value;
    double processor = now_ns() - began;
    uint64_t arguments[] = {(uintptr_t)lines, (uintptr_t)total};
    double waited = run("walk", 1, 1, 2, arguments);
    report("walk", processor, waited, *total == own);
}

int main(int count, char **words)
{
    uint64_t items = count > 3 ? strtoull(words[3], NULL, 10) : 1024;
    uint64_t group = count > 4 ? strtoull(words[4], NULL, 10) : 64;
    int kernel = count > 2 ? words[2][0] : 0;
    if (!items || !group || (kernel != 'a' && kernel != 'h' && kernel != 'w')) {
        fprintf(stderr, "usage: %s MODULE axpy|histogram|walk [COUNT [GROUP]]\n", words[0]);
        return 2;
    }
    FILE *file = fopen(words[1], "rb");
    module = malloc(1 << 20);
    module_bytes = file ? fread(module, 1, 1 << 20, file) : 0;
    if (!module_bytes) {
        perror(words[1]);
        return 1;
    }
    if (cxlab_open(&device)) {
        fprintf(stderr, "offload: %s\n", device.message);
        return 1;
    }
    printf("the accelerator has %lu processing elements\n",
           (unsigned long)device.registers[CXLAB_ELEMENTS]);
    if (kernel == 'a')
        axpy(items, group);
    if (kernel == 'h')
        histogram(items, group);
    walk(items);
}
