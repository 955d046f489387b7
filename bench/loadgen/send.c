/* Three modes that send: single messages, batches, and transactions (a half message, then its commit). */
#include "loadgen.h"

#include <stdlib.h>
#include <string.h>

enum { HALF = 4, COMMIT = 8 };

static const char GROUP[] = "bench_producers";
static const char *more_properties = "";
static int code, sys_flag;

/* Field names: the old SEND_MESSAGE has long ones, the newer codes one letter each. */
static const char *const LONG_NAMES[] = {"producerGroup", "topic", "defaultTopic", "defaultTopicQueueNums", "queueId", "sysFlag",
                                         "bornTimestamp", "flag", "properties", "reconsumeTimes", "unitMode", "batch", "bname"};
static const char *const SHORT_NAMES[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "m", "n"};

/* Write one request with the current body. */
void send_one(Connection *connection, uint64_t number) {
    const char *const *names = code == SEND_OLD ? LONG_NAMES : SHORT_NAMES;
    char properties[512];
    int slot = take_slot(connection);
    Request request = begin_request(connection, code, slot, 0, body_length);
    add_text(&request, names[0], GROUP);
    add_text(&request, names[1], plan.topic);
    add_text(&request, names[2], "TBW102");
    add_number(&request, names[3], plan.queues);
    add_number(&request, names[4], (long)(number % plan.queues));
    add_number(&request, names[5], sys_flag);
    add_text(&request, names[6], "1700000000000");
    add_text(&request, names[7], "0");
    add_bytes(&request, names[8], properties, put_properties(properties, number, more_properties));
    add_text(&request, names[9], "0");
    add_text(&request, names[10], "false");
    add_text(&request, names[11], code == SEND_BATCH ? "true" : "false");
    add_text(&request, names[12], "bench");
    end_request(connection, &request, body, body_length);
    connection->slots[slot].asked_ns = now_ns();
}

static void fill(Connection *connection) {
    while (connection->in_flight < plan.window && may_ask()) send_one(connection, (uint64_t)run.asked++);
}

static int take(Connection *connection, const Response *response) {
    count_latency(now_ns() - connection->slots[response->opaque].asked_ns);
    give_slot_back(connection, (int)response->opaque);
    run.answered++;
    if (response->code != 0) count_refusal(response);
    return response->code == 0;
}

static void take_send(Connection *connection, const Response *response) {
    run.messages += take(connection, response);
}

static void take_batch(Connection *connection, const Response *response) {
    run.messages += take(connection, response) * plan.per_request;
}

void prepare_send(Connection *connection) {
    (void)connection;
    code = plan.code;
    make_body(0);
}

static void prepare_batch(Connection *connection) {
    (void)connection;
    code = SEND_BATCH;
    make_body(1);
}

static void prepare_transaction(Connection *connection) {
    (void)connection;
    code = plan.code;
    sys_flag = HALF;
    more_properties = "TRAN_MSG\x01true\x02PGROUP\x01" "bench_producers\x02";
    make_body(0);
}

/* The last 16 digits of a message id are the message's position in the log. */
static long log_offset(const Response *response) {
    size_t length;
    const char *id = response_text(response, "msgId", &length);
    if (!id || length < 32) fail("a response has no message id");
    char digits[17] = {0};
    memcpy(digits, id + length - 16, 16);
    return strtol(digits, NULL, 16);
}

static void take_half(Connection *connection, const Response *response) {
    if (!take(connection, response)) return;
    size_t length;
    const char *transaction = response_text(response, "transactionId", &length);
    if (!transaction) fail("the response to a half message has no transactionId");
    Request request = begin_request(connection, END_TRANSACTION, 0, ONEWAY, 0);
    add_text(&request, "producerGroup", GROUP);
    add_text(&request, "bname", "bench");
    add_number(&request, "commitLogOffset", log_offset(response));
    add_text(&request, "topic", plan.topic);
    add_bytes(&request, "msgId", transaction, length);
    add_number(&request, "tranStateTableOffset", response_number(response, "queueOffset"));
    add_number(&request, "commitOrRollback", COMMIT);
    add_bytes(&request, "transactionId", transaction, length);
    add_text(&request, "fromTransactionCheck", "false");
    end_request(connection, &request, NULL, 0);
    run.messages++;
}

const Mode SEND_MODE = {"send", prepare_send, fill, take_send, is_answered, NULL};
const Mode BATCH_MODE = {"batch", prepare_batch, fill, take_batch, is_answered, NULL};
const Mode TRANSACTION_MODE = {"transaction", prepare_transaction, fill, take_half, is_answered, NULL};
