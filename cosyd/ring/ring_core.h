/*
 * The shared-memory ring: one writer, many readers in other processes, no locks.
 *
 * A ring is a file (on a tmpfs such as /dev/shm): one header, then `capacity` frames of interleaved PCM.
 * The data is mapped twice, back to back, so that any run of at most `capacity` frames is contiguous in
 * memory. Frame `i` of the source clock lies at `i % capacity`; the clock never goes back.
 *
 * How a reader knows that what it holds is whole: the writer moves `reserve` on *before* it copies and
 * `write` *after*. A frame `i` may be read while  reserve - capacity <= i < write; whoever has used a view
 * asks again afterwards (ring_reader_intact). The writer therefore never waits for anybody.
 *
 * Every word that two processes touch is a lock-free C11 atomic. The ring can be left by kill -9 at any
 * instruction: no state in it makes a reader or the next writer wait.
 */
#ifndef COSYD_RING_CORE_H
#define COSYD_RING_CORE_H

#include <limits.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define RING_MAGIC UINT64_C(0x31676e6972736f63) /* "cosring1", little-endian */
#define RING_VERSION 1u
#define RING_READERS 32u  /* living readers of one ring; one bit each in `waiting` */
#define RING_GAPS 64u     /* remembered gaps; 63 are visible, the last slot is being written */
#define RING_LINE 64      /* bytes of a cache line: words of different owners never share one */
#define RING_MAX_CHANNELS 1024u
#define RING_MAX_BYTES (UINT64_C(1) << 34) /* 16 GiB of data: a size beyond that is a mistake */

_Static_assert(ATOMIC_INT_LOCK_FREE == 2 && ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_CHAR_LOCK_FREE == 2,
               "the ring needs lock-free atomics of 1, 4 and 8 bytes");

typedef _Atomic uint32_t ring_u32;
typedef _Atomic uint64_t ring_u64;
typedef _Atomic int64_t ring_i64;

enum ring_format { RING_S16 = 1, RING_S24, RING_S32, RING_F32 };
enum ring_state { RING_OPEN = 1, RING_CLOSED, RING_REPLACED };
enum ring_life { RING_LIFE_LIVE, RING_LIFE_CLOSED, RING_LIFE_DEAD, RING_LIFE_REPLACED };

/* What went wrong. RING_SYSTEM: errno says it. */
enum ring_status {
    RING_OK = 0,
    RING_SYSTEM,
    RING_NOT_FOUND,   /* no file at the path */
    RING_BUSY,        /* a living writer owns it */
    RING_NOT_A_RING,  /* wrong magic or impossible sizes */
    RING_OTHER_VERSION,
    RING_NO_SLOT,     /* RING_READERS living readers already */
    RING_BAD_SPEC,    /* rate, channels, format or size out of bounds */
    RING_IN_USE,      /* another thread of this process is writing this very moment */
    RING_INTERRUPTED, /* a signal ended the wait */
};

/* --- the header, as it lies in the file ------------------------------------------------------------- */

/* A stretch of the source clock for which no audio exists. */
struct ring_gap {
    ring_u64 start;    /* first frame of the gap */
    ring_u64 frames;   /* length; the newest gap may still grow */
    ring_u64 before;   /* frames of all gaps before this one */
    ring_u64 prev_end; /* end of the gap before this one */
};

/* One point of the source clock in machine time: frame `sample` was captured at `ns` (CLOCK_MONOTONIC). */
struct ring_clock {
    ring_u64 sample;
    ring_i64 ns;
};

struct ring_slot {
    alignas(RING_LINE) ring_u64 owner; /* identity of the reader's process; 0: free */
    ring_u64 position;                 /* frames before it are no longer in use */
    ring_u64 lost;
};

