/* A host for memory.c, by SimBricks' own interface: writes and reads numbers, and checks values and times.
 *
 *   peer SOCKET REQUESTS LINK_PS
 *
 * Each request waits for the one before. Prints `ok`, the requests and the sum of their latencies in picoseconds
 * without the link's, which a program that uses cxlab.h directly measures too.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <simbricks/mem/if.h>

static void fail(const char *why) {
    fprintf(stderr, "error: %s\n", why);
    exit(1);
}

/* Waits for the completion of a request, and returns its time. */
static uint64_t wait_for(struct SimbricksMemIf *link, uint64_t *now, uint64_t id, uint8_t type, uint64_t *value) {
    for (;;) {
        while (SimbricksMemIfH2MOutSync(link, *now) != 0) {
        }
        volatile union SimbricksProtoMemM2H *message = SimbricksMemIfM2HInPoll(link, *now);
        if (message == NULL) {
            uint64_t in = SimbricksMemIfM2HInTimestamp(link);
            uint64_t sync = SimbricksMemIfH2MOutNextSync(link);
            uint64_t next = in < sync ? in : sync;
            if (next > *now) {
                *now = next;
            }
            continue;
        }
        uint8_t found = SimbricksMemIfM2HInType(link, message);
        uint64_t time = message->base.header.timestamp;
        if (found != SIMBRICKS_PROTO_MSG_TYPE_SYNC) {
            if (found != type || message->readcomp.req_id != id) {
                fail("a completion of another request");
            }
            if (type == SIMBRICKS_PROTO_MEM_M2H_MSG_READCOMP) {
                memcpy(value, (const void *)(uintptr_t)message->readcomp.data, sizeof *value);
            }
        }
        SimbricksMemIfM2HInDone(link, message);
        if (found != SIMBRICKS_PROTO_MSG_TYPE_SYNC) {
            return time;
        }
    }
}

int main(int count, char **words) {
    if (count != 4) {
        fprintf(stderr, "usage: peer SOCKET REQUESTS LINK_PS\n");
        return 2;
    }
    struct SimbricksBaseIfParams params;
    SimbricksMemIfDefaultParams(&params);
    params.sock_path = words[1];
    params.sync_mode = kSimbricksBaseIfSyncRequired;
    params.link_latency = params.sync_interval = strtoull(words[3], NULL, 10);
    params.blocking_conn = true;
    struct SimbricksMemIf link;
    if (SimbricksBaseIfInit(&link.base, &params) != 0 || SimbricksBaseIfConnect(&link.base) != 0) {
        fail("cannot connect");
    }
    struct SimbricksProtoMemHostIntro own = {0};
    struct SimbricksProtoMemMemIntro memory;
    struct SimBricksBaseIfEstablishData establish = {&link.base, &own, sizeof own, &memory, sizeof memory};
    if (SimBricksBaseIfEstablish(&establish, 1) != 0) {
        fail("cannot connect");
    }

    uint64_t requests = strtoull(words[2], NULL, 10), now = 0, sum = 0;
    for (uint64_t id = 0; id < requests; id++) {
        /* A write of a number that lies across two lines, then a read of it. */
        uint64_t address = (id / 2 * 4096 + 60) % (1 << 28), number = (id / 2) * UINT64_C(0x9e3779b97f4a7c15), value = 0;
        volatile union SimbricksProtoMemH2M *out;
        while ((out = SimbricksMemIfH2MOutAlloc(&link, now)) == NULL) {
        }
        out->read.req_id = id;
        out->read.as_id = 0;
        out->read.addr = address;
        out->read.len = sizeof number;
        uint64_t sent = now;
        uint8_t type = SIMBRICKS_PROTO_MEM_M2H_MSG_WRITECOMP;
        if (id % 2 == 0) {
            memcpy((void *)(uintptr_t)out->write.data, &number, sizeof number);
            SimbricksMemIfH2MOutSend(&link, out, SIMBRICKS_PROTO_MEM_H2M_MSG_WRITE);
        } else {
            type = SIMBRICKS_PROTO_MEM_M2H_MSG_READCOMP;
            SimbricksMemIfH2MOutSend(&link, out, SIMBRICKS_PROTO_MEM_H2M_MSG_READ);
        }
        uint64_t done = wait_for(&link, &now, id, type, &value);
        sum += done - sent - 2 * params.link_latency;
        if (id % 2 == 1 && value != number) {
            fail("a read returned another value than was written");
        }
    }
    SimbricksBaseIfClose(&link.base);
    printf("ok %" PRIu64 " requests, %" PRIu64 " ps\n", requests, sum);
    return 0;
}
