/*
 * Hammers the ring core with threads, for the sanitizers: ring_hammer PATH FRAMES.
 *
 * One writer, one reader that keeps up, one that is lapped all the time, one that attaches and leaves.
 * Every frame carries its own index, so a reader knows what it must find. Views are copied out with relaxed
 * atomic loads, the counterpart of the writer's relaxed stores: a lapped reader loads words that are being
 * overwritten, finds out by ring_reader_intact and drops them. Thus the program has no data race in the
 * sense of C11, and ThreadSanitizer needs no suppression. Then: writers that died at every stage of a
 * write or skip, and what the next one makes of it.
 *
 * Prints one line and returns 0 if all is well.
 */
#include "ring_core.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition)                                                           \
    do {                                                                           \
        if (!(condition)) {                                                        \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                               \
        }                                                                          \
    } while (0)

#define CHANNELS 3 /* 12 bytes a frame: does not divide a page */
#define BLOCK 480
#define SECOND INT64_C(1000000000)

static const struct ring_spec SPEC = {48000, CHANNELS, RING_S32};
static const char *path;
static uint64_t total;
static struct ring_writer hammered;
static _Atomic bool finished;

static int32_t sample(uint64_t index, int channel) { return (int32_t)(uint32_t)(index * 3 + (uint64_t)channel); }

static void fill(int32_t *block, uint64_t index, uint64_t frames) {
    for (uint64_t i = 0; i < frames; i++)
        for (int channel = 0; channel < CHANNELS; channel++) block[i * CHANNELS + channel] = sample(index + i, channel);
}

static void pause_ns(long ns) { nanosleep(&(struct timespec){.tv_nsec = ns}, NULL); }

/* --- threads --------------------------------------------------------------------------------------- */

struct tally {
    uint64_t received, lost, gap, spoilt;
};

static bool block_right(const struct ring_block *block) {
    const _Atomic int32_t *words = (const _Atomic int32_t *)(const void *)block->data;
    for (uint64_t i = 0; i < block->frames * CHANNELS; i++)
        if (atomic_load_explicit(&words[i], memory_order_relaxed) !=
            sample(block->index + i / CHANNELS, (int)(i % CHANNELS)))
            return false;
    return true;
}

static void take(struct ring_reader *reader, const struct ring_block *block, struct tally *tally) {
    bool right = block_right(block);
    tally->lost += block->lost;
    tally->gap += block->gap;
    if (ring_reader_intact(reader, block->index, block->frames)) {
        CHECK(right);
        tally->received += block->frames;
    } else {
        tally->spoilt += block->frames;
    }
}

/* ThreadSanitizer goes by virtual address: these readers look at the ring where the writer does. */
static void share_mapping(struct ring_reader *reader) {
    ring_unmap(&reader->map);
    reader->map = hammered.map;
}

static struct tally read_all(uint64_t most, long pause, uint64_t leap) {
    struct ring_reader reader;
    struct tally tally = {0};
    CHECK(ring_reader_attach(&reader, path, 0, leap) == RING_OK);
    share_mapping(&reader);
    for (;;) {
        bool ready;
        bool last = atomic_load(&finished);
        CHECK(ring_reader_wait(&reader, ring_now_ns() + SECOND, &ready) == RING_OK);
        struct ring_block block = ring_reader_read(&reader, most);
        if (block.frames > 0) take(&reader, &block, &tally);
        else if (last) break;
        if (pause > 0) pause_ns(pause);
    }
    tally.lost += reader.next_lost; /* found after the last block */
    tally.gap += reader.next_gap;
    CHECK(reader.lost == tally.lost);
    CHECK(tally.received + tally.lost + tally.gap == reader.position);
    ring_reader_detach(&reader);
    return tally;
}

static void *quick(void *out) {
    *(struct tally *)out = read_all(4800, 0, 0);
    return NULL;
}

static void *slow(void *out) {
    *(struct tally *)out = read_all(1000, 2000000, 3000);
    return NULL;
}

