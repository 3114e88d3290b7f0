/* The writing side. Everything here may run on an audio thread: no lock, no allocation, no waiting. */
#include "ring_core.h"

#include <sched.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)

/*
 * Copies with relaxed atomic stores of one word each, not with memcpy: a reader that is being lapped may
 * load the same bytes at the same time. It finds out (ring_reader_intact) and drops them, but in C11 even
 * the load would be undefined if either side were not atomic. 7,680 bytes (10 ms of 8 channels) are 960
 * stores, some 0.3 us.
 */
static void copy_in(unsigned char *to, const unsigned char *from, size_t bytes) {
    for (; bytes > 0 && (uintptr_t)to % sizeof(uint64_t) != 0; bytes--)
        atomic_store_explicit((_Atomic unsigned char *)to++, *from++, memory_order_relaxed);
    for (; bytes >= sizeof(uint64_t); bytes -= sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, from, sizeof word);
        atomic_store_explicit((ring_u64 *)(void *)to, word, memory_order_relaxed);
        to += sizeof word;
        from += sizeof word;
    }
    for (; bytes > 0; bytes--)
        atomic_store_explicit((_Atomic unsigned char *)to++, *from++, memory_order_relaxed);
}

/* Only the writer writes these words, so it may read its own without ordering. */
static uint64_t own(const ring_u64 *word) { return atomic_load_explicit(word, memory_order_relaxed); }

static void set(ring_u64 *word, uint64_t value) { atomic_store_explicit(word, value, memory_order_relaxed); }

static void add(ring_u64 *word, uint64_t value) { atomic_fetch_add_explicit(word, value, memory_order_relaxed); }

/* Two threads of one process (the callback and a caller) must not write at once; nobody waits for the other. */
static bool enter(struct ring_writer *self) {
    if (atomic_exchange_explicit(&self->busy, 1, memory_order_seq_cst) != 0) return false;
    if (atomic_load_explicit(&self->closed, memory_order_seq_cst) == 0) return true;
    atomic_store_explicit(&self->busy, 0, memory_order_release);
    return false;
}

static void leave(struct ring_writer *self) { atomic_store_explicit(&self->busy, 0, memory_order_release); }

/* Two copies of the mapping, written in turn: the valid one is never touched, even if we die half way. */
static void stamp_clock(struct ring_header *header, uint64_t sample, int64_t ns) {
    uint32_t next = atomic_load_explicit(&header->clock_seq, memory_order_relaxed) + 1;
    struct ring_clock *clock = &header->clock[next & 1];
    atomic_thread_fence(memory_order_release); /* who sees these stores sees the earlier clock_seq */
    set(&clock->sample, sample);
    atomic_store_explicit(&clock->ns, ns, memory_order_relaxed);
    atomic_store_explicit(&header->clock_seq, next, memory_order_release);
}

static void write_frames(struct ring_map *map, const unsigned char *data, uint64_t frames, int64_t ns) {
    struct ring_header *header = map->header;
    uint64_t end = own(&header->write) + frames;
    uint64_t kept = frames < map->capacity ? frames : map->capacity; /* the rest would be overwritten at once */
    unsigned char *to = map->data + (end - kept) % map->capacity * map->frame_bytes;
    set(&header->reserve, end);
    atomic_thread_fence(memory_order_release); /* who sees one of the copied words sees `reserve` */
    copy_in(to, data + (frames - kept) * map->frame_bytes, kept * map->frame_bytes);
    stamp_clock(header, end - 1, ns);
    atomic_store_explicit(&header->write, end, memory_order_release);
    ring_wake_all(header);
}

/*
 * The new entry becomes visible by `gap_count`; the slot it is written to is no longer visible then (readers
 * look at RING_GAPS - 1 entries). A gap that follows the last one without audio between prolongs it.
 */
static void note_gap(struct ring_header *header, uint64_t start, uint64_t frames) {
    uint64_t count = own(&header->gap_count), before = 0, last_end = 0;
    if (count > 0) {
        struct ring_gap *last = &header->gaps[(count - 1) % RING_GAPS];
        last_end = own(&last->start) + own(&last->frames);
        before = own(&last->before) + own(&last->frames);
        if (last_end == start) {
            set(&last->frames, own(&last->frames) + frames);
            return;
        }
    }
    struct ring_gap *gap = &header->gaps[count % RING_GAPS];
    atomic_thread_fence(memory_order_release); /* who sees these stores sees the earlier gap_count */
    set(&gap->start, start);
    set(&gap->frames, frames);
    set(&gap->before, before);
    set(&gap->prev_end, last_end);
    atomic_store_explicit(&header->gap_count, count + 1, memory_order_release);
}

static void skip_frames(struct ring_header *header, uint64_t frames) {
    uint64_t write = own(&header->write);
    note_gap(header, write, frames);
    atomic_store_explicit(&header->reserve, write + frames, memory_order_release);
    atomic_store_explicit(&header->write, write + frames, memory_order_release);
    ring_wake_all(header);
}

enum ring_status ring_writer_skip(struct ring_writer *self, uint64_t frames) {
    if (frames == 0) return RING_OK;
    if (!enter(self)) return RING_IN_USE;
    skip_frames(self->map.header, frames);
    leave(self);
    return RING_OK;
}

/* --- going on after a pause -------------------------------------------------------------------------- */

