/* A driver in user space for the accelerator of a guest: opens its registers, submits commands, waits for them.
 * Needs root, as it maps a PCI function and reads /proc/self/pagemap.
 *
 * A command is a kernel of a module (WebAssembly with 64-bit pointers, made from C that includes
 * cxlab_kernel.h), over an NDRange. Its pointers are those of the program: any memory that
 * cxlab_give() was told of, from malloc, mmap, the stack or static, on any node. The program does not access what
 * a command stores until cxlab_wait() has returned.
 *
 *     struct cxlab_accelerator device;
 *     if (cxlab_open(&device)) ...
 *     cxlab_give(&device, x, bytes);
 *     uint64_t arguments[] = {cxlab_double(2.0), (uintptr_t)x, (uintptr_t)y};
 *     struct cxlab_range range = {1, {n}, {64}, {0}};
 *     long number = cxlab_launch(&device, module, module_bytes, "axpy", &range, 3, arguments);
 *     if (number < 0 || cxlab_wait(&device, number)) puts(device.message);
 */
#ifndef CXLAB_ACCELERATOR_H
#define CXLAB_ACCELERATOR_H

#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
    CXLAB_PAGE = 4096,
    CXLAB_MOST_RANGES = 64,
    CXLAB_MOST_ARGUMENTS = 16,
    CXLAB_MOST_TABLES = 472,
    CXLAB_NAME = 64,
};

/* Registers of eight bytes, by their numbers. */
enum cxlab_register {
    CXLAB_IDENTITY,
    CXLAB_ELEMENTS, /* number of processing elements */
    CXLAB_COMMAND,  /* physical address of the next command */
    CXLAB_SUBMIT,   /* the doorbell */
    CXLAB_DONE,     /* commands that are complete */
    CXLAB_FAILED,   /* and those that failed */
    CXLAB_TIME,     /* of the last one, in picoseconds */
    CXLAB_MESSAGE = 0x800 / 8,
};

/* Work-items: number in each dimension, of a group, and offset. */
struct cxlab_range {
    uint64_t dimensions, global[3], local[3], offset[3];
};

/* As the device reads it: a page. */
struct cxlab_command {
    uint64_t version, module, module_bytes;
    struct cxlab_range range;
    uint64_t argument_count, arguments[CXLAB_MOST_ARGUMENTS];
    uint64_t pages, tables;
    char name[CXLAB_NAME];
    uint64_t table[CXLAB_MOST_TABLES]; /* physical addresses */
};

/* A page in a table. */
struct cxlab_page {
    uint64_t address, physical;
};

struct cxlab_accelerator {
    volatile uint64_t *registers;
    int pagemap;
    unsigned ranges;
    struct {
        uintptr_t first, end;
    } given[CXLAB_MOST_RANGES];
    struct cxlab_command *command;
    struct cxlab_page *tables;
    uint64_t submitted, done, failed;
    char message[256];
};

static inline int cxlab_fails(struct cxlab_accelerator *device, const char *what)
{
    snprintf(device->message, sizeof device->message, "%s", what);
    return -1;
}

/* A double as an argument. */
static inline uint64_t cxlab_double(double value)
{
    uint64_t word;
    memcpy(&word, &value, sizeof word);
    return word;
}

static inline int cxlab_file_is(const char *folder, const char *name, const char *text)
{
    char path[512], found[32] = "";
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    int read = fscanf(file, "%31s", found);
    fclose(file);
    return read == 1 && !strcmp(found, text);
}

/* Maps the registers of the function in a folder of sysfs. */
static inline int cxlab_map(struct cxlab_accelerator *device, const char *folder)
{
    char path[512];
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/enable", folder);
    int file = open(path, O_WRONLY);
    if (file < 0 || write(file, "1", 1) != 1)
        return cxlab_fails(device, "the PCI function cannot be enabled");
    close(file);
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/resource2", folder);
    file = open(path, O_RDWR | O_SYNC);
    void *at = mmap(NULL, CXLAB_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file < 0 || at == MAP_FAILED)
        return cxlab_fails(device, "the registers cannot be mapped");
    close(file);
    device->registers = at;
    uint64_t identity = device->registers[CXLAB_IDENTITY];
    if (memcmp(&identity, "cxlabacc", sizeof identity))
        return cxlab_fails(device, "the PCI function is no accelerator of cxlab");
    return 0;
}

/* Opens the accelerator. Returns 0, or -1 with device->message. */
static inline int cxlab_open(struct cxlab_accelerator *device)
{
    memset(device, 0, sizeof *device);
    device->pagemap = open("/proc/self/pagemap", O_RDONLY);
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE;
    size_t bytes = CXLAB_PAGE * (1 + CXLAB_MOST_TABLES);
    char *own = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (device->pagemap < 0 || own == MAP_FAILED || mlock(own, bytes))
        return cxlab_fails(device, "no memory for commands, or no /proc/self/pagemap");
    device->command = (struct cxlab_command *)own;
    device->tables = (struct cxlab_page *)(own + CXLAB_PAGE);
    DIR *all = opendir("/sys/bus/pci/devices");
    for (struct dirent *one; all && (one = readdir(all));) {
        if (cxlab_file_is(one->d_name, "vendor", "0x1af4") &&
            cxlab_file_is(one->d_name, "device", "0x1110")) {
            int result = cxlab_map(device, one->d_name);
            closedir(all);
            return result;
        }
    }
    if (all)
        closedir(all);
    return cxlab_fails(device, "this machine has no accelerator");
}