static void *visitor(void *out) {
    uint64_t *visits = out;
    while (!atomic_load(&finished)) {
        struct ring_reader reader;
        bool ready;
        CHECK(ring_reader_attach(&reader, path, RING_LIVE_EDGE, 0) == RING_OK);
        CHECK(ring_reader_wait(&reader, ring_now_ns() + SECOND / 100, &ready) == RING_OK);
        struct ring_point point = ring_clock_read(&reader.map);
        CHECK(point.ns == (int64_t)point.sample * 7); /* both halves of the mapping are of one write */
        CHECK(ring_reader_life(&reader) == RING_LIFE_LIVE || atomic_load(&finished));
        ring_reader_detach(&reader);
        ring_unmap(&reader.map);
        ++*visits;
    }
    return NULL;
}

/* Slows down to the quick reader in the first half, so that it really receives; runs free in the second. */
static void pace(struct ring_writer *writer) {
    struct ring_reader_info readers[RING_READERS];
    uint64_t write = atomic_load(&writer->map.header->write), newest = 0;
    if (write > total / 2) return;
    for (unsigned left = ring_writer_readers(writer, readers); left-- > 0;)
        if (readers[left].position > newest) newest = readers[left].position;
    if (write - newest > writer->map.capacity / 2) pause_ns(50000);
}

static uint64_t write_all(struct ring_writer *writer) {
    int32_t block[BLOCK * CHANNELS];
    uint64_t skipped = 0, turn = 0;
    for (uint64_t index = 0; index < total; turn++) {
        uint64_t frames = 1 + turn * 7919 % BLOCK;
        if (turn % 97 == 0) {
            CHECK(ring_writer_skip(writer, frames) == RING_OK);
            skipped += frames;
        } else if (turn % 89 == 0) { /* armed so that the write skips as many frames as it writes */
            int64_t ns = (int64_t)(index + 2 * frames - 1) * 7;
            fill(block, index + frames, frames);
            CHECK(ring_writer_arm(writer, index + 2 * frames, ns) == RING_OK);
            CHECK(ring_writer_write(writer, block, frames, ns) == RING_OK);
            CHECK(ring_writer_resumed(writer) == index + frames);
            skipped += frames;
            index += frames;
        } else {
            fill(block, index, frames);
            CHECK(ring_writer_write(writer, block, frames, (int64_t)(index + frames - 1) * 7) == RING_OK);
        }
        index += frames;
        if (turn % 8 == 0) pace(writer);
    }
    return skipped;
}

static void hammer(void) {
    struct tally fast_tally = {0}, slow_tally = {0};
    uint64_t visits = 0;
    pthread_t threads[3];
    CHECK(ring_writer_open(&hammered, path, &SPEC, 48000, 0) == RING_OK);
    pthread_create(&threads[0], NULL, quick, &fast_tally);
    pthread_create(&threads[1], NULL, slow, &slow_tally);
    pthread_create(&threads[2], NULL, visitor, &visits);
    uint64_t skipped = write_all(&hammered);
    uint64_t written = atomic_load(&hammered.map.header->write);
    atomic_store(&finished, true);
    ring_writer_end(&hammered, true);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    CHECK(fast_tally.received + fast_tally.lost + fast_tally.gap == written);
    CHECK(slow_tally.received + slow_tally.lost + slow_tally.gap == written);
    CHECK(fast_tally.gap <= skipped && fast_tally.received > 0 && slow_tally.received > 0 && slow_tally.lost > 0);
    ring_unmap(&hammered.map);
    printf("written %" PRIu64 " skipped %" PRIu64 " quick %" PRIu64 "+%" PRIu64 " slow %" PRIu64 "+%" PRIu64
           " spoilt %" PRIu64 " visits %" PRIu64 "\n",
           written, skipped, fast_tally.received, fast_tally.lost, slow_tally.received, slow_tally.lost,
           fast_tally.spoilt + slow_tally.spoilt, visits);
}

/* --- waking ---------------------------------------------------------------------------------------- */

