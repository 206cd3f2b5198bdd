/* A TCG plugin for `cxlab vm`: the guest's misses go to the timing model, and the guest's clock
 * follows what the model says.
 *
 * Until the guest marks the beginning of what is of interest (`nopl 0x0c1c1001(%rax,%rax,1)`, an
 * instruction that does nothing anywhere, or another number), nothing is counted and it runs at full speed. From then
 * on every access goes through the caches of filter.h and every miss through the ring of ring.h.
 *
 * Memory that guests share is a region of its own over its window: each access comes here, goes to the
 * model, and has the bytes that the model replies. Where no device keeps it coherent, flushes of the
 * guest go to the model too. QEMU 7 then translates one instruction at a time, so that registers are in their
 * places when an instruction begins.
 *
 * The registers of an accelerator are a page of memory of a PCI function (ivshmem), over which lies a region
 * of its own: each access comes here and goes to the model. The model reads and writes the guest's memory by
 * the addresses that it finds in `shared`.
 *
 * These things are not what a plugin may ask of QEMU, and use the program's own functions:
 * - CXL memory is made as fast as other memory: a memory backend lies over each fixed window, where
 *   QEMU would otherwise emulate every access as one to a device. Which device holds a line is the
 *   model's to say, from the plan.
 * - The guest's clock: two entries of the accelerator's table are replaced. It is checked that they
 *   are asked; otherwise the model only reports its own time.
 */
#define _GNU_SOURCE
#include "qemu.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>

#include "decode.h"
#include "filter.h"

#define EXPORTED __attribute__((visibility("default")))
#define WINDOWS CXLAB_WINDOWS
#define MARKS 0x0c1c1000u /* the displacement of a mark, but for its low byte */
#define MARK_BEGIN 1
#define TICKS_PER_NS 2 /* the guest's time stamp counter: 2 GHz */
#define LOOK_NS 100000 /* between two looks at whether all processors sleep */
#define SKIP_NS 10000000 /* most that is skipped at once */
#define PATIENCE 20 /* looks that a due timer has to wake a processor, before more is skipped */
/* Room for a MemoryRegion, which has 240 to 300 bytes in the versions that are supported. */
#define REGION_BYTES 4096

EXPORTED int qemu_plugin_version = CXLAB_QEMU_API;

struct window {
    char backend[32];
    uint64_t plan;         /* its first address in the plan */
    uint64_t first, bytes; /* as the plugin interface numbers them */
    bool shared;           /* by guests */
    uint64_t guest;        /* where it begins in the guest */
    char *memory;          /* its bytes */
};

static struct cxlab_program qemu;
static struct cxlab_shared *shared;
static struct cxlab_geometry levels[CXLAB_LEVELS];
static unsigned level_count;
static struct window windows[WINDOWS];
static unsigned window_count;
static uint64_t instruction_ps = 500;
static uint64_t tell_ps;
static uint64_t first_mark = MARK_BEGIN; /* from which on all is counted */
static bool wants_clock = true;
static bool shares, flushes; /* memory with other guests; and flushes matter */
static char registers[32];   /* the backend of an accelerator's registers, if it has one */
static struct cxlab_filter *filters[CXLAB_LANES];
static unsigned lanes;
static bool sleeping[CXLAB_LANES];
static unsigned wakes;
/* What is skipped while all processors sleep is known to each that wakes. */
static pthread_mutex_t sleep_lock = PTHREAD_MUTEX_INITIALIZER;
static bool tracing;
static bool laid; /* CXL memory is as fast as other memory */
static _Thread_local struct cxlab_filter *mine;

/* The clock. */

static bool simulated;
static unsigned asked;
static int64_t began_ns, idle_ns, latest_ns;

static uint64_t lane_ps(struct cxlab_filter *f)
{
    return __atomic_load_n(&f->own_ps, __ATOMIC_RELAXED) +
           __atomic_load_n(&f->lane->charged_ps, __ATOMIC_ACQUIRE);
}

static uint64_t most_ps(void)
{
    uint64_t most = 0;
    for (unsigned i = 0; i < lanes; i++) {
        uint64_t at = filters[i] ? lane_ps(filters[i]) : 0;
        most = at > most ? at : most;
    }
    return most;
}

