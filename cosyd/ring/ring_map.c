/* Files and memory: sizes, the mirrored mapping, the check of a header. */
#include "ring_core.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static uint64_t page_bytes(void) { return (uint64_t)sysconf(_SC_PAGESIZE); }

static uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

static uint64_t header_bytes(void) { return round_up(sizeof(struct ring_header), page_bytes()); }

static uint32_t sample_bytes(uint32_t format) {
    switch (format) {
    case RING_S16: return 2;
    case RING_S24: return 3;
    case RING_S32:
    case RING_F32: return 4;
    default: return 0;
    }
}

static bool spec_valid(const struct ring_spec *spec) {
    return spec->rate_hz > 0 && spec->channels > 0 && spec->channels <= RING_MAX_CHANNELS &&
           sample_bytes(spec->format) > 0;
}

/* The mirror needs whole pages, the arithmetic whole frames: the data is a multiple of both. */
uint64_t ring_capacity_for(const struct ring_spec *spec, uint64_t frames) {
    if (!spec_valid(spec) || frames == 0) return 0;
    uint64_t frame = (uint64_t)spec->channels * sample_bytes(spec->format);
    uint64_t unit = frame, page = page_bytes();
    while (unit % page != 0) unit += frame; /* least common multiple: at most `page` steps */
    if (frames > RING_MAX_BYTES / frame) return 0;
    return round_up(frames * frame, unit) / frame;
}

/* --- mapping --------------------------------------------------------------------------------------- */

static bool map_part(unsigned char *at, size_t length, int fd, uint64_t offset, int protection, int flags) {
    return mmap(at, length, protection, MAP_SHARED | MAP_FIXED | flags, fd, (off_t)offset) != MAP_FAILED;
}

/* header | data | data again. The writer's pages are made present now: no page fault on the audio thread. */
static enum ring_status map_file(struct ring_map *map, int fd, size_t head, size_t data, bool for_writing) {
    size_t length = head + 2 * data;
    unsigned char *base = mmap(NULL, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return RING_SYSTEM;
    int protection = for_writing ? PROT_READ | PROT_WRITE : PROT_READ;
    int populate = for_writing ? MAP_POPULATE : 0;
    if (!map_part(base, head, fd, 0, PROT_READ | PROT_WRITE, MAP_POPULATE) ||
        !map_part(base + head, data, fd, head, protection, populate) ||
        !map_part(base + head + data, data, fd, head, protection, populate)) {
        int error = errno;
        munmap(base, length);
        errno = error;
        return RING_SYSTEM;
    }
    map->header = (struct ring_header *)base;
    map->data = base + head;
    map->length = length;
    return RING_OK;
}

void ring_unmap(struct ring_map *map) {
    if (map->header != NULL) munmap(map->header, map->length);
    map->header = NULL;
    map->data = NULL;
}

static enum ring_status note_file(struct ring_map *map, int fd, const struct stat *known) {
    struct stat now;
    if (known == NULL && fstat(fd, &now) != 0) return RING_SYSTEM;
    const struct stat *file = known != NULL ? known : &now;
    map->device = file->st_dev;
    map->inode = file->st_ino;
    return RING_OK;
}

static void note_format(struct ring_map *map, const struct ring_header *header) {
    map->spec = (struct ring_spec){header->rate_hz, header->channels, header->format};
    map->frame_bytes = header->frame_bytes;
    map->capacity = header->capacity;
}

/* Memory is claimed now, so that a full tmpfs is an error here and not a SIGBUS later. */
enum ring_status ring_map_create(struct ring_map *map, int fd, const struct ring_spec *spec, uint64_t capacity) {
    uint32_t frame = spec->channels * sample_bytes(spec->format);
    uint64_t head = header_bytes(), data = capacity * frame;
    int error = posix_fallocate(fd, 0, (off_t)(head + data));
    if (error != 0) {
        errno = error;
        return RING_SYSTEM;
    }
    enum ring_status status = map_file(map, fd, head, data, true);
    if (status != RING_OK) return status;
    struct ring_header *header = map->header; /* the file is new: all zero */
    header->magic = RING_MAGIC;
    header->version = RING_VERSION;
    header->rate_hz = spec->rate_hz;
    header->channels = spec->channels;
    header->format = spec->format;
    header->frame_bytes = frame;
    header->header_bytes = (uint32_t)head;
    header->capacity = capacity;
    note_format(map, header);
    return note_file(map, fd, NULL);
}

/* Nothing in the file is believed before it has been held against everything else in it. */
static enum ring_status check(const struct ring_header *header, uint64_t file_bytes) {
    if (header->magic != RING_MAGIC) return RING_NOT_A_RING;
    if (header->version != RING_VERSION) return RING_OTHER_VERSION;
    struct ring_spec spec = {header->rate_hz, header->channels, header->format};
    if (!spec_valid(&spec) || header->frame_bytes != spec.channels * sample_bytes(spec.format) ||
        header->header_bytes != header_bytes() || header->capacity == 0 ||
        header->capacity > RING_MAX_BYTES / header->frame_bytes ||
        ring_capacity_for(&spec, header->capacity) != header->capacity ||
        file_bytes != header->header_bytes + header->capacity * header->frame_bytes)
        return RING_NOT_A_RING;
    return RING_OK;
}

enum ring_status ring_map_open(struct ring_map *map, int fd, bool for_writing) {
    struct stat file;
    struct ring_header header;
    if (fstat(fd, &file) != 0) return RING_SYSTEM;
    if (!S_ISREG(file.st_mode) || file.st_size < (off_t)sizeof header) return RING_NOT_A_RING;
    if (pread(fd, &header, sizeof header, 0) != (ssize_t)sizeof header) return RING_SYSTEM;
    enum ring_status status = check(&header, (uint64_t)file.st_size);
    if (status != RING_OK) return status;
    uint64_t data = header.capacity * header.frame_bytes;
    status = map_file(map, fd, header.header_bytes, data, for_writing);
    if (status != RING_OK) return status;
    note_format(map, &header);
    return note_file(map, fd, &file);
}

bool ring_path_is(const char *path, dev_t device, ino_t inode) {
    struct stat file;
    return stat(path, &file) == 0 && file.st_dev == device && file.st_ino == inode;
}
