/* The reading side. A reader only reads the data; in the header it writes its own slot and sleep bit. */
#include "ring_core.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define VISIBLE (RING_GAPS - 1)
#define LOOK_NS INT64_C(250000000) /* a sleeper looks so often whether its writer still lives; nothing wakes it */

static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }
static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

static uint64_t relaxed(const ring_u64 *word) { return atomic_load_explicit(word, memory_order_relaxed); }
static uint64_t acquire(const ring_u64 *word) { return atomic_load_explicit(word, memory_order_acquire); }
static uint32_t state_of(const struct ring_header *header) {
    return atomic_load_explicit(&header->state, memory_order_acquire);
}

/* --- what the ring looks like at one moment ---------------------------------------------------------- */

struct gap {
    uint64_t start, end, before, prev_end;
};

struct view {
    uint64_t write;       /* frames before it are complete */
    uint64_t overwritten; /* frames before it are; 0: none that could ever be read */
    uint64_t floor;       /* frames before it are overwritten, spoilt, or older than the gap table knows */
    uint64_t horizon;     /* gaps that end here or earlier are forgotten, all but their total */
    unsigned count;
    struct gap gaps[VISIBLE];
};

/* Copies the visible gaps; false if the writer reused one of the slots meanwhile. */
static bool copy_gaps(struct ring_header *header, struct view *view) {
    uint64_t count = acquire(&header->gap_count);
    uint64_t first = count > VISIBLE ? count - VISIBLE : 0;
    view->count = (unsigned)(count - first);
    for (unsigned i = 0; i < view->count; i++) {
        const struct ring_gap *from = &header->gaps[(first + i) % RING_GAPS];
        uint64_t start = relaxed(&from->start);
        view->gaps[i] =
            (struct gap){start, start + relaxed(&from->frames), relaxed(&from->before), relaxed(&from->prev_end)};
    }
    atomic_thread_fence(memory_order_acquire); /* a slot being rewritten shows in the count below */
    count = relaxed(&header->gap_count);
    view->horizon = view->count > 0 ? view->gaps[0].prev_end : 0;
    return count <= VISIBLE || count - VISIBLE <= first;
}

/* Frames before it are overwritten, or will be in a moment. */
static uint64_t overwritten(const struct ring_map *map) {
    uint64_t reserve = acquire(&map->header->reserve);
    return reserve > map->capacity ? reserve - map->capacity : 0;
}

/* First frame that the data region still holds. `reserve` first: an adopting writer moves it back, after `begin`. */
static uint64_t oldest(const struct ring_map *map) {
    uint64_t before = overwritten(map);
    return larger(before, relaxed(&map->header->begin));
}

/*
 * `write` is loaded before the gaps: every gap that ends at or before it is then known. Repeats only when
 * the writer recorded a gap in between, so a dead writer can never hold us here.
 */
static void look(const struct ring_map *map, struct view *view) {
    do {
        view->write = acquire(&map->header->write);
    } while (!copy_gaps(map->header, view) || view->horizon > view->write);
    uint64_t before = overwritten(map), begin = relaxed(&map->header->begin);
    view->overwritten = before > begin ? before : 0;
    view->floor = larger(larger(before, begin), view->horizon);
}

/* Frames of all gaps before frame `at`; `at` must not lie before the horizon. */
static uint64_t gap_frames_before(const struct view *view, uint64_t at) {
    uint64_t total = 0;
    if (view->count > 0) total = view->gaps[0].before;
    for (unsigned i = 0; i < view->count && view->gaps[i].start < at; i++)
        total = view->gaps[i].before + smaller(at, view->gaps[i].end) - view->gaps[i].start;
    return total;
}

static uint64_t past_gap(const struct view *view, uint64_t at) {
    for (unsigned i = 0; i < view->count; i++)
        if (view->gaps[i].start <= at && at < view->gaps[i].end) return smaller(view->gaps[i].end, view->write);
    return at;
}

static uint64_t next_gap(const struct view *view, uint64_t at) {
    for (unsigned i = 0; i < view->count; i++)
        if (view->gaps[i].start > at) return view->gaps[i].start;
    return UINT64_MAX;
}

