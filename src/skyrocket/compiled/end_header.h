/* Reads the header of END_TRANSACTION (37), sent oneway. In JSON as Java writes it, or binary:

       {"code":37,"extFields":{"commitLogOffset":"7",…,"producerGroup":"group",…},"flag":2,…}

   It is as strict as `send_header.h`. */
#ifndef SKYROCKET_END_HEADER_H
#define SKYROCKET_END_HEADER_H

#include "header_reader.h"

typedef struct {
    Text group;
    int64_t place, queue_offset; /* of the half message */
    int32_t outcome;
    int is_answer; /* the end answers a check */
} End;

#define IS(word) (name.size == sizeof(word) - 1 && memcmp(name.at, word, sizeof(word) - 1) == 0)

enum { END_GROUP = 1, END_QUEUE_OFFSET = 2, END_PLACE = 4, END_OUTCOME = 8, END_ID = 16, END_NEEDED = 31 };
enum { END_ANSWER = 32, END_TOPIC = 64, END_TRANSACTION_ID = 128, END_BROKER = 256, ONEWAY_END = 2 };

/* Takes the value of the field with this name. Returns 0 when it is malformed or unknown, or is there for the second time. */
static inline int takes_end_field(Reader *reader, int is_json, Text name, unsigned *seen, End *end) {
    Text text;
    unsigned which = 0;
    int is_sound = 0;
    if (IS("producerGroup")) {
        which = END_GROUP, is_sound = takes_plain(reader, is_json, &end->group);
    } else if (IS("tranStateTableOffset")) {
        which = END_QUEUE_OFFSET, is_sound = takes_value64(reader, is_json, &end->queue_offset);
    } else if (IS("commitLogOffset")) {
        which = END_PLACE, is_sound = takes_value64(reader, is_json, &end->place);
    } else if (IS("commitOrRollback")) {
        which = END_OUTCOME, is_sound = takes_value32(reader, is_json, &end->outcome);
    } else if (IS("fromTransactionCheck")) {
        which = END_ANSWER, is_sound = takes_bool(reader, is_json, &end->is_answer);
    } else if (IS("msgId")) {
        which = END_ID, is_sound = takes_plain(reader, is_json, &text);
    } else if (IS("topic")) {
        which = END_TOPIC, is_sound = takes_plain(reader, is_json, &text);
    } else if (IS("transactionId")) {
        which = END_TRANSACTION_ID, is_sound = takes_plain(reader, is_json, &text);
    } else if (IS("bname")) {
        which = END_BROKER, is_sound = takes_plain(reader, is_json, &text);
    }
    if (!is_sound || *seen & which) return 0;
    *seen |= which;
    return 1;
}

static inline int takes_end_fields(Reader *reader, End *end) {
    Text name;
    unsigned seen = 0;
    if (!takes(reader, '{')) return 0;
    do {
        if (!takes_text(reader, &name) || !takes(reader, ':') || !takes_end_field(reader, 1, name, &seen, end)) return 0;
    } while (takes(reader, ','));
    return takes(reader, '}') && (seen & END_NEEDED) == END_NEEDED;
}

static inline int read_binary_end(const unsigned char *header, size_t size, End *end) {
    unsigned seen = 0;
    memset(end, 0, sizeof *end);
    if (size < BINARY_FIXED_BYTES || get16(header) != 37 || get32(header + 9) != ONEWAY_END) return 0;
    if (get32(header + 13) != 0 || get32(header + 17) != size - BINARY_FIXED_BYTES) return 0; /* a remark; fields of another length */
    Reader reader = {header + BINARY_FIXED_BYTES, header + size};
    while (reader.at < reader.end) {
        Text name;
        Reader inside;
        if (!takes_binary_field(&reader, &name, &inside) || !takes_end_field(&inside, 0, name, &seen, end)) return 0;
    }
    return (seen & END_NEEDED) == END_NEEDED;
}

static inline int read_end(const unsigned char *header, size_t size, End *end) {
    enum { CODE = 1, FIELDS = 2, FLAG = 4, LANGUAGE = 8, OPAQUE = 16, REMARK = 32, SERIALIZATION = 64, VERSION = 128 };
    Reader reader = {header, header + size};
    Text name, text;
    int32_t number;
    unsigned seen = 0;
    memset(end, 0, sizeof *end);
    if (!takes(&reader, '{')) return 0;
    do {
        unsigned which = 0;
        int is_sound = 0;
        if (!takes_text(&reader, &name) || !takes(&reader, ':')) return 0;
        if (IS("code")) {
            which = CODE, is_sound = takes_word(&reader, "37", 2);
        } else if (IS("extFields")) {
            which = FIELDS, is_sound = takes_end_fields(&reader, end);
        } else if (IS("flag")) {
            which = FLAG, is_sound = takes(&reader, '2'); /* oneway */
        } else if (IS("language") || IS("serializeTypeCurrentRPC")) {
            which = name.at[0] == 'l' ? LANGUAGE : SERIALIZATION, is_sound = takes_text(&reader, &text);
        } else if (IS("opaque") || IS("version")) {
            which = name.at[0] == 'o' ? OPAQUE : VERSION, is_sound = takes_int32(&reader, &number);
        } else if (IS("remark")) {
            which = REMARK, is_sound = takes_word(&reader, "null", 4) || takes_text(&reader, &text);
        }
        if (!is_sound || seen & which) return 0;
        seen |= which;
    } while (takes(&reader, ','));
    return takes(&reader, '}') && reader.at == reader.end && (seen & (CODE | FIELDS | FLAG)) == (CODE | FIELDS | FLAG);
}

#undef IS

#endif
