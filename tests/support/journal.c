/* Preloaded into a process: a journal of all that it changes and syncs below one folder, and a fault at one change.

   Each call of libc that changes or syncs files is made here, by its system call, and then recorded: so SQLite's and
   Rust's changes are seen like Python's. tests/support/disk.py builds this, and reads the journal:

       NAME INODE OFFSET LENGTH PATH \t OTHER \n BYTES         changes in their order; LENGTH counts BYTES

   JOURNAL_BELOW   the folder, absolute; a process may begin anew by journal_begin()
   JOURNAL_FILE    where records are appended, outside that folder
   JOURNAL_FAULT   AT:ERRNO[:FLAGS]. Change number AT of this process, from 0, fails with ERRNO; by 0 the process is killed.
                   FLAGS: h  half of a write is made first, and what is left of it fails
                          s  so do all later changes; with ENOSPC or EDQUOT, those that need room
   Not seen: maps of memory (SQLite's -shm), stdio's own writes, io_uring, and attributes of files. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t turn = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static char below[PATH_MAX];
static int journal = -1, number, half, stays, left_of_half;
static long changes, fails_at;

/* Begin anew: another folder, journal and fault; each may be empty, and nothing is below an empty folder. */
void journal_begin(const char *folder, const char *file, const char *fault) {
    char flags[8] = "";
    pthread_mutex_lock(&turn);
    if (!folder || !*folder || !realpath(folder, below)) below[0] = 0;
    if (journal >= 0) syscall(SYS_close, journal);
    journal = -1;
    if (file && *file) {
        int opened = syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        journal = fcntl(opened, F_DUPFD_CLOEXEC, 700);
        syscall(SYS_close, opened);
    }
    changes = 0, left_of_half = 0, fails_at = -1;
    if (fault && *fault) sscanf(fault, "%ld:%d:%7s", &fails_at, &number, flags);
    half = strchr(flags, 'h') != NULL, stays = strchr(flags, 's') != NULL;
    pthread_mutex_unlock(&turn);
}

static void take(void) { pthread_mutex_lock(&turn); }
static void give(void) { pthread_mutex_unlock(&turn); }

/* In a child, which has another number than the thread that took it, nobody could give a recursive mutex back. */
static void renew(void) { turn = (pthread_mutex_t)PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP; }

__attribute__((constructor)) static void begin(void) {
    pthread_atfork(take, give, renew);
    journal_begin(getenv("JOURNAL_BELOW"), getenv("JOURNAL_FILE"), getenv("JOURNAL_FAULT"));
}

static int is_below(const char *path) {
    size_t length = strlen(below);
    return length && !strncmp(path, below, length) && (path[length] == '/' || !path[length]);
}

/* The path of a descriptor. Returns whether it is below the folder. */
static int place_of(int file, char *place) {
    char link[32];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, place, PATH_MAX - 1);
    place[length < 0 ? 0 : length] = 0;
    return is_below(place);
}

/* The path of a name in a folder, whose own links are followed. Returns whether it is below the folder. */
static int place_in(int folder, const char *name, char *place) {
    char given[2 * PATH_MAX], parent[PATH_MAX];
    if (!below[0] || !name || !*name) return 0;
    if (*name == '/' || folder == AT_FDCWD) snprintf(given, PATH_MAX, "%s", name);
    else {
        place_of(folder, parent);
        snprintf(given, sizeof given, "%s/%s", parent, name);
    }
    for (size_t end = strlen(given); end > 1 && given[end - 1] == '/';) given[--end] = 0;
    char *last = strrchr(given, '/');
    const char *base = last ? last + 1 : given;
    if (last) *last = 0;
    if (!realpath(last ? (*given ? given : "/") : ".", parent)) return 0;
    return snprintf(place, PATH_MAX, "%s/%s", parent, base) < PATH_MAX && is_below(place);
}

static void record(const char *name, ino_t inode, off_t offset, const char *path, const char *other,
                   const void *bytes, size_t length) {
    char line[2 * PATH_MAX + 128];
    int kept = errno;
    int size = snprintf(line, sizeof line, "%s %lu %ld %zu %s\t%s\n", name, (unsigned long)inode, (long)offset, length,
                        path, other);
    struct iovec parts[] = {{line, size}, {(void *)bytes, length}};
    if (journal >= 0 && syscall(SYS_writev, journal, parts, 2) != (ssize_t)(size + length)) abort();
    errno = kept;
}

static void record_file(const char *name, int file, off_t offset, const char *path, const void *bytes, size_t length) {
    struct stat found;
    record(name, fstat(file, &found) ? 0 : found.st_ino, offset, path, "", bytes, length);
}