/* Lets all later commands access memory. Its pages are there from now on, and stay. Memory that is given twice counts
 * once. */
static inline int cxlab_give(struct cxlab_accelerator *device, const void *memory, size_t bytes)
{
    uintptr_t first = (uintptr_t)memory & ~(uintptr_t)(CXLAB_PAGE - 1);
    uintptr_t end = ((uintptr_t)memory + bytes + CXLAB_PAGE - 1) & ~(uintptr_t)(CXLAB_PAGE - 1);
    if (device->ranges == CXLAB_MOST_RANGES)
        return cxlab_fails(device, "64 pieces of memory are given already");
    if (mlock((void *)first, end - first))
        return cxlab_fails(device, "the memory cannot be locked");
    device->given[device->ranges].first = first;
    device->given[device->ranges++].end = end;
    return 0;
}

/* Takes back all memory. */
static inline void cxlab_take_all(struct cxlab_accelerator *device)
{
    device->ranges = 0;
}

/* The physical address of a page; 0 if it has none. */
static inline uint64_t cxlab_physical(const struct cxlab_accelerator *device, uintptr_t page)
{
    uint64_t entry = 0;
    if (pread(device->pagemap, &entry, 8, (off_t)(page / CXLAB_PAGE * 8)) != 8 || !(entry >> 63))
        return 0;
    return (entry & ((1ull << 55) - 1)) * CXLAB_PAGE;
}

/* The first page from `from` on that is given; 0 if there is none. */
static inline uintptr_t cxlab_next(const struct cxlab_accelerator *device, uintptr_t from)
{
    uintptr_t next = 0;
    for (unsigned i = 0; i < device->ranges; i++) {
        uintptr_t at = device->given[i].first > from ? device->given[i].first : from;
        if (at < device->given[i].end && (!next || at < next))
            next = at;
    }
    return next;
}

/* Writes the table of all pages. Returns their number, or -1. */
static inline long cxlab_table(struct cxlab_accelerator *device)
{
    long count = 0;
    for (uintptr_t at = 0; (at = cxlab_next(device, at)); at += CXLAB_PAGE) {
        struct cxlab_page page = {at, cxlab_physical(device, at)};
        if (!page.physical)
            return cxlab_fails(device, "a page has no physical address");
        if (count == CXLAB_MOST_TABLES * (CXLAB_PAGE / 16))
            return cxlab_fails(device, "more than 472 MiB are given");
        device->tables[count++] = page;
    }
    return count;
}

/* Waits until a command is complete. Returns 0, or -1 with device->message if it or one before has failed. */
static inline int cxlab_wait(struct cxlab_accelerator *device, long number)
{
    struct timespec pause = {0, 20000};
    for (unsigned looks = 0; device->done < (uint64_t)number; looks++) {
        if (looks > 1000) /* a long command: the processor sleeps between looks */
            nanosleep(&pause, NULL);
        device->done = device->registers[CXLAB_DONE];
    }
    uint64_t failed = device->registers[CXLAB_FAILED];
    if (failed == device->failed)
        return 0;
    device->failed = failed;
    for (unsigned i = 0; i < sizeof device->message / 8; i++) {
        uint64_t letters = device->registers[CXLAB_MESSAGE + i];
        memcpy(device->message + 8 * i, &letters, 8);
    }
    device->message[sizeof device->message - 1] = 0;
    return -1;
}

/* Submits a kernel, once the command before is complete. Returns the command's number, or -1 with device->message. */
static inline long cxlab_launch(struct cxlab_accelerator *device, const void *module,
                                size_t module_bytes, const char *kernel,
                                const struct cxlab_range *range, unsigned count,
                                const uint64_t *arguments)
{
    struct cxlab_command *command = device->command;
    if (count > CXLAB_MOST_ARGUMENTS || strlen(kernel) >= CXLAB_NAME)
        return cxlab_fails(device, "more than 16 arguments, or a name of more than 63 letters");
    /* It has one command. */
    if (device->done < device->submitted && cxlab_wait(device, (long)device->submitted))
        return -1;
    unsigned before = device->ranges;
    if (cxlab_give(device, module, module_bytes))
        return -1;
    long pages = cxlab_table(device);
    device->ranges = before;
    if (pages < 0)
        return -1;
    memset(command, 0, sizeof *command);
    command->version = 1;
    command->module = (uintptr_t)module;
    command->module_bytes = module_bytes;
    command->range = *range;
    command->argument_count = count;
    memcpy(command->arguments, arguments, count * sizeof *arguments);
    strcpy(command->name, kernel);
    command->pages = (uint64_t)pages;
    command->tables = ((uint64_t)pages + CXLAB_PAGE / 16 - 1) / (CXLAB_PAGE / 16);
    for (uint64_t i = 0; i < command->tables; i++)
        command->table[i] =
            cxlab_physical(device, (uintptr_t)device->tables + i * CXLAB_PAGE);
    __sync_synchronize();
    device->registers[CXLAB_COMMAND] = cxlab_physical(device, (uintptr_t)command);
    device->registers[CXLAB_SUBMIT] = ++device->submitted;
    return (long)device->submitted;
}

#endif
