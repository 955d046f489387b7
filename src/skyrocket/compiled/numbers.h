/* Numbers as they lie in frames, records and entries: the highest byte first, at any address. And numbers as text. */
#ifndef SKYROCKET_NUMBERS_H
#define SKYROCKET_NUMBERS_H

#include <stdint.h>

static inline void put16(unsigned char *at, uint16_t value) {
    at[0] = (unsigned char)(value >> 8);
    at[1] = (unsigned char)value;
}

static inline void put32(unsigned char *at, uint32_t value) {
    put16(at, (uint16_t)(value >> 16));
    put16(at + 2, (uint16_t)value);
}

static inline void put64(unsigned char *at, uint64_t value) {
    put32(at, (uint32_t)(value >> 32));
    put32(at + 4, (uint32_t)value);
}

static inline uint16_t get16(const unsigned char *at) { return (uint16_t)(at[0] << 8 | at[1]); }

static inline uint32_t get32(const unsigned char *at) { return (uint32_t)get16(at) << 16 | get16(at + 2); }

static inline uint64_t get64(const unsigned char *at) { return (uint64_t)get32(at) << 32 | get32(at + 4); }

#define DECIMAL_BYTES_MAX 20

/* Where the text ends. */
static inline unsigned char *put_decimal(unsigned char *at, int64_t value) {
    unsigned char digits[DECIMAL_BYTES_MAX];
    int count = 0;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    if (value < 0) *at++ = '-';
    do {
        digits[count++] = (unsigned char)('0' + rest % 10);
        rest /= 10;
    } while (rest);
    while (count) *at++ = digits[--count];
    return at;
}

/* How many bytes that text has. */
static inline int decimal_bytes(int64_t value) {
    unsigned char text[DECIMAL_BYTES_MAX];
    return (int)(put_decimal(text, value) - text);
}

/* 16 digits. */
static inline unsigned char *put_hexadecimal(unsigned char *at, uint64_t value) {
    for (int digit = 15; digit >= 0; digit--, value >>= 4) at[digit] = (unsigned char)"0123456789ABCDEF"[value & 15];
    return at + 16;
}

#endif