/* Whether this change fails, or ends the process; with `size` of a write, half of it may be made first. */
static int fails(int needs_room, size_t *size) {
    long own = changes++;
    int full = number == ENOSPC || number == EDQUOT;
    int late = stays && fails_at >= 0 && own > fails_at && (needs_room || !full);
    if (size && left_of_half) left_of_half = 0;
    else if (own != fails_at && !late) return 0;
    else if (size && half && own == fails_at && *size > 1) {
        *size /= 2, left_of_half = 1;
        return 0;
    }
    if (!number) kill(getpid(), SIGKILL);
    errno = number;
    return 1;
}

/* ---- names */

static int opens(int folder, const char *name, int flags, mode_t mode) {
    char place[PATH_MAX];
    struct stat found;
    int changing = flags & (O_CREAT | O_TRUNC) && (flags & O_TMPFILE) != O_TMPFILE;
    if (!changing || !place_in(folder, name, place)) return syscall(SYS_openat, folder, name, flags, mode);
    take();
    int made = stat(place, &found) != 0;
    int file = (made || flags & O_TRUNC) && fails(made, NULL) ? -1 : syscall(SYS_openat, folder, name, flags, mode);
    if (file >= 0 && made) record_file("create", file, fstat(file, &found) ? 0 : found.st_mode & 07777, place, "", 0);
    else if (file >= 0 && flags & O_TRUNC) record_file("truncate", file, 0, place, "", 0);
    give();
    return file;
}

static mode_t mode_in(int flags, va_list rest) { return flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; }

#define OPEN(called, parameters, folder, last)                                                                         \
    int called parameters {                                                                                            \
        va_list rest;                                                                                                  \
        va_start(rest, last);                                                                                          \
        mode_t mode = mode_in(flags, rest);                                                                            \
        va_end(rest);                                                                                                  \
        return opens(folder, name, flags, mode);                                                                       \
    }