static int64_t clock_ns(void)
{
    asked++;
    if (!simulated)
        return qemu.cpu_get_clock();
    if (mine) {
        mine->counters[CXLAB_CLOCK_READS]++;
        cxlab_wait(mine, 0);
    }
    int64_t idle = __atomic_load_n(&idle_ns, __ATOMIC_ACQUIRE);
    int64_t now = began_ns + (int64_t)(most_ps() / 1000) + idle;
    /* Processors are not in step; the clock never goes back. */
    int64_t seen = __atomic_load_n(&latest_ns, __ATOMIC_RELAXED);
    while (now > seen && !__atomic_compare_exchange_n(&latest_ns, &seen, now, true,
                                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    return now > seen ? now : seen;
}

static int64_t ticks(void)
{
    return clock_ns() * TICKS_PER_NS;
}

/* Where a function reads its pointer from: `mov offset(%rax),%rax`. 0 when it does not. */
static uint32_t offset_in(const void *function)
{
    const unsigned char *code = function;
    for (int i = 0; i < 48; i++) {
        if (code[i] == 0x48 && code[i + 1] == 0x8b && code[i + 2] == 0x80) {
            uint32_t offset;
            memcpy(&offset, code + i + 3, sizeof offset);
            return offset % 8 == 0 && offset < 0x400 ? offset : 0;
        }
    }
    return 0;
}

static bool replaced(uint32_t offset, int64_t (*function)(void), int64_t (*ask)(void))
{
    char *table = qemu.cpus_get_accel();
    int64_t (**entry)(void) = (int64_t (**)(void))(table + offset);
    int64_t (*old)(void) = *entry;
    unsigned before = asked;
    __atomic_store_n(entry, function, __ATOMIC_RELEASE);
    ask();
    if (asked != before)
        return true;
    __atomic_store_n(entry, old, __ATOMIC_RELEASE);
    return false;
}

static bool take_clock(void)
{
    if (!wants_clock || !qemu.cpus_get_accel || !qemu.cpus_get_virtual_clock ||
        !qemu.cpus_get_elapsed_ticks || !qemu.cpu_get_clock || !qemu.qemu_clock_notify ||
        !qemu.qemu_clock_deadline_ns_all || !qemu.cpus_get_accel())
        return false;
    uint32_t clock = offset_in((void *)qemu.cpus_get_virtual_clock);
    uint32_t tick = offset_in((void *)qemu.cpus_get_elapsed_ticks);
    return clock && tick && clock != tick && replaced(clock, clock_ns, qemu.cpus_get_virtual_clock) &&
           replaced(tick, ticks, qemu.cpus_get_elapsed_ticks);
}

static bool all_sleep(void)
{
    for (unsigned i = 0; i < lanes; i++)
        if (!__atomic_load_n(&sleeping[i], __ATOMIC_ACQUIRE))
            return false;
    return lanes > 0;
}

/* QEMU waits for its timers in real time: it is told when one is due, and where all processors
 * sleep, time goes on to the next. */
static void *keep_timers(void *unused)
{
    struct timespec look = {0, LOOK_NS};
    unsigned patience = 0, woken = 0;
    (void)unused;
    for (;;) {
        nanosleep(&look, NULL);
        if (!simulated)
            continue;
        int64_t due = qemu.qemu_clock_deadline_ns_all(QEMU_CLOCK_VIRTUAL, -1);
        unsigned now = __atomic_load_n(&wakes, __ATOMIC_ACQUIRE);
        patience = patience && now == woken ? patience - 1 : 0;
        pthread_mutex_lock(&sleep_lock);
        bool all = all_sleep();
        if (due > 0 && all && !patience) {
            int64_t skip = due < SKIP_NS ? due : SKIP_NS;
            int64_t idle = __atomic_add_fetch(&idle_ns, skip, __ATOMIC_RELEASE);
            __atomic_store_n(&shared->idle_ns, (uint64_t)idle, __ATOMIC_RELEASE);
            due = skip == due ? 0 : due;
        }
        __atomic_store_n(&shared->asleep, all && due < 0, __ATOMIC_RELEASE);
        pthread_mutex_unlock(&sleep_lock);
        if (due == 0) {
            /* Most timers wake a processor, which takes real time. */
            if (all && !patience) {
                patience = PATIENCE;
                woken = now;
            }
            qemu.qemu_clock_notify(QEMU_CLOCK_VIRTUAL);
        }
    }
    return NULL;
}

/* The first bytes of an instruction, as many as it has at least. */
static void read_code(const struct qemu_plugin_insn *instruction, unsigned char *code, size_t bytes)
{
#if CXLAB_QEMU_API == 1
    memcpy(code, qemu_plugin_insn_data(instruction), bytes);
#else
    qemu_plugin_insn_data(instruction, code, bytes);
#endif
}

/* Memory that guests share. */

/* A part within one line. Before anything is counted, and from other threads, memory is as it is. */
static void share(struct window *window, uint64_t at, unsigned bytes, bool store, void *value)
{
    struct cxlab_filter *f = mine;
    uint64_t word = 0;
    if (!tracing || !f) {
        if (store)
            memcpy(window->memory + at, value, bytes);
        else
            memcpy(value, window->memory + at, bytes);
        return;
    }
    memcpy(&word, value, store ? bytes : 0);
    word = cxlab_share(f, (window->plan + at) | CXLAB_CXL,
                       store ? CXLAB_SHARED_STORE : CXLAB_SHARED_LOAD, bytes, word);
    f->was_shared = true;
    if (store)
        f->locking = false;
    else
        memcpy(value, &word, bytes);
}

static void share_all(struct window *window, uint64_t at, unsigned bytes, bool store, char *value)
{
    unsigned first = (unsigned)(CXLAB_LINE - at % CXLAB_LINE);
    first = first < bytes ? first : bytes;
    share(window, at, first, store, value);
    if (first < bytes)
        share(window, at + first, bytes - first, store, value + first);
}

static uint64_t shared_read(void *window, uint64_t at, unsigned bytes)
{
    uint64_t value = 0;
    share_all(window, at, bytes, false, (char *)&value);
    return value;
}

static void shared_write(void *window, uint64_t at, uint64_t value, unsigned bytes)
{
    share_all(window, at, bytes, true, (char *)&value);
}

static const struct cxlab_region_ops shared_ops = {
    .read = shared_read,
    .write = shared_write,
    .endianness = QEMU_LITTLE_ENDIAN,
    .valid = {1, 8, true, NULL},
    .implemented = {1, 8, true},
};

/* The registers of an accelerator. */

static uint64_t to_register(uint64_t at, unsigned bytes, unsigned operation, uint64_t value)
{
    struct cxlab_filter *f = mine;
    if (!tracing || !f)
        return 0; /* there is no time yet */
    if (operation == CXLAB_SHARED_STORE && at == CXLAB_DOORBELL)
        shared->listed = cxlab_list(f, shared->lines, CXLAB_LINES);
    value = cxlab_register(f, (CXLAB_REGISTERS + at) | CXLAB_CXL, operation, bytes, value);
    for (uint64_t i = 0; i < shared->dropped; i++)
        cxlab_take(f, shared->lines[i]);
    shared->dropped = 0;
    f->was_shared = true;
    return value;
}

static uint64_t register_read(void *unused, uint64_t at, unsigned bytes)
{
    (void)unused;
    return to_register(at, bytes, CXLAB_SHARED_LOAD, 0);
}

static void register_write(void *unused, uint64_t at, uint64_t value, unsigned bytes)
{
    (void)unused;
    to_register(at, bytes, CXLAB_SHARED_STORE, value);
}

static const struct cxlab_region_ops register_ops = {
    .read = register_read,
    .write = register_write,
    .endianness = QEMU_LITTLE_ENDIAN,
    .valid = {1, 8, false, NULL},
    .implemented = {1, 8, false},
};

static void on_atomic(unsigned cpu, void *unused)
{
    (void)unused;
    filters[cpu]->locking = true;
}

static void on_fence(unsigned cpu, void *unused)
{
    (void)unused;
    cxlab_share(filters[cpu], 0, CXLAB_FENCE, 0, 0);
}

/* A register of a processor, by its number in instructions. */
static uint64_t register_of(void *cpu, unsigned number)
{
    static const unsigned char order[] = {0, 2, 3, 1, 7, 6, 4, 5};
    static _Thread_local struct cxlab_bytes *bytes;
    uint64_t value = 0;
    if (number >= CXLAB_NO_REGISTER)
        return 0;
    if (!bytes)
        bytes = qemu.g_byte_array_new();
    qemu.g_byte_array_set_size(bytes, 0);
    qemu.x86_cpu_gdb_read_register(cpu, bytes, (int)(number < 8 ? order[number] : number));
    memcpy(&value, bytes->data, bytes->count < sizeof value ? bytes->count : sizeof value);
    return value;
}

/* A flush, which is its operand and the operation. */
struct flush {
    struct cxlab_operand operand;
    unsigned operation;
};

static void on_flush(unsigned cpu, void *what)
{
    const struct flush *flush = what;
    const struct cxlab_operand *to = &flush->operand;
    void *processor = qemu.qemu_get_cpu((int)cpu);
    uint64_t address = register_of(processor, to->base) +
                       (register_of(processor, to->index) << to->shift) + (uint64_t)to->offset;
    uint64_t page = qemu.cpu_get_phys_page_debug(processor, address & ~4095ull);
    if (page == UINT64_MAX)
        return;
    uint64_t physical = (page & ~4095ull) | (address & 4095);
    for (unsigned i = 0; i < window_count; i++) {
        uint64_t at = physical - windows[i].guest;
        if (windows[i].shared && at < windows[i].bytes)
            cxlab_share(filters[cpu], (windows[i].plan + at) | CXLAB_CXL, flush->operation, 0, 0);
    }
}

/* Calls for an instruction that matters to shared memory. */
static void watch(struct qemu_plugin_insn *instruction)
{
    unsigned char code[16];
    size_t bytes = qemu_plugin_insn_size(instruction);
    struct flush flush = {{0}, CXLAB_FLUSH};
    if (bytes > sizeof code)
        return;
    read_code(instruction, code, bytes);
    uint64_t at = qemu_plugin_insn_vaddr(instruction);
    enum cxlab_instruction found = cxlab_decode(code, (unsigned)bytes, at, &flush.operand);
    if (found == CXLAB_ATOMIC)
        qemu_plugin_register_vcpu_insn_exec_cb(instruction, on_atomic, QEMU_PLUGIN_CB_NO_REGS, NULL);
    if (!flushes)
        return;
    if (found == CXLAB_IS_FENCE)
        qemu_plugin_register_vcpu_insn_exec_cb(instruction, on_fence, QEMU_PLUGIN_CB_NO_REGS, NULL);
    if (found == CXLAB_IS_FLUSH || found == CXLAB_IS_CLEAN) {
        /* It stays as long as QEMU may execute what it translates. */
        struct flush *kept = malloc(sizeof *kept);
        if (!kept)
            abort();
        if (found == CXLAB_IS_CLEAN)
            flush.operation = CXLAB_CLEAN;
        *kept = flush;
        qemu_plugin_register_vcpu_insn_exec_cb(instruction, on_flush, QEMU_PLUGIN_CB_R_REGS, kept);
    }
}

static bool can_share(void)
{
    bool registers = qemu.x86_cpu_gdb_read_register && qemu.cpu_get_phys_page_debug &&
                     qemu.g_byte_array_new && qemu.g_byte_array_set_size &&
                     (CXLAB_QEMU_API > 1 || qemu.singlestep);
    return qemu.memory_region_init_io && qemu.memory_region_get_ram_ptr && (registers || !flushes);
}

/* CXL memory as fast as other memory. */

static void *region_of(const char *backend)
{
    void *object = qemu.object_resolve_path_component(qemu.object_get_objects_root(), backend);
    return object ? qemu.host_memory_backend_get_memory(object) : NULL;
}

/* Lays the registers over the memory of their function, and says where all memory is. */
static void lay_registers(void)
{
    void *own = region_of("main"), *page = region_of(registers), *over = calloc(1, REGION_BYTES);
    if (!own || !page || !over)
        return;
    for (unsigned i = 0; i < window_count; i++) {
        shared->window[i].memory = (uintptr_t)windows[i].memory;
        shared->window[i].guest = windows[i].guest;
        shared->window[i].bytes = windows[i].bytes;
        shared->window[i].plan = windows[i].plan;
    }
    shared->own_bytes = qemu.memory_region_size(own);
    shared->own_first = CXLAB_QEMU_API == 1 ? qemu.memory_region_get_ram_addr(own) : UINT64_MAX;
    __atomic_store_n(&shared->own, (uintptr_t)qemu.memory_region_get_ram_ptr(own), __ATOMIC_RELEASE);
    qemu.memory_region_init_io(over, NULL, &register_ops, NULL, "cxlab-registers",
                               CXLAB_REGISTER_BYTES);
    qemu.memory_region_add_subregion_overlap(page, 0, over, 100);
}

static void *fixed_window(unsigned number)
{
    char path[64];
    snprintf(path, sizeof path, "/machine/cxl-fixed-memory-region[%u]", number);
    return qemu.object_resolve_path(path, NULL);
}

/* Whether the machine has all windows, at their addresses. */
static bool has_windows(void)
{
    for (unsigned i = 0; i < window_count; i++) {
        void *fixed = fixed_window(i);
        if (!fixed || !qemu.object_property_get_uint(fixed, "addr", NULL) ||
            !region_of(windows[i].backend))
            return false;
    }
    return true;
}

/* The caller has QEMU's lock. */
static void lay_over(void)
{
    if (laid || !has_windows())
        return;
    laid = true;
    for (unsigned i = 0; i < window_count; i++) {
        void *region = region_of(windows[i].backend), *alias = calloc(1, REGION_BYTES);
        if (!alias)
            abort();
        uint64_t at = qemu.object_property_get_uint(fixed_window(i), "addr", NULL);
        windows[i].bytes = qemu.memory_region_size(region);
        windows[i].guest = at;
        if (windows[i].shared || *registers)
            windows[i].memory = qemu.memory_region_get_ram_ptr(region);
        if (windows[i].shared) {
            qemu.memory_region_init_io(alias, NULL, &shared_ops, &windows[i], "cxlab-shared",
                                       windows[i].bytes);
        } else {
            qemu.memory_region_init_alias(alias, NULL, "cxlab-window", region, 0, windows[i].bytes);
        }
        qemu.memory_region_add_subregion_overlap(qemu.get_system_memory(), at, alias, 100);
        /* Version 1 of the interface says where a line lies in QEMU's own memory. */
        windows[i].first = CXLAB_QEMU_API == 1 ? qemu.memory_region_get_ram_addr(region) : at;
        __atomic_store_n(&shared->overlay, i + 1, __ATOMIC_RELEASE);
    }
    if (*registers)
        lay_registers();
}

static void lay_over_later(void *cpu, run_on_cpu_data unused)
{
    (void)cpu;
    (void)unused;
    lay_over();
}

static bool can_lay_over(void)
{
    return qemu.qemu_get_cpu && qemu.async_run_on_cpu && qemu.object_get_objects_root &&
           qemu.object_resolve_path_component && qemu.object_resolve_path &&
           qemu.object_property_get_uint && qemu.host_memory_backend_get_memory &&
           qemu.get_system_memory && qemu.memory_region_init_alias &&
           qemu.memory_region_add_subregion_overlap && qemu.memory_region_size &&
           qemu.memory_region_get_ram_addr;
}

/* Where a line lies, as records say it. */
static uint64_t place_of(uint64_t address)
{
    for (unsigned i = 0; i < window_count; i++)
        if (address - windows[i].first < windows[i].bytes)
            return (windows[i].plan + (address - windows[i].first)) | CXLAB_CXL;
    return address;
}

/* What the guest does. */

static void on_block(unsigned cpu, void *instructions)
{
    struct cxlab_filter *f = filters[cpu];
    f->counters[CXLAB_INSTRUCTIONS] += (uintptr_t)instructions;
    cxlab_pass(f, (uintptr_t)instructions * instruction_ps);
}

static void on_access(unsigned cpu, qemu_plugin_meminfo_t info, uint64_t address, void *unused)
{
    struct cxlab_filter *f = filters[cpu];
    bool store = qemu_plugin_mem_is_store(info);
    (void)unused;
    if (f->was_shared) {
        f->was_shared = false;
        return;
    }
    f->locking = false;
    if (cxlab_first(f, address, store))
        return;
    struct qemu_plugin_hwaddr *where = qemu_plugin_get_hwaddr(info, address);
    if (!where || qemu_plugin_hwaddr_is_io(where)) {
        f->counters[CXLAB_DEVICE_ACCESSES]++;
        return;
    }
    cxlab_missed(f, address, place_of(qemu_plugin_hwaddr_phys_addr(where)), store);
}

static void on_mark(unsigned cpu, void *number)
{
    struct cxlab_filter *f = filters[cpu];
    mine = f;
    if ((uintptr_t)number == first_mark && !tracing) {
        tracing = true;
        if (shared->clock == 1) {
            latest_ns = began_ns = qemu.cpu_get_clock();
            __atomic_store_n(&simulated, true, __ATOMIC_RELEASE);
        }
        if (flushes && qemu.singlestep)
            *qemu.singlestep = 1;
        qemu.tb_flush(qemu.qemu_get_cpu((int)cpu));
    }
    if (tracing)
        cxlab_mark(f, (uintptr_t)number);
}

/* The number of a mark; 0 for another instruction. */
static unsigned mark_of(const struct qemu_plugin_insn *instruction)
{
    unsigned char code[8];
    uint32_t displacement;
    if (qemu_plugin_insn_size(instruction) != sizeof code)
        return 0;
    read_code(instruction, code, sizeof code);
    memcpy(&displacement, code + 4, sizeof displacement);
    bool nop = code[0] == 0x0f && code[1] == 0x1f && code[2] == 0x84;
    return nop && (displacement & ~0xffu) == MARKS ? displacement & 0xff : 0;
}

static void on_translate(qemu_plugin_id_t id, struct qemu_plugin_tb *block)
{
    static bool asked_for;
    size_t count = qemu_plugin_tb_n_insns(block);
    (void)id;
    if (!__atomic_test_and_set(&asked_for, __ATOMIC_RELAXED) && can_lay_over())
        qemu.async_run_on_cpu(qemu.qemu_get_cpu(0), lay_over_later, (run_on_cpu_data){0});
    if (tracing)
        qemu_plugin_register_vcpu_tb_exec_cb(block, on_block, QEMU_PLUGIN_CB_NO_REGS,
                                             (void *)(uintptr_t)count);
    for (size_t i = 0; i < count; i++) {
        struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(block, i);
        unsigned mark = mark_of(instruction);
        if (mark)
            qemu_plugin_register_vcpu_insn_exec_cb(instruction, on_mark, QEMU_PLUGIN_CB_NO_REGS,
                                                   (void *)(uintptr_t)mark);
        if (!tracing)
            continue;
        if (shares)
            watch(instruction);
        qemu_plugin_register_vcpu_mem_cb(instruction, on_access, QEMU_PLUGIN_CB_NO_REGS,
                                         QEMU_PLUGIN_MEM_RW, NULL);
    }
}

static void on_start(qemu_plugin_id_t id, unsigned cpu)
{
    (void)id;
    if (cpu >= CXLAB_LANES || filters[cpu]) {
        fprintf(stderr, "cxlab: processor %u is one too many\n", cpu);
        abort();
    }
    struct cxlab_filter *f = aligned_alloc(64, (sizeof *f + 63) & ~(size_t)63);
    if (!f || !cxlab_filter_init(f, &shared->lane[cpu], levels, level_count)) {
        fprintf(stderr, "cxlab: no memory for the caches of processor %u\n", cpu);
        abort();
    }
    f->tell_ps = tell_ps;
    filters[cpu] = f;
    lanes = cpu + 1 > lanes ? cpu + 1 : lanes;
    __atomic_store_n(&shared->lanes, lanes, __ATOMIC_RELEASE);
    if (cpu)
        return;
    shared->clock = take_clock() ? 1 : 2;
    pthread_t thread;
    if (shared->clock == 1 && pthread_create(&thread, NULL, keep_timers, NULL))
        abort();
}

static void on_sleep(qemu_plugin_id_t id, unsigned cpu)
{
    (void)id;
    /* Nothing else would tell the model of what is left in the ring. */
    mine = filters[cpu];
    cxlab_publish(filters[cpu]);
    __atomic_store_n(&sleeping[cpu], true, __ATOMIC_RELEASE);
}

static void on_wake(qemu_plugin_id_t id, unsigned cpu)
{
    (void)id;
    mine = filters[cpu];
    /* A restored guest may have its page tables in CXL memory, so the first instruction is too late. */
    if (!laid && can_lay_over())
        lay_over();
    pthread_mutex_lock(&sleep_lock);
    uint64_t most = most_ps(), now = lane_ps(filters[cpu]);
    if (simulated && now < most)
        filters[cpu]->own_ps += most - now;
    filters[cpu]->idle_ps = (uint64_t)idle_ns * 1000;
    __atomic_store_n(&sleeping[cpu], false, __ATOMIC_RELEASE);
    __atomic_store_n(&shared->asleep, 0, __ATOMIC_RELEASE);
    __atomic_add_fetch(&wakes, 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&sleep_lock);
}

/* Loading. */

static void look_up(void)
{
#define FIND(name) qemu.name = (__typeof__(qemu.name))dlsym(RTLD_DEFAULT, #name)
    FIND(qemu_get_cpu);
    FIND(async_run_on_cpu);
    FIND(tb_flush);
    FIND(cpus_get_accel);
    FIND(cpus_get_virtual_clock);
    FIND(cpus_get_elapsed_ticks);
    FIND(cpu_get_clock);
    FIND(qemu_clock_deadline_ns_all);
    FIND(qemu_clock_notify);
    FIND(object_get_objects_root);
    FIND(object_resolve_path_component);
    FIND(object_resolve_path);
    FIND(object_property_get_uint);
    FIND(host_memory_backend_get_memory);
    FIND(get_system_memory);
    FIND(memory_region_init_alias);
    FIND(memory_region_add_subregion_overlap);
    FIND(memory_region_size);
    FIND(memory_region_get_ram_addr);
    FIND(memory_region_init_io);
    FIND(memory_region_get_ram_ptr);
    FIND(x86_cpu_gdb_read_register);
    FIND(cpu_get_phys_page_debug);
    FIND(g_byte_array_new);
    FIND(g_byte_array_set_size);
    FIND(singlestep);
#undef FIND
}

/* One `key=value`. */
static bool option(const char *text)
{
    unsigned long long a, b, c;
    int fd;
    struct window *window = &windows[window_count];
    if (sscanf(text, "fd=%d", &fd) == 1) {
        shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        return shared != MAP_FAILED && shared->magic == CXLAB_MAGIC &&
               shared->layout == CXLAB_LAYOUT;
    }
    if (sscanf(text, "instruction=%llu", &a) == 1) {
        instruction_ps = a;
        return true;
    }
    if (sscanf(text, "tell=%llu", &a) == 1) {
        tell_ps = a;
        return true;
    }
    if (sscanf(text, "begin=%llu", &a) == 1) {
        first_mark = a;
        return true;
    }
    if (sscanf(text, "cache=%llu:%llu:%llu", &a, &b, &c) == 3 && level_count < CXLAB_LEVELS) {
        levels[level_count++] = (struct cxlab_geometry){a, b, c};
        return a && b && (a & (a - 1)) == 0;
    }
    if (window_count < WINDOWS && sscanf(text, "shared=%31[^:]:%llu", window->backend, &a) == 2) {
        window->plan = a;
        window->shared = shares = true;
        window_count++;
        return true;
    }
    if (sscanf(text, "registers=%31[^:]", registers) == 1)
        return true;
    if (!strcmp(text, "flushes=on")) {
        flushes = true;
        return true;
    }
    if (window_count < WINDOWS && sscanf(text, "window=%31[^:]:%llu", window->backend, &a) == 2) {
        window->plan = a;
        window_count++;
        return true;
    }
    if (!strncmp(text, "clock=", 6)) {
        wants_clock = !strcmp(text, "clock=on");
        return true;
    }
    return false;
}

EXPORTED int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int count,
                                 char **options)
{
    for (int i = 0; i < count; i++) {
        if (!option(options[i])) {
            fprintf(stderr, "cxlab: the plugin does not understand `%s`\n", options[i]);
            return 1;
        }
    }
    look_up();
    if (!shared || !level_count || !info->system_emulation || !qemu.tb_flush || !qemu.qemu_get_cpu) {
        fprintf(stderr, "cxlab: the plugin cannot work in this program\n");
        return 1;
    }
    if ((shares || *registers) && !(can_lay_over() && can_share())) {
        fprintf(stderr, "cxlab: guests cannot share memory or have an accelerator in this QEMU: functions of it "
                        "are missing\n");
        return 1;
    }
    __atomic_store_n(&shared->version, CXLAB_QEMU_API, __ATOMIC_RELEASE);
    qemu_plugin_register_vcpu_init_cb(id, on_start);
    qemu_plugin_register_vcpu_idle_cb(id, on_sleep);
    qemu_plugin_register_vcpu_resume_cb(id, on_wake);
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
    return 0;
}
