/* Makes calls of the C library fail, for LD_PRELOAD: CXLAB_FAIL="write:3" fails the third call, "write:3+" that and all
 * after it. With CXLAB_FAIL_IN only calls for files in that folder count. The file CXLAB_FAIL_MARK appears when one
 * failed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* Mappings of this size and above are large buffers. */
#define LARGE (4u << 20)

static char function[16];
static long number;
static int and_after;
static const char *folder;
static atomic_long count;

__attribute__((constructor)) static void begin(void) {
    const char *text = getenv("CXLAB_FAIL");
    const char *colon = text ? strchr(text, ':') : NULL;
    if (!colon || (size_t)(colon - text) >= sizeof function)
        return;
    memcpy(function, text, colon - text);
    char *end;
    number = strtol(colon + 1, &end, 10);
    and_after = *end == '+';
    folder = getenv("CXLAB_FAIL_IN");
    /* What this begins in turn does not fail. */
    unsetenv("CXLAB_FAIL");
}

static int fails(const char *name, int with) {
    if (!number || strcmp(name, function))
        return 0;
    long at = ++count;
    if (at != number && !(and_after && at > number))
        return 0;
    const char *mark = getenv("CXLAB_FAIL_MARK");
    if (mark) {
        long file = syscall(SYS_openat, AT_FDCWD, mark, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        if (file >= 0)
            syscall(SYS_close, file);
    }
    errno = with;
    return 1;
}

/* The same for a file by its path. */
static int path_fails(const char *name, const char *path, int with) {
    if (folder && strncmp(path, folder, strlen(folder)))
        return 0;
    return fails(name, with);
}

/* The same for an open file. */
static int file_fails(const char *name, int file, int with) {
    if (!number || strcmp(name, function))
        return 0;
    char link[32], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = folder ? readlink(link, path, sizeof path - 1) : 0;
    path[length < 0 ? 0 : length] = 0;
    return path_fails(name, path, with);
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int file, const void *bytes, size_t length) {
    return file_fails("write", file, ENOSPC) ? -1 : NEXT(write)(file, bytes, length);
}

ssize_t read(int file, void *bytes, size_t length) {
    return file_fails("read", file, EIO) ? -1 : NEXT(read)(file, bytes, length);
}

int open(const char *path, int flags, ...) {
    va_list list;
    va_start(list, flags);
    int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, int) : 0;
    va_end(list);
    return path_fails("open", path, EMFILE) ? -1 : NEXT(open)(path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    va_list list;
    va_start(list, flags);
    int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, int) : 0;
    va_end(list);
    return path_fails("open", path, EMFILE) ? -1 : NEXT(open64)(path, flags, mode);
}

int rename(const char *from, const char *to) {
    return path_fails("rename", to, EIO) ? -1 : NEXT(rename)(from, to);
}

int unlink(const char *path) { return path_fails("unlink", path, EIO) ? -1 : NEXT(unlink)(path); }

int fsync(int file) { return file_fails("fsync", file, EIO) ? -1 : NEXT(fsync)(file); }

int mkdir(const char *path, mode_t mode) {
    return path_fails("mkdir", path, ENOSPC) ? -1 : NEXT(mkdir)(path, mode);
}

void *mmap(void *at, size_t length, int protection, int flags, int file, off_t offset) {
    if (length >= LARGE && fails("mmap", ENOMEM))
        return MAP_FAILED;
    return (void *)syscall(SYS_mmap, at, length, protection, flags, file, offset);
}

void *mmap64(void *at, size_t length, int protection, int flags, int file, off64_t offset) {
    return mmap(at, length, protection, flags, file, offset);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *with, void *(*run)(void *), void *of) {
    return fails("thread", EAGAIN) ? EAGAIN : NEXT(pthread_create)(thread, with, run, of);
}