struct ring_header {
    /* Never change once the file has its name. */
    uint64_t magic;
    uint32_t version;
    uint32_t rate_hz;
    uint32_t channels;
    uint32_t format;
    uint32_t frame_bytes;
    uint32_t header_bytes; /* where the data begins: a multiple of the page size */
    uint64_t capacity;     /* frames */
    /* Change when a writer comes or goes. */
    alignas(RING_LINE) ring_u32 state;
    ring_u32 epoch;  /* number of the writer: 1, 2, … */
    ring_u64 writer; /* identity of its process */
    ring_u64 begin;  /* no frame before it can be read (the first one; or spoilt by a dead writer) */
    /* Change with every write. */
    alignas(RING_LINE) ring_u64 reserve;
    ring_u64 write;
    ring_u32 wake;      /* futex: counts publications */
    ring_u32 clock_seq; /* clock[clock_seq & 1] is the valid one; the other may be half written */
    struct ring_clock clock[2];
    /* Changed by readers. */
    alignas(RING_LINE) ring_u32 waiting; /* bit i: the reader in slot i sleeps */
    /* Counters. */
    alignas(RING_LINE) ring_u64 overruns;
    ring_u64 overrun_frames;
    ring_u64 callbacks;
    /* Gap number k lies at gaps[k % RING_GAPS]. */
    ring_u64 gap_count;
    struct ring_gap gaps[RING_GAPS];
    struct ring_slot readers[RING_READERS];
};

/* --- handles --------------------------------------------------------------------------------------- */

struct ring_spec {
    uint32_t rate_hz;
    uint32_t channels;
    uint32_t format;
};

/* A ring in this process's memory. The constant part of the header is copied: it is checked once. */
struct ring_map {
    struct ring_header *header;
    unsigned char *data;
    size_t length; /* bytes of the whole mapping */
    struct ring_spec spec;
    uint32_t frame_bytes;
    uint64_t capacity;
    dev_t device; /* identity of the file, to see whether another one took its path */
    ino_t inode;
    char path[PATH_MAX];
};

struct ring_writer {
    struct ring_map map;
    int fd; /* holds the lock that makes this the only writer */
    bool adopted;
    ring_u32 busy;   /* a thread is writing */
    ring_u32 closed; /* no thread begins to write */
    bool armed;      /* with the two below: only by who has set `busy` */
    uint64_t anchor; /* the clock stood at frame `anchor` at `anchor_ns`; negative: nobody knows */
    int64_t anchor_ns;
    ring_u64 resumed; /* index of the first frame after arming, or RING_NOT_YET */
};

struct ring_reader {
    struct ring_map map;
    unsigned slot;
    ring_u32 closing;
    uint64_t leap;       /* how far past the oldest frame it goes on after it was lapped */
    uint64_t position;   /* next frame to read */
    uint64_t gap_total;  /* frames of all gaps before `position` */
    uint64_t lost;       /* frames of audio that were never had, in all */
    uint64_t next_lost;  /* of these: to be told with the next block */
    uint64_t next_gap;
    uint64_t spoilt_end; /* blocks before it that turned out overwritten are counted already */
};

struct ring_block {
    uint64_t index;
    uint64_t frames; /* 0: nothing new */
    uint64_t lost;
    uint64_t gap;
    const unsigned char *data;
};

struct ring_reader_info {
    int64_t pid;
    uint64_t position;
    uint64_t lost;
};

/* --- writer ---------------------------------------------------------------------------------------- */

/* Creates, adopts or replaces the ring at `path`; `frames`: the least capacity. `start`: clock of a new ring. */
enum ring_status ring_writer_open(struct ring_writer *self, const char *path, const struct ring_spec *spec,
                                  uint64_t frames, uint64_t start);
/* Copies `frames` frames in. `ns`: when the last one was captured; negative: now. Never waits. */
enum ring_status ring_writer_write(struct ring_writer *self, const void *data, uint64_t frames, int64_t ns);
/*
 * Writes `frames` frames, `step` (at least 1) at a time, each step when its last frame is due: frame 0 begins at
 * `ns` of CLOCK_MONOTONIC. Sleeps meanwhile; what is overdue is written at once.
 */
