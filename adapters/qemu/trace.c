/* A TCG plugin for `cxlab trace capture` and `cxlab attach --verify`: tells of every load and store
 * of a program that runs under QEMU's user mode (version 7.2).
 *
 * What is written to `out=PATH` (a pipe) are words of 64 bits, after one that names the format. Each
 * thread has a buffer of its own and writes it when it is full, so accesses of one thread are in
 * their order, and threads take turns of some thousand accesses. A word is
 *     address << 8 | kind,  kind = 2 * log2(bytes) + store, below 64;
 *     count << 8 | 64       so many instructions, from which what follows is counted on.
 * With `instructions=on` instructions are told one by one, each before its accesses, and so is where
 * memory is mapped, by words of these kinds (and a word or three behind some of them):
 *     number << 8 | 65      the instruction of that number is executed;
 *     number << 8 | 66      it is this one: its address, and 16 bytes, the last of which is its length;
 *     first << 8 | 67       memory is mapped from there on: how many bytes;
 *     first << 8 | 68       memory is no longer mapped: how many bytes;
 *     number << 8 | 69      the thread of that number begins.
 */
#define _GNU_SOURCE
#include "qemu.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))
#define FORMAT 0x31434552424c5843ull /* "CXLBREC1" */
#define WORDS 8192
#define THREADS 4096
#define INSTRUCTIONS 64
#define EXECUTED 65
#define CODE 66
#define MAPPED 67
#define UNMAPPED 68
#define THREAD 69
/* Of x86-64. */
#define MMAP 9
#define MUNMAP 11
#define BRK 12
#define MREMAP 25
#define EXECVE 59
#define EXECVEAT 322

EXPORTED int qemu_plugin_version = CXLAB_QEMU_API;

struct thread {
    unsigned count;
    uint64_t instructions; /* that were not told yet */
    uint64_t arguments[3]; /* of the system call at hand */
    uint64_t words[WORDS];
};

