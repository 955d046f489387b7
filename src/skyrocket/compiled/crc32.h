/* CRC-32, the one of zlib: reflected, polynomial 0xEDB88320, all bits turned before and after.

   Where the processor multiplies without carries (x86 since 2010), 64 bytes at a time are folded onto the 64 behind them: a
   number that is multiplied by x to the power of the distance has the same remainder there. 16 bytes are left in the end, and
   what is left of those and behind them goes through tables, eight bytes at a time; without such a processor, everything does. */
#ifndef SKYROCKET_CRC32_H
#define SKYROCKET_CRC32_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static uint32_t crc_tables[8][256];

static void crc32_prepare(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >> 1 ^ 0xEDB88320u : crc >> 1;
        crc_tables[0][byte] = crc;
    }
    for (int table = 1; table < 8; table++) {
        for (int byte = 0; byte < 256; byte++) {
            uint32_t before = crc_tables[table - 1][byte];
            crc_tables[table][byte] = before >> 8 ^ crc_tables[0][before & 0xFF];
        }
    }
}

static uint32_t crc32_by_tables(uint32_t crc, const unsigned char *data, size_t size) {
    while (size >= 8) {
        crc ^= (uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
        crc = crc_tables[7][crc & 0xFF] ^ crc_tables[6][crc >> 8 & 0xFF] ^ crc_tables[5][crc >> 16 & 0xFF] ^
              crc_tables[4][crc >> 24] ^ crc_tables[3][data[4]] ^ crc_tables[2][data[5]] ^ crc_tables[1][data[6]] ^
              crc_tables[0][data[7]];
        data += 8;
        size -= 8;
    }
    while (size--) crc = crc >> 8 ^ crc_tables[0][(crc ^ *data++) & 0xFF];
    return crc;
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define FOLDED_BYTES_MIN 128

/* `distance` has x to the power of so many bits, less and plus 32, modulo the polynomial, reflected. */
__attribute__((target("pclmul,sse4.1"))) static inline __m128i crc32_fold(__m128i onto, __m128i what, __m128i distance) {
    __m128i low = _mm_clmulepi64_si128(what, distance, 0x00), high = _mm_clmulepi64_si128(what, distance, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), onto);
}

__attribute__((target("pclmul,sse4.1"))) static uint32_t crc32_folded(uint32_t crc, const unsigned char *data, size_t size) {
    const __m128i by_64 = _mm_set_epi64x(0x1C6E41596, 0x154442BD4), by_16 = _mm_set_epi64x(0x0CCAA009E, 0x1751997D0);
    __m128i lanes[4];
    for (int lane = 0; lane < 4; lane++) lanes[lane] = _mm_loadu_si128((const __m128i *)(data + 16 * lane));
    lanes[0] = _mm_xor_si128(lanes[0], _mm_cvtsi32_si128((int)crc));
    for (data += 64, size -= 64; size >= 64; data += 64, size -= 64) {
        for (int lane = 0; lane < 4; lane++) {
            lanes[lane] = crc32_fold(_mm_loadu_si128((const __m128i *)(data + 16 * lane)), lanes[lane], by_64);
        }
    }
    __m128i rest = lanes[0];
    for (int lane = 1; lane < 4; lane++) rest = crc32_fold(lanes[lane], rest, by_16);
    for (; size >= 16; data += 16, size -= 16) rest = crc32_fold(_mm_loadu_si128((const __m128i *)data), rest, by_16);
    unsigned char left[16];
    _mm_storeu_si128((__m128i *)left, rest);
    return crc32_by_tables(crc32_by_tables(0, left, 16), data, size);
}

static int crc32_can_fold(void) { return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1"); }

#else
#define FOLDED_BYTES_MIN SIZE_MAX
#define crc32_folded crc32_by_tables
static int crc32_can_fold(void) { return 0; }
#endif

static int crc32_folds = -1; /* not known yet */

static uint32_t crc32_of(const unsigned char *data, size_t size) {
    if (crc32_folds < 0) {
        crc32_prepare();
        crc32_folds = crc32_can_fold();
    }
    uint32_t crc = 0xFFFFFFFFu;
    crc = crc32_folds && size >= FOLDED_BYTES_MIN ? crc32_folded(crc, data, size) : crc32_by_tables(crc, data, size);
    return ~crc;
}

#endif
