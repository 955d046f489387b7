/* A histogram of latencies whose buckets grow with the value, so that each percentile is exact to one part in 128.
 *
 *     bucket      0 …  127   one nanosecond each
 *               128 …  255   values of  8 bits: one nanosecond each
 *               256 …  383   values of  9 bits: two nanoseconds each
 *                        …   each further bit doubles the width
 */
#include "loadgen.h"

enum { PARTS_BITS = 7, PARTS = 1 << PARTS_BITS, BITS_MAX = 42 };  /* 2^42 ns are 73 minutes */

static long buckets[(BITS_MAX - PARTS_BITS + 1) * PARTS];
static long total;
static int64_t worst_ns;

static int bucket_of(int64_t ns) {
    if (ns < PARTS) return ns < 0 ? 0 : (int)ns;
    int bits = 64 - __builtin_clzll((uint64_t)ns);
    if (bits > BITS_MAX) bits = BITS_MAX, ns = (1LL << BITS_MAX) - 1;
    int shift = bits - PARTS_BITS - 1;
    return (shift + 1) * PARTS + (int)((ns >> shift) - PARTS);
}

static double middle_ns(int bucket) {
    if (bucket < PARTS) return bucket;
    int shift = bucket / PARTS - 1;
    return (double)((int64_t)(PARTS + bucket % PARTS) << shift) + (double)(1LL << shift) / 2;
}

void count_latency(int64_t ns) {
    buckets[bucket_of(ns)]++;
    total++;
    if (ns > worst_ns) worst_ns = ns;
}

double latency_us(double share) {
    long seen = 0, wanted = (long)(share * (double)total);
    for (int i = 0; i < (int)(sizeof buckets / sizeof *buckets); i++) {
        seen += buckets[i];
        if (seen > wanted) return middle_ns(i) / 1000;
    }
    return worst_us();
}

double worst_us(void) {
    return (double)worst_ns / 1000;
}
