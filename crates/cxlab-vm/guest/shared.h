/* Memory that guests share, for two guests: the device in CXLAB_SHARED, and the protocols that keep
 * it coherent. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 64, BYTES = 2 << 20 };

enum protocol {
    COHERENT, /* the device keeps caches coherent, so software does nothing */
    SOFTWARE, /* software writes lines back and drops copies */
    NONE,     /* nobody does */
};

static enum protocol protocol;
static int me; /* 0 or 1: the last digit of the host's name */

/* A word with a line of its own. */
struct word {
    volatile uint64_t value;
    char rest[LINE - sizeof(uint64_t)];
} __attribute__((aligned(LINE)));

/* Writes a line back and drops it, whatever the protocol. */
static inline void flush(volatile void *at)
{
    __asm__ volatile("clflush (%0); mfence" ::"r"(at) : "memory");
}

/* The same, where it is the software that keeps memory coherent. */
static inline void sync_line(volatile void *at)
{
    if (protocol == SOFTWARE)
        flush(at);
}

static inline void put(struct word *to, uint64_t value)
{
    to->value = value;
    sync_line(to);
}

static inline uint64_t get(struct word *from)
{
    sync_line(from);
    return from->value;
}

/* One word of a protocol that works with any memory. */
static inline void put_surely(struct word *to, uint64_t value)
{
    to->value = value;
    flush(to);
}

static inline uint64_t get_surely(struct word *from)
{
    flush(from);
    return from->value;
}

/* Waits for the other guest: each says so in a word of its own. */
static void meet(struct word *words)
{
    put_surely(&words[me], 1);
    while (!get_surely(&words[!me]))
        ;
}

static double now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

/* The memory, after the words of the command: PROTOCOL COUNT. */
static void *join(int count, char **words, long *number)
{
    static const char *const names[] = {"coherent", "software", "none"};
    const char *host = getenv("CXLAB_HOST"), *path = getenv("CXLAB_SHARED");
    int found = -1;
    for (int i = 0; count > 1 && i < 3; i++)
        if (!strcmp(words[1], names[i]))
            found = i;
    *number = count > 2 ? atol(words[2]) : 100;
    if (found < 0 || *number < 1 || !host || !path || !*path) {
        fprintf(stderr, "usage: %s coherent|software|none [COUNT], in two guests that share memory\n",
                words[0]);
        exit(2);
    }
    protocol = (enum protocol)found;
    me = (host[strlen(host) - 1] - '0') & 1;
    char name[256];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(path, " "), path);
    int file = open(name, O_RDWR);
    void *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file < 0 || at == MAP_FAILED) {
        perror(name);
        exit(1);
    }
    return at;
}
