/* A memory simulator for SimBricks: a CXL system of cxlab behind SimBricks' memory protocol.
 *
 *   make -C adapters/simbricks SIMBRICKS=CHECKOUT CXLAB=PREFIX
 *   cxlab-simbricks SCENARIO PORT SOCKET SHM [SYNC [LINK_PS [INTERVAL_PS [BASE]]]]
 *
 * It listens at the Unix socket SOCKET, with shared memory in the file SHM, until the host terminates. The host
 * reaches the memory of the external port PORT of SCENARIO at addresses from BASE (default 0). SYNC is 0 (time of the
 * host is not followed), 1 (if the host wants it) or 2 (the default: required). LINK_PS and INTERVAL_PS are SimBricks'
 * link latency and the longest time between two synchronization messages, in picoseconds (default 500000 each,
 * SimBricks' own).
 *
 * A message is an access of any bytes. Lines of 64 B that it touches are requests of cxlab, and its completion is sent
 * when the last line's has come. Bytes are read and stored when a message arrives. Posted writes are requests too, and
 * have no completion. Requests that fail end the program with an error, as SimBricks has no message for them.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <simbricks/mem/if.h>

#include "cxlab.h"

#define LINE 64u

/* A message that has not completed. */
struct pending {
    uint64_t host_id;
    uint32_t left;
    uint16_t len;
    bool used, write, posted;
    uint8_t *data;
};

struct memory {
    struct SimbricksMemIf link;
    cxlab_system system;
    uint32_t port;
    uint32_t most_bytes;
    uint64_t base;
    uint64_t now;
    /* The messages in flight; their place is the upper half of the id of their requests. */
    struct pending *pending;
    uint32_t room, in_flight;
    /* Lines of the message that was read last and are not handed over yet. */
    volatile union SimbricksProtoMemH2M *message;
    uint32_t place;
    uint64_t next, end;
};

static void fail(const char *what, const char *why) {
    fprintf(stderr, "error: %s: %s\n", what, why);
    exit(2);
}

static void check(int32_t status) {
    if (status != CXLAB_OK) {
        fail("cxlab", cxlab_last_error());
    }
}

/* Sends the completion of a message, at the time at which its last request completed. */
static void respond(struct memory *memory, struct pending *pending, uint64_t time) {
    if (SimbricksBaseIfInTerminated(&memory->link.base)) {
        return;
    }
    volatile union SimbricksProtoMemM2H *out;
    while ((out = SimbricksMemIfM2HOutAlloc(&memory->link, time)) == NULL) {
        /* The host makes room when it reads. */
        usleep(0);
    }
    if (pending->write) {
        out->writecomp.req_id = pending->host_id;
        SimbricksMemIfM2HOutSend(&memory->link, out, SIMBRICKS_PROTO_MEM_M2H_MSG_WRITECOMP);
        return;
    }
    out->readcomp.req_id = pending->host_id;
    memcpy((void *)(uintptr_t)out->readcomp.data, pending->data, pending->len);
    SimbricksMemIfM2HOutSend(&memory->link, out, SIMBRICKS_PROTO_MEM_M2H_MSG_READCOMP);
}

/* Takes what has completed. */
static void take_completed(struct memory *memory) {
    struct cxlab_completed done[64];
    size_t count;
    do {
        check(cxlab_take_completed(memory->system, done, 64, &count));
        for (size_t at = 0; at < count; at++) {
            struct pending *pending = &memory->pending[done[at].id];
            if (done[at].outcome != CXLAB_SERVED) {
                fail("request", "the device did not serve it, and SimBricks has no message that says so");
            }
            if (--pending->left > 0) {
                continue;
            }
            if (!pending->posted) {
                respond(memory, pending, done[at].completed);
            }
            free(pending->data);
            pending->used = false;
            memory->in_flight--;
        }
    } while (count == 64);
}

