/*
 * How a writer comes to its ring: create, adopt or replace.
 *
 * The writer holds flock(2) on the file for as long as it lives; the kernel lets go of it however the
 * process ends. A new file gets its name only when it is complete (O_TMPFILE, then linkat), so nobody ever
 * sees half a ring, and a process that dies on the way leaves nothing behind.
 */
#include "ring_core.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODE 0640
#define ATTEMPTS 100 /* races against others that create and remove the same path; each costs microseconds */

static bool folder_of(const char *path, char folder[PATH_MAX]) {
    const char *slash = strrchr(path, '/');
    if (slash == NULL || (size_t)(slash - path) >= PATH_MAX) return false;
    size_t length = slash == path ? 1 : (size_t)(slash - path);
    memcpy(folder, path, length);
    folder[length] = '\0';
    return true;
}

/* Forks that never exec would keep the lock; cosyd starts processes by spawn only, hence O_CLOEXEC is enough. */
static int nameless_file(const char *path) {
    char folder[PATH_MAX];
    if (!folder_of(path, folder)) {
        errno = EINVAL;
        return -1;
    }
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, MODE);
    if (fd < 0) return -1;
    if (fchmod(fd, MODE) == 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) return fd; /* umask takes nothing away */
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static bool give_name(int fd, const char *path) {
    char self[64];
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    return linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0;
}

static void take_office(struct ring_header *header, uint64_t write) {
    atomic_store_explicit(&header->writer, ring_identity(), memory_order_relaxed);
    atomic_fetch_add_explicit(&header->epoch, 1, memory_order_relaxed);
    atomic_store_explicit(&header->reserve, write, memory_order_release);
    atomic_store_explicit(&header->write, write, memory_order_release);
    atomic_store_explicit(&header->state, RING_OPEN, memory_order_release);
    ring_wake_all(header);
}

static enum ring_status create(struct ring_writer *self, const struct ring_spec *spec, uint64_t capacity,
                               uint64_t start) {
    int fd = nameless_file(self->map.path);
    if (fd < 0) return RING_SYSTEM;
    enum ring_status status = ring_map_create(&self->map, fd, spec, capacity);
    if (status == RING_OK) {
        atomic_store_explicit(&self->map.header->begin, start, memory_order_relaxed);
        take_office(self->map.header, start);
        if (give_name(fd, self->map.path)) {
            self->fd = fd;
            return RING_OK;
        }
        status = RING_SYSTEM;
    }
    int error = errno;
    ring_unmap(&self->map);
    close(fd);
    errno = error;
    return status;
}

/*
 * Takes over what a dead writer left, at whichever instruction it died.
 * - In skip(): the gap stands in the table, the clock is not there yet: the clock is moved on.
 * - In write(): `reserve` is ahead; those frames never became visible, but they may have overwritten the
 *   oldest ones, which `begin` now hides.
 */
static void adopt(struct ring_map *map) {
    struct ring_header *header = map->header;
    uint64_t write = atomic_load_explicit(&header->write, memory_order_acquire);
    uint64_t reserve = atomic_load_explicit(&header->reserve, memory_order_acquire);
    uint64_t begin = atomic_load_explicit(&header->begin, memory_order_relaxed);
    uint64_t gaps = atomic_load_explicit(&header->gap_count, memory_order_acquire);
    if (gaps > 0) {
        struct ring_gap *last = &header->gaps[(gaps - 1) % RING_GAPS];
        uint64_t end = atomic_load_explicit(&last->start, memory_order_relaxed) +
                       atomic_load_explicit(&last->frames, memory_order_relaxed);
        if (end > write) write = reserve = end;
    }
    if (reserve > write && reserve > map->capacity) {
        uint64_t spoilt = reserve - map->capacity < write ? reserve - map->capacity : write;
        if (spoilt > begin) atomic_store_explicit(&header->begin, spoilt, memory_order_release);
    }
    take_office(header, write);
}

static void retire(struct ring_header *header) {
    atomic_store_explicit(&header->state, RING_REPLACED, memory_order_release);
    ring_wake_all(header);
}

/* The locked file `fd` holds something: the same kind of ring (kept), or anything else (removed). */
static enum ring_status adopt_or_remove(struct ring_writer *self, int fd, const struct ring_spec *spec,
                                        uint64_t capacity, bool *removed) {
    enum ring_status status = ring_map_open(&self->map, fd, true);
    bool ring = status == RING_OK;
    if (ring && self->map.capacity == capacity && memcmp(&self->map.spec, spec, sizeof *spec) == 0) {
        adopt(&self->map);
        self->fd = fd;
        self->adopted = true;
        return RING_OK;
    }
    if (status == RING_SYSTEM) return status;
    if (unlink(self->map.path) != 0 && errno != ENOENT) status = RING_SYSTEM;
    else status = RING_OK;
    int error = errno;
    if (ring) retire(self->map.header);
    ring_unmap(&self->map);
    errno = error;
    *removed = true;
    return status;
}

/* One attempt at what is there; `*again`: somebody else was quicker, or the path is free now. */
static enum ring_status take_existing(struct ring_writer *self, int fd, const struct ring_spec *spec,
                                      uint64_t capacity, bool *again) {
    struct stat file;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) return errno == EWOULDBLOCK ? RING_BUSY : RING_SYSTEM;
    if (fstat(fd, &file) != 0) return RING_SYSTEM;
    if (!S_ISREG(file.st_mode)) return RING_NOT_A_RING;
    if (!ring_path_is(self->map.path, file.st_dev, file.st_ino)) {
        *again = true;
        return RING_OK;
    }
    return adopt_or_remove(self, fd, spec, capacity, again);
}

static enum ring_status attempt(struct ring_writer *self, const struct ring_spec *spec, uint64_t capacity,
                                uint64_t start, bool *again) {
    int fd = open(self->map.path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && errno != ENOENT) return RING_SYSTEM;
    if (fd < 0) {
        enum ring_status status = create(self, spec, capacity, start);
        *again = status == RING_SYSTEM && errno == EEXIST;
        return status;
    }
    enum ring_status status = take_existing(self, fd, spec, capacity, again);
    if (status != RING_OK || *again) {
        int error = errno;
        close(fd);
        errno = error;
    }
    return status;
}

enum ring_status ring_writer_open(struct ring_writer *self, const char *path, const struct ring_spec *spec,
                                  uint64_t frames, uint64_t start) {
    memset(self, 0, sizeof *self);
    self->fd = -1;
    atomic_store_explicit(&self->resumed, RING_NOT_YET, memory_order_relaxed);
    uint64_t capacity = ring_capacity_for(spec, frames);
    if (capacity == 0 || strlen(path) >= sizeof self->map.path) return RING_BAD_SPEC;
    strcpy(self->map.path, path);
    for (int left = ATTEMPTS; left > 0; left--) {
        bool again = false;
        enum ring_status status = attempt(self, spec, capacity, start, &again);
        if (!again) return status;
    }
    return RING_BUSY;
}
