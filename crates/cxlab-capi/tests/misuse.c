// Wrong calls between right ones, for checkers of memory: each buffer has exactly the bytes that a call may use.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cxlab.h"

static const char SCENARIO[] =
    "name = \"outside\"\n"
    "[fabric]\n"
    "topology = { kind = \"direct\" }\n"
    "[[hosts]]\n"
    "name = \"outside\"\n"
    "kind = \"external\"\n"
    "depth = 4\n"
    "[[devices]]\n"
    "name = \"mem\"\n"
    "capacity = \"1 GiB\"\n";

static void expect(int line, int32_t found, int32_t code) {
    if (found != code) {
        fprintf(stderr, "line %d: found %d, expected %d: %s\n", line, found, code, cxlab_last_error());
        exit(1);
    }
}
#define IS(call, code) expect(__LINE__, call, code)
#define OK(call) IS(call, CXLAB_OK)

// A text in a buffer of its own.
static char *copy(const char *text) {
    char *buffer = malloc(strlen(text) + 1);
    return strcpy(buffer, text);
}

static void *other_thread(void *system) {
    uint64_t time;
    IS(cxlab_now(*(cxlab_system *)system, &time), CXLAB_ERROR_BUSY);
    return NULL;
}

struct seen {
    cxlab_system system;
    unsigned completed;
};

static void called(void *context, const struct cxlab_completed *completed) {
    struct seen *seen = context;
    seen->completed += completed->id == 7;
    IS(cxlab_advance(seen->system, completed->completed + 2), CXLAB_ERROR_BUSY);
    IS(cxlab_destroy(seen->system), CXLAB_ERROR_BUSY);
    pthread_t thread;
    pthread_create(&thread, NULL, other_thread, &seen->system);
    pthread_join(thread, NULL);
}

static cxlab_system create(void) {
    char *text = copy(SCENARIO), *change = copy("hosts[0].issue.outstanding=2");
    const char *set[] = {change};
    const uint64_t seed = 3;
    struct cxlab_options options = {
        .bytes = sizeof options, .text = text, .set = set, .set_count = 1, .seed = &seed, .can_save = 1};
    cxlab_system system = 0;
    OK(cxlab_create(&options, &system));
    free(text);
    free(change);
    return system;
}

static void buffers(cxlab_system system) {
    size_t length = 0;
    IS(cxlab_port_name(system, 0, NULL, 0, &length), CXLAB_ERROR_SPACE);
    char *name = malloc(length);
    IS(cxlab_port_name(system, 0, name, length, &length), CXLAB_ERROR_SPACE);
    name = realloc(name, length + 1);
    OK(cxlab_port_name(system, 0, name, length + 1, NULL));
    uint32_t port = 9;
    OK(cxlab_find_port(system, name, &port));
    name[0] = '\xff';
    IS(cxlab_find_port(system, name, &port), CXLAB_ERROR_TEXT);
    free(name);

    IS(cxlab_report(system, NULL, 0, &length), CXLAB_ERROR_SPACE);
    // Its speed makes the length of a report vary.
    const size_t room = length + 64;
    char *report = malloc(room);
    OK(cxlab_report(system, report, room, &length));
    if (strlen(report) != length || report[0] != '{') {
        expect(__LINE__, 1, 0);
    }
    free(report);

    unsigned char *bytes = malloc(100), *found = malloc(100);
    memset(bytes, 5, 100);
    OK(cxlab_write(system, 0, 4090, bytes, 100));
    OK(cxlab_read(system, 0, 4090, found, 100));
    IS(memcmp(bytes, found, 100), 0);
    IS(cxlab_read(system, 0, UINT64_MAX - 50, found, 100), CXLAB_ERROR_ADDRESS);
    IS(cxlab_read(system, 0, 0, NULL, 100), CXLAB_ERROR_NULL);
    free(bytes);
    free(found);
}

static void requests(cxlab_system system) {
    IS(cxlab_submit(system, 1, 0, 0, 64, CXLAB_READ, 0), CXLAB_ERROR_PORT);
    IS(cxlab_submit(system, 0, 0, 1, 64, CXLAB_READ, 0), CXLAB_ERROR_ADDRESS);
    IS(cxlab_submit(system, 0, 0, 0, 65, CXLAB_READ, 0), CXLAB_ERROR_SIZE);
    IS(cxlab_submit(system, 0, 0, 0, 64, 2, 0), CXLAB_ERROR_KIND);
    for (uint64_t id = 0; id < 4; ++id) {
        OK(cxlab_submit(system, 0, id, 64 * id, 64, id % 2, 1000));
    }
    IS(cxlab_submit(system, 0, 4, 0, 64, CXLAB_READ, 1000), CXLAB_ERROR_FULL);
    IS(cxlab_submit(system, 0, 4, 0, 64, CXLAB_READ, 999), CXLAB_ERROR_TIME);
    OK(cxlab_advance(system, 100000000));
    IS(cxlab_advance(system, 99999999), CXLAB_ERROR_TIME);

    size_t count = 9, all = 0;
    struct cxlab_completed *taken = malloc(3 * sizeof *taken);
    IS(cxlab_take_completed(system, NULL, 3, &count), CXLAB_ERROR_NULL);
    do {
        OK(cxlab_take_completed(system, taken, 3, &count));
        all += count;
    } while (count == 3);
    // Each completes once.
    OK(cxlab_take_completed(system, taken, 3, &count));
    IS((int32_t)all, 4);
    IS((int32_t)count, 0);
    free(taken);

    struct seen *seen = malloc(sizeof *seen);
    *seen = (struct seen){system, 0};
    OK(cxlab_set_callback(system, called, seen));
    OK(cxlab_submit(system, 0, 7, 0, 64, CXLAB_READ, 100000000));
    OK(cxlab_advance(system, 200000000));
    IS((int32_t)seen->completed, 1);
    OK(cxlab_set_callback(system, NULL, NULL));
    free(seen);
}

int main(int count, char **arguments) {
    IS(count, 2);
    cxlab_system system = 0;
    struct cxlab_options options = {.bytes = sizeof options};
    IS(cxlab_create(NULL, &system), CXLAB_ERROR_NULL);
    IS(cxlab_create(&options, &system), CXLAB_ERROR_SCENARIO);
    options.text = "name = 3";
    IS(cxlab_create(&options, &system), CXLAB_ERROR_SCENARIO);
    options.bytes = 3;
    IS(cxlab_create(&options, &system), CXLAB_ERROR_ABI);

    system = create();
    buffers(system);
    requests(system);
    OK(cxlab_save(system, arguments[1]));
    IS(cxlab_restore(system, arguments[1]), CXLAB_ERROR_STATE);
    const cxlab_system other = create();
    OK(cxlab_restore(other, arguments[1]));
    uint64_t time = 0;
    OK(cxlab_now(other, &time));
    IS((int32_t)(time / 1000000), 200);
    OK(cxlab_destroy(system));
    IS(cxlab_destroy(system), CXLAB_ERROR_HANDLE);
    IS(cxlab_advance(system, 300000000), CXLAB_ERROR_HANDLE);
    OK(cxlab_close_port(other, 0));
    IS(cxlab_submit(other, 0, 0, 0, 64, CXLAB_READ, 300000000), CXLAB_ERROR_CLOSED);
    OK(cxlab_drain(other));
    OK(cxlab_destroy(other));
    puts("ok");
    return 0;
}
