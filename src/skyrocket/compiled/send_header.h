/* Reads the header of a send: 310, 320 (a batch), or 10 with the long names of old clients. In JSON as Java writes it, or binary:

       {"code":310,"extFields":{"a":"group","b":"topic",…,"i":"UNIQ_KEY\u0001…","j":"0",…},"flag":0,…,"opaque":7,…}

   No blanks, only known names, each of them once, numbers in their shortest form, the code first. Both readers refuse any other
   header, also one with the same meaning; the Python reference reads those. `protocol/command.py` draws the binary layout. */
#ifndef SKYROCKET_SEND_HEADER_H
#define SKYROCKET_SEND_HEADER_H

#include "header_reader.h"

typedef struct {
    Text topic;
    Text properties; /* without escapes */
    int32_t queue_id, sys_flag, flag, reconsume_times, opaque;
    int64_t born_timestamp;
    int is_oneway, is_batch;
} Send;

enum { SEND_MESSAGE = 10, SEND_MESSAGE_V2 = 310, SEND_BATCH_MESSAGE = 320, ONEWAY = 2 };

static inline int takes_properties(Reader *reader, int is_json, unsigned char *unescaped, Text *properties) {
    if (is_json) {
        properties->at = unescaped;
        return takes_escaped(reader, unescaped, &properties->size);
    }
    properties->at = reader->at;
    properties->size = (size_t)(reader->end - reader->at);
    reader->at = reader->end;
    return 1;
}

/* The fields by their letters: a group, b topic, c and d the topic's model, e queue id, f sys flag, g born timestamp, h flag,
   i properties, j reconsume times, k unit mode, l the maximum of those times, m whether it is a batch, n the broker's name. */
static inline int takes_field(Reader *reader, int is_json, unsigned char letter, unsigned char *unescaped, Send *send) {
    Text text;
    int32_t number;
    int is_true;
    switch (letter) {
        case 'a': case 'c': case 'n': return takes_plain(reader, is_json, &text);
        case 'b': return takes_plain(reader, is_json, &send->topic);
        case 'd': case 'l': return takes_value32(reader, is_json, &number);
        case 'e': return takes_value32(reader, is_json, &send->queue_id);
        case 'f': return takes_value32(reader, is_json, &send->sys_flag);
        case 'g': return takes_value64(reader, is_json, &send->born_timestamp);
        case 'h': return takes_value32(reader, is_json, &send->flag);
        case 'i': return takes_properties(reader, is_json, unescaped, &send->properties);
        case 'j': return takes_value32(reader, is_json, &send->reconsume_times);
        case 'k': return takes_bool(reader, is_json, &is_true);
        case 'm':
            if (!takes_bool(reader, is_json, &is_true)) return 0;
            send->is_batch |= is_true;
            return 1;
        default: return 0;
    }
}

#define FIELDS_NEEDED 0xFF /* a to h */

/* Notes that a field was seen. Returns 0 when it is unknown, or is there for the second time. */
static inline int is_first(unsigned char letter, uint32_t *seen) {
    if (letter < 'a' || letter > 'n' || *seen >> (letter - 'a') & 1) return 0;
    *seen |= 1u << (letter - 'a');
    return 1;
}

/* Returns the letter of a field that has its long name, or 0. */
static inline unsigned char letter_of(Text name) {
    static const char *const names[] = {"producerGroup", "topic", "defaultTopic", "defaultTopicQueueNums", "queueId", "sysFlag",
        "bornTimestamp", "flag", "properties", "reconsumeTimes", "unitMode", "maxReconsumeTimes", "batch", "bname"};
    for (unsigned number = 0; number < sizeof(names) / sizeof(names[0]); number++) {
        if (strlen(names[number]) == name.size && memcmp(names[number], name.at, name.size) == 0) {
            return (unsigned char)('a' + number);
        }
    }
    return 0;
}

/* Returns the letter of the name in JSON that comes next, or 0. */
static inline unsigned char takes_name(Reader *reader, int is_old) {
    if (is_old) {
        Text name;
        return takes_text(reader, &name) && takes(reader, ':') ? letter_of(name) : 0;
    }
    if (reader->end - reader->at < 4 || reader->at[0] != '"' || reader->at[2] != '"' || reader->at[3] != ':') return 0;
    reader->at += 4;
    return reader->at[-3];
}