OPEN(open, (const char *name, int flags, ...), AT_FDCWD, flags)
OPEN(open64, (const char *name, int flags, ...), AT_FDCWD, flags)
OPEN(openat, (int folder, const char *name, int flags, ...), folder, flags)
OPEN(openat64, (int folder, const char *name, int flags, ...), folder, flags)
int __open_2(const char *name, int flags) { return opens(AT_FDCWD, name, flags, 0); }
int __open64_2(const char *name, int flags) { return opens(AT_FDCWD, name, flags, 0); }
int creat(const char *name, mode_t mode) { return opens(AT_FDCWD, name, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *name, mode_t mode) { return creat(name, mode); }

/* A change of names by `call`, recorded as `name` of the inode that is at `path` before or after it. */
#define NAMED(seen, needs_room, name, path, other, call)                                                               \
    {                                                                                                                  \
        if (!(seen)) return call;                                                                                      \
        take();                                                                                                        \
        struct stat found = {0};                                                                                       \
        lstat(path, &found);                                                                                           \
        int done = fails(needs_room, NULL) ? -1 : call;                                                                \
        if (!done && !found.st_ino) lstat(path, &found);                                                               \
        if (!done) record(name, found.st_ino, found.st_mode & 07777, path, other, "", 0);                              \
        give();                                                                                                        \
        return done;                                                                                                   \
    }

int renameat2(int from, const char *name, int to, const char *other, unsigned flags) {
    char place[PATH_MAX], target[PATH_MAX];
    int seen = place_in(from, name, place) | place_in(to, other, target);
    NAMED(seen, 1, "rename", place, target, syscall(SYS_renameat2, from, name, to, other, flags))
}
int renameat(int from, const char *name, int to, const char *other) { return renameat2(from, name, to, other, 0); }
int rename(const char *name, const char *other) { return renameat2(AT_FDCWD, name, AT_FDCWD, other, 0); }

int linkat(int from, const char *name, int to, const char *other, int flags) {
    char place[PATH_MAX], target[PATH_MAX];
    int seen = place_in(from, name, place) | place_in(to, other, target);
    NAMED(seen, 1, "link", place, target, syscall(SYS_linkat, from, name, to, other, flags))
}
int link(const char *name, const char *other) { return linkat(AT_FDCWD, name, AT_FDCWD, other, 0); }

int unlinkat(int folder, const char *name, int flags) {
    char place[PATH_MAX];
    int seen = place_in(folder, name, place);
    NAMED(seen, 0, flags & AT_REMOVEDIR ? "rmdir" : "unlink", place, "", syscall(SYS_unlinkat, folder, name, flags))
}
int unlink(const char *name) { return unlinkat(AT_FDCWD, name, 0); }
int rmdir(const char *name) { return unlinkat(AT_FDCWD, name, AT_REMOVEDIR); }
int remove(const char *name) {
    int done = unlink(name);
    return done && errno == EISDIR ? rmdir(name) : done;
}

int mkdirat(int folder, const char *name, mode_t mode) {
    char place[PATH_MAX];
    int seen = place_in(folder, name, place);
    NAMED(seen, 1, "mkdir", place, "", syscall(SYS_mkdirat, folder, name, mode))
}
int mkdir(const char *name, mode_t mode) { return mkdirat(AT_FDCWD, name, mode); }

/* ---- contents */

/* Where a write without an offset begins. */
static off_t place_now(int file) {
    struct stat found;
    int flags = fcntl(file, F_GETFL);
    if (flags >= 0 && flags & O_APPEND) return fstat(file, &found) ? 0 : found.st_size;
    return lseek(file, 0, SEEK_CUR);
}

static ssize_t writes(int file, const void *bytes, size_t size, off_t at, int moves) {
    char place[PATH_MAX];
    if (!below[0] || !place_of(file, place))
        return moves ? syscall(SYS_write, file, bytes, size) : syscall(SYS_pwrite64, file, bytes, size, at);
    take();
    off_t first = moves ? place_now(file) : at;
    ssize_t done = -1;
    if (!fails(1, &size))
        done = moves ? syscall(SYS_write, file, bytes, size) : syscall(SYS_pwrite64, file, bytes, size, at);
    if (done > 0) record_file(moves ? "write" : "pwrite", file, first, place, bytes, done);
    if (left_of_half && !number) kill(getpid(), SIGKILL);
    give();
    return done;
}
ssize_t write(int file, const void *bytes, size_t size) { return writes(file, bytes, size, 0, 1); }
ssize_t pwrite(int file, const void *bytes, size_t size, off_t at) { return writes(file, bytes, size, at, 0); }
ssize_t pwrite64(int file, const void *bytes, size_t size, off_t at) { return writes(file, bytes, size, at, 0); }

ssize_t writev(int file, const struct iovec *parts, int count) {
    char place[PATH_MAX];
    if (!below[0] || !place_of(file, place)) return syscall(SYS_writev, file, parts, count);
    ssize_t total = 0;
    for (int part = 0; part < count; part++) {
        ssize_t done = parts[part].iov_len ? write(file, parts[part].iov_base, parts[part].iov_len) : 0;
        if (done < 0) return total ? total : -1;
        total += done;
        if ((size_t)done < parts[part].iov_len) break;
    }
    return total;
}

/* What the kernel copied is read back from the file that it copied to. */
static void record_copied(int file, off_t first, const char *place, ssize_t size) {
    char link[32], *bytes = malloc(size);
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    int readable = syscall(SYS_openat, AT_FDCWD, link, O_RDONLY | O_CLOEXEC);
    if (pread(readable, bytes, size, first) != size) abort();
    record_file("write", file, first, place, bytes, size);
    syscall(SYS_close, readable);
    free(bytes);
}

#define COPIED(at, call)                                                                                               \
    {                                                                                                                  \
        char place[PATH_MAX];                                                                                          \
        if (!below[0] || !place_of(to, place)) return call;                                                            \
        take();                                                                                                        \
        off_t first = at;                                                                                              \
        ssize_t done = fails(1, &size) ? -1 : call;                                                                    \
        if (done > 0) record_copied(to, first, place, done);                                                           \
        if (left_of_half && !number) kill(getpid(), SIGKILL);                                                          \
        give();                                                                                                        \
        return done;                                                                                                   \
    }
ssize_t sendfile(int to, int from, off_t *at, size_t size)
    COPIED(place_now(to), syscall(SYS_sendfile, to, from, at, size))
ssize_t sendfile64(int to, int from, off64_t *at, size_t size) { return sendfile(to, from, at, size); }
ssize_t copy_file_range(int from, off64_t *begin, int to, off64_t *at, size_t size, unsigned flags)
    COPIED(at ? *at : place_now(to), syscall(SYS_copy_file_range, from, begin, to, at, size, flags))

/* A change or sync of an open file. */
#define OPENED(needs_room, name, offset, call)                                                                         \
    {                                                                                                                  \
        char place[PATH_MAX];                                                                                          \
        if (!below[0] || !place_of(file, place)) return call;                                                          \
        take();                                                                                                        \
        int done = fails(needs_room, NULL) ? -1 : call;                                                                \
        if (!done) record_file(name, file, offset, place, "", 0);                                                      \
        give();                                                                                                        \
        return done;                                                                                                   \
    }
int ftruncate(int file, off_t size) OPENED(0, "truncate", size, syscall(SYS_ftruncate, file, size))
int ftruncate64(int file, off64_t size) { return ftruncate(file, size); }
int fsync(int file) OPENED(1, "fsync", 0, syscall(SYS_fsync, file))
int fdatasync(int file) OPENED(1, "fdatasync", 0, syscall(SYS_fdatasync, file))
