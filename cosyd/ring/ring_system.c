/* What the ring asks of Linux: time, futex, the identity of processes. */
#include "ring_core.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S INT64_C(1000000000)

int64_t ring_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* Not FUTEX_PRIVATE: the word is shared between processes through the file. */
static long futex(ring_u32 *word, int operation, uint32_t value, const struct timespec *timeout) {
    return syscall(SYS_futex, (void *)word, operation, value, timeout, NULL, 0);
}

enum ring_status ring_sleep(ring_u32 *word, uint32_t seen, int64_t ns) {
    struct timespec timeout = {.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
    if (futex(word, FUTEX_WAIT, seen, &timeout) == 0) return RING_OK;
    if (errno == EAGAIN || errno == ETIMEDOUT) return RING_OK;
    return errno == EINTR ? RING_INTERRUPTED : RING_SYSTEM;
}

/*
 * No wake-up is lost: the writer stores `wake` and then loads `waiting`; a reader stores `waiting` and then
 * sleeps only if `wake` is still what it saw before it looked for data. All four are sequentially
 * consistent, so at least one of the two sees the other. Nobody asleep: no system call.
 */
void ring_wake_all(struct ring_header *header) {
    atomic_fetch_add_explicit(&header->wake, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&header->waiting, memory_order_seq_cst) != 0)
        futex(&header->wake, FUTEX_WAKE, INT_MAX, NULL);
}

/* --- processes ------------------------------------------------------------------------------------- */

/* Reads state and start time (clock ticks after boot) from /proc/PID/stat; 0 or an errno. */
static int process_stat(int64_t pid, char *state, uint64_t *start) {
    char name[64], text[1024];
    snprintf(name, sizeof name, "/proc/%lld/stat", (long long)pid);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return errno;
    ssize_t length = read(fd, text, sizeof text - 1);
    int error = errno;
    close(fd);
    if (length <= 0) return length < 0 ? error : ESRCH;
    text[length] = '\0';
    char *field = strrchr(text, ')'); /* the command's name may hold anything, ')' too */
    if (field == NULL || sscanf(field, ") %c", state) != 1) return EPROTO;
    for (int skip = 0; skip < 20 && field != NULL; skip++) field = strchr(field + 1, ' ');
    if (field == NULL) return EPROTO;
    *start = strtoull(field, NULL, 10); /* field 22 of proc(5) */
    return 0;
}

static uint64_t identity_of(int64_t pid, uint64_t start) {
    return (uint64_t)pid << 32 | (start & UINT32_MAX);
}

uint64_t ring_identity(void) {
    char state;
    uint64_t start = 0;
    int64_t pid = getpid();
    process_stat(pid, &state, &start); /* without /proc: start 0, the pid alone decides */
    return identity_of(pid, start);
}

bool ring_identity_alive(uint64_t identity) {
    char state;
    uint64_t start;
    int64_t pid = ring_identity_pid(identity);
    if (pid <= 0) return false;
    int error = process_stat(pid, &state, &start);
    if (error != 0) return kill((pid_t)pid, 0) == 0 || errno == EPERM; /* gone, or /proc hides it */
    if (state == 'Z' || state == 'X') return false; /* dead, its parent has not looked yet */
    return (identity & UINT32_MAX) == 0 || identity_of(pid, start) == identity;
}
