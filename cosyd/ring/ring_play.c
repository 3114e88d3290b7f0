/* A recording written as a device would deliver it. Unlike ring_writer.c, this waits: between the steps. */
#include "ring_core.h"

#include <errno.h>
#include <time.h>

#define SECOND INT64_C(1000000000)

void ring_sleep_until(int64_t ns) {
    struct timespec due = {.tv_sec = ns / SECOND, .tv_nsec = ns % SECOND};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) == EINTR) continue;
}

enum ring_status ring_writer_play(struct ring_writer *self, const void *data, uint64_t frames, uint64_t step,
                                  int64_t ns) {
    const struct ring_map *map = &self->map;
    const unsigned char *from = data;
    int64_t rate = map->spec.rate_hz;
    for (uint64_t done = 0; done < frames;) {
        uint64_t some = frames - done < step ? frames - done : step;
        done += some;
        int64_t due = ns + (int64_t)done / rate * SECOND + (int64_t)done % rate * SECOND / rate;
        ring_sleep_until(due);
        enum ring_status status = ring_writer_write(self, from, some, due);
        if (status != RING_OK) return status;
        from += some * map->frame_bytes;
    }
    return RING_OK;
}