static struct thread *threads[THREADS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pid_t owner;
static int out = -1;
static bool times;
static bool one_by_one;
static uint64_t codes; /* instructions that were translated */
static uint64_t heap_end;

static void put(const void *from, size_t bytes)
{
    const char *at = from;
    while (bytes) {
        ssize_t done = write(out, at, bytes);
        if (done <= 0)
            _exit(1); /* nobody listens any more */
        at += done;
        bytes -= (size_t)done;
    }
}

static void flush(struct thread *t)
{
    if (t->count && getpid() == owner) { /* what a program forks is left out */
        pthread_mutex_lock(&lock);
        put(t->words, t->count * sizeof *t->words);
        pthread_mutex_unlock(&lock);
    }
    t->count = 0;
}

static void tell(struct thread *t, uint64_t word)
{
    t->words[t->count++] = word;
    if (t->count == WORDS)
        flush(t);
}

static void tell_instructions(struct thread *t)
{
    if (t->instructions) {
        uint64_t count = t->instructions;
        t->instructions = 0;
        tell(t, count << 8 | INSTRUCTIONS);
    }
}

static void on_block(unsigned cpu, void *instructions)
{
    struct thread *t = threads[cpu];
    t->instructions += (uintptr_t)instructions;
    if (times || t->instructions >> 32)
        tell_instructions(t);
}

static void on_access(unsigned cpu, qemu_plugin_meminfo_t info, uint64_t address, void *unused)
{
    (void)unused;
    unsigned kind = 2 * qemu_plugin_mem_size_shift(info) + qemu_plugin_mem_is_store(info);
    tell(threads[cpu], address << 8 | kind);
}

static void on_instruction(unsigned cpu, void *number)
{
    tell(threads[cpu], (uint64_t)(uintptr_t)number << 8 | EXECUTED);
}

/* Says what an instruction is, before anybody can execute it. */
static void *define(const struct qemu_plugin_insn *instruction)
{
    uint64_t words[4] = {0, qemu_plugin_insn_vaddr(instruction), 0, 0};
    unsigned char *bytes = (unsigned char *)&words[2];
    size_t size = qemu_plugin_insn_size(instruction);
    if (size > 15)
        size = 15;
    memcpy(bytes, qemu_plugin_insn_data(instruction), size);
    bytes[15] = (unsigned char)size;
    pthread_mutex_lock(&lock);
    uint64_t number = codes++;
    words[0] = number << 8 | CODE;
    if (getpid() == owner)
        put(words, sizeof words);
    pthread_mutex_unlock(&lock);
    return (void *)(uintptr_t)number;
}

static void translate_one_by_one(struct qemu_plugin_tb *block)
{
    size_t count = qemu_plugin_tb_n_insns(block);
    for (size_t i = 0; i < count; i++) {
        struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(block, i);
        void *number = define(instruction);
        qemu_plugin_register_vcpu_insn_exec_cb(instruction, on_instruction, QEMU_PLUGIN_CB_NO_REGS,
                                               number);
        qemu_plugin_register_vcpu_mem_cb(instruction, on_access, QEMU_PLUGIN_CB_NO_REGS,
                                         QEMU_PLUGIN_MEM_RW, NULL);
    }
}

static void on_translate(qemu_plugin_id_t id, struct qemu_plugin_tb *block)
{
    size_t count = qemu_plugin_tb_n_insns(block);
    (void)id;
    if (one_by_one) {
        translate_one_by_one(block);
        return;
    }
    qemu_plugin_register_vcpu_tb_exec_cb(block, on_block, QEMU_PLUGIN_CB_NO_REGS,
                                         (void *)(uintptr_t)count);
    for (size_t i = 0; i < count; i++)
        qemu_plugin_register_vcpu_mem_cb(qemu_plugin_tb_get_insn(block, i), on_access,
                                         QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, NULL);
}

static void on_start(qemu_plugin_id_t id, unsigned cpu)
{
    (void)id;
    if (cpu >= THREADS || (!threads[cpu] && !(threads[cpu] = calloc(1, sizeof **threads)))) {
        fprintf(stderr, "cxlab: thread %u is one too many\n", cpu);
        abort();
    }
    if (one_by_one)
        tell(threads[cpu], (uint64_t)cpu << 8 | THREAD);
}

static void on_end(qemu_plugin_id_t id, void *unused)
{
    (void)id;
    (void)unused;
    for (unsigned i = 0; i < THREADS; i++) {
        if (threads[i]) {
            tell_instructions(threads[i]);
            flush(threads[i]);
        }
    }
}

/* Where another program takes this one's place, which runs on its own, nothing else would tell the rest. */
static void on_call(qemu_plugin_id_t id, unsigned cpu, int64_t number, uint64_t a, uint64_t b,
                    uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g, uint64_t h)
{
    (void)d, (void)e, (void)f, (void)g, (void)h;
    threads[cpu]->arguments[0] = a;
    threads[cpu]->arguments[1] = b;
    threads[cpu]->arguments[2] = c;
    if (number == EXECVE || number == EXECVEAT)
        on_end(id, NULL);
}

static void tell_range(struct thread *t, unsigned kind, uint64_t first, uint64_t bytes)
{
    if (!bytes)
        return;
    if (t->count + 2 > WORDS) /* what belongs together stays together */
        flush(t);
    tell(t, first << 8 | kind);
    tell(t, bytes);
}

/* A system call has changed what is mapped. */
static void on_return(qemu_plugin_id_t id, unsigned cpu, int64_t number, int64_t result)
{
    (void)id;
    struct thread *t = threads[cpu];
    const uint64_t *with = t->arguments;
    if (!one_by_one || (result < 0 && result > -4096))
        return;
    switch (number) {
    case MMAP:
        tell_range(t, MAPPED, (uint64_t)result, with[1]);
        break;
    case MUNMAP:
        tell_range(t, UNMAPPED, with[0], with[1]);
        break;
    case MREMAP:
        tell_range(t, UNMAPPED, with[0], with[1]);
        tell_range(t, MAPPED, (uint64_t)result, with[2]);
        break;
    case BRK:
        if (heap_end && (uint64_t)result > heap_end)
            tell_range(t, MAPPED, heap_end, (uint64_t)result - heap_end);
        else if ((uint64_t)result < heap_end)
            tell_range(t, UNMAPPED, (uint64_t)result, heap_end - (uint64_t)result);
        heap_end = (uint64_t)result;
        break;
    }
}

EXPORTED int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int count,
                                 char **options)
{
    const uint64_t format = FORMAT;
    for (int i = 0; i < count; i++) {
        if (!strncmp(options[i], "out=", 4))
            out = open(options[i] + 4, O_WRONLY | O_CLOEXEC);
        else if (!strcmp(options[i], "times=on"))
            times = true;
        else if (!strcmp(options[i], "instructions=on"))
            one_by_one = true;
    }
    if (out < 0 || info->system_emulation) {
        fprintf(stderr, "cxlab: the plugin cannot work in this program\n");
        return 1;
    }
    owner = getpid();
    put(&format, sizeof format);
    qemu_plugin_register_vcpu_init_cb(id, on_start);
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
    qemu_plugin_register_vcpu_syscall_cb(id, on_call);
    qemu_plugin_register_vcpu_syscall_ret_cb(id, on_return);
    qemu_plugin_register_atexit_cb(id, on_end, NULL);
    return 0;
}
