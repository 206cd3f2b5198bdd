/* The micro programs of CXLMemSim's Table 1, from what its section 4 says of them: memory from mmap, sbrk,
 * malloc or calloc, written in order. That mmap_read reads what it wrote, that bytes are taken one by one,
 * and blocks of 64 KiB for malloc, is assumed.
 *
 * programs NAME BYTES
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BLOCK ((size_t)64 << 10)

static void fill(volatile char *bytes, size_t count) {
    for (size_t at = 0; at < count; at++)
        bytes[at] = (char)at;
}

static unsigned long sum(const volatile char *bytes, size_t count) {
    unsigned long all = 0;
    for (size_t at = 0; at < count; at++)
        all += (unsigned char)bytes[at];
    return all;
}

static char *mapped(size_t bytes) {
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static int failed(const char *what) {
    perror(what);
    return 1;
}

int main(int count, char **words) {
    if (count != 3) {
        fprintf(stderr, "programs mmap_read|mmap_write|sbrk|malloc|calloc BYTES\n");
        return 2;
    }
    const char *name = words[1];
    size_t bytes = strtoull(words[2], NULL, 10);
    char *memory = NULL;
    unsigned long all = 0;
    if (!strcmp(name, "mmap_read") || !strcmp(name, "mmap_write")) {
        if (!(memory = mapped(bytes)))
            return failed(name);
        fill(memory, bytes);
        if (!strcmp(name, "mmap_read"))
            all = sum(memory, bytes);
    } else if (!strcmp(name, "sbrk")) {
        memory = sbrk((intptr_t)bytes);
        if (memory == (void *)-1)
            return failed(name);
        fill(memory, bytes);
    } else if (!strcmp(name, "malloc")) {
        for (size_t at = 0; at < bytes; at += BLOCK) {
            if (!(memory = malloc(BLOCK)))
                return failed(name);
            fill(memory, BLOCK);
        }
    } else if (!strcmp(name, "calloc")) {
        if (!(memory = calloc(1, bytes)))
            return failed(name);
        fill(memory, bytes);
    } else {
        fprintf(stderr, "%s: no such program\n", name);
        return 2;
    }
    printf("%lu\n", all + (unsigned char)*memory);
    return 0;
}
