/* One kernel as a process: it works when it is told to, and says how much it did.

   kernels KIND ARGUMENT DEADLINE_S, with KIND and ARGUMENT one of
     integer 0       additions, shifts and exclusive ors in registers; units: operations
     float 0         multiplications and additions in registers; units: operations
     chase KIB       dependent loads in random order from so much memory, four chains; units: loads
     stream KIB      a[i] = b[i] + s * c[i] through arrays of so much memory; units: bytes read and written
     disk FOLDER     blocks written to a file without a name, past the page cache; units: bytes
     network 0       blocks sent to itself through TCP on the loopback; units: bytes
   Lines on standard input: "prepare" is answered by "ready" or "failed TEXT"; "run WARM_US SPAN_US" by "did UNITS NANOSECONDS".
   The nanoseconds are CPU time, so that other programs on the same CPU do not count, but time for disk, which waits.
   It ends at the end of its input, and in any case after DEADLINE_S seconds. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define LINE 64                 /* bytes of a cache line */
#define HUGE ((size_t)2 << 20)  /* bytes of a large page */
#define CHAINS 4
#define BLOCK (1 << 20)         /* bytes written to disk at once */
#define FILE_BLOCKS 64
#define MESSAGE (64 * 1024)     /* bytes sent at once */
#define STRETCH 4096            /* elements of an array between two looks at the clock */

static uint64_t (*work)(void);
static volatile uint64_t sink;

static uint64_t clock_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t work_integer(void) {
    static uint64_t s[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    uint64_t a = s[0], b = s[1], c = s[2], d = s[3], e = s[4], f = s[5], g = s[6], h = s[7];
    for (int i = 0; i < 1024; i++) {
        a += b ^ (a << 1); b += c ^ (b >> 1); c += d ^ (c << 1); d += e ^ (d >> 1);
        e += f ^ (e << 1); f += g ^ (f >> 1); g += h ^ (g << 1); h += a ^ (h >> 1);
        __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d));
    }
    s[0] = a; s[1] = b; s[2] = c; s[3] = d; s[4] = e; s[5] = f; s[6] = g; s[7] = h;
    sink = a;
    return 1024 * 8 * 3;
}

