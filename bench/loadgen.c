/* A load generator for one broker: sends, batches, pulls or transactions over a few connections, with many requests in flight on each.
 *
 *     gcc -O2 -o loadgen loadgen.c
 *     loadgen send|batch|pull|transaction PORT TOPIC CONNECTIONS WINDOW REQUESTS BODY_BYTES PER_REQUEST [FIRST SPAN | NAME VALUE]
 *
 *     PORT          of a broker on 127.0.0.1
 *     WINDOW        requests in flight on each connection
 *     REQUESTS      total of all connections
 *     BODY_BYTES    size of a message body
 *     PER_REQUEST   messages in a batch, or the maximum of a pull
 *     FIRST, SPAN   pull: a connection reads SPAN messages of its queue from offset FIRST on, and repeats
 *     NAME, VALUE   send: an additional property of each message, for example a delay
 *
 * Headers are JSON, as Apache's clients write them. Sends go to the topic's four queues in turn; connection number i pulls from
 * queue i modulo four. A transaction is a half message and, after its response, the commit. The program prints one line of JSON: the
 * number of requests, the number of responses without success, the time. It exits with 2 when no response came for ten seconds, and
 * with 3 when the broker closed a connection.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

enum { QUEUES = 4, HALF = 4, HEADER_BYTES_MAX = 2048, INPUT_BYTES = 8 << 20, EVENTS = 64, SILENCE_MS = 10000 };

static const char *UNIQUE_KEY = "7F000001A1B218B4AAC2"; /* followed by the number of the request, in twelve hexadecimal digits */

typedef struct {
    int fd, number, watching_output;
    long asked, answered, quota;
    unsigned char *out, *in;
    size_t out_start, out_end, in_end;
} Connection;

static struct {
    enum { SEND, BATCH, PULL, TRANSACTION } mode;
    const char *topic;
    int connections, window, body_bytes, per_request;
    long requests, first, span;
    const char *name, *value; /* an additional property */
} plan;

static unsigned char *body; /* of every request: a message, a batch, or nothing */
static size_t body_length;
static long refused, bytes_read;

