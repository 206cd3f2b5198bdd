/* Instructions of x86-64 that matter to memory that guests share: atomic ones, flushes of a line and
 * fences. Nothing here knows of QEMU.
 *
 * Left out: addresses by the segments FS and GS, and addresses of 32 bits.
 */
#ifndef CXLAB_DECODE_H
#define CXLAB_DECODE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum cxlab_instruction {
    CXLAB_OTHER,
    CXLAB_ATOMIC,
    CXLAB_IS_FLUSH, /* clflush, clflushopt */
    CXLAB_IS_CLEAN, /* clwb */
    CXLAB_IS_FENCE, /* sfence, mfence */
};

#define CXLAB_NO_REGISTER 16

/* The address of an operand: registers by their numbers in instructions. */
struct cxlab_operand {
    uint8_t base, index, shift;
    int64_t offset; /* with the address of the next instruction, where that is the base */
};

/* The operand that the ModRM byte at `code` begins. */
static inline struct cxlab_operand cxlab_operand(const uint8_t *code, const uint8_t *end,
                                                 uint8_t rex, uint64_t next)
{
    struct cxlab_operand to = {CXLAB_NO_REGISTER, CXLAB_NO_REGISTER, 0, 0};
    uint8_t mod = *code >> 6, base = *code & 7;
    code++;
    bool has_base = true;
    if (base == 4 && code < end) {
        uint8_t sib = *code++, index = (sib >> 3 & 7) | (rex & 2) << 2;
        base = sib & 7;
        has_base = base != 5 || mod;
        to.index = index == 4 ? CXLAB_NO_REGISTER : index;
        to.shift = sib >> 6;
    } else if (base == 5 && !mod) {
        has_base = false;
        to.offset = (int64_t)next;
    }
    if (has_base)
        to.base = base | (rex & 1) << 3;
    int32_t wide = 0;
    if (mod == 1 && code < end)
        to.offset += (int8_t)*code;
    else if ((mod == 2 || !has_base) && end - code >= 4) {
        memcpy(&wide, code, sizeof wide);
        to.offset += wide;
    }
    return to;
}

/* What an instruction of `bytes` at `address` is, and of a flush the operand. */
static inline enum cxlab_instruction cxlab_decode(const uint8_t *code, unsigned bytes,
                                                  uint64_t address, struct cxlab_operand *operand)
{
    const uint8_t *end = code + bytes;
    bool lock = false, wide = false, repeated = false;
    uint8_t rex = 0;
    for (; code < end; code++) {
        if (*code == 0xf0)
            lock = true;
        else if (*code == 0x66)
            wide = true;
        else if (*code == 0xf3 || *code == 0xf2)
            repeated = true;
        else if (*code != 0x2e && *code != 0x36 && *code != 0x3e && *code != 0x26)
            break;
    }
    if (code < end && (*code & 0xf0) == 0x40)
        rex = *code++;
    if (lock)
        return CXLAB_ATOMIC;
    if (end - code < 2)
        return CXLAB_OTHER;
    if (*code == 0x86 || *code == 0x87) /* xchg with memory is atomic by itself */
        return code[1] >> 6 == 3 ? CXLAB_OTHER : CXLAB_ATOMIC;
    if (code[0] != 0x0f || code[1] != 0xae || end - code < 3 || repeated)
        return CXLAB_OTHER;
    uint8_t group = code[2] >> 3 & 7;
    if (code[2] >> 6 == 3)
        return !wide && (group == 6 || group == 7) ? CXLAB_IS_FENCE : CXLAB_OTHER;
    *operand = cxlab_operand(code + 2, end, rex, address + bytes);
    if (group == 7)
        return CXLAB_IS_FLUSH;
    return wide && group == 6 ? CXLAB_IS_CLEAN : CXLAB_OTHER;
}

#endif
