/* The command line: a mode, and options that each take a value. */
#include "loadgen.h"

#include <stdlib.h>
#include <string.h>

Plan plan = {
    .property = "", .value = "", .connections = 4, .window = 64, .queues = 4, .body_bytes = 1024, .per_request = 32, .code = SEND,
    .pace = 500, .requests = 1L << 40, .span = 10000, .seconds = 2.0,
};

typedef struct {
    const char *name;
    int *number;
    long *large;
    double *real;
    const char **text;
} Option;

static const Option OPTIONS[] = {
    {"--port", .number = &plan.port},
    {"--topic", .text = &plan.topic},
    {"--connections", .number = &plan.connections},
    {"--window", .number = &plan.window},
    {"--queues", .number = &plan.queues},
    {"--body-bytes", .number = &plan.body_bytes},
    {"--per-request", .number = &plan.per_request},
    {"--binary", .number = &plan.binary},
    {"--code", .number = &plan.code},
    {"--pace", .number = &plan.pace},
    {"--oldest", .number = &plan.oldest},
    {"--requests", .large = &plan.requests},
    {"--span", .large = &plan.span},
    {"--seconds", .real = &plan.seconds},
    {"--property", .text = &plan.property},
    {"--value", .text = &plan.value},
};

static void set(const char *name, const char *value) {
    for (size_t i = 0; i < sizeof OPTIONS / sizeof *OPTIONS; i++) {
        const Option *option = OPTIONS + i;
        if (strcmp(option->name, name)) continue;
        if (option->number) *option->number = atoi(value);
        if (option->large) *option->large = atol(value);
        if (option->real) *option->real = atof(value);
        if (option->text) *option->text = value;
        return;
    }
    fail("unknown option: %s", name);
}

static void check(const char *name, long value, long least, long most) {
    if (value < least || value > most) fail("%s is %ld; it must be %ld to %ld", name, value, least, most);
}

void read_plan(int count, char **arguments) {
    if (count < 2 || count % 2) fail("usage: loadgen send|batch|transaction|pull|delivery --port PORT --topic TOPIC [--option value ...]");
    plan.mode = arguments[1];
    for (int i = 2; i < count; i += 2) set(arguments[i], arguments[i + 1]);
    if (!plan.topic) fail("--topic is missing");
    check("--port", plan.port, 1, 65535);
    check("--connections", plan.connections, 1, 10000);
    check("--window", plan.window, 1, SLOTS_MAX);
    check("--queues", plan.queues, 1, 1 << 20);
    check("--body-bytes", plan.body_bytes, 16, 4 << 20);
    check("--per-request", plan.per_request, 1, 1024);
    check("--pace", plan.pace, 1, 100000);
    check("--span", plan.span, plan.per_request, 1L << 40);
}