static double now_s(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static void put_32(unsigned char *at, uint32_t value) {
    value = htonl(value);
    memcpy(at, &value, 4);
}

static uint32_t get_32(const unsigned char *at) {
    uint32_t value;
    memcpy(&value, at, 4);
    return ntohl(value);
}

static void *allocated(size_t size) {
    void *memory = malloc(size);
    if (!memory) {
        perror("malloc");
        exit(1);
    }
    return memory;
}

static void fill_random(unsigned char *at, int count) {
    for (int i = 0; i < count; i++) at[i] = rand();
}

/* A message in a batch: size, magic (0), CRC (0), flag (0), body length (int32 each), body, properties' length (int16), properties. */
static unsigned char *put_batched(unsigned char *at, int number) {
    char properties[128];
    int length = snprintf(properties, sizeof properties, "UNIQ_KEY\x01%s%012X\x02TAGS\x01TagA\x02", UNIQUE_KEY, number);
    int size = 20 + plan.body_bytes + 2 + length;
    memset(at, 0, 20);
    put_32(at, size);
    put_32(at + 16, plan.body_bytes);
    fill_random(at + 20, plan.body_bytes);
    at[20 + plan.body_bytes] = length >> 8;
    at[21 + plan.body_bytes] = length;
    memcpy(at + 22 + plan.body_bytes, properties, length);
    return at + size;
}

static void make_body(void) {
    srand(7);
    if (plan.mode == SEND || plan.mode == TRANSACTION) {
        body = allocated(body_length = plan.body_bytes);
        fill_random(body, plan.body_bytes);
    } else if (plan.mode == BATCH) {
        body = allocated((size_t)plan.per_request * (plan.body_bytes + 256));
        unsigned char *end = body;
        for (int i = 0; i < plan.per_request; i++) end = put_batched(end, i);
        body_length = end - body;
    }
}

static int make_header(char *at, const Connection *connection) {
    long number = connection->asked * plan.connections + connection->number;
    if (plan.mode == PULL) {
        long offset = plan.first + connection->asked * plan.per_request % (plan.span - plan.per_request + 1);
        return snprintf(
            at, HEADER_BYTES_MAX,
            "{\"code\":11,\"extFields\":{\"consumerGroup\":\"bench_consumers\",\"topic\":\"%s\",\"queueId\":\"%d\",\"queueOffset\":\"%ld\","
            "\"maxMsgNums\":\"%d\",\"sysFlag\":\"6\",\"commitOffset\":\"0\",\"suspendTimeoutMillis\":\"15000\",\"subscription\":\"TagA\","
            "\"subVersion\":\"1700000000000\",\"expressionType\":\"TAG\",\"bname\":\"bench\"},\"flag\":0,\"language\":\"JAVA\","
            "\"opaque\":%ld,\"serializeTypeCurrentRPC\":\"JSON\",\"version\":495}",
            plan.topic, connection->number % QUEUES, offset, plan.per_request, number);
    }
    return snprintf(
        at, HEADER_BYTES_MAX,
        "{\"code\":%d,\"extFields\":{\"a\":\"bench_producers\",\"b\":\"%s\",\"c\":\"TBW102\",\"d\":\"%d\",\"e\":\"%ld\",\"f\":\"%d\","
        "\"g\":\"1700000000000\",\"h\":\"0\",\"i\":\"UNIQ_KEY\\u0001%s%012lX\\u0002WAIT\\u0001true\\u0002TAGS\\u0001TagA\\u0002%s%s%s%s\","
        "\"j\":\"0\",\"k\":\"false\",\"m\":\"%s\",\"n\":\"bench\"},\"flag\":0,\"language\":\"JAVA\",\"opaque\":%ld,"
        "\"serializeTypeCurrentRPC\":\"JSON\",\"version\":495}",
        plan.mode == BATCH ? 320 : 310, plan.topic, QUEUES, number % QUEUES, plan.mode == TRANSACTION ? HALF : 0, UNIQUE_KEY, number,
        plan.name, plan.name[0] ? "\\u0001" : "", plan.value, plan.name[0] ? "\\u0002" : "", plan.mode == BATCH ? "true" : "false", number);
}

/* Append the next requests to the unwritten output. */
static void ask(Connection *connection, long count) {
    memmove(connection->out, connection->out + connection->out_start, connection->out_end - connection->out_start);
    connection->out_end -= connection->out_start;
    connection->out_start = 0;
    for (; count > 0 && connection->asked < connection->quota; count--) {
        unsigned char *at = connection->out + connection->out_end;
        int header_length = make_header((char *)at + 8, connection);
        put_32(at, 4 + header_length + body_length);
        put_32(at + 4, header_length);
        memcpy(at + 8 + header_length, body, body_length);
        connection->out_end += 8 + header_length + body_length;
        connection->asked++;
    }
}

static void watch(int poll, Connection *connection, int operation, int output) {
    struct epoll_event event = {.events = EPOLLIN | (output ? EPOLLOUT : 0), .data.ptr = connection};
    epoll_ctl(poll, operation, connection->fd, &event);
    connection->watching_output = output;
}

static void write_out(int poll, Connection *connection) {
    if (connection->out_start < connection->out_end) {
        ssize_t written = write(connection->fd, connection->out + connection->out_start, connection->out_end - connection->out_start);
        if (written > 0) connection->out_start += written;
    }
    int output = connection->out_start < connection->out_end;
    if (output != connection->watching_output) watch(poll, connection, EPOLL_CTL_MOD, output);
}

/* Find a field in the header of a response. */
static const char *field(const char *header, size_t length, const char *name) {
    const char *at = memmem(header, length, name, strlen(name));
    if (!at) {
        fprintf(stderr, "an answer has no %s\n", name);
        exit(1);
    }
    return at + strlen(name);
}

/* Commit the half message of this response. The commit is oneway. */
static void commit(Connection *connection, const char *answer, size_t length) {
    char id[33] = {0};
    memcpy(id, field(answer, length, "\"msgId\":\""), 32);
    long queue_offset = atol(field(answer, length, "\"queueOffset\":\""));
    const char *transaction = field(answer, length, "\"transactionId\":\"");
    unsigned char *at = connection->out + connection->out_end;
    int header_length = snprintf(
        (char *)at + 8, HEADER_BYTES_MAX,
        "{\"code\":37,\"extFields\":{\"producerGroup\":\"bench_producers\",\"topic\":\"%s\",\"tranStateTableOffset\":\"%ld\","
        "\"commitLogOffset\":\"%ld\",\"commitOrRollback\":\"8\",\"fromTransactionCheck\":\"false\",\"msgId\":\"%.*s\","
        "\"transactionId\":\"%.*s\",\"bname\":\"bench\"},\"flag\":2,\"language\":\"JAVA\",\"opaque\":0,"
        "\"serializeTypeCurrentRPC\":\"JSON\",\"version\":495}",
        plan.topic, queue_offset, strtol(id + 16, NULL, 16), 32, transaction, 32, transaction);
    put_32(at, 4 + header_length);
    put_32(at + 4, header_length);
    connection->out_end += 8 + header_length;
}

/* Count the complete responses. */
static long read_in(Connection *connection) {
    ssize_t got = read(connection->fd, connection->in + connection->in_end, INPUT_BYTES - connection->in_end);
    if (got == 0 || (got < 0 && errno != EAGAIN)) {
        fprintf(stderr, "the broker closed a connection\n");
        exit(3);
    }
    if (got < 0) return 0;
    bytes_read += got;
    connection->in_end += got;
    long answers = 0;
    size_t at = 0;
    while (connection->in_end - at >= 8) {
        uint32_t length = get_32(connection->in + at);
        if (length > INPUT_BYTES - 4) {
            fprintf(stderr, "an answer of %u bytes is too large\n", length);
            exit(1);
        }
        if (connection->in_end - at < length + 4) break;
        uint32_t header_length = get_32(connection->in + at + 4) & 0xFFFFFF;
        if (!memmem(connection->in + at + 8, header_length, "\"code\":0,", 9)) {
            if (!refused) fprintf(stderr, "refused: %.*s\n", (int)header_length, connection->in + at + 8);
            refused++;
        } else if (plan.mode == TRANSACTION) {
            commit(connection, (char *)connection->in + at + 8, header_length);
        }
        at += length + 4;
        answers++;
    }
    memmove(connection->in, connection->in + at, connection->in_end - at);
    connection->in_end -= at;
    connection->answered += answers;
    return answers;
}

static void open_connection(Connection *connection, int number, int port, int poll) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1;
    connection->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(connection->fd, (struct sockaddr *)&address, sizeof address)) {
        perror("connect");
        exit(1);
    }
    setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    fcntl(connection->fd, F_SETFL, O_NONBLOCK);
    connection->number = number;
    connection->quota = plan.requests / plan.connections;
    connection->out = allocated((plan.window + 1) * (2 * HEADER_BYTES_MAX + 16 + body_length));
    connection->in = allocated(INPUT_BYTES);
    watch(poll, connection, EPOLL_CTL_ADD, 0);
}