enum ring_status ring_writer_arm(struct ring_writer *self, uint64_t anchor, int64_t ns) {
    if (!enter(self)) return RING_IN_USE;
    self->armed = true;
    self->anchor = anchor;
    self->anchor_ns = ns;
    atomic_store_explicit(&self->resumed, RING_NOT_YET, memory_order_release);
    leave(self);
    return RING_OK;
}

uint64_t ring_writer_resumed(const struct ring_writer *self) {
    return atomic_load_explicit(&self->resumed, memory_order_acquire);
}

/* Frames that the clock has passed since the anchor and that are neither written nor in a block that ends at `ns`. */
static uint64_t missed_before(const struct ring_writer *self, uint64_t frames, int64_t ns) {
    if (self->anchor_ns < 0) return 0;
    uint64_t elapsed = ns > self->anchor_ns ? (uint64_t)(ns - self->anchor_ns) : 0;
    uint64_t rate = self->map.spec.rate_hz;
    uint64_t due = self->anchor + elapsed / SECOND * rate + elapsed % SECOND * rate / SECOND;
    uint64_t end = own(&self->map.header->write) + frames;
    return due > end ? due - end : 0;
}

/* `resumed` comes first: who sees the clock move knows where the audio begins. */
static void resume(struct ring_writer *self, uint64_t frames, int64_t ns) {
    struct ring_header *header = self->map.header;
    uint64_t missed = missed_before(self, frames, ns);
    self->armed = false;
    atomic_store_explicit(&self->resumed, own(&header->write) + missed, memory_order_release);
    if (missed > 0) skip_frames(header, missed);
}

static void take(struct ring_writer *self, const void *data, uint64_t frames, int64_t ns) {
    if (ns < 0) ns = ring_now_ns();
    if (self->armed) resume(self, frames, ns);
    write_frames(&self->map, data, frames, ns);
}

enum ring_status ring_writer_write(struct ring_writer *self, const void *data, uint64_t frames, int64_t ns) {
    if (frames == 0) return RING_OK;
    if (!enter(self)) return RING_IN_USE;
    take(self, data, frames, ns);
    leave(self);
    return RING_OK;
}

void ring_writer_count_overrun(struct ring_writer *self, uint64_t frames) {
    add(&self->map.header->overruns, 1);
    add(&self->map.header->overrun_frames, frames);
}

/* --- PortAudio ------------------------------------------------------------------------------------- */

#define PA_INPUT_OVERFLOW 0x2ul /* paInputOverflow: input was thrown away before this buffer */
#define PA_CONTINUE 0
#define PA_ABORT 2

int ring_portaudio_callback(const void *input, void *output, unsigned long frames, const void *time_info,
                            unsigned long flags, void *user) {
    (void)output;
    (void)time_info; /* host APIs fill it with clocks of their own, some with zeros: we stamp MONOTONIC */
    struct ring_writer *self = user;
    if (!enter(self)) return PA_ABORT; /* closed, or a second stream on the same writer */
    add(&self->map.header->callbacks, 1);
    if (flags & PA_INPUT_OVERFLOW) ring_writer_count_overrun(self, 0);
    if (input != NULL && frames > 0) take(self, input, frames, -1);
    leave(self);
    return PA_CONTINUE;
}

/* --- readers, seen from here ------------------------------------------------------------------------- */

/* Clears the sleep bit while the slot is ours, so that the next owner's bit is never taken away. */
static void free_dead_slot(struct ring_header *header, unsigned index, uint64_t dead) {
    ring_u64 *owner = &header->readers[index].owner;
    if (!atomic_compare_exchange_strong(owner, &dead, ring_identity())) return;
    atomic_fetch_and(&header->waiting, ~(UINT32_C(1) << index));
    atomic_store_explicit(owner, 0, memory_order_release);
}

unsigned ring_writer_readers(struct ring_writer *self, struct ring_reader_info *out) {
    struct ring_header *header = self->map.header;
    unsigned found = 0;
    for (unsigned i = 0; i < RING_READERS; i++) {
        struct ring_slot *slot = &header->readers[i];
        uint64_t owner = atomic_load_explicit(&slot->owner, memory_order_acquire);
        if (owner == 0) continue;
        if (!ring_identity_alive(owner)) {
            free_dead_slot(header, i, owner);
            continue;
        }
        uint64_t position = atomic_load_explicit(&slot->position, memory_order_acquire);
        if (position == RING_LIVE_EDGE) continue; /* just attaching */
        out[found++] = (struct ring_reader_info){ring_identity_pid(owner), position, own(&slot->lost)};
    }
    return found;
}

/* `closed` first, then until a running callback is out: after that nothing writes any more. */
void ring_writer_end(struct ring_writer *self, bool unlink_file) {
    struct ring_map *map = &self->map;
    if (atomic_exchange_explicit(&self->closed, 1, memory_order_seq_cst) != 0) return;
    while (atomic_load_explicit(&self->busy, memory_order_seq_cst) != 0) sched_yield();
    atomic_store_explicit(&map->header->state, RING_CLOSED, memory_order_release);
    if (unlink_file && ring_path_is(map->path, map->device, map->inode)) unlink(map->path);
    ring_wake_all(map->header);
    flock(self->fd, LOCK_UN); /* closing is not enough: the mapping keeps the open file, and with it the lock */
    close(self->fd);
    self->fd = -1;
}
