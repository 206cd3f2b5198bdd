/* roi begin|end: a region of interest begins or ends here. Programs may also do so themselves, by the
 * same instruction. */
#include <stdio.h>
#include <string.h>

#define MARK(number) __asm__ volatile("nopl %c0(%%rax,%%rax,1)" ::"i"(0x0c1c1000 + (number)) : "memory")

int main(int count, char **words)
{
    if (count == 2 && !strcmp(words[1], "begin")) {
        MARK(3);
        return 0;
    }
    if (count == 2 && !strcmp(words[1], "end")) {
        MARK(4);
        return 0;
    }
    fprintf(stderr, "usage: roi begin|end\n");
    return 2;
}
