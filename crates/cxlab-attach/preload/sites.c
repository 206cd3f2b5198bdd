/* Tells where a program allocated its memory. The dynamic loader loads it into the program before the
 * C library (LD_PRELOAD); cxlab reads its tables from outside, and nothing in the program waits for that.
 *
 * An allocation site is a place that calls malloc and its kin, with the calls that led there. It is known
 * by the return address, the depth of the stack, and the nearest other return address of the program on
 * the stack (T. Mytkowicz et al., "Inferred Call Path Profiling", OOPSLA 2009, use the first two). The
 * whole stack is walked once a site, when it allocates first.
 *
 * Every 16 bytes of small blocks and every page of large ones have the number of their site, in tables that
 * the kernel fills with zeroes as they are touched. Freed memory keeps its number until it is used again.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SITES 65536u
#define FRAMES 24
/* Frames of this file above the caller of malloc. */
#define OWN_FRAMES 3
#define GIB_SHIFT 30
#define GIBS (1u << 17)
#define GRANULE_SHIFT 4
#define PAGE_SHIFT 12
#define PAGE ((size_t)1 << PAGE_SHIFT)
#define GIB ((size_t)1 << GIB_SHIFT)
/* From this size on, whole pages have the number and not every granule. */
#define LARGE 8192u
/* Number of a page whose granules have numbers of their own. */
#define MIXED UINT32_MAX
/* Words of the stack in which the nearest return address of the program is looked for. */
#define NEAR 24

struct site {
    _Atomic uint64_t key;
    /* Bytes allocated now, the most at a time, and the number of allocations. */
    _Atomic uint64_t live, most, count;
    /* Return addresses, innermost first. Zero behind the last. */
    uint64_t frames[FRAMES];
};

/* What cxlab reads. All of it is at a known symbol. */
struct tables {
    uint64_t magic;
    struct site *sites;
    _Atomic(uint32_t *) *pages;
    _Atomic(uint32_t *) *granules;
};

struct tables cxlab_allocation_sites = {0x31535445494c5843u, NULL, NULL, NULL};
#define sites (cxlab_allocation_sites.sites)
#define pages (cxlab_allocation_sites.pages)
#define granules (cxlab_allocation_sites.granules)

static _Atomic uint32_t used;
static uintptr_t text_from, text_to;

/* Whether this thread is in this file already, and where its stack begins. */
static __thread int inside __attribute__((tls_model("initial-exec")));
static __thread uintptr_t top __attribute__((tls_model("initial-exec")));

static void *(*real_malloc)(size_t);
static void *(*real_calloc)(size_t, size_t);
static void *(*real_realloc)(void *, size_t);
static void *(*real_memalign)(size_t, size_t);
static void (*real_free)(void *);

/* Memory for what the dynamic loader allocates while the functions above are looked up. */
static char early[1 << 16] __attribute__((aligned(16)));
static size_t early_used;

static int is_early(const void *block) {
    return (const char *)block >= early && (const char *)block < early + sizeof early;
}

static void *early_block(size_t size) {
    size_t need = (size + 31) & ~(size_t)15;
    if (need < size || early_used + need > sizeof early)
        return NULL;
    char *block = early + early_used + 16;
    memcpy(block - 16, &size, sizeof size);
    early_used += need;
    return block;
}

static size_t early_size(const void *block) {
    size_t size;
    memcpy(&size, (const char *)block - 16, sizeof size);
    return size;
}

/* Memory of zeroes that is no memory of the program: cxlab does not count mappings of devices. */
static void *space(size_t bytes) {
    int saved = errno, zero = open("/dev/zero", O_RDWR | O_CLOEXEC);
    int flags = MAP_PRIVATE | MAP_NORESERVE | (zero < 0 ? MAP_ANONYMOUS : 0);
    void *made = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, zero, 0);
    if (zero >= 0)
        close(zero);
    errno = saved;
    return made == MAP_FAILED ? NULL : made;
}

/* Finds the functions that this file stands before. Zero while that is under way. */
static int ready(void) {
    static int looking;
    if (__builtin_expect(real_free != NULL, 1))
        return 1;
    if (looking)
        return 0;
    looking = 1;
    *(void **)&real_malloc = dlsym(RTLD_NEXT, "malloc");
    *(void **)&real_calloc = dlsym(RTLD_NEXT, "calloc");
    *(void **)&real_realloc = dlsym(RTLD_NEXT, "realloc");
    *(void **)&real_memalign = dlsym(RTLD_NEXT, "memalign");
    if (!real_memalign)
        *(void **)&real_memalign = dlsym(RTLD_NEXT, "aligned_alloc");
    *(void **)&real_free = dlsym(RTLD_NEXT, "free");
    pages = space(GIBS * sizeof *pages);
    granules = space(GIBS * sizeof *granules);
    sites = space(SITES * sizeof *sites);
    looking = 0;
    return real_free != NULL;
}