enum ring_status ring_writer_play(struct ring_writer *self, const void *data, uint64_t frames, uint64_t step,
                                  int64_t ns);
/* Sleeps until `ns` of CLOCK_MONOTONIC. */
void ring_sleep_until(int64_t ns);
/* The clock advances by `frames` for which there is no audio. */
enum ring_status ring_writer_skip(struct ring_writer *self, uint64_t frames);
/*
 * The next write or callback first skips what was missed until its first frame, by the clock: frame `anchor`
 * would have been the next one at `ns` (CLOCK_MONOTONIC; negative: nothing is known, nothing is skipped).
 */
enum ring_status ring_writer_arm(struct ring_writer *self, uint64_t anchor, int64_t ns);
#define RING_NOT_YET UINT64_MAX
/* Index of the first frame after the last arming; RING_NOT_YET until it is about to be written. */
uint64_t ring_writer_resumed(const struct ring_writer *self);
void ring_writer_count_overrun(struct ring_writer *self, uint64_t frames);
/* Living readers; returns how many of `out[RING_READERS]` are filled. Slots of dead ones are freed. */
unsigned ring_writer_readers(struct ring_writer *self, struct ring_reader_info *out);
/* Ends writing, tells the readers, and removes the file if `unlink_file`. The mapping stays. */
void ring_writer_end(struct ring_writer *self, bool unlink_file);

/* PaStreamCallback of PortAudio, by its binary interface; `user` is a struct ring_writer. */
int ring_portaudio_callback(const void *input, void *output, unsigned long frames, const void *time_info,
                            unsigned long flags, void *user);

/* --- reader ---------------------------------------------------------------------------------------- */

#define RING_LIVE_EDGE UINT64_MAX

/* `leap`: frames that a reader which was lapped gives up beside those overwritten; at most half the ring. */
enum ring_status ring_reader_attach(struct ring_reader *self, const char *path, uint64_t position, uint64_t leap);
/* The next run of at most `most` frames without a gap; it moves `position` on. */
struct ring_block ring_reader_read(struct ring_reader *self, uint64_t most);
/* Is the block still as it was read? If not, its frames count as lost, once. */
bool ring_reader_intact(struct ring_reader *self, uint64_t index, uint64_t frames);
/* Sleeps until there is a frame to read or the writer has ended (`*ready`), or CLOCK_MONOTONIC `deadline`. */
enum ring_status ring_reader_wait(struct ring_reader *self, int64_t deadline_ns, bool *ready);
enum ring_life ring_reader_life(const struct ring_reader *self);
void ring_reader_interrupt(struct ring_reader *self); /* ends a wait in another thread, for good */
void ring_reader_detach(struct ring_reader *self);    /* frees the slot. The mapping stays. */

/* --- both ------------------------------------------------------------------------------------------ */

struct ring_point {
    uint64_t sample;
    int64_t ns; /* 0: nothing was written yet */
};
struct ring_point ring_clock_read(const struct ring_map *map);
int64_t ring_time_ns(const struct ring_map *map, uint64_t sample);
void ring_unmap(struct ring_map *map);

/* --- inner parts, used by several of the C files ------------------------------------------------------ */

enum ring_status ring_map_create(struct ring_map *map, int fd, const struct ring_spec *spec, uint64_t capacity);
enum ring_status ring_map_open(struct ring_map *map, int fd, bool for_writing);
uint64_t ring_capacity_for(const struct ring_spec *spec, uint64_t frames); /* 0: out of bounds */
bool ring_path_is(const char *path, dev_t device, ino_t inode);

int64_t ring_now_ns(void);
void ring_wake_all(struct ring_header *header);
enum ring_status ring_sleep(ring_u32 *word, uint32_t seen, int64_t ns); /* RING_OK also after `ns` */

/* A process: pid and the low half of its start time, so that a reused pid is not taken for the old one. */
uint64_t ring_identity(void);
bool ring_identity_alive(uint64_t identity);
static inline int64_t ring_identity_pid(uint64_t identity) { return (int64_t)(identity >> 32); }

#endif
