/* Java's hash of a text goes on over more characters: value · 31 + character, modulo 2 to the 32nd, for each. Four are taken at
   once, since one multiplication must wait for the one before it. */
#ifndef SKYROCKET_JAVA_HASH_H
#define SKYROCKET_JAVA_HASH_H

#include <stddef.h>
#include <stdint.h>

static inline uint32_t hashed_on_ascii(uint32_t value, const unsigned char *text, size_t size) {
    const unsigned char *end = text + size;
    for (; end - text >= 4; text += 4)
        value = value * (31u * 31 * 31 * 31) + text[0] * (31u * 31 * 31) + text[1] * (31u * 31) + text[2] * 31u + text[3];
    while (text < end) value = value * 31 + *text++;
    return value;
}

#endif
