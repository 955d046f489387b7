/* Ordinary consumers, as Apache's push consumer works: a heartbeat names the group and its subscription; then each queue has one pull
 * in flight, which commits the offset so far and may wait at the broker.
 *
 *     oldest        first                end          A consumer pulls from `first` on. When it comes near `end`, the end of the
 *     |-------------|--------------------|            queue when the run began, it begins again at `first`: no pull waits.
 */
#include "loadgen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COMMIT_AND_WAIT = 3, WAIT = 2, NOT_FOUND = 19, RETRY_NOW = 20 };

static const char SUBSCRIBED[] = "1700000000000";
static long *first, *end; /* of each queue */

static void group_of(const Connection *connection, char *at, size_t size) {
    snprintf(at, size, "bench_consumers_%d", connection->number);
}

/* Join a consumer group with this connection as its only member. */
void begin_consumer(Connection *connection) {
    char group[64], text[1024];
    group_of(connection, group, sizeof group);
    int length = snprintf(
        text, sizeof text,
        "{\"clientID\":\"127.0.0.1@%s\",\"consumerDataSet\":[{\"consumeFromWhere\":\"CONSUME_FROM_LAST_OFFSET\",\"consumeType\":"
        "\"CONSUME_PASSIVELY\",\"groupName\":\"%s\",\"messageModel\":\"CLUSTERING\",\"subscriptionDataSet\":[{\"classFilterMode\":false,"
        "\"codeSet\":[],\"expressionType\":\"TAG\",\"subString\":\"*\",\"subVersion\":%s,\"tagsSet\":[],\"topic\":\"%s\"}],\"unitMode\":false}],"
        "\"heartbeatFingerprint\":0,\"producerDataSet\":[],\"withoutSub\":false}",
        group, group, SUBSCRIBED, plan.topic);
    Request request = begin_request(connection, HEARTBEAT, SLOTS_MAX, 0, length);
    end_request(connection, &request, text, length);
    Response response = ask_and_wait(connection, SLOTS_MAX);
    if (response.code != 0) fail("the heartbeat of %s was refused with code %d", group, response.code);
}

long end_of_queue(Connection *connection, int queue) {
    Request request = begin_request(connection, MAX_OFFSET, SLOTS_MAX, 0, 0);
    add_text(&request, "topic", plan.topic);
    add_number(&request, "queueId", queue);
    end_request(connection, &request, NULL, 0);
    Response response = ask_and_wait(connection, SLOTS_MAX);
    if (response.code != 0) fail("topic %s has no queue %d (code %d)", plan.topic, queue, response.code);
    return response_number(&response, "offset");
}

/* Slots and queues have the same numbers. */
void pull(Connection *connection, int slot, long offset) {
    char group[64];
    group_of(connection, group, sizeof group);
    Request request = begin_request(connection, PULL, slot, 0, 0);
    add_number(&request, "queueId", slot);
    add_text(&request, "maxMsgBytes", "262144");
    add_number(&request, "maxMsgNums", plan.per_request);
    add_number(&request, "sysFlag", offset > 0 ? COMMIT_AND_WAIT : WAIT);
    add_text(&request, "suspendTimeoutMillis", "15000");
    add_number(&request, "commitOffset", offset);
    add_text(&request, "bname", "bench");
    add_text(&request, "topic", plan.topic);
    add_number(&request, "queueOffset", offset);
    add_text(&request, "expressionType", "TAG");
    add_text(&request, "subVersion", SUBSCRIBED);
    add_text(&request, "consumerGroup", group);
    end_request(connection, &request, NULL, 0);
    connection->slots[slot].offset = offset;
    connection->slots[slot].asked_ns = now_ns();
    run.asked++;
}

static void prepare(Connection *connection) {
    if (plan.queues > SLOTS_MAX) fail("a consumer of %d queues has too many pulls in flight", plan.queues);
    begin_consumer(connection);
    if (first) return;
    first = calloc(plan.queues, sizeof *first);
    end = calloc(plan.queues, sizeof *end);
    for (int queue = 0; queue < plan.queues; queue++) {
        long last = end_of_queue(connection, queue);
        if (last < plan.span) fail("queue %d has %ld messages, fewer than --span %ld", queue, last, plan.span);
        first[queue] = plan.oldest ? 0 : last - plan.span;
        end[queue] = first[queue] + plan.span;
    }
}

static void fill(Connection *connection) {
    if (connection->in_flight) return; /* `take` pulls again */
    for (int queue = 0; queue < plan.queues && may_ask(); queue++) {
        connection->in_flight++;
        pull(connection, queue, first[queue]);
    }
}

static void take(Connection *connection, const Response *response) {
    int queue = (int)response->opaque;
    long next = connection->slots[queue].offset;
    count_latency(now_ns() - connection->slots[queue].asked_ns);
    run.answered++;
    if (response->code == 0) {
        run.messages += count_records(response->body, response->body_length, NULL);
        next = response_number(response, "nextBeginOffset");
    } else if (response->code == NOT_FOUND || response->code == RETRY_NOW) {
        run.not_found++;
    } else {
        count_refusal(response);
    }
    if (next + plan.per_request > end[queue]) next = first[queue];
    if (may_ask()) {
        pull(connection, queue, next);
    } else {
        connection->in_flight--;
    }
}

const Mode PULL_MODE = {"pull", prepare, fill, take, is_answered, NULL};