#define PATIENCE (60 * SECOND) /* a sleeper that nobody wakes sleeps so long */

struct sleeper {
    struct ring_header *header;
    uint32_t seen;
    int64_t slept;
};

static void *sleep_long(void *argument) {
    struct sleeper *sleeper = argument;
    int64_t begun = ring_now_ns();
    CHECK(ring_sleep(&sleeper->header->wake, sleeper->seen, PATIENCE) == RING_OK);
    sleeper->slept = ring_now_ns() - begun;
    return NULL;
}

/* ring_reader_wait looks up by itself every 250 ms, which would hide a writer that wakes nobody. */
static void wake_sleeper(struct ring_writer *writer, void (*act)(struct ring_writer *)) {
    struct sleeper sleeper = {.header = writer->map.header, .seen = atomic_load(&writer->map.header->wake)};
    pthread_t thread;
    atomic_fetch_or(&writer->map.header->waiting, 1);
    pthread_create(&thread, NULL, sleep_long, &sleeper);
    pause_ns(20000000); /* now it most likely sleeps; if not, it finds `wake` changed */
    act(writer);
    pthread_join(thread, NULL);
    CHECK(sleeper.slept < PATIENCE / 2);
}

static void act_write(struct ring_writer *writer) { CHECK(ring_writer_write(writer, "123456789ab", 1, 1) == RING_OK); }
static void act_skip(struct ring_writer *writer) { CHECK(ring_writer_skip(writer, 1) == RING_OK); }
static void act_end(struct ring_writer *writer) { ring_writer_end(writer, true); }

static void waking(void) {
    struct ring_writer writer;
    CHECK(ring_writer_open(&writer, path, &SPEC, 1, 0) == RING_OK);
    wake_sleeper(&writer, act_write);
    wake_sleeper(&writer, act_skip);
    wake_sleeper(&writer, act_end);
    ring_unmap(&writer.map);
}

/* --- death ----------------------------------------------------------------------------------------- */

/* What kill -9 does: the lock goes, nothing is said. */
static void die(struct ring_writer *writer) {
    close(writer->fd);
    ring_unmap(&writer->map);
}

static void write_some(struct ring_writer *writer, uint64_t frames) {
    int32_t block[BLOCK * CHANNELS];
    while (frames > 0) {
        uint64_t part = frames < BLOCK ? frames : BLOCK, index = atomic_load(&writer->map.header->write);
        fill(block, index, part);
        CHECK(ring_writer_write(writer, block, part, 1) == RING_OK);
        frames -= part;
    }
}

/* Reads to the end; every frame received must be right. */
static struct tally drain(struct ring_reader *reader) {
    struct tally tally = {0};
    struct ring_block block;
    while ((block = ring_reader_read(reader, 1000)).frames > 0) take(reader, &block, &tally);
    tally.lost += reader->next_lost;
    tally.gap += reader->next_gap;
    reader->next_lost = reader->next_gap = 0;
    return tally;
}

static void leave(struct ring_reader *reader) {
    ring_reader_detach(reader);
    ring_unmap(&reader->map);
}

/* Died after `reserve` moved on and some frames were overwritten: those, and only those, are gone. */
static void death_in_write(void) {
    struct ring_writer writer;
    struct ring_reader reader;
    CHECK(ring_writer_open(&writer, path, &SPEC, 1, 0) == RING_OK);
    uint64_t capacity = writer.map.capacity;
    write_some(&writer, capacity + 100);
    atomic_store(&writer.map.header->reserve, capacity + 100 + 50);
    memset(writer.map.data + 100 * writer.map.frame_bytes, 0xee, 50 * writer.map.frame_bytes);
    CHECK(ring_reader_attach(&reader, path, 100, 0) == RING_OK);
    CHECK(reader.lost == 50 && reader.position == 150);
    die(&writer);
    CHECK(ring_writer_open(&writer, path, &SPEC, 1, 0) == RING_OK);
    CHECK(writer.adopted && atomic_load(&writer.map.header->epoch) == 2);
    leave(&reader);
    CHECK(ring_reader_attach(&reader, path, 0, 0) == RING_OK);
    CHECK(reader.lost == 150);
    write_some(&writer, 10); /* overwrites nothing that was not spoilt before */
    struct tally tally = drain(&reader);
    CHECK(tally.received == capacity - 40 && tally.lost == 150 && tally.spoilt == 0);
    leave(&reader);
    ring_writer_end(&writer, true);
    ring_unmap(&writer.map);
}

