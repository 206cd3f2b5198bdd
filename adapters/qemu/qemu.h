/* What cxlab uses of QEMU's interface for TCG plugins, and of the program itself.
 *
 * The interface's declarations are written here from its documentation (qemu-plugin.h of QEMU is
 * neither copied nor needed): version 1 is QEMU 7.2's, 4 is QEMU 10.0's. Functions of the program
 * that no plugin is promised are looked up by name when the plugin is loaded, and each may be
 * missing; what then does not work is said to the model.
 */
#ifndef CXLAB_QEMU_H
#define CXLAB_QEMU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef CXLAB_QEMU_API
#define CXLAB_QEMU_API 1
#endif

typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;
typedef struct {
    const char *target_arch;
    struct {
        int min, cur;
    } version;
    bool system_emulation;
    union {
        struct {
            int smp_vcpus, max_vcpus;
        } system;
    };
} qemu_info_t;

struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_hwaddr;

enum { QEMU_PLUGIN_CB_NO_REGS = 0, QEMU_PLUGIN_CB_R_REGS = 1 };
/* Loads and stores. Version 1 calls callbacks for loads or stores alone for the other, too. */
enum { QEMU_PLUGIN_MEM_RW = 3 };

void qemu_plugin_register_vcpu_init_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, unsigned));
void qemu_plugin_register_vcpu_idle_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, unsigned));
void qemu_plugin_register_vcpu_resume_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, unsigned));
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t,
                                           void (*)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, void (*)(unsigned, void *), int,
                                          void *);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *, void (*)(unsigned, void *),
                                            int, void *);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *,
                                      void (*)(unsigned, qemu_plugin_meminfo_t, uint64_t, void *),
                                      int, int, void *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);
#if CXLAB_QEMU_API == 1
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *);
#else
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *, void *, size_t);
#endif
bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t);
unsigned qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t);
void qemu_plugin_register_vcpu_syscall_cb(qemu_plugin_id_t,
                                          void (*)(qemu_plugin_id_t, unsigned, int64_t, uint64_t,
                                                   uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                                                   uint64_t, uint64_t));
void qemu_plugin_register_vcpu_syscall_ret_cb(qemu_plugin_id_t,
                                              void (*)(qemu_plugin_id_t, unsigned, int64_t,
                                                       int64_t));
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, void *), void *);
struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(qemu_plugin_meminfo_t, uint64_t);
bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *);
uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *);

/* What `run_on_cpu_data` is: eight bytes, by value. */
typedef union {
    int number;
    void *pointer;
    uint64_t address;
} run_on_cpu_data;

enum { QEMU_CLOCK_VIRTUAL = 1 };

/* What a region that is no memory does when it is accessed: `MemoryRegionOps`. */
struct cxlab_region_ops {
    uint64_t (*read)(void *, uint64_t at, unsigned bytes);
    void (*write)(void *, uint64_t at, uint64_t value, unsigned bytes);
    void *with_attributes[2];
    int endianness;
    struct {
        unsigned least, most;
        bool unaligned;
        void *accepts;
    } valid;
    struct {
        unsigned least, most;
        bool unaligned;
    } implemented;
};
enum { QEMU_LITTLE_ENDIAN = 2 };

/* `GByteArray`. */
struct cxlab_bytes {
    unsigned char *data;
    unsigned count;
};

/* Functions of the program; null where it has none of that name. */
struct cxlab_program {
    void *(*qemu_get_cpu)(int);
    void (*async_run_on_cpu)(void *, void (*)(void *, run_on_cpu_data), run_on_cpu_data);
    void (*tb_flush)(void *);
    /* The clock. */
    char *(*cpus_get_accel)(void);
    int64_t (*cpus_get_virtual_clock)(void);
    int64_t (*cpus_get_elapsed_ticks)(void);
    int64_t (*cpu_get_clock)(void);
    int64_t (*qemu_clock_deadline_ns_all)(int, int);
    void (*qemu_clock_notify)(int);
    /* Memory. */
    void *(*object_get_objects_root)(void);
    void *(*object_resolve_path_component)(void *, const char *);
    void *(*object_resolve_path)(const char *, bool *);
    uint64_t (*object_property_get_uint)(void *, const char *, void **);
    void *(*host_memory_backend_get_memory)(void *);
    void *(*get_system_memory)(void);
    void (*memory_region_init_alias)(void *, void *, const char *, void *, uint64_t, uint64_t);
    void (*memory_region_add_subregion_overlap)(void *, uint64_t, void *, int);
    uint64_t (*memory_region_size)(void *);
    uint64_t (*memory_region_get_ram_addr)(void *);
    void (*memory_region_init_io)(void *, void *, const struct cxlab_region_ops *, void *,
                                  const char *, uint64_t);
    void *(*memory_region_get_ram_ptr)(void *);
    /* Registers and addresses of a processor. */
    int (*x86_cpu_gdb_read_register)(void *, struct cxlab_bytes *, int);
    uint64_t (*cpu_get_phys_page_debug)(void *, uint64_t);
    struct cxlab_bytes *(*g_byte_array_new)(void);
    struct cxlab_bytes *(*g_byte_array_set_size)(struct cxlab_bytes *, unsigned);
    int *singlestep; /* of version 7: whether blocks have one instruction */
};

#endif
