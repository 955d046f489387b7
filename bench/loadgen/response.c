/* The frame of a response: its code, its opaque, and the fields that a mode asks for. request.c draws both forms of a header. */
#define _GNU_SOURCE
#include "loadgen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *after(const Response *response, const char *text) {
    const char *at = memmem(response->header, response->header_length, text, strlen(text));
    return at ? at + strlen(text) : NULL;
}

int parse_response(const unsigned char *frame, size_t length, Response *response) {
    uint32_t form_and_length = get_32(frame + 4);
    response->binary = form_and_length >> 24 == 1;
    response->header = frame + 8;
    response->header_length = form_and_length & 0xFFFFFF;
    if (response->header_length > length - 8) return 0;
    response->body = response->header + response->header_length;
    response->body_length = length - 8 - response->header_length;
    if (response->binary) {
        if (response->header_length < 21) return 0;
        response->code = response->header[0] << 8 | response->header[1];
        response->opaque = get_32(response->header + 5);
        response->is_response = response->header[12] & 1;
        return 1;
    }
    const char *code = after(response, "\"code\":"), *opaque = after(response, "\"opaque\":"), *flag = after(response, "\"flag\":");
    if (!code || !opaque || !flag) return 0;
    response->code = atoi(code);
    response->opaque = strtoul(opaque, NULL, 10);
    response->is_response = atoi(flag) & 1;
    return 1;
}

static const char *binary_text(const Response *response, const char *name, size_t *length) {
    const unsigned char *at = response->header + 13, *end = response->header + response->header_length;
    at += 4 + get_32(at); /* the remark */
    if (end - at < 4) return NULL;
    for (at += 4; end - at >= 6;) {
        size_t name_length = at[0] << 8 | at[1];
        const unsigned char *value = at + 2 + name_length;
        if ((size_t)(end - at) < 6 + name_length) return NULL;
        *length = get_32(value);
        if (name_length == strlen(name) && !memcmp(at + 2, name, name_length)) return (const char *)value + 4;
        at = value + 4 + *length;
    }
    return NULL;
}

/* A field of the response, or NULL. */
const char *response_text(const Response *response, const char *name, size_t *length) {
    if (response->binary) return binary_text(response, name, length);
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\":\"", name);
    const char *value = after(response, quoted);
    const char *end = value ? memchr(value, '"', (const char *)response->header + response->header_length - value) : NULL;
    if (end) *length = end - value;
    return end ? value : NULL;
}

long response_number(const Response *response, const char *name) {
    size_t length;
    const char *text = response_text(response, name, &length);
    if (!text) fail("a response with code %d has no %s", response->code, name);
    long value = 0;
    for (size_t i = 0; i < length && text[i] >= '0' && text[i] <= '9'; i++) value = value * 10 + (text[i] - '0');
    return value;
}
