/* Decodes instructions as the plugin does: decode HEX... prints for each its kind, and of a flush the
 * operand's base, index, shift and offset. Each is at address 0x400000. */
#include <stdio.h>

#include "decode.h"

int main(int count, char **words)
{
    for (int i = 1; i < count; i++) {
        uint8_t code[16];
        unsigned bytes = 0, byte;
        for (const char *at = words[i]; bytes < sizeof code && sscanf(at, "%2x", &byte) == 1; at += 2)
            code[bytes++] = (uint8_t)byte;
        struct cxlab_operand to = {0};
        enum cxlab_instruction kind = cxlab_decode(code, bytes, 0x400000, &to);
        if (kind == CXLAB_IS_FLUSH || kind == CXLAB_IS_CLEAN)
            printf("%d %d %d %d %lld\n", kind, to.base, to.index, to.shift, (long long)to.offset);
        else
            printf("%d\n", kind);
    }
    return 0;
}
