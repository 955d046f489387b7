/* What the parts of the load generator share. main.c says what the program does. */
#ifndef LOADGEN_H
#define LOADGEN_H

#include <stddef.h>
#include <stdint.h>

enum {
    SLOTS_MAX = 4096,         /* requests in flight on a connection */
    HEADER_BYTES_MAX = 4096,  /* of a request without its body */
    INPUT_BYTES = 16 << 20,   /* a response must fit */
    CODES_MAX = 8,            /* different codes of refusals that are counted apart */
    SILENCE_MS = 10000,       /* without a response for so long, a broker has stalled */
};

enum { SEND = 310, SEND_OLD = 10, SEND_BATCH = 320, PULL = 11, MAX_OFFSET = 30, HEARTBEAT = 34, END_TRANSACTION = 37 };
enum { ONEWAY = 2 };          /* a bit of a request's flag */

/* plan.c: what the command line asks for */
typedef struct {
    const char *mode, *topic, *property, *value;
    int port, connections, window, queues, body_bytes, per_request, binary, code, pace, oldest;
    long requests, span;
    double seconds;
} Plan;

extern Plan plan;
void read_plan(int count, char **arguments);

/* connection.c: a connection, its buffers, and the requests in flight on it */
typedef struct {
    int64_t asked_ns;         /* when the request was written */
    long offset;              /* pull: the queue offset that was asked for */
} Slot;

typedef struct {
    int fd, number, watches_output, in_flight, free_count;
    int free_slots[SLOTS_MAX];
    Slot slots[SLOTS_MAX];    /* a request's opaque is the number of its slot */
    unsigned char *out, *in;
    size_t out_start, out_end, out_size, in_end;
} Connection;

typedef struct {
    int code, is_response, binary;
    uint32_t opaque;
    const unsigned char *header, *body;
    size_t header_length, body_length;
} Response;

int64_t now_ns(void);
void open_connection(Connection *connection, int number, int poll);
unsigned char *reserve(Connection *connection, size_t bytes);
void write_out(int poll, Connection *connection);
long read_in(Connection *connection, void (*take)(Connection *, const Response *));
Response ask_and_wait(Connection *connection, uint32_t opaque);
int take_slot(Connection *connection);
void give_slot_back(Connection *connection, int slot);

/* request.c: the header of a request, in JSON or in RocketMQ's binary form */
typedef struct {
    unsigned char *start, *at;
    int code, flag, fields;
    uint32_t opaque;
} Request;

Request begin_request(Connection *connection, int code, uint32_t opaque, int flag, size_t body_length);
void add_bytes(Request *request, const char *name, const char *value, size_t length);
void add_text(Request *request, const char *name, const char *value);
void add_number(Request *request, const char *name, long value);
void end_request(Connection *connection, Request *request, const void *body, size_t body_length);
void put_32(unsigned char *at, uint32_t value);
uint32_t get_32(const unsigned char *at);
uint64_t get_64(const unsigned char *at);

/* response.c */
int parse_response(const unsigned char *frame, size_t length, Response *response);
const char *response_text(const Response *response, const char *name, size_t *length);
long response_number(const Response *response, const char *name);

/* message.c: properties, bodies, batches and stored records */
extern unsigned char *body;
extern size_t body_length;
void make_body(int batch);
size_t put_properties(char *at, uint64_t number, const char *more);
long count_records(const unsigned char *at, size_t length, void (*visit)(const unsigned char *body, size_t length));

/* latency.c */
void count_latency(int64_t ns);
double latency_us(double share);
double worst_us(void);

/* main.c: the counts of a run, and when it ends */
typedef struct {
    long asked, answered, messages, refused, not_found;
    int codes[CODES_MAX];
    long of_code[CODES_MAX];
    int64_t stop_ns;
} Run;

extern Run run;
int may_ask(void);
void count_refusal(const Response *response);

/* A mode: how it prepares a connection, which requests it writes, and what it does with a response. */
typedef struct {
    const char *name;
    void (*prepare)(Connection *connection);
    void (*fill)(Connection *connection);
    void (*take)(Connection *connection, const Response *response);
    int (*is_done)(void);
    void (*tick)(Connection *connections);   /* called `pace` times a second */
} Mode;

extern const Mode SEND_MODE, BATCH_MODE, TRANSACTION_MODE, PULL_MODE, DELIVERY_MODE;
int is_answered(void);
void fail(const char *text, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* send.c */
void prepare_send(Connection *connection);
void send_one(Connection *connection, uint64_t number);

/* pull.c */
void begin_consumer(Connection *connection);
long end_of_queue(Connection *connection, int queue);
void pull(Connection *connection, int slot, long offset);

#endif
