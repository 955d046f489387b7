/* Reads the header of END_TRANSACTION (37) from JSON as Java writes it:

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

static inline int takes_quoted_number(Reader *reader, int64_t *number) {
    return takes(reader, '"') && takes_number(reader, number) && takes(reader, '"');
}

static inline int takes_quoted_bool(Reader *reader, int *is_true) {
    *is_true = takes_word(reader, "\"true\"", 6);
    return *is_true || takes_false(reader);
}

#define IS(word) (name.size == sizeof(word) - 1 && memcmp(name.at, word, sizeof(word) - 1) == 0)

static inline int takes_end_fields(Reader *reader, End *end) {
    enum { GROUP = 1, QUEUE_OFFSET = 2, PLACE = 4, OUTCOME = 8, ID = 16, NEEDED = 31 };
    enum { ANSWER = 32, TOPIC = 64, TRANSACTION = 128, BROKER = 256 };
    Text name, text;
    unsigned seen = 0;
    if (!takes(reader, '{')) return 0;
    do {
        unsigned which = 0;
        int is_sound = 0;
        if (!takes_text(reader, &name) || !takes(reader, ':')) return 0;
        if (IS("producerGroup")) {
            which = GROUP, is_sound = takes_text(reader, &end->group);
        } else if (IS("tranStateTableOffset")) {
            which = QUEUE_OFFSET, is_sound = takes_quoted_number(reader, &end->queue_offset);
        } else if (IS("commitLogOffset")) {
            which = PLACE, is_sound = takes_quoted_number(reader, &end->place);
        } else if (IS("commitOrRollback")) {
            which = OUTCOME, is_sound = takes_quoted_int32(reader, &end->outcome);
        } else if (IS("fromTransactionCheck")) {
            which = ANSWER, is_sound = takes_quoted_bool(reader, &end->is_answer);
        } else if (IS("msgId")) {
            which = ID, is_sound = takes_text(reader, &text);
        } else if (IS("topic")) {
            which = TOPIC, is_sound = takes_text(reader, &text);
        } else if (IS("transactionId")) {
            which = TRANSACTION, is_sound = takes_text(reader, &text);
        } else if (IS("bname")) {
            which = BROKER, is_sound = takes_text(reader, &text);
        }
        if (!is_sound || seen & which) return 0;
        seen |= which;
    } while (takes(reader, ','));
    return takes(reader, '}') && (seen & NEEDED) == NEEDED;
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
