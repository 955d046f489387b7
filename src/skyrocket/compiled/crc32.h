/* CRC-32, the one of zlib: reflected, polynomial 0xEDB88320, all bits turned before and after.

   Where the processor multiplies without carries (x86 since 2010), 64 bytes at a time are folded onto the 64 behind them, or 256
   where it has lanes that wide (AVX-512): a number that is multiplied by x to the power of the distance has the same remainder
   there. 16 bytes are left in the end, and what is left of those and behind them goes through tables, eight bytes at a time;
   without such a processor, everything does. */
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
#define WIDELY_FOLDED_BYTES_MIN 256
#define NARROW __attribute__((target("pclmul,sse4.1")))
#define WIDE __attribute__((target("pclmul,sse4.1,avx512f,vpclmulqdq")))

/* Distances in bytes: x to the power of so many bits, less and plus 32, modulo the polynomial, reflected. */
#define BY_16 0x0CCAA009E, 0x1751997D0
#define BY_64 0x1C6E41596, 0x154442BD4
#define BY_256 0x1322D1430, 0x11542778A

NARROW static inline __m128i crc32_fold(__m128i onto, __m128i what, __m128i distance) {
    __m128i low = _mm_clmulepi64_si128(what, distance, 0x00), high = _mm_clmulepi64_si128(what, distance, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), onto);
}

/* What 64 bytes in four lanes leave, and what is behind them. */
NARROW static uint32_t crc32_of_lanes(const __m128i *lanes, const unsigned char *data, size_t size) {
    const __m128i by_16 = _mm_set_epi64x(BY_16);
    __m128i rest = lanes[0];
    for (int lane = 1; lane < 4; lane++) rest = crc32_fold(lanes[lane], rest, by_16);
    for (; size >= 16; data += 16, size -= 16) rest = crc32_fold(_mm_loadu_si128((const __m128i *)data), rest, by_16);
    unsigned char left[16];
    _mm_storeu_si128((__m128i *)left, rest);
    return crc32_by_tables(crc32_by_tables(0, left, 16), data, size);
}

NARROW static uint32_t crc32_folded(uint32_t crc, const unsigned char *data, size_t size) {
    const __m128i by_64 = _mm_set_epi64x(BY_64);
    __m128i lanes[4];
    for (int lane = 0; lane < 4; lane++) lanes[lane] = _mm_loadu_si128((const __m128i *)(data + 16 * lane));
    lanes[0] = _mm_xor_si128(lanes[0], _mm_cvtsi32_si128((int)crc));
    for (data += 64, size -= 64; size >= 64; data += 64, size -= 64) {
        for (int lane = 0; lane < 4; lane++) {
            lanes[lane] = crc32_fold(_mm_loadu_si128((const __m128i *)(data + 16 * lane)), lanes[lane], by_64);
        }
    }
    return crc32_of_lanes(lanes, data, size);
}

WIDE static inline __m512i crc32_fold_widely(__m512i onto, __m512i what, __m512i distance) {
    __m512i low = _mm512_clmulepi64_epi128(what, distance, 0x00), high = _mm512_clmulepi64_epi128(what, distance, 0x11);
    return _mm512_ternarylogic_epi64(low, high, onto, 0x96); /* all three, exclusively */
}

WIDE static uint32_t crc32_widely_folded(uint32_t crc, const unsigned char *data, size_t size) {
    const __m512i by_256 = _mm512_broadcast_i32x4(_mm_set_epi64x(BY_256)), by_64 = _mm512_broadcast_i32x4(_mm_set_epi64x(BY_64));
    __m512i wide[4];
    for (int lane = 0; lane < 4; lane++) wide[lane] = _mm512_loadu_si512(data + 64 * lane);
    wide[0] = _mm512_xor_si512(wide[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)crc)));
    for (data += 256, size -= 256; size >= 256; data += 256, size -= 256) {
        for (int lane = 0; lane < 4; lane++) {
            wide[lane] = crc32_fold_widely(_mm512_loadu_si512(data + 64 * lane), wide[lane], by_256);
        }
    }
    __m512i rest = wide[0];
    for (int lane = 1; lane < 4; lane++) rest = crc32_fold_widely(wide[lane], rest, by_64);
    for (; size >= 64; data += 64, size -= 64) rest = crc32_fold_widely(_mm512_loadu_si512(data), rest, by_64);
    __m128i lanes[4];
    _mm512_storeu_si512(lanes, rest);
    return crc32_of_lanes(lanes, data, size);
}

/* From how many bytes on each way pays; the widest first. */
static size_t crc32_widely_from = SIZE_MAX, crc32_folded_from = SIZE_MAX;

static void crc32_choose(void) {
    if (!__builtin_cpu_supports("pclmul") || !__builtin_cpu_supports("sse4.1")) return;
    crc32_folded_from = FOLDED_BYTES_MIN;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq")) crc32_widely_from = WIDELY_FOLDED_BYTES_MIN;
}

static uint32_t crc32_on(uint32_t crc, const unsigned char *data, size_t size) {
    if (size >= crc32_widely_from) return crc32_widely_folded(crc, data, size);
    return size >= crc32_folded_from ? crc32_folded(crc, data, size) : crc32_by_tables(crc, data, size);
}

#else
#define crc32_on crc32_by_tables
static void crc32_choose(void) {}
#endif

static uint32_t crc32_of(const unsigned char *data, size_t size) {
    static int is_ready = 0;
    if (!is_ready) {
        crc32_prepare();
        crc32_choose();
        is_ready = 1;
    }
    return ~crc32_on(0xFFFFFFFFu, data, size);
}

#endif