/* Died in a write of more than the capacity: nothing old is left, the new frames are readable. */
static void death_in_huge_write(void) {
    struct ring_writer writer;
    struct ring_reader reader;
    CHECK(ring_writer_open(&writer, path, &SPEC, 1, 5) == RING_OK);
    write_some(&writer, 100);
    CHECK(ring_reader_attach(&reader, path, 5, 0) == RING_OK);
    atomic_store(&writer.map.header->reserve, 105 + 3 * writer.map.capacity);
    die(&writer);
    CHECK(ring_writer_open(&writer, path, &SPEC, 1, 0) == RING_OK);
    write_some(&writer, 7);
    struct tally tally = drain(&reader);
    CHECK(tally.lost == 100 && tally.received == 7);
    leave(&reader);
    ring_writer_end(&writer, true);
    ring_unmap(&writer.map);
}

/* Died in skip(), after the table and before the clock: the gap is completed, never read as audio. */
static void death_in_skip(void) {
    struct ring_writer writer;
    struct ring_reader reader;
    CHECK(ring_writer_open(&writer, path, &SPEC, 1, 0) == RING_OK);
    write_some(&writer, 100);
    CHECK(ring_writer_skip(&writer, 30) == RING_OK);
    atomic_store(&writer.map.header->write, 100);
    atomic_store(&writer.map.header->reserve, 100);
    CHECK(ring_reader_attach(&reader, path, 0, 0) == RING_OK);
    CHECK(drain(&reader).received == 100);
    die(&writer);
    CHECK(ring_writer_open(&writer, path, &SPEC, 1, 0) == RING_OK);
    write_some(&writer, 20);
    struct tally tally = drain(&reader);
    CHECK(tally.gap == 30 && tally.received == 20 && tally.lost == 0 && reader.position == 150);
    leave(&reader);
    ring_writer_end(&writer, true);
    ring_unmap(&writer.map);
}

/* Died while it wrote a slot of the gap table or of the clock: what is visible is still whole. */
static void death_in_tables(void) {
    struct ring_writer writer;
    struct ring_reader reader;
    CHECK(ring_writer_open(&writer, path, &SPEC, 1, 0) == RING_OK);
    CHECK(ring_reader_attach(&reader, path, 0, 0) == RING_OK);
    for (int i = 0; i < 200; i++) {
        write_some(&writer, 1);
        CHECK(ring_writer_skip(&writer, 2) == RING_OK);
    }
    struct ring_header *header = writer.map.header;
    memset((void *)&header->gaps[atomic_load(&header->gap_count) % RING_GAPS], 0xee, sizeof header->gaps[0]);
    memset((void *)&header->clock[(atomic_load(&header->clock_seq) + 1) & 1], 0xee, sizeof header->clock[0]);
    CHECK(ring_clock_read(&reader.map).sample == 597);
    die(&writer);
    CHECK(ring_writer_open(&writer, path, &SPEC, 1, 0) == RING_OK);
    struct tally tally = drain(&reader);
    CHECK(tally.received == 63 && tally.lost == 137 && tally.gap == 400); /* 63 gaps are visible */
    leave(&reader);
    ring_writer_end(&writer, true);
    ring_unmap(&writer.map);
}

int main(int count, char **arguments) {
    CHECK(count == 3);
    path = arguments[1];
    total = strtoull(arguments[2], NULL, 10);
    death_in_write();
    death_in_huge_write();
    death_in_skip();
    death_in_tables();
    waking();
    hammer();
    return access(path, F_OK) == 0;
}
