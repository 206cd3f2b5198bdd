/* table coherent|software|none [UPDATES]: two guests count keys in one hash table, under a lock.
 *
 * coherent: a lock by an atomic exchange. software: Peterson's lock, and each line that is read is dropped
 * before, each that is written is written back. none: the same without any of that. At the end, both write their
 * lines back, and the first guest says how many updates the table has. */
#include "shared.h"

enum { SLOTS = 64, KEYS = 24 };

struct slot {
    volatile uint64_t key, count;
};

struct shared {
    struct word ready[2], wants[2], turn, lock, done[2];
    struct slot slots[SLOTS] __attribute__((aligned(LINE)));
};

static void lock(struct shared *all)
{
    if (protocol == COHERENT) {
        while (__atomic_exchange_n(&all->lock.value, 1, __ATOMIC_ACQUIRE))
            ;
        return;
    }
    put(&all->wants[me], 1);
    put(&all->turn, !me);
    __sync_synchronize();
    while (get(&all->wants[!me]) && get(&all->turn) == (uint64_t)!me)
        ;
}

static void unlock(struct shared *all)
{
    if (protocol == COHERENT)
        __atomic_store_n(&all->lock.value, 0, __ATOMIC_RELEASE);
    else
        put(&all->wants[me], 0);
}

static void add(struct shared *all, uint64_t key)
{
    for (uint64_t at = key * 0x9e3779b97f4a7c15ull >> 58;; at = (at + 1) % SLOTS) {
        struct slot *slot = &all->slots[at];
        sync_line(slot);
        if (slot->key && slot->key != key)
            continue;
        slot->key = key;
        slot->count++;
        sync_line(slot);
        return;
    }
}

int main(int count, char **words)
{
    long updates;
    struct shared *all = join(count, words, &updates);
    uint64_t state = 88172645463325252ull + me;
    meet(all->ready);
    double began = now_ns();
    for (long i = 0; i < updates; i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        lock(all);
        add(all, 1 + state % KEYS);
        unlock(all);
    }
    double took = now_ns() - began;
    for (int i = 0; i < SLOTS; i += LINE / sizeof(struct slot))
        flush(&all->slots[i]);
    meet(all->done);
    uint64_t total = 0;
    for (int i = 0; i < SLOTS; i++) {
        flush(&all->slots[i]);
        total += all->slots[i].count;
    }
    printf("table %llu of %ld updates, %.1f ns each\n", (unsigned long long)total, 2 * updates,
           took / updates);
    return 0;
}