static void read_plan(int count, char **arguments) {
    if (count < 9) {
        fprintf(stderr, "usage: loadgen send|batch|pull|transaction PORT TOPIC CONNECTIONS WINDOW REQUESTS BODY_BYTES PER_REQUEST "
                        "[FIRST SPAN | NAME VALUE]\n");
        exit(1);
    }
    plan.mode = !strcmp(arguments[1], "pull")          ? PULL
                : !strcmp(arguments[1], "batch")       ? BATCH
                : !strcmp(arguments[1], "transaction") ? TRANSACTION
                                                       : SEND;
    plan.topic = arguments[3];
    plan.connections = atoi(arguments[4]);
    plan.window = atoi(arguments[5]);
    plan.requests = atol(arguments[6]);
    plan.body_bytes = atoi(arguments[7]);
    plan.per_request = atoi(arguments[8]);
    plan.name = plan.mode != PULL && count > 10 ? arguments[9] : "";
    plan.value = plan.name[0] ? arguments[10] : "";
    if (plan.mode == TRANSACTION) plan.name = "TRAN_MSG\\u0001true\\u0002PGROUP", plan.value = "bench_producers";
    plan.first = count > 10 ? atol(arguments[9]) : 0;
    plan.span = count > 10 ? atol(arguments[10]) : plan.per_request;
}

int main(int count, char **arguments) {
    read_plan(count, arguments);
    make_body();
    int poll = epoll_create1(0);
    Connection *connections = calloc(plan.connections, sizeof *connections);
    for (int i = 0; i < plan.connections; i++) open_connection(connections + i, i, atoi(arguments[2]), poll);
    double started_s = now_s();
    long total = plan.requests / plan.connections * plan.connections, answered = 0;
    for (int i = 0; i < plan.connections; i++) {
        ask(connections + i, plan.window);
        write_out(poll, connections + i);
    }
    struct epoll_event events[EVENTS];
    while (answered < total) {
        int ready = epoll_wait(poll, events, EVENTS, SILENCE_MS);
        if (ready == 0) {
            fprintf(stderr, "%ld of %ld requests were answered, then nothing\n", answered, total);
            return 2;
        }
        for (int i = 0; i < ready; i++) {
            Connection *connection = events[i].data.ptr;
            if (events[i].events & (EPOLLIN | EPOLLERR | EPOLLHUP)) {
                long answers = read_in(connection);
                answered += answers;
                ask(connection, answers);
            }
            write_out(poll, connection);
        }
    }
    for (int i = 0; i < plan.connections; i++)
        while (connections[i].out_start < connections[i].out_end) write_out(poll, connections + i); /* the last commits */
    double seconds = now_s() - started_s;
    printf("{\"requests\": %ld, \"refused\": %ld, \"seconds\": %.4f, \"read_bytes\": %ld}\n", total, refused, seconds, bytes_read);
    return 0;
}