/* --- the reader ------------------------------------------------------------------------------------ */

static void publish(struct ring_reader *self) {
    struct ring_slot *slot = &self->map.header->readers[self->slot];
    atomic_store_explicit(&slot->lost, self->lost, memory_order_relaxed);
    atomic_store_explicit(&slot->position, self->position, memory_order_release);
}

static void lose(struct ring_reader *self, uint64_t frames) {
    self->lost += frames;
    self->next_lost += frames;
}

/*
 * Where reading can go on. The oldest frame is the next to be overwritten: who has been lapped and went on
 * there would be lapped again before it has read a block, as long as somebody writes.
 */
static uint64_t readable(const struct ring_reader *self, const struct view *view) {
    bool lapped = self->position < view->overwritten;
    bool written = state_of(self->map.header) == RING_OPEN;
    uint64_t first = lapped && written ? larger(view->floor, view->overwritten + self->leap) : view->floor;
    return larger(self->position, smaller(first, view->write));
}

/* Moves on over what cannot be read, and books it: frames of gaps never existed, all others are lost. */
static void settle(struct ring_reader *self, struct view *view) {
    look(&self->map, view);
    uint64_t from = self->position;
    uint64_t to = past_gap(view, readable(self, view));
    if (to != from) {
        uint64_t gap_total = gap_frames_before(view, to);
        uint64_t gap = gap_total - self->gap_total;
        self->gap_total = gap_total;
        self->position = to;
        self->next_gap += gap;
        lose(self, to - from - gap);
    }
    publish(self);
}

struct ring_block ring_reader_read(struct ring_reader *self, uint64_t most) {
    struct view view;
    settle(self, &view);
    uint64_t index = self->position;
    uint64_t frames = smaller(most, smaller(view.write, next_gap(&view, index)) - index);
    struct ring_block block = {.index = index, .frames = frames};
    if (frames == 0) return block;
    block.data = self->map.data + index % self->map.capacity * self->map.frame_bytes;
    block.lost = self->next_lost;
    block.gap = self->next_gap;
    self->next_lost = self->next_gap = 0;
    self->position = index + frames; /* the slot says `index` until the next call: the block is in use */
    return block;
}

bool ring_reader_intact(struct ring_reader *self, uint64_t index, uint64_t frames) {
    atomic_thread_fence(memory_order_acquire); /* what was loaded from the view comes before what follows */
    if (index >= oldest(&self->map)) return true;
    if (index >= self->spoilt_end) {
        self->spoilt_end = index + frames;
        lose(self, frames);
    }
    return false;
}

enum ring_life ring_reader_life(const struct ring_reader *self) {
    const struct ring_map *map = &self->map;
    struct ring_header *header = map->header;
    uint32_t state = state_of(header);
    bool gone = !ring_path_is(map->path, map->device, map->inode);
    if (state == RING_REPLACED || (gone && access(map->path, F_OK) == 0)) return RING_LIFE_REPLACED;
    if (state == RING_CLOSED) return RING_LIFE_CLOSED;
    return ring_identity_alive(acquire(&header->writer)) ? RING_LIFE_LIVE : RING_LIFE_DEAD;
}

/* --- sleeping -------------------------------------------------------------------------------------- */

static enum ring_status sleep_once(struct ring_reader *self, uint32_t seen, int64_t ns) {
    struct ring_header *header = self->map.header;
    uint32_t bit = UINT32_C(1) << self->slot;
    atomic_fetch_or_explicit(&header->waiting, bit, memory_order_seq_cst);
    enum ring_status status = ring_sleep(&header->wake, seen, ns);
    atomic_fetch_and_explicit(&header->waiting, ~bit, memory_order_seq_cst);
    return status;
}

