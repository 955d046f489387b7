/* A connection to the broker: its socket, the unwritten output, the unread input, and the slots of requests in flight. */
#define _GNU_SOURCE
#include "loadgen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

int64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void watch(int poll, Connection *connection, int operation, int output) {
    struct epoll_event event = {.events = EPOLLIN | (output ? EPOLLOUT : 0), .data.ptr = connection};
    if (epoll_ctl(poll, operation, connection->fd, &event)) fail("epoll_ctl: %s", strerror(errno));
    connection->watches_output = output;
}

void open_connection(Connection *connection, int number, int poll) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(plan.port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1;
    connection->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connection->fd < 0 || connect(connection->fd, (struct sockaddr *)&address, sizeof address)) {
        fail("connection %d to port %d: %s", number, plan.port, strerror(errno));
    }
    setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    fcntl(connection->fd, F_SETFL, O_NONBLOCK);
    connection->number = number;
    connection->in = malloc(INPUT_BYTES); /* pages that are never used cost nothing */
    if (!connection->in) fail("no memory for connection %d", number);
    for (int slot = SLOTS_MAX - 1; slot >= 0; slot--) connection->free_slots[connection->free_count++] = slot;
    watch(poll, connection, EPOLL_CTL_ADD, 0);
}

int take_slot(Connection *connection) {
    if (!connection->free_count) fail("more than %d requests in flight on one connection", SLOTS_MAX);
    connection->in_flight++;
    return connection->free_slots[--connection->free_count];
}

void give_slot_back(Connection *connection, int slot) {
    connection->in_flight--;
    connection->free_slots[connection->free_count++] = slot;
}

/* Room at the end of the output. Written output makes room first. */
unsigned char *reserve(Connection *connection, size_t bytes) {
    if (connection->out_start == connection->out_end) connection->out_start = connection->out_end = 0;
    if (connection->out_size - connection->out_end < bytes) {
        size_t left = connection->out_end - connection->out_start;
        size_t size = (left + bytes) * 2;
        unsigned char *larger = malloc(size);
        if (!larger) fail("no memory for output");
        if (left) memcpy(larger, connection->out + connection->out_start, left);
        free(connection->out);
        connection->out = larger;
        connection->out_size = size;
        connection->out_start = 0;
        connection->out_end = left;
    }
    return connection->out + connection->out_end;
}

static void write_some(Connection *connection) {
    if (connection->out_start == connection->out_end) return;
    ssize_t written = write(connection->fd, connection->out + connection->out_start, connection->out_end - connection->out_start);
    if (written > 0) connection->out_start += written;
    if (written < 0 && errno != EAGAIN && errno != EINTR) fail("connection %d: %s", connection->number, strerror(errno));
}

void write_out(int poll, Connection *connection) {
    write_some(connection);
    int output = connection->out_start < connection->out_end;
    if (output != connection->watches_output) watch(poll, connection, EPOLL_CTL_MOD, output);
}

/* Read once, hand each complete response to `take`, and return the number of frames. */
long read_in(Connection *connection, void (*take)(Connection *, const Response *)) {
    ssize_t got = read(connection->fd, connection->in + connection->in_end, INPUT_BYTES - connection->in_end);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    if (got <= 0) fail("the broker closed connection %d", connection->number);
    connection->in_end += got;
    long frames = 0;
    size_t at = 0;
    while (connection->in_end - at >= 8) {
        size_t length = get_32(connection->in + at);
        if (length > INPUT_BYTES - 4) fail("a response of %zu bytes is too large", length);
        if (connection->in_end - at < length + 4) break;
        Response response;
        if (!parse_response(connection->in + at, length + 4, &response)) fail("a response cannot be parsed");
        if (response.is_response) take(connection, &response); /* else: a notice of the broker, which needs no answer */
        at += length + 4;
        frames++;
    }
    memmove(connection->in, connection->in + at, connection->in_end - at);
    connection->in_end -= at;
    return frames;
}

static uint32_t wanted;
static int found;
static Response answer;

static void keep_wanted(Connection *connection, const Response *response) {
    if (response->opaque != wanted) fail("connection %d: a response to request %u came early", connection->number, response->opaque);
    answer = *response;
    found = 1;
}

/* Write the output and wait for one response, before the load begins. It stays valid until the next read. */
Response ask_and_wait(Connection *connection, uint32_t opaque) {
    wanted = opaque;
    found = 0;
    while (!found) {
        write_some(connection);
        struct pollfd ready = {.fd = connection->fd, .events = POLLIN | (connection->out_start < connection->out_end ? POLLOUT : 0)};
        if (poll(&ready, 1, SILENCE_MS) == 0) fail("no response to request %u", opaque);
        if (ready.revents & (POLLIN | POLLERR | POLLHUP)) read_in(connection, keep_wanted);
    }
    return answer;
}
