/* The frame of a request, with its header in one of two forms.
 *
 *     0                    4                          8                8 + H
 *     +--------------------+--------------------------+----------------+--------+
 *     | bytes that follow  | form (1), H: header (3)  | header         | body   |      form 0: JSON, 1: binary
 *     +--------------------+--------------------------+----------------+--------+
 *
 *     a binary header:
 *     | code (2) | language (1) | version (2) | opaque (4) | flag (4) | remark's length (4) | remark | fields' length (4) | fields |
 *     a field:
 *     | name's length (2) | name | value's length (4) | value |
 */
#include "loadgen.h"

#include <arpa/inet.h>
#include <string.h>

enum { VERSION = 495, BINARY_FIELDS_AT = 8 + 21 };

void put_32(unsigned char *at, uint32_t value) {
    value = htonl(value);
    memcpy(at, &value, 4);
}

uint32_t get_32(const unsigned char *at) {
    uint32_t value;
    memcpy(&value, at, 4);
    return ntohl(value);
}

uint64_t get_64(const unsigned char *at) {
    return (uint64_t)get_32(at) << 32 | get_32(at + 4);
}

static void put_16(unsigned char *at, unsigned value) {
    at[0] = value >> 8;
    at[1] = value;
}

static void append(Request *request, const char *text, size_t length) {
    memcpy(request->at, text, length);
    request->at += length;
}

static void append_text(Request *request, const char *text) {
    append(request, text, strlen(text));
}

static size_t decimal(char *at, long value) {
    char digits[24];
    size_t count = 0, length = 0;
    if (value < 0) at[length++] = '-', value = -value;
    do digits[count++] = '0' + value % 10;
    while (value /= 10);
    while (count) at[length++] = digits[--count];
    return length;
}

static void append_number(Request *request, long value) {
    char text[24];
    append(request, text, decimal(text, value));
}

Request begin_request(Connection *connection, int code, uint32_t opaque, int flag, size_t body_bytes) {
    unsigned char *start = reserve(connection, HEADER_BYTES_MAX + body_bytes);
    Request request = {.start = start, .at = start + 8, .code = code, .flag = flag, .opaque = opaque};
    if (plan.binary) {
        request.at = start + BINARY_FIELDS_AT;
    } else {
        append_text(&request, "{\"code\":");
        append_number(&request, code);
        append_text(&request, ",\"extFields\":{");
    }
    return request;
}

/* A byte below a blank is written as JSON writes it: \u0001. */
static void append_escaped(Request *request, const char *value, size_t length) {
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)value[i] < ' ') {
            append_text(request, "\\u000");
            *request->at++ = '0' + value[i];
        } else {
            *request->at++ = value[i];
        }
    }
}

void add_bytes(Request *request, const char *name, const char *value, size_t length) {
    size_t name_length = strlen(name);
    if (plan.binary) {
        put_16(request->at, name_length);
        memcpy(request->at + 2, name, name_length);
        put_32(request->at + 2 + name_length, length);
        memcpy(request->at + 6 + name_length, value, length);
        request->at += 6 + name_length + length;
    } else {
        append(request, ",\"" + !request->fields, 2 - !request->fields);
        append(request, name, name_length);
        append(request, "\":\"", 3);
        append_escaped(request, value, length);
        *request->at++ = '"';
    }
    request->fields++;
    if (request->at - request->start > HEADER_BYTES_MAX - 512) fail("a header is longer than %d bytes", HEADER_BYTES_MAX - 512);
}

void add_text(Request *request, const char *name, const char *value) {
    add_bytes(request, name, value, strlen(value));
}

void add_number(Request *request, const char *name, long value) {
    char text[24];
    add_bytes(request, name, text, decimal(text, value));
}

void end_request(Connection *connection, Request *request, const void *content, size_t length) {
    unsigned char *header = request->start + 8;
    if (plan.binary) {
        put_16(header, request->code);
        header[2] = 0; /* Java */
        put_16(header + 3, VERSION);
        put_32(header + 5, request->opaque);
        put_32(header + 9, request->flag);
        put_32(header + 13, 0);
        put_32(header + 17, request->at - request->start - BINARY_FIELDS_AT);
    } else {
        append_text(request, "},\"flag\":");
        append_number(request, request->flag);
        append_text(request, ",\"language\":\"JAVA\",\"opaque\":");
        append_number(request, request->opaque);
        append_text(request, ",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":");
        append_number(request, VERSION);
        append_text(request, "}");
    }
    size_t header_length = request->at - header;
    put_32(request->start, 4 + header_length + length);
    put_32(request->start + 4, header_length | (plan.binary ? 1u << 24 : 0));
    if (length) memcpy(request->at, content, length);
    connection->out_end += 8 + header_length + length;
}
