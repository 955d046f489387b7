/* From a send to its delivery: connection 0 sends at an even pace, and the pulls of all other connections wait at the ends of the
 * queues. The body of a message begins with the time of its send, in nanoseconds of this machine's monotonic clock.
 */
#include "loadgen.h"

#include <string.h>

static long sent, delivered;

static int is_sender(const Connection *connection) {
    return connection->number == 0;
}

static void prepare(Connection *connection) {
    if (plan.connections < 2) fail("delivery needs a sender and a consumer: --connections 2");
    prepare_send(connection);
    if (is_sender(connection)) return;
    begin_consumer(connection);
    for (int queue = 0; queue < plan.queues; queue++) connection->slots[queue].offset = end_of_queue(connection, queue);
}

static void fill(Connection *connection) {
    if (is_sender(connection) || connection->in_flight) return;
    for (int queue = 0; queue < plan.queues; queue++) {
        connection->in_flight++;
        pull(connection, queue, connection->slots[queue].offset);
    }
}

static void send_at_pace(Connection *connections) {
    if (sent >= plan.requests || now_ns() >= run.stop_ns) return;
    int64_t time_ns = now_ns();
    memcpy(body, &time_ns, sizeof time_ns);
    send_one(connections, (uint64_t)sent++);
}

static void count_delivery(const unsigned char *content, size_t length) {
    int64_t time_ns;
    if (length < sizeof time_ns) return;
    memcpy(&time_ns, content, sizeof time_ns);
    count_latency(now_ns() - time_ns);
}

static void take(Connection *connection, const Response *response) {
    int slot = (int)response->opaque;
    if (is_sender(connection)) {
        give_slot_back(connection, slot);
        if (response->code != 0) {
            count_refusal(response);
            sent--;
        }
        return;
    }
    long next = connection->slots[slot].offset;
    run.answered++;
    if (response->code == 0) {
        long count = count_records(response->body, response->body_length, count_delivery);
        delivered += count;
        run.messages += count;
        next = response_number(response, "nextBeginOffset");
    } else {
        run.not_found++;
    }
    pull(connection, slot, next);
}

static int is_done(void) {
    return now_ns() >= run.stop_ns && delivered >= sent * (plan.connections - 1);
}

const Mode DELIVERY_MODE = {"delivery", prepare, fill, take, is_done, send_at_pace};
