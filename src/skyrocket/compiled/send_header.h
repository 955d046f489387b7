/* Reads the header of a send (310) from JSON as Java writes it:

       {"code":310,"extFields":{"a":"group","b":"topic",…,"i":"UNIQ_KEY\u0001…","j":"0",…},"flag":0,…,"opaque":7,…}

   No blanks, only known names, each of them once, numbers in their shortest form. `read_send` refuses any other header, also one
   with the same meaning; the Python reference reads those. A reader never looks at or behind `end`. */
#ifndef SKYROCKET_SEND_HEADER_H
#define SKYROCKET_SEND_HEADER_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    const unsigned char *at;
    size_t size;
} Text;

typedef struct {
    Text topic;
    size_t properties_bytes; /* the bytes of the properties, without escapes */
    int32_t queue_id, sys_flag, flag, reconsume_times, opaque;
    int64_t born_timestamp;
} Send;

typedef struct {
    const unsigned char *at, *end;
} Reader;

static inline int takes(Reader *reader, unsigned char what) {
    if (reader->at == reader->end || *reader->at != what) return 0;
    reader->at++;
    return 1;
}

static inline int takes_word(Reader *reader, const char *word, size_t size) {
    if ((size_t)(reader->end - reader->at) < size || memcmp(reader->at, word, size) != 0) return 0;
    reader->at += size;
    return 1;
}

/* Printable ASCII characters that need no escape in a JSON string: all but the quote and the backslash. */
#define SIXTEEN 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1
static const unsigned char is_plain[256] = {
    [0x20] = 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
    [0x30] = SIXTEEN, SIXTEEN,
    [0x50] = 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1,
    [0x60] = SIXTEEN, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
};
#undef SIXTEEN

/* Reads a string that has only such characters. */
static inline int takes_text(Reader *reader, Text *text) {
    if (!takes(reader, '"')) return 0;
    text->at = reader->at;
    while (reader->at < reader->end && is_plain[*reader->at]) reader->at++;
    text->size = (size_t)(reader->at - text->at);
    return takes(reader, '"');
}

#define DIGITS_MAX 18 /* any number of so many digits fits into 64 bits */

static inline int takes_number(Reader *reader, int64_t *number) {
    int is_negative = takes(reader, '-');
    const unsigned char *first = reader->at;
    int64_t value = 0;
    while (reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9') {
        if (reader->at - first == DIGITS_MAX) return 0;
        value = value * 10 + (*reader->at++ - '0');
    }
    if (reader->at == first || (*first == '0' && (is_negative || reader->at - first > 1))) return 0;
    *number = is_negative ? -value : value;
    return 1;
}

static inline int takes_int32(Reader *reader, int32_t *number) {
    int64_t value;
    if (!takes_number(reader, &value) || value < INT32_MIN || value > INT32_MAX) return 0;
    *number = (int32_t)value;
    return 1;
}

static inline int takes_quoted_int32(Reader *reader, int32_t *number) {
    return takes(reader, '"') && takes_int32(reader, number) && takes(reader, '"');
}

static inline int hex_digit(unsigned char digit) {
    if (digit >= '0' && digit <= '9') return digit - '0';
    if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
    return digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : -1;
}

