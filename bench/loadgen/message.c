/* Messages: their properties, the body of a request, and the records that a pull brings.
 *
 *     a message in a batch:
 *     | size (4) | magic (4) = 0 | CRC (4) = 0 | flag (4) = 0 | B (4) | body, B | P (2) | properties, P |
 *
 *     a stored record, up to its body (hosts are IPv4):
 *     0          4                                                             84      88
 *     | size (4) | magic, CRC, queue, flag, offsets, times, hosts, transaction | B (4) | body, B | …
 */
#include "loadgen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH_FIXED = 20, RECORD_BODY_AT = 88, PROPERTIES_MAX = 512 };

unsigned char *body; /* of every request: a message or a batch */
size_t body_length;

/* NAME 0x01 VALUE 0x02 …, with a unique key of 32 hexadecimal digits as Apache's clients make it. */
size_t put_properties(char *at, uint64_t number, const char *more) {
    static const char KEY[] = "UNIQ_KEY\x01" "7F000001A1B218B4AAC2", REST[] = "\x02WAIT\x01true\x02TAGS\x01TagA\x02";
    char *end = at;
    memcpy(end, KEY, sizeof KEY - 1), end += sizeof KEY - 1;
    for (int shift = 44; shift >= 0; shift -= 4) *end++ = "0123456789ABCDEF"[number >> shift & 15];
    memcpy(end, REST, sizeof REST - 1), end += sizeof REST - 1;
    size_t length = strlen(more);
    memcpy(end, more, length), end += length;
    if (plan.property[0]) end += snprintf(end, 256, "%.100s\x01%.100s\x02", plan.property, plan.value);
    return end - at;
}

static unsigned char *put_batched(unsigned char *at, int number) {
    char properties[PROPERTIES_MAX];
    size_t length = put_properties(properties, number, ""), size = BATCH_FIXED + plan.body_bytes + 2 + length;
    memset(at, 0, BATCH_FIXED);
    put_32(at, size);
    put_32(at + 16, plan.body_bytes);
    for (int i = 0; i < plan.body_bytes; i++) at[BATCH_FIXED + i] = rand();
    unsigned char *end = at + BATCH_FIXED + plan.body_bytes;
    end[0] = length >> 8;
    end[1] = length;
    memcpy(end + 2, properties, length);
    return at + size;
}

/* Random bytes, because a broker or a disk may compress. */
void make_body(int batch) {
    if (body) return;
    srand(7);
    body = malloc((size_t)(batch ? plan.per_request : 1) * (plan.body_bytes + PROPERTIES_MAX));
    if (!body) fail("no memory for a body");
    unsigned char *end = body;
    if (batch) {
        for (int i = 0; i < plan.per_request; i++) end = put_batched(end, i);
    } else {
        for (int i = 0; i < plan.body_bytes; i++) *end++ = rand();
    }
    body_length = end - body;
}

/* Walk the records of a pull, and return their number. */
long count_records(const unsigned char *at, size_t length, void (*visit)(const unsigned char *, size_t)) {
    long count = 0;
    while (length > RECORD_BODY_AT) {
        size_t size = get_32(at), content = get_32(at + RECORD_BODY_AT - 4);
        if (size > length || size <= RECORD_BODY_AT + content) fail("record %ld of a pull has a wrong size: %zu", count, size);
        if (visit) visit(at + RECORD_BODY_AT, content);
        at += size;
        length -= size;
        count++;
    }
    return count;
}
