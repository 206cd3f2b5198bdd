// Threads add to shared counters, by atomic operations and under a lock, and pass a token from one to the next. Exit
// code 0 if no addition is lost and each thread sees what the one before has written.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 2, COUNTERS = 8 };

// Each in a line of its own.
struct line {
    uint64_t value, unused[7];
} __attribute__((aligned(64)));

static struct line added[COUNTERS], locked[COUNTERS], token, message[2];
static volatile char held __attribute__((aligned(64)));
static uint64_t rounds, wrong;

static void *add(void *argument) {
    const uint64_t thread = (uint64_t)argument;
    for (uint64_t i = 0; i < rounds; ++i) {
        __atomic_fetch_add(&added[i % COUNTERS].value, 1, __ATOMIC_SEQ_CST);
        while (__atomic_test_and_set(&held, __ATOMIC_ACQUIRE)) {
        }
        locked[(i + thread) % COUNTERS].value++;
        __atomic_clear(&held, __ATOMIC_RELEASE);
        // The token is passed with a message in another line.
        while (__atomic_load_n(&token.value, __ATOMIC_ACQUIRE) % THREADS != thread) {
        }
        const uint64_t turn = token.value;
        if (turn > 0 && message[(turn - 1) % 2].value != turn - 1) {
            __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
        }
        message[turn % 2].value = turn;
        __atomic_store_n(&token.value, turn + 1, __ATOMIC_RELEASE);
    }
    return NULL;
}

int main(int count, char **arguments) {
    rounds = count > 1 ? strtoull(arguments[1], NULL, 10) : 1000;
    pthread_t other;
    if (pthread_create(&other, NULL, add, (void *)1) != 0) {
        fprintf(stderr, "no second thread\n");
        return 2;
    }
    add(NULL);
    pthread_join(other, NULL);
    uint64_t atomic = 0, mutual = 0;
    for (int i = 0; i < COUNTERS; ++i) {
        atomic += added[i].value;
        mutual += locked[i].value;
    }
    printf("%llu and %llu of %llu additions, %llu wrong messages\n", (unsigned long long)atomic,
           (unsigned long long)mutual, (unsigned long long)(THREADS * rounds), (unsigned long long)wrong);
    return atomic == THREADS * rounds && mutual == THREADS * rounds && wrong == 0 ? 0 : 1;
}
