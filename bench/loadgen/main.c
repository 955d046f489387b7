/* A load generator for one RocketMQ broker.
 *
 *     loadgen MODE --port PORT --topic TOPIC [--option value …]
 *
 *     send          messages; --code 310 (default) or 10, --property NAME --value VALUE for one more property
 *     batch         --per-request messages in each request
 *     transaction   half messages, each committed after its response (oneway)
 *     pull          each connection is a consumer in a group of its own, with one pull in flight for each queue. It reads the
 *                   newest --span messages of each queue (--oldest 1: the oldest), and begins again at their end
 *     delivery      connection 0 sends --pace messages a second; the others are consumers whose pulls wait at the queues' end.
 *                   A latency is the time from the send to the consumer's socket
 *
 *     --connections 4   --window 64 requests in flight on each      --seconds 2 and --requests: the first that is reached ends it
 *     --binary 1: headers in RocketMQ's binary form, not JSON       --queues 4   --body-bytes 1024   --per-request 32
 *
 * The program prints one line of JSON: requests answered, messages stored or read, refusals by response code, seconds, its own CPU
 * seconds, and percentiles of the latency in microseconds. It exits with 2 when a broker is silent for ten seconds, and with 1 for any
 * other failure. Responses may come in any order, because Apache's broker answers from several threads.
 */
#define _GNU_SOURCE
#include "loadgen.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { EVENTS = 256 };

Run run;

void fail(const char *text, ...) {
    va_list values;
    va_start(values, text);
    vfprintf(stderr, text, values);
    va_end(values);
    fputc('\n', stderr);
    exit(1);
}

/* Whether a mode may write one more request. */
int may_ask(void) {
    return run.asked < plan.requests && now_ns() < run.stop_ns;
}

int is_answered(void) {
    return run.answered == run.asked && !may_ask();
}

void count_refusal(const Response *response) {
    if (run.refused++ == 0) {
        fprintf(stderr, "refused with code %d: %.*s\n", response->code, (int)response->header_length, (const char *)response->header);
    }
    for (int i = 0; i < CODES_MAX; i++) {
        if (run.codes[i] == response->code || run.of_code[i] == 0) {
            run.codes[i] = response->code;
            run.of_code[i]++;
            return;
        }
    }
}

static const Mode *find_mode(void) {
    static const Mode *modes[] = {&SEND_MODE, &BATCH_MODE, &TRANSACTION_MODE, &PULL_MODE, &DELIVERY_MODE};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(modes[i]->name, plan.mode)) return modes[i];
    fail("unknown mode: %s", plan.mode);
}

/* A timer that fires `pace` times a second, or -1. */
static int start_timer(int poll, const Mode *mode) {
    if (!mode->tick) return -1;
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    long ns = 1000000000L / plan.pace;
    struct itimerspec every = {.it_interval = {ns / 1000000000L, ns % 1000000000L}, .it_value = {ns / 1000000000L, ns % 1000000000L}};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    if (timer < 0 || timerfd_settime(timer, 0, &every, NULL) || epoll_ctl(poll, EPOLL_CTL_ADD, timer, &event)) fail("no timer");
    return timer;
}

static void serve(int poll, const Mode *mode, Connection *connections) {
    struct epoll_event events[EVENTS];
    int timer = start_timer(poll, mode);
    int64_t heard_ns = now_ns();
    while (!mode->is_done()) {
        int ready = epoll_wait(poll, events, EVENTS, 1000);
        for (int i = 0; i < ready; i++) {
            Connection *connection = events[i].data.ptr;
            if (!connection) {
                uint64_t missed;
                if (read(timer, &missed, sizeof missed) == sizeof missed) mode->tick(connections);
                connection = connections;
            } else if (events[i].events & (EPOLLIN | EPOLLERR | EPOLLHUP)) {
                if (read_in(connection, mode->take)) heard_ns = now_ns();
                mode->fill(connection);
            }
            write_out(poll, connection);
        }
        if (now_ns() - heard_ns > SILENCE_MS * 1000000LL) {
            fprintf(stderr, "%ld of %ld requests were answered, then nothing for %d s\n", run.answered, run.asked, SILENCE_MS / 1000);
            exit(2);
        }
    }
}

static void report(double seconds) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    double cpu_s = usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
    printf("{\"requests\": %ld, \"messages\": %ld, \"refused\": %ld, \"not_found\": %ld, \"seconds\": %.6f, \"cpu_s\": %.4f, ", run.answered,
           run.messages, run.refused, run.not_found, seconds, cpu_s);
    printf("\"p50_us\": %.1f, \"p99_us\": %.1f, \"p999_us\": %.1f, \"max_us\": %.1f, \"codes\": {", latency_us(0.5), latency_us(0.99),
           latency_us(0.999), worst_us());
    for (int i = 0; i < CODES_MAX && run.of_code[i]; i++) printf("%s\"%d\": %ld", i ? ", " : "", run.codes[i], run.of_code[i]);
    printf("}}\n");
}

int main(int count, char **arguments) {
    read_plan(count, arguments);
    const Mode *mode = find_mode();
    int poll = epoll_create1(0);
    Connection *connections = calloc(plan.connections, sizeof *connections);
    if (poll < 0 || !connections) fail("no memory for %d connections", plan.connections);
    for (int i = 0; i < plan.connections; i++) open_connection(connections + i, i, poll);
    for (int i = 0; i < plan.connections; i++) mode->prepare(connections + i);
    int64_t started_ns = now_ns();
    run.stop_ns = started_ns + (int64_t)(plan.seconds * 1e9);
    for (int i = 0; i < plan.connections; i++) {
        mode->fill(connections + i);
        write_out(poll, connections + i);
    }
    serve(poll, mode, connections);
    double seconds = (now_ns() - started_ns) * 1e-9;
    for (int i = 0; i < plan.connections; i++)
        while (connections[i].out_start < connections[i].out_end) write_out(poll, connections + i); /* the last commits */
    report(seconds);
    return 0;
}