static uint64_t work_float(void) {
    static double s[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    double a = s[0], b = s[1], c = s[2], d = s[3], e = s[4], f = s[5], g = s[6], h = s[7];
    for (int i = 0; i < 1024; i++) {
        a = a * 0.999 + 0.5; b = b * 0.998 + 0.5; c = c * 0.997 + 0.5; d = d * 0.996 + 0.5;
        e = e * 0.995 + 0.5; f = f * 0.994 + 0.5; g = g * 0.993 + 0.5; h = h * 0.992 + 0.5;
    }
    s[0] = a; s[1] = b; s[2] = c; s[3] = d; s[4] = e; s[5] = f; s[6] = g; s[7] = h;
    sink = (uint64_t)(a + b + c + d + e + f + g + h);
    return 1024 * 8 * 2;
}

struct line { struct line *next; char rest[LINE - sizeof(struct line *)]; };
static struct line *chain[CHAINS];

/* All lines in one ring, in the order of a linear congruential generator of full period, mixed. */
static const char *prepare_chase(size_t bytes) {
    size_t count = bytes / LINE < CHAINS ? CHAINS : bytes / LINE, bits = 0, seen = 0, state = 0;
    while (((size_t)1 << bits) < count)
        bits++;
    struct line *lines = aligned_alloc(HUGE, (count * LINE + HUGE - 1) / HUGE * HUGE), *first = NULL, *last = NULL;
    if (lines == NULL)
        return "not enough memory";
    madvise(lines, count * LINE, MADV_HUGEPAGE);  /* else large sizes measure the table of pages */
    for (size_t step = 0; step < (size_t)1 << bits; step++) {
        state = (state * 6364136223846793005u + 1442695040888963407u) & (((size_t)1 << bits) - 1);
        size_t number = state ^ (state >> (bits + 1) / 2);
        if (number >= count)
            continue;
        if (seen % (count / CHAINS) == 0 && seen / (count / CHAINS) < CHAINS)
            chain[seen / (count / CHAINS)] = &lines[number];
        if (last == NULL)
            first = &lines[number];
        else
            last->next = &lines[number];
        last = &lines[number];
        seen++;
    }
    last->next = first;
    return NULL;
}

static uint64_t work_chase(void) {
    struct line *a = chain[0], *b = chain[1], *c = chain[2], *d = chain[3];
    for (int i = 0; i < 512; i++) {
        a = a->next; b = b->next; c = c->next; d = d->next;
    }
    chain[0] = a; chain[1] = b; chain[2] = c; chain[3] = d;
    sink = (uint64_t)(uintptr_t)a;
    return 512 * CHAINS;
}

static double *to, *from, *also;
static size_t elements, place;

static const char *prepare_stream(size_t bytes) {
    elements = bytes / (3 * sizeof(double)) / STRETCH * STRETCH + STRETCH;
    to = aligned_alloc(LINE, elements * sizeof *to);
    from = aligned_alloc(LINE, elements * sizeof *from);
    also = aligned_alloc(LINE, elements * sizeof *also);
    if (to == NULL || from == NULL || also == NULL)
        return "not enough memory";
    for (size_t i = 0; i < elements; i++) {
        to[i] = 0; from[i] = 1; also[i] = 2;
    }
    return NULL;
}

static uint64_t work_stream(void) {
    double *restrict a = to + place;
    const double *restrict b = from + place, *restrict c = also + place;
    for (size_t i = 0; i < STRETCH; i++)
        a[i] = b[i] + 3 * c[i];
    place = place + STRETCH < elements ? place + STRETCH : 0;
    return 3 * sizeof(double) * STRETCH;
}

static int file = -1, direct = 1;
static char *block;
static int block_number;

static uint64_t work_disk(void) {
    ssize_t written = pwrite(file, block, BLOCK, (off_t)block_number * BLOCK);
    if (written > 0 && !direct && fdatasync(file) != 0)
        written = -1;
    if (written <= 0) {
        printf("failed %s\n", strerror(errno));
        exit(1);
    }
    block_number = (block_number + 1) % FILE_BLOCKS;
    return (uint64_t)written;
}

static const char *prepare_disk(const char *folder) {
    const char *problem = NULL;
    block = aligned_alloc(4096, BLOCK);
    if (block == NULL)
        return "not enough memory";
    memset(block, 85, BLOCK);
    for (direct = 1; direct >= 0; direct--) {
        file = open(folder, O_TMPFILE | O_RDWR | (direct ? O_DIRECT : 0), 0600);
        if (file < 0) {  /* a file system without files that have no name */
            char name[4096];
            snprintf(name, sizeof name, "%s/cosched-XXXXXX", folder);
            file = mkostemp(name, direct ? O_DIRECT : 0);
            if (file >= 0)
                unlink(name);
        }
        if (file >= 0 && pwrite(file, block, BLOCK, 0) == BLOCK)
            return NULL;
        problem = strerror(errno);
        if (file >= 0)
            close(file);
    }
    return problem;
}

static int outwards = -1, inwards = -1;
static char message[MESSAGE];

static const char *prepare_network(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int door = socket(AF_INET, SOCK_STREAM, 0);
    outwards = socket(AF_INET, SOCK_STREAM, 0);
    if (door < 0 || outwards < 0 || bind(door, (struct sockaddr *)&address, sizeof address) != 0 || listen(door, 1) != 0 ||
        getsockname(door, (struct sockaddr *)&address, &length) != 0 ||
        connect(outwards, (struct sockaddr *)&address, sizeof address) != 0 || (inwards = accept(door, NULL, NULL)) < 0)
        return strerror(errno);
    close(door);
    return NULL;
}

static uint64_t work_network(void) {
    ssize_t sent = send(outwards, message, MESSAGE, MSG_DONTWAIT);
    for (ssize_t left = sent; left > 0;) {
        ssize_t got = recv(inwards, message, (size_t)left, 0);
        if (got <= 0) {
            printf("failed %s\n", got < 0 ? strerror(errno) : "connection closed");
            exit(1);
        }
        left -= got;
    }
    return sent > 0 ? (uint64_t)sent : 0;
}

static const char *prepare(const char *kind, const char *argument) {
    size_t bytes = strtoull(argument, NULL, 10) * 1024;
    if (strcmp(kind, "integer") == 0) { work = work_integer; return NULL; }
    if (strcmp(kind, "float") == 0) { work = work_float; return NULL; }
    if (strcmp(kind, "chase") == 0) { work = work_chase; return prepare_chase(bytes); }
    if (strcmp(kind, "stream") == 0) { work = work_stream; return prepare_stream(bytes); }
    if (strcmp(kind, "disk") == 0) { work = work_disk; return prepare_disk(argument); }
    if (strcmp(kind, "network") == 0) { work = work_network; return prepare_network(); }
    return "unknown kind";
}

static void run(uint64_t warm_us, uint64_t span_us) {
    clockid_t counted = work == work_disk ? CLOCK_MONOTONIC : CLOCK_PROCESS_CPUTIME_ID;
    uint64_t units = 0, first, begin = clock_ns(CLOCK_MONOTONIC);
    do
        work();
    while (clock_ns(CLOCK_MONOTONIC) - begin < warm_us * 1000);
    begin = clock_ns(CLOCK_MONOTONIC);
    first = clock_ns(counted);
    do
        units += work();
    while (clock_ns(CLOCK_MONOTONIC) - begin < span_us * 1000);
    printf("did %llu %llu\n", (unsigned long long)units, (unsigned long long)(clock_ns(counted) - first));
}

int main(int count, char **arguments) {
    char line[128];
    unsigned long long warm_us, span_us;
    if (count != 4)
        return 2;
    alarm((unsigned)atoi(arguments[3]));
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (strcmp(line, "prepare\n") == 0) {
            const char *problem = prepare(arguments[1], arguments[2]);
            printf(problem == NULL ? "ready\n" : "failed %s\n", problem);
        } else if (work != NULL && sscanf(line, "run %llu %llu", &warm_us, &span_us) == 2) {
            run(warm_us, span_us);
        } else {
            return 2;
        }
        fflush(stdout);
    }
    return 0;
}
