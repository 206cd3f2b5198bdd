/* A TCG plugin for `cxlab trace capture` and `cxlab attach --verify`: tells of every load and store
 * of a program that runs under QEMU's user mode (version 7.2).
 *
 * What is written to `out=PATH` (a pipe) are words of 64 bits, after one that names the format. Each
 * thread has a buffer of its own and writes it when it is full, so accesses of one thread are in
 * their order, and buffers of some thousand accesses follow one another. A word is
 *     address << 8 | kind,  kind = 2 * log2(bytes) + store, below 64;
 *     count << 8 | 64       so many instructions, from which what follows is counted on.
 * With `instructions=on` instructions are told one by one, each before its accesses, and so is where
 * memory is mapped, by words of these kinds (and a word or three behind some of them):
 *     number << 8 | 65      the instruction of that number is executed;
 *     number << 8 | 66      it is this one: its address, and 16 bytes, the last of which is its length;
 *     first << 8 | 67       memory is mapped from there on: how many bytes;
 *     first << 8 | 68       memory is no longer mapped: how many bytes;
 *     number << 8 | 69      the thread of that number begins;
 *     number << 8 | 70      what follows is of that thread;
 *     number << 8 | 71      a point for which another thread may wait, numbered from 1;
 *     number << 8 | 72      the thread goes on behind the point of that number;
 *     73                    the thread is in a system call until it tells of its turn;
 *     address << 8 | 74     the thread ends, and the kernel clears its number at that address.
 * Points and what waits for them are written at once, so their order in the pipe is that of time. A thread
 * waits for the call that made it, and behind a futex for the thread that woke it. Where several waited, the
 * first to wait is taken to be the first woken. A lock that is taken without a system call leaves no trace.
 */
#define _GNU_SOURCE
#include "qemu.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))
#define FORMAT 0x32434552424c5843ull /* "CXLBREC2" */
#define WORDS 8192
#define THREADS 4096
#define INSTRUCTIONS 64
#define EXECUTED 65
#define CODE 66
#define MAPPED 67
#define UNMAPPED 68
#define THREAD 69
#define TURN 70
#define POINT 71
#define BEHIND 72
#define IN_CALL 73
#define ENDS 74
/* Wakes that are remembered, for threads that went to sleep while they were woken. */
#define WAKES 64
/* Of x86-64. */
#define MMAP 9
#define MUNMAP 11
#define BRK 12
#define MREMAP 25
#define CLONE 56
#define EXECVE 59
#define EXIT 60
#define FUTEX 202
#define SET_TID_ADDRESS 218
#define EXECVEAT 322
/* Flags of clone. */
#define VM 0x100
#define VFORK 0x4000
#define CHILD_CLEARTID 0x200000
/* Commands of futex, without their flags. */
enum {
    FUTEX_WAIT = 0,
    FUTEX_WAKE = 1,
    FUTEX_REQUEUE = 3,
    FUTEX_CMP_REQUEUE = 4,
    FUTEX_WAKE_OP = 5,
    FUTEX_LOCK_PI = 6,
    FUTEX_UNLOCK_PI = 7,
    FUTEX_WAIT_BITSET = 9,
    FUTEX_WAKE_BITSET = 10,
    FUTEX_COMMAND = 127
};

EXPORTED int qemu_plugin_version = CXLAB_QEMU_API;