/* Reads what stands behind a backslash. Returns an ASCII character, or -1. */
static inline int takes_escape(Reader *reader) {
    static const char names[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    if (reader->at == reader->end) return -1;
    unsigned char name = *reader->at++;
    if (name != 'u') {
        const char *found = name ? strchr(names, name) : NULL;
        return found ? meanings[found - names] : -1;
    }
    if (reader->end - reader->at < 4 || reader->at[0] != '0' || reader->at[1] != '0') return -1;
    int high = hex_digit(reader->at[2]), low = hex_digit(reader->at[3]);
    reader->at += 4;
    return high < 0 || high > 7 || low < 0 ? -1 : high << 4 | low;
}

/* Reads any string and removes its escapes; it never gets longer. The caller checks that the other bytes are UTF-8. */
static inline int takes_escaped(Reader *reader, unsigned char *into, size_t *size) {
    unsigned char *out = into;
    if (!takes(reader, '"')) return 0;
    for (;;) {
        while (reader->at < reader->end && is_plain[*reader->at]) *out++ = *reader->at++;
        if (reader->at == reader->end || *reader->at == '"') break;
        int character = *reader->at++;
        if (character < 0x20) return 0;
        if (character == '\\' && (character = takes_escape(reader)) < 0) return 0;
        *out++ = (unsigned char)character;
    }
    *size = (size_t)(out - into);
    return takes(reader, '"');
}

static inline int takes_false(Reader *reader) { return takes_word(reader, "\"false\"", 7); }

/* The fields by their letters: a group, b topic, c and d the topic's model, e queue id, f sys flag, g born timestamp, h flag,
   i properties, j reconsume times, k unit mode, l the maximum of those times, m whether it is a batch, n the broker's name. */
static inline int takes_field(Reader *reader, unsigned char letter, unsigned char *properties, Send *send) {
    Text text;
    int32_t number;
    switch (letter) {
        case 'a': case 'c': case 'n': return takes_text(reader, &text);
        case 'b': return takes_text(reader, &send->topic);
        case 'd': case 'l': return takes_quoted_int32(reader, &number);
        case 'e': return takes_quoted_int32(reader, &send->queue_id);
        case 'f': return takes_quoted_int32(reader, &send->sys_flag);
        case 'g': return takes(reader, '"') && takes_number(reader, &send->born_timestamp) && takes(reader, '"');
        case 'h': return takes_quoted_int32(reader, &send->flag);
        case 'i': return takes_escaped(reader, properties, &send->properties_bytes);
        case 'j': return takes_quoted_int32(reader, &send->reconsume_times);
        case 'k': return takes_false(reader) || takes_word(reader, "\"true\"", 6);
        case 'm': return takes_false(reader);
        default: return 0;
    }
}

#define FIELDS_NEEDED 0x1FF /* a to i */

static inline int takes_fields(Reader *reader, unsigned char *properties, Send *send) {
    uint32_t seen = 0;
    if (!takes(reader, '{')) return 0;
    do {
        if (reader->end - reader->at < 4 || reader->at[0] != '"' || reader->at[2] != '"' || reader->at[3] != ':') return 0;
        unsigned char letter = reader->at[1];
        reader->at += 4;
        if (letter < 'a' || letter > 'n' || seen >> (letter - 'a') & 1) return 0;
        seen |= 1u << (letter - 'a');
        if (!takes_field(reader, letter, properties, send)) return 0;
    } while (takes(reader, ','));
    return takes(reader, '}') && (seen & FIELDS_NEEDED) == FIELDS_NEEDED;
}

/* `properties` must have room for `size` bytes. */
static inline int read_send(const unsigned char *header, size_t size, unsigned char *properties, Send *send) {
    enum { CODE = 1, FIELDS = 2, FLAG = 4, LANGUAGE = 8, OPAQUE = 16, REMARK = 32, SERIALIZATION = 64, VERSION = 128 };
    Reader reader = {header, header + size};
    Text name, text;
    int32_t number;
    unsigned seen = 0;
    send->reconsume_times = send->opaque = 0;
    if (!takes(&reader, '{')) return 0;
    do {
        unsigned which = 0;
        int is_sound = 0;
        if (!takes_text(&reader, &name) || !takes(&reader, ':')) return 0;
#define IS(word) (name.size == sizeof(word) - 1 && memcmp(name.at, word, sizeof(word) - 1) == 0)
        if (IS("code")) {
            which = CODE, is_sound = takes_word(&reader, "310", 3);
        } else if (IS("extFields")) {
            which = FIELDS, is_sound = takes_fields(&reader, properties, send);
        } else if (IS("flag")) {
            which = FLAG, is_sound = takes(&reader, '0');
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
    } while (takes(&reader, ','));
    return takes(&reader, '}') && reader.at == reader.end && (seen & (CODE | FIELDS)) == (CODE | FIELDS);
}

static inline int is_alphanumeric(const unsigned char *text, size_t size) {
    for (size_t at = 0; at < size; at++) {
        unsigned char lower = text[at] | 0x20;
        if (!((text[at] >= '0' && text[at] <= '9') || (lower >= 'a' && lower <= 'z'))) return 0;
    }
    return size > 0;
}

/* Returns where a word stands first, or NULL. */
static inline const unsigned char *find(const unsigned char *text, size_t size, const char *word, size_t word_size) {
    const unsigned char *end = text + size;
    while ((size_t)(end - text) >= word_size) {
        text = memchr(text, word[0], (size_t)(end - text) - word_size + 1);
        if (text == NULL || memcmp(text, word, word_size) == 0) return text;
        text++;
    }
    return NULL;
}

#endif
