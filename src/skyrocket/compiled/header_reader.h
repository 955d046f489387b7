/* Reads parts of a header: of JSON as Java writes it, without blanks and with numbers in their shortest form, or of a binary header.
   A reader never looks at or behind `end`. */
#ifndef SKYROCKET_HEADER_READER_H
#define SKYROCKET_HEADER_READER_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "numbers.h"

typedef struct {
    const unsigned char *at;
    size_t size;
} Text;

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

/* A value in JSON stands between quotes; one in a binary header has a reader of its own. */
static inline int opens(Reader *reader, int is_json) { return !is_json || takes(reader, '"'); }

static inline int closes(Reader *reader, int is_json) { return is_json ? takes(reader, '"') : reader->at == reader->end; }

static inline int takes_plain(Reader *reader, int is_json, Text *text) {
    if (!opens(reader, is_json)) return 0;
    text->at = reader->at;
    while (reader->at < reader->end && is_plain[*reader->at]) reader->at++;
    text->size = (size_t)(reader->at - text->at);
    return closes(reader, is_json);
}

static inline int takes_value32(Reader *reader, int is_json, int32_t *number) {
    return opens(reader, is_json) && takes_int32(reader, number) && closes(reader, is_json);
}

static inline int takes_value64(Reader *reader, int is_json, int64_t *number) {
    return opens(reader, is_json) && takes_number(reader, number) && closes(reader, is_json);
}

static inline int takes_bool(Reader *reader, int is_json, int *is_true) {
    if (!opens(reader, is_json)) return 0;
    *is_true = takes_word(reader, "true", 4);
    return (*is_true || takes_word(reader, "false", 5)) && closes(reader, is_json);
}

/* Takes so many bytes. */
static inline int takes_bytes(Reader *reader, size_t size, Text *bytes) {
    if ((size_t)(reader->end - reader->at) < size) return 0;
    *bytes = (Text){reader->at, size};
    reader->at += size;
    return 1;
}

#define BINARY_FIXED_BYTES 21 /* code, language, version, opaque, flag, length of the remark, length of the fields */

/* Takes a name and its value, for which `inside` is a reader of its own. */
static inline int takes_binary_field(Reader *reader, Text *name, Reader *inside) {
    Text length, value;
    if (!takes_bytes(reader, 2, &length) || !takes_bytes(reader, get16(length.at), name)) return 0;
    if (!takes_bytes(reader, 4, &length) || !takes_bytes(reader, get32(length.at), &value)) return 0;
    *inside = (Reader){value.at, value.at + value.size};
    return 1;
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