static inline int takes_fields(Reader *reader, int is_old, unsigned char *unescaped, Send *send) {
    uint32_t seen = 0;
    if (!takes(reader, '{')) return 0;
    do {
        unsigned char letter = takes_name(reader, is_old);
        if (!is_first(letter, &seen) || !takes_field(reader, 1, letter, unescaped, send)) return 0;
    } while (takes(reader, ','));
    return takes(reader, '}') && (seen & FIELDS_NEEDED) == FIELDS_NEEDED;
}

/* Sets what a header need not say. Returns 0 when the code or the flag is not that of a send. */
static inline int begins_send(int32_t code, const unsigned char *header, Send *send) {
    send->properties = (Text){header, 0};
    send->reconsume_times = send->opaque = send->is_oneway = 0;
    send->is_batch = code == SEND_BATCH_MESSAGE;
    return code == SEND_MESSAGE_V2 || code == SEND_BATCH_MESSAGE || code == SEND_MESSAGE;
}

/* `unescaped` must have room for `size` bytes. */
static inline int read_send(const unsigned char *header, size_t size, unsigned char *unescaped, Send *send) {
    enum { FIELDS = 1, FLAG = 2, LANGUAGE = 4, OPAQUE = 8, REMARK = 16, SERIALIZATION = 32, VERSION = 64 };
    Reader reader = {header, header + size};
    Text name, text;
    int32_t number, code;
    unsigned seen = 0;
    if (!takes_word(&reader, "{\"code\":", 8) || !takes_int32(&reader, &code) || !begins_send(code, header, send)) return 0;
    while (takes(&reader, ',')) {
        unsigned which = 0;
        int is_sound = 0;
        if (!takes_text(&reader, &name) || !takes(&reader, ':')) return 0;
#define IS(word) (name.size == sizeof(word) - 1 && memcmp(name.at, word, sizeof(word) - 1) == 0)
        if (IS("extFields")) {
            which = FIELDS, is_sound = takes_fields(&reader, code == SEND_MESSAGE, unescaped, send);
        } else if (IS("flag")) {
            send->is_oneway = takes(&reader, '0' + ONEWAY);
            which = FLAG, is_sound = send->is_oneway || takes(&reader, '0');
        } else if (IS("language")) {
            which = LANGUAGE, is_sound = takes_text(&reader, &text);
        } else if (IS("opaque")) {
            which = OPAQUE, is_sound = takes_int32(&reader, &send->opaque);
        } else if (IS("remark")) {
            which = REMARK, is_sound = takes_word(&reader, "null", 4) || takes_text(&reader, &text);
        } else if (IS("serializeTypeCurrentRPC")) {
            which = SERIALIZATION, is_sound = takes_text(&reader, &text);
        } else if (IS("version")) {
            which = VERSION, is_sound = takes_int32(&reader, &number);
        }
#undef IS
        if (!is_sound || seen & which) return 0;
        seen |= which;
    }
    return takes(&reader, '}') && reader.at == reader.end && seen & FIELDS;
}

static inline int read_binary_send(const unsigned char *header, size_t size, Send *send) {
    uint32_t seen = 0;
    if (size < BINARY_FIXED_BYTES || get32(header + 13) != 0 || get32(header + 17) != size - BINARY_FIXED_BYTES) return 0;
    int32_t code = get16(header), flag = (int32_t)get32(header + 9);
    if (!begins_send(code, header, send) || (flag != 0 && flag != ONEWAY)) return 0;
    send->opaque = (int32_t)get32(header + 5);
    send->is_oneway = flag == ONEWAY;
    Reader reader = {header + BINARY_FIXED_BYTES, header + size};
    while (reader.at < reader.end) {
        Text name;
        Reader inside;
        if (!takes_binary_field(&reader, &name, &inside)) return 0;
        unsigned char letter = code == SEND_MESSAGE ? letter_of(name) : name.size == 1 ? name.at[0] : 0;
        if (!is_first(letter, &seen) || !takes_field(&inside, 0, letter, NULL, send)) return 0;
    }
    return (seen & FIELDS_NEEDED) == FIELDS_NEEDED;
}

#endif