/* What a closing writer says in its header is seen at once; what a dead one cannot say, after LOOK_NS. */
enum ring_status ring_reader_wait(struct ring_reader *self, int64_t deadline_ns, bool *ready) {
    struct ring_header *header = self->map.header;
    struct view view;
    for (;;) {
        uint32_t seen = atomic_load_explicit(&header->wake, memory_order_seq_cst);
        settle(self, &view);
        uint32_t state = state_of(header);
        *ready = self->position < view.write || state != RING_OPEN;
        if (*ready || atomic_load(&self->closing)) return RING_OK;
        int64_t begun = ring_now_ns();
        int64_t left = deadline_ns > begun ? deadline_ns - begun : 0;
        if (left > 0) {
            enum ring_status status = sleep_once(self, seen, left < LOOK_NS ? left : LOOK_NS);
            if (status != RING_OK) return status;
        }
        if (atomic_load_explicit(&header->wake, memory_order_seq_cst) != seen) continue;
        *ready = ring_reader_life(self) != RING_LIFE_LIVE;
        if (*ready || left <= LOOK_NS) return RING_OK;
    }
}

void ring_reader_interrupt(struct ring_reader *self) {
    atomic_store(&self->closing, 1);
    ring_wake_all(self->map.header);
}

/* --- coming and going -------------------------------------------------------------------------------- */

/* Claims a free slot, or that of a dead reader; its sleep bit is cleared while nobody else can own it. */
static bool claim_slot(struct ring_reader *self) {
    struct ring_header *header = self->map.header;
    uint64_t identity = ring_identity();
    for (unsigned i = 0; i < RING_READERS; i++) {
        struct ring_slot *slot = &header->readers[i];
        uint64_t owner = acquire(&slot->owner);
        if (owner != 0 && ring_identity_alive(owner)) continue;
        if (!atomic_compare_exchange_strong(&slot->owner, &owner, identity)) continue;
        atomic_store_explicit(&slot->position, RING_LIVE_EDGE, memory_order_release);
        atomic_fetch_and(&header->waiting, ~(UINT32_C(1) << i));
        self->slot = i;
        return true;
    }
    return false;
}

/* Gaps before the horizon are forgotten: of what lies before it, a newcomer is told that it is lost. */
static void take_position(struct ring_reader *self, uint64_t position) {
    struct view view;
    look(&self->map, &view);
    self->position = smaller(position, view.write);
    self->gap_total = gap_frames_before(&view, larger(self->position, view.horizon));
    settle(self, &view);
}

enum ring_status ring_reader_attach(struct ring_reader *self, const char *path, uint64_t position, uint64_t leap) {
    memset(self, 0, sizeof *self);
    if (strlen(path) >= sizeof self->map.path) return RING_NOT_FOUND;
    strcpy(self->map.path, path);
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return errno == ENOENT ? RING_NOT_FOUND : RING_SYSTEM;
    enum ring_status status = ring_map_open(&self->map, fd, false);
    int error = errno;
    close(fd); /* the mapping keeps the file */
    errno = error;
    if (status != RING_OK) return status;
    if (!claim_slot(self)) {
        ring_unmap(&self->map);
        return RING_NO_SLOT;
    }
    self->leap = smaller(leap, self->map.capacity / 2);
    take_position(self, position);
    return RING_OK;
}

void ring_reader_detach(struct ring_reader *self) {
    ring_u64 *owner = &self->map.header->readers[self->slot].owner;
    atomic_store_explicit(owner, 0, memory_order_release);
}

/* --- the clock ------------------------------------------------------------------------------------- */

struct ring_point ring_clock_read(const struct ring_map *map) {
    struct ring_header *header = map->header;
    struct ring_point point;
    uint32_t before, after;
    do {
        before = atomic_load_explicit(&header->clock_seq, memory_order_acquire);
        const struct ring_clock *clock = &header->clock[before & 1];
        point.sample = relaxed(&clock->sample);
        point.ns = atomic_load_explicit(&clock->ns, memory_order_relaxed);
        atomic_thread_fence(memory_order_acquire);
        after = atomic_load_explicit(&header->clock_seq, memory_order_relaxed);
    } while (before != after);
    return point;
}

/* Split into whole seconds and the rest, so that nothing overflows. */
int64_t ring_time_ns(const struct ring_map *map, uint64_t sample) {
    struct ring_point point = ring_clock_read(map);
    int64_t rate = map->spec.rate_hz, distance = (int64_t)(sample - point.sample);
    return point.ns + distance / rate * INT64_C(1000000000) + distance % rate * INT64_C(1000000000) / rate;
}