/* A free place for a message; the number of places grows with the messages in flight. */
static uint32_t free_place(struct memory *memory) {
    for (uint32_t at = 0; at < memory->room; at++) {
        if (!memory->pending[at].used) {
            return at;
        }
    }
    uint32_t room = memory->room ? 2 * memory->room : 64;
    struct pending *more = realloc(memory->pending, room * sizeof *more);
    if (more == NULL) {
        fail("memory", "no more");
    }
    memset(more + memory->room, 0, (room - memory->room) * sizeof *more);
    uint32_t place = memory->room;
    memory->pending = more;
    memory->room = room;
    return place;
}

/* Begins a message: reads or stores its bytes, and notes its lines. */
static void begin(struct memory *memory, volatile union SimbricksProtoMemH2M *message, uint8_t type) {
    /* Reads and writes have the same fields but for the data. */
    uint64_t address = message->read.addr - memory->base;
    uint16_t len = message->read.len;
    if (message->read.addr < memory->base || len == 0) {
        fail("message", "its address is below BASE, or it has no bytes");
    }
    bool write = type != SIMBRICKS_PROTO_MEM_H2M_MSG_READ;
    size_t head = write ? sizeof(struct SimbricksProtoMemH2MWrite) : sizeof(struct SimbricksProtoMemM2HReadcomp);
    if (len > SimbricksMemIfM2HOutMsgLen(&memory->link) - head) {
        fail("message", "it is longer than the entries of the queue");
    }
    memory->place = free_place(memory);
    struct pending *pending = &memory->pending[memory->place];
    *pending = (struct pending){
        .host_id = message->read.req_id,
        .len = len,
        .used = true,
        .write = write,
        .posted = type == SIMBRICKS_PROTO_MEM_H2M_MSG_WRITE_POSTED,
        .data = write ? NULL : malloc(len),
    };
    if (write) {
        const void *bytes = (const void *)(uintptr_t)message->write.data;
        check(cxlab_write(memory->system, memory->port, address, bytes, len));
    } else {
        check(cxlab_read(memory->system, memory->port, address, pending->data, len));
    }
    memory->next = address / LINE * LINE;
    memory->end = (address + len + LINE - 1) / LINE * LINE;
    uint64_t lines = memory->end - memory->next;
    pending->left = (uint32_t)((lines + memory->most_bytes - 1) / memory->most_bytes);
    memory->in_flight++;
    memory->message = message;
}

/* Hands over requests of the message that was read last; false if the port is full. */
static bool submit(struct memory *memory) {
    while (memory->next < memory->end) {
        uint64_t size = memory->end - memory->next;
        size = size < memory->most_bytes ? size : memory->most_bytes;
        uint32_t kind = memory->pending[memory->place].write ? CXLAB_WRITE : CXLAB_READ;
        int32_t status = cxlab_submit(memory->system, memory->port, memory->place, memory->next, size, kind, memory->now);
        if (status == CXLAB_ERROR_FULL) {
            return false;
        }
        check(status);
        memory->next += size;
    }
    if (memory->message != NULL) {
        SimbricksMemIfH2MInDone(&memory->link, memory->message);
        memory->message = NULL;
    }
    return true;
}

/* Reads the messages whose time has come; false if the port is full and one waits. */
static bool receive(struct memory *memory) {
    while (submit(memory)) {
        volatile union SimbricksProtoMemH2M *message = SimbricksMemIfH2MInPoll(&memory->link, memory->now);
        if (message == NULL) {
            return true;
        }
        uint8_t type = SimbricksMemIfH2MInType(&memory->link, message);
        switch (type) {
        case SIMBRICKS_PROTO_MEM_H2M_MSG_READ:
        case SIMBRICKS_PROTO_MEM_H2M_MSG_WRITE:
        case SIMBRICKS_PROTO_MEM_H2M_MSG_WRITE_POSTED:
            begin(memory, message, type);
            break;
        case SIMBRICKS_PROTO_MSG_TYPE_SYNC:
        case SIMBRICKS_PROTO_MSG_TYPE_TERMINATE:
            SimbricksMemIfH2MInDone(&memory->link, message);
            break;
        default:
            fail("message", "its type is none of the memory protocol");
        }
    }
    return false;
}

