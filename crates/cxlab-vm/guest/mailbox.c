/* mailbox coherent|software|none [MESSAGES]: the first guest writes messages of 1 KiB into a mailbox, and
 * the second reads them and says how many had arrived as they were written. Without a protocol, the second
 * stops waiting after some time. */
#include "shared.h"

enum { WORDS = 128, PATIENCE = 2000 };

struct shared {
    struct word ready[2], written, taken;
    volatile uint64_t text[WORDS] __attribute__((aligned(LINE)));
};

static void sync_text(struct shared *all)
{
    for (int i = 0; i < WORDS; i += LINE / sizeof(uint64_t))
        sync_line(&all->text[i]);
}

/* Waits for a word to have a value; false if it never has. */
static int comes(struct word *word, uint64_t value)
{
    for (int i = 0; protocol != NONE || i < PATIENCE; i++)
        if (get(word) == value)
            return 1;
    return 0;
}

int main(int count, char **words)
{
    long messages, good = 0, number = 1;
    struct shared *all = join(count, words, &messages);
    meet(all->ready);
    double began = now_ns();
    for (; number <= messages; number++) {
        if (!me) {
            for (int i = 0; i < WORDS; i++)
                all->text[i] = (uint64_t)number * 1000003 + i;
            sync_text(all);
            put(&all->written, number);
            if (!comes(&all->taken, number))
                break;
            continue;
        }
        if (!comes(&all->written, number))
            break;
        int equal = 1;
        sync_text(all);
        for (int i = 0; i < WORDS; i++)
            equal &= all->text[i] == (uint64_t)number * 1000003 + i;
        good += equal;
        put(&all->taken, number);
    }
    double took = (now_ns() - began) / messages;
    if (me)
        printf("mailbox %ld of %ld messages arrived, %.1f ns each\n", good, messages, took);
    return 0;
}