/* Whether allocations of this thread are noted now. */
static int watches(void) { return !inside && sites && pages && granules; }

static int note_program(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size, (void)data;
    for (int at = 0; at < info->dlpi_phnum; at++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[at];
        if (part->p_type == PT_LOAD && (part->p_flags & PF_X)) {
            text_from = info->dlpi_addr + part->p_vaddr;
            text_to = text_from + part->p_memsz;
        }
    }
    return 1; /* The program is the first. */
}

__attribute__((constructor)) static void begin(void) {
    void *none[1];
    ready();
    inside = 1;
    dl_iterate_phdr(note_program, NULL);
    backtrace(none, 1); /* It loads a library the first time. */
    inside = 0;
}

static uint64_t mixed(uint64_t a, uint64_t b) {
    uint64_t x = (a ^ (b * 0x9e3779b97f4a7c15u)) + 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* The number of the site that calls with this return address, or 0. */
static __attribute__((noinline)) uint32_t site_of(uintptr_t caller, uintptr_t frame) {
    if (inside)
        return 0;
    inside = 1;
    if (!top)
        top = frame;
    uintptr_t other = 0;
    const uintptr_t *word = (const uintptr_t *)(frame + 2 * sizeof(uintptr_t));
    const uintptr_t *end = word + NEAR;
    if ((uintptr_t)end > top)
        end = (const uintptr_t *)top;
    for (; word < end; word++)
        if (*word >= text_from && *word < text_to && *word != caller) {
            other = *word;
            break;
        }
    int crowded = used > SITES / 4 * 3;
    uint64_t key = mixed(caller, crowded ? 0 : mixed(top - frame, other)) | 1;
    uint32_t number = 0;
    for (uint32_t probe = 0, at = key >> 32; probe < 64; probe++, at++) {
        uint32_t slot = at & (SITES - 1);
        if (!slot)
            continue; /* 0 means no site. */
        struct site *site = &sites[slot];
        uint64_t found = site->key;
        if (!found && atomic_compare_exchange_strong(&site->key, &found, key)) {
            void *frames[FRAMES + OWN_FRAMES];
            int saved = errno, count = backtrace(frames, FRAMES + OWN_FRAMES), from = 0;
            errno = saved;
            used++;
            while (from < count && (uintptr_t)frames[from] != caller)
                from++;
            if (from == count)
                site->frames[0] = caller;
            for (int i = 0; from + i < count && i < FRAMES; i++)
                site->frames[i] = (uintptr_t)frames[from + i];
            found = key;
        }
        if (!found || found == key) {
            number = slot;
            break;
        }
    }
    inside = 0;
    return number;
}

/* The table of this number of entries for an address, made where it is missing. */
static uint32_t *table(_Atomic(uint32_t *) *roots, uintptr_t address, unsigned shift) {
    uintptr_t gib = address >> GIB_SHIFT;
    if (gib >= GIBS)
        return NULL;
    uint32_t *found = roots[gib];
    if (found)
        return found;
    size_t bytes = (GIB >> shift) * sizeof(uint32_t);
    uint32_t *made = space(bytes);
    if (!made)
        return NULL;
    uint32_t *none = NULL;
    if (atomic_compare_exchange_strong(&roots[gib], &none, made))
        return made;
    munmap(made, bytes);
    return none;
}

static void put(_Atomic(uint32_t *) *roots, uintptr_t from, uintptr_t to, unsigned shift, uint32_t number) {
    while (from < to) {
        uint32_t *entries = table(roots, from, shift);
        if (!entries)
            return;
        uintptr_t end = (from | (GIB - 1)) + 1;
        if (end > to || !end)
            end = to;
        for (; from < end; from += (uintptr_t)1 << shift)
            entries[(from & (GIB - 1)) >> shift] = number;
    }
}

static void mark(void *block, size_t size, uint32_t number) {
    uintptr_t from = (uintptr_t)block & ~(uintptr_t)15;
    uintptr_t to = ((uintptr_t)block + size + 15) & ~(uintptr_t)15;
    if (size < LARGE) {
        put(pages, from & ~(PAGE - 1), to, PAGE_SHIFT, MIXED);
        put(granules, from, to, GRANULE_SHIFT, number);
        return;
    }
    uintptr_t first = (from + PAGE - 1) & ~(PAGE - 1), last = to & ~(PAGE - 1);
    if (from < first) {
        put(pages, first - PAGE, first, PAGE_SHIFT, MIXED);
        put(granules, from, first, GRANULE_SHIFT, number);
    }
    put(pages, first, last, PAGE_SHIFT, number);
    if (last < to) {
        put(pages, last, to, PAGE_SHIFT, MIXED);
        put(granules, last, to, GRANULE_SHIFT, number);
    }
}

static uint32_t marked(const void *block) {
    uintptr_t at = (uintptr_t)block, gib = at >> GIB_SHIFT;
    uint32_t *entries = gib < GIBS ? pages[gib] : NULL;
    uint32_t number = entries ? entries[(at & (GIB - 1)) >> PAGE_SHIFT] : 0;
    if (number == MIXED) {
        entries = granules[gib];
        number = entries ? entries[(at & (GIB - 1)) >> GRANULE_SHIFT] : 0;
    }
    return number;
}

static void *made(void *block, size_t size, uintptr_t caller, uintptr_t frame) {
    if (!block || !watches())
        return block;
    uint32_t number = site_of(caller, frame);
    mark(block, size ? size : 1, number);
    struct site *site = &sites[number];
    uint64_t live = (site->live += malloc_usable_size(block));
    if (live > site->most)
        site->most = live;
    site->count++;
    return block;
}

static void gone(void *block) {
    if (block && watches())
        sites[marked(block)].live -= malloc_usable_size(block);
}

#define CALLER ((uintptr_t)__builtin_return_address(0)), ((uintptr_t)__builtin_frame_address(0))
#define EXPORT __attribute__((visibility("default")))

EXPORT void *malloc(size_t size) {
    if (!ready())
        return early_block(size);
    return made(real_malloc(size), size, CALLER);
}

EXPORT void *calloc(size_t count, size_t size) {
    size_t all;
    if (!ready())
        return __builtin_mul_overflow(count, size, &all) ? NULL : early_block(all);
    void *block = real_calloc(count, size);
    return made(block, count * size, CALLER);
}

EXPORT void free(void *block) {
    if (is_early(block) || !ready())
        return;
    gone(block);
    real_free(block);
}

static void *moved(void *block, size_t size, uintptr_t caller, uintptr_t frame) {
    if (is_early(block)) {
        void *fresh = made(real_malloc(size), size, caller, frame);
        size_t had = early_size(block);
        if (fresh)
            memcpy(fresh, block, had < size ? had : size);
        return fresh;
    }
    int known = block && watches();
    uint32_t number = known ? marked(block) : 0;
    size_t had = known ? malloc_usable_size(block) : 0;
    void *fresh = real_realloc(block, size);
    if (known && (fresh || !size))
        sites[number].live -= had;
    return made(fresh, size, caller, frame);
}

EXPORT void *realloc(void *block, size_t size) {
    if (!ready())
        return early_block(size);
    return moved(block, size, CALLER);
}

EXPORT void *reallocarray(void *block, size_t count, size_t size) {
    size_t all;
    if (__builtin_mul_overflow(count, size, &all)) {
        errno = ENOMEM;
        return NULL;
    }
    if (!ready())
        return early_block(all);
    return moved(block, all, CALLER);
}

static void *aligned(size_t alignment, size_t size, uintptr_t caller, uintptr_t frame) {
    if (!ready())
        return NULL;
    return made(real_memalign(alignment, size), size, caller, frame);
}

EXPORT void *memalign(size_t alignment, size_t size) { return aligned(alignment, size, CALLER); }
EXPORT void *aligned_alloc(size_t alignment, size_t size) { return aligned(alignment, size, CALLER); }
EXPORT void *valloc(size_t size) { return aligned(PAGE, size, CALLER); }
EXPORT void *pvalloc(size_t size) { return aligned(PAGE, (size + PAGE - 1) & ~(PAGE - 1), CALLER); }

EXPORT int posix_memalign(void **block, size_t alignment, size_t size) {
    if (alignment < sizeof(void *) || alignment & (alignment - 1))
        return EINVAL;
    int saved = errno;
    void *fresh = aligned(alignment, size, CALLER);
    errno = saved;
    if (!fresh)
        return ENOMEM;
    *block = fresh;
    return 0;
}

/* C++'s operator new calls malloc from one place, so its own caller is the site. The forms that may throw
 * are left to the library where there is no memory. */
#define NEW(NAME)                                                                                       \
    EXPORT void *NAME(size_t size) {                                                                    \
        static void *(*real)(size_t);                                                                   \
        if (!real)                                                                                      \
            *(void **)&real = dlsym(RTLD_NEXT, #NAME);                                                  \
        int was = inside;                                                                               \
        inside = 1;                                                                                     \
        void *block = real ? real(size) : malloc(size);                                                 \
        inside = was;                                                                                   \
        return made(block, size, CALLER);                                                               \
    }

NEW(_Znwm)
NEW(_Znam)