static uint64_t earlier(uint64_t one, uint64_t other) { return one < other ? one : other; }

/* Follows the host until it terminates and nothing is in flight. */
static void run(struct memory *memory) {
    struct SimbricksBaseIf *base = &memory->link.base;
    while (!SimbricksBaseIfInTerminated(base) || memory->in_flight > 0) {
        check(cxlab_advance(memory->system, memory->now));
        take_completed(memory);
        while (SimbricksMemIfM2HOutSync(&memory->link, memory->now) != 0) {
            usleep(0);
        }
        bool waits = !receive(memory);
        uint64_t event;
        check(cxlab_next_event(memory->system, &event));
        /* What happens at a time is handled by advancing beyond it. */
        uint64_t next = event == CXLAB_NO_EVENT ? UINT64_MAX : event + 1;
        if (SimbricksBaseIfSyncEnabled(base)) {
            uint64_t in = SimbricksMemIfH2MInTimestamp(&memory->link);
            if (!waits) {
                if (in <= memory->now) {
                    /* The host has not said yet that nothing comes before a later time. */
                    continue;
                }
                next = earlier(next, in);
            }
            next = earlier(next, SimbricksMemIfM2HOutNextSync(&memory->link));
        }
        if (next != UINT64_MAX && next > memory->now) {
            memory->now = next;
        }
    }
}

static uint64_t number(int count, char **words, int at, uint64_t otherwise) {
    if (at >= count) {
        return otherwise;
    }
    char *end;
    uint64_t value = strtoull(words[at], &end, 0);
    if (*words[at] == '\0' || *end != '\0') {
        fail(words[at], "allowed: a number");
    }
    return value;
}

int main(int count, char **words) {
    if (count < 5 || count > 9) {
        fprintf(stderr, "usage: cxlab-simbricks SCENARIO PORT SOCKET SHM [SYNC [LINK_PS [INTERVAL_PS [BASE]]]]\n");
        return 2;
    }
    struct memory memory = {.base = number(count, words, 8, 0)};
    struct cxlab_options options = {.bytes = sizeof options, .path = words[1]};
    check(cxlab_create(&options, &memory.system));
    check(cxlab_find_port(memory.system, words[2], &memory.port));
    struct cxlab_port_info info;
    check(cxlab_get_port_info(memory.system, memory.port, &info));
    memory.most_bytes = info.most_bytes;

    struct SimbricksBaseIfParams params;
    SimbricksMemIfDefaultParams(&params);
    params.sock_path = words[3];
    uint64_t sync = number(count, words, 5, 2);
    if (sync > 2) {
        fail("SYNC", "allowed: 0, 1, 2");
    }
    params.sync_mode = (enum SimbricksBaseIfSyncMode)sync;
    params.link_latency = number(count, words, 6, 500000);
    params.sync_interval = number(count, words, 7, 500000);
    struct SimbricksBaseIfSHMPool pool;
    if (SimbricksBaseIfInit(&memory.link.base, &params) != 0 ||
        SimbricksBaseIfSHMPoolCreate(&pool, words[4], SimbricksBaseIfSHMSize(&params)) != 0 ||
        SimbricksBaseIfListen(&memory.link.base, &pool) != 0) {
        fail(words[3], "cannot listen there");
    }
    struct SimbricksProtoMemMemIntro own = {0};
    struct SimbricksProtoMemHostIntro host;
    struct SimBricksBaseIfEstablishData establish = {&memory.link.base, &own, sizeof own, &host, sizeof host};
    if (SimBricksBaseIfEstablish(&establish, 1) != 0) {
        fail(words[3], "no host came");
    }
    run(&memory);
    char *report;
    size_t length = 0;
    cxlab_report(memory.system, NULL, 0, &length);
    report = malloc(length + 1);
    check(cxlab_report(memory.system, report, length + 1, NULL));
    puts(report);
    free(report);
    free(memory.pending);
    SimbricksBaseIfClose(&memory.link.base);
    SimbricksBaseIfSHMPoolUnlink(&pool);
    check(cxlab_destroy(memory.system));
    return 0;
}