struct thread {
    unsigned count;
    uint64_t number;       /* of the thread, in the order in which they began */
    uint64_t instructions; /* that were not told yet */
    uint64_t arguments[5]; /* of the system call at hand */
    uint64_t made_at;      /* the point at which it makes a thread */
    uint64_t tid_address;  /* what the kernel clears when the thread ends */
    uint64_t child_tid;    /* the same of the thread that it makes */
    uint64_t waits_at;     /* the futex that it waits at; 0 for none */
    uint64_t ticket;       /* its place among those that wait */
    uint64_t woken_by;     /* the point that woke it */
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
static uint64_t numbers; /* threads that began */
static uint64_t points;
static uint64_t tickets;
static struct {
    uint64_t address, point;
} wakes[WAKES]; /* the last ones, in turn */
static unsigned wake;
static __thread struct thread *self; /* the thread whose system call runs */

/* What a program forks is left out. */
static bool is_owner(void)
{
    return getpid() == owner;
}

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

/* Empties the buffer, whose first word says whose it is where instructions are told. */
static void empty(struct thread *t)
{
    t->count = 0;
    if (one_by_one)
        t->words[t->count++] = t->number << 8 | TURN;
}

/* With the lock. */
static void flush_locked(struct thread *t)
{
    if (t->count > one_by_one && is_owner())
        put(t->words, t->count * sizeof *t->words);
    empty(t);
}

static void flush(struct thread *t)
{
    if (!is_owner()) {
        empty(t);
        return;
    }
    pthread_mutex_lock(&lock);
    flush_locked(t);
    pthread_mutex_unlock(&lock);
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
    if (!is_owner())
        return NULL;
    pthread_mutex_lock(&lock);
    uint64_t number = codes++;
    words[0] = number << 8 | CODE;
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

/* Tells of two words that are written at once. With the lock. */
static void tell_now(struct thread *t, uint64_t word, uint64_t other)
{
    if (t->count + 2 > WORDS)
        flush_locked(t);
    t->words[t->count++] = word;
    t->words[t->count++] = other;
    flush_locked(t);
}

/* A thread begins; the system call of another one makes it, but for the first. */
static void on_start(qemu_plugin_id_t id, unsigned cpu)
{
    (void)id;
    if (cpu >= THREADS || (!threads[cpu] && !(threads[cpu] = calloc(1, sizeof **threads)))) {
        fprintf(stderr, "cxlab: thread %u is one too many\n", cpu);
        abort();
    }
    struct thread *t = threads[cpu];
    if (!one_by_one || !is_owner())
        return;
    pthread_mutex_lock(&lock);
    t->number = numbers++;
    t->waits_at = t->tid_address = 0;
    empty(t);
    if (self) {
        t->tid_address = self->child_tid;
        tell_now(t, t->number << 8 | THREAD, self->made_at << 8 | BEHIND);
    } else {
        t->words[t->count++] = t->number << 8 | THREAD;
    }
    pthread_mutex_unlock(&lock);
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

/* The first threads that wait at a futex, at most so many, are woken by a point. With the lock. */
static void wake_up(uint64_t address, uint64_t most, uint64_t point)
{
    wakes[wake].address = address;
    wakes[wake].point = point;
    wake = (wake + 1) % WAKES;
    for (; most; most--) {
        struct thread *first = NULL;
        for (unsigned i = 0; i < THREADS && threads[i]; i++) {
            struct thread *t = threads[i];
            if (t->waits_at == address && !t->woken_by && (!first || t->ticket < first->ticket))
                first = t;
        }
        if (!first)
            return;
        first->woken_by = point;
    }
}

/* Threads that wait at a futex wait at another one from now on, at most so many. With the lock. */
static void move(uint64_t from, uint64_t to, uint64_t most)
{
    for (unsigned i = 0; i < THREADS && threads[i] && most; i++) {
        if (threads[i]->waits_at == from && !threads[i]->woken_by) {
            threads[i]->waits_at = to;
            most--;
        }
    }
}

static bool is_wait(uint64_t command)
{
    command &= FUTEX_COMMAND;
    return command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET || command == FUTEX_LOCK_PI;
}

/* A system call of a program with several threads. With the lock. */
static void on_futex(struct thread *t, uint64_t point)
{
    const uint64_t *with = t->arguments;
    switch (with[1] & FUTEX_COMMAND) {
    case FUTEX_WAKE:
    case FUTEX_WAKE_BITSET:
        wake_up(with[0], (uint32_t)with[2], point);
        break;
    case FUTEX_UNLOCK_PI:
        wake_up(with[0], 1, point);
        break;
    case FUTEX_WAKE_OP:
        wake_up(with[0], (uint32_t)with[2], point);
        wake_up(with[4], (uint32_t)with[3], point);
        break;
    case FUTEX_REQUEUE:
    case FUTEX_CMP_REQUEUE:
        wake_up(with[0], (uint32_t)with[2], point);
        move(with[0], with[4], (uint32_t)with[3]);
        break;
    }
}

/* Tells of a system call, and of what waits for it. */
static void tell_call(struct thread *t, int64_t number)
{
    const uint64_t *with = t->arguments;
    bool makes = number == CLONE && (with[0] & VM) && !(with[0] & VFORK);
    if ((numbers < 2 && !makes) || !is_owner())
        return;
    pthread_mutex_lock(&lock);
    if (number == FUTEX && is_wait(with[1])) {
        t->waits_at = with[0];
        t->ticket = tickets++;
        t->woken_by = 0;
        tell_now(t, IN_CALL, IN_CALL);
    } else if (makes || number == FUTEX || number == EXIT) {
        uint64_t point = ++points;
        uint64_t then = number == EXIT ? t->tid_address << 8 | ENDS : IN_CALL;
        tell_now(t, point << 8 | POINT, then);
        if (makes) {
            t->made_at = point;
            t->child_tid = with[0] & CHILD_CLEARTID ? with[3] : 0;
        } else if (number == FUTEX) {
            on_futex(t, point);
        } else if (t->tid_address) {
            wake_up(t->tid_address, UINT64_MAX, point);
        }
    } else {
        tell_now(t, IN_CALL, IN_CALL);
    }
    pthread_mutex_unlock(&lock);
}

/* A thread that was woken goes on behind what woke it, and so does one that was about to wait (EAGAIN). */
static void tell_woken(struct thread *t, int64_t result)
{
    bool woken = result == 0 || result == -EAGAIN;
    pthread_mutex_lock(&lock);
    uint64_t point = t->woken_by;
    for (unsigned i = 0; i < WAKES && !point; i++) {
        unsigned last = (wake + 2 * WAKES - 1 - i) % WAKES;
        if (wakes[last].address == t->waits_at)
            point = wakes[last].point;
    }
    t->waits_at = 0;
    if (woken && point && is_owner())
        tell_now(t, point << 8 | BEHIND, t->number << 8 | TURN);
    pthread_mutex_unlock(&lock);
}

/* The system call of one of several threads has ended. */
static void tell_back(struct thread *t)
{
    if (!one_by_one || numbers < 2 || !is_owner())
        return;
    pthread_mutex_lock(&lock);
    tell_now(t, t->number << 8 | TURN, t->number << 8 | TURN);
    pthread_mutex_unlock(&lock);
}

/* Where another program takes this one's place, which runs on its own, nothing else would tell the rest. */
static void on_call(qemu_plugin_id_t id, unsigned cpu, int64_t number, uint64_t a, uint64_t b,
                    uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g, uint64_t h)
{
    (void)f, (void)g, (void)h;
    struct thread *t = self = threads[cpu];
    const uint64_t arguments[5] = {a, b, c, d, e};
    memcpy(t->arguments, arguments, sizeof arguments);
    if (number == EXECVE || number == EXECVEAT)
        on_end(id, NULL);
    if (number == SET_TID_ADDRESS)
        t->tid_address = a;
    if (one_by_one)
        tell_call(t, number);
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
    if (one_by_one && number == FUTEX && t->waits_at && is_wait(with[1]))
        tell_woken(t, result);
    tell_back(t);
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
