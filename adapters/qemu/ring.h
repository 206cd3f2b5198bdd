/* What a plugin and the timing model share: counters and one ring of records for each processor.
 *
 * The plugin writes what it marks so, the model the rest. Times are picoseconds of a processor's
 * own clock: what its instructions and its caches took, without what the model charges; those of
 * records have what was skipped while all processors slept besides. All fields
 * are 64 bits, so that the layout is the same for every compiler; crates/cxlab-vm/src/ring.rs has
 * the same numbers, and a test compares both.
 */
#ifndef CXLAB_RING_H
#define CXLAB_RING_H

#include <stdint.h>

#define CXLAB_MAGIC 0x676e697262617863ull /* "cxabring" */
#define CXLAB_LAYOUT 4
#define CXLAB_LANES 8
#define CXLAB_ENTRIES 4096
#define CXLAB_COUNTERS 8
#define CXLAB_WINDOWS 8
#define CXLAB_LINES 131072

/* The low bits of cxlab_record.what; the bits from 6 on are the line's address. */
enum cxlab_kind {
    CXLAB_LOAD = 0,       /* a load that missed every cache: the processor waits */
    CXLAB_STORE = 1,      /* a store that missed every cache: the line is read, nobody waits */
    CXLAB_WRITE_BACK = 2, /* a changed line leaves the last cache */
    CXLAB_MARK = 3,       /* the guest says where it is; the number is in place of the address */
    CXLAB_SHARED = 4,     /* an access to memory that guests share, or to a register: the lane's `access` says
                           * what it does */
};

/* What an access to memory that guests share does: the low byte of cxlab_lane.access. The next bytes
 * are its first byte in the line, its number of bytes, and flags. */
enum cxlab_operation {
    CXLAB_SHARED_LOAD,
    CXLAB_SHARED_STORE,
    CXLAB_FLUSH,      /* clflush, clflushopt */
    CXLAB_CLEAN,      /* clwb */
    CXLAB_FENCE,      /* sfence, mfence */
};
enum { CXLAB_LOCKED = 1, CXLAB_CACHED = 2 };

/* Set in cxlab_record.what where the address is one of the plan's CXL memory. */
#define CXLAB_CXL (1ull << 63)

/* Registers of an accelerator have addresses from here on, behind all of the plan. */
#define CXLAB_REGISTERS (1ull << 54)
#define CXLAB_REGISTER_BYTES 4096
/* Its doorbell: at a store, the plugin lists what the caches hold. */
#define CXLAB_DOORBELL 0x18

enum cxlab_counter {
    CXLAB_INSTRUCTIONS,
    CXLAB_ACCESSES,
    CXLAB_FIRST_MISSES, /* of the first cache */
    CXLAB_MISSES,       /* of all caches */
    CXLAB_CLOCK_READS,
    CXLAB_DEVICE_ACCESSES, /* what is not memory */
};

struct cxlab_record {
    uint64_t at_ps;
    uint64_t what;
};

/* A processor: one producer, one consumer. */
struct cxlab_lane {
    uint64_t head;   /* plugin: records written */
    uint64_t now_ps; /* plugin, after head: no later record is of an earlier time */
    uint64_t access; /* plugin, before head: what the record of kind CXLAB_SHARED does */
    uint64_t value;  /* plugin, before head: the bytes that it stores */
    uint64_t pad0[4];
    uint64_t tail;       /* model: records charged */
    uint64_t charged_ps; /* model: time charged in all, before tail says so */
    uint64_t reply;      /* model, before tail: the bytes that it loads */
    uint64_t pad1[5];
    uint64_t counters[CXLAB_COUNTERS]; /* plugin, before head says so */
    struct cxlab_record records[CXLAB_ENTRIES];
};

struct cxlab_shared {
    uint64_t magic;   /* model */
    uint64_t layout;  /* model */
    uint64_t version; /* plugin: of QEMU's interface, once it is there */
    uint64_t clock;   /* plugin: 1 the guest's clock is the model's, 2 it cannot be */
    uint64_t overlay; /* plugin: windows of CXL memory that are as fast as other memory */
    uint64_t lanes;   /* plugin: processors seen */
    uint64_t idle_ns; /* plugin: time that was skipped because all processors slept */
    uint64_t asleep;  /* plugin: 1 while all processors sleep and no timer will wake one */
    struct cxlab_lane lane[CXLAB_LANES];
    /* Only where the guest has an accelerator. */
    uint64_t own;       /* plugin: where the guest's own memory begins in QEMU */
    uint64_t own_bytes; /* plugin */
    uint64_t own_first; /* plugin: its first address in records; where these are the guest's own, all ones */
    struct {
        uint64_t memory; /* plugin: where the window's memory begins in QEMU */
        uint64_t guest;  /* plugin: and in the guest */
        uint64_t bytes;  /* plugin */
        uint64_t plan;   /* plugin: and in the plan */
    } window[CXLAB_WINDOWS];
    uint64_t listed;  /* plugin: lines that the caches hold, when the doorbell rings */
    uint64_t dropped; /* model, before tail: lines that the caches lose; plugin: 0, once they have */
    uint64_t lines[CXLAB_LINES]; /* of both: address, and bit 0 if it is changed */
};

#endif
