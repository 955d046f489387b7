# cython: language_level=3, boundscheck=False, wraparound=False
"""Twin of `client/message.py`, `client/producer/open_batch.py` and `client/session/in_flight_limit.py`: checks messages, adds them to
a batch within the in-flight limit, and completes the futures of their receipts."""

from libc.stdint cimport int64_t

include "source_digest.pxi"
include "slots.pxi"

cdef extern from "Python.h":
    int PyObject_IsTrue(object one) except -1

cdef enum:  # the slots of a message
    SHARDING_KEY = 0
    DELAY_LEVEL = 1
    DELIVER_IN = 2
    DELIVER_AT = 3
    WAIT = 4
    TOPIC = 5
    BODY = 6
    TAG = 7
    KEYS = 8
    PROPERTIES = 9
    SLOTS = 10

cdef tuple NAMES = (
    "sharding_key", "delay_level", "deliver_in", "deliver_at", "wait_until_stored", "topic", "body", "tag", "keys", "properties",
)


cdef class MessageSlots:
    """Where messages of one class keep their fields."""

    cdef object kind
    cdef Py_ssize_t at[SLOTS]
    cdef bint is_complete

    def __init__(self, kind):
        cdef Py_ssize_t number
        self.kind, self.is_complete = kind, True
        for number in range(SLOTS):
            self.at[number] = slot_of(kind, NAMES[number])
            self.is_complete = self.is_complete and self.at[number] >= 0

    cdef inline bint fits(self, object message) noexcept:
        return self.is_complete and type(message) is self.kind

    cdef object value(self, object message, Py_ssize_t slot):
        """Return the value of a slot; raise AttributeError when it is not set."""
        cdef PyObject *found = slot_value(message, self.at[slot])
        return getattr(message, NAMES[slot]) if found is NULL else <object>found

    cdef bint is_true(self, object message, Py_ssize_t slot) except -1:
        return PyObject_IsTrue(self.value(message, slot))

    cdef bint is_delayed(self, object message) except -1:
        if self.is_true(message, DELAY_LEVEL):
            return True
        return self.value(message, DELIVER_IN) is not None or self.value(message, DELIVER_AT) is not None


cdef MessageSlots slots = None  # of Message; imported on first use, since its module imports this one
cdef object check_topic, check_tag, check_by_reference
cdef object last_topic = None, last_tag = None  # that have been checked


cdef prepare():
    global slots, check_topic, check_tag, check_by_reference
    from skyrocket.client import message

    slots = MessageSlots(message.Message)
    check_topic, check_tag, check_by_reference = message.check_topic, message.check_tag, message._check_message


def check_message(message):
    global last_topic, last_tag
    cdef object topic, tag, body
    if slots is None:
        prepare()
    if not slots.fits(message) or slots.is_delayed(message):
        return check_by_reference(message)
    topic, tag, body = slots.value(message, TOPIC), slots.value(message, TAG), slots.value(message, BODY)
    if type(topic) is not str or type(tag) is not str or type(body) is not bytes or not len(<bytes>body):
        return check_by_reference(message)
    if slots.is_true(message, KEYS) or slots.is_true(message, PROPERTIES) or slots.is_true(message, SHARDING_KEY):
        return check_by_reference(message)
    if topic is not last_topic:
        check_topic(topic)
        last_topic = topic
    if len(<str>tag) and tag is not last_tag:
        check_tag(tag)
        last_tag = tag


cdef class InFlightCount:
    cdef readonly int64_t count, size_bytes, count_max, bytes_max
    cdef readonly object waiting

    def __init__(self, int64_t count_max, int64_t bytes_max, object waiting):
        self.count_max, self.bytes_max, self.waiting = count_max, bytes_max, waiting

    cdef bint acquire_room(self, int64_t size_bytes) except -1:
        if len(self.waiting) or self.count >= self.count_max:
            return False
        if self.size_bytes + size_bytes > self.bytes_max and self.count:
            return False
        self.count += 1
        self.size_bytes += size_bytes
        return True

    def try_acquire(self, int64_t size_bytes):
        return self.acquire_room(size_bytes)

    def add(self, int64_t count, int64_t size_bytes):
        self.count += count
        self.size_bytes += size_bytes


cdef class Batch:
    cdef public object key
    cdef public double due_ms
    cdef public int64_t size_bytes
    cdef readonly list messages, properties, futures

    def __init__(self, key, double due_ms):
        self.key, self.due_ms, self.messages, self.properties, self.futures = key, due_ms, [], [], []


cdef class BatchJoiner:
    cdef public Batch batch
    cdef InFlightCount in_flight
    cdef MessageSlots slots
    cdef object new_future, place_other, encode_properties
    cdef str tag, tag_properties  # of the last message that had no other properties
    cdef int64_t size_bytes_max, count_max, body_bytes_max, entry_bytes

    def __init__(self, InFlightCount in_flight not None, new_future, limits, kind, encode_properties, place_other):
        self.in_flight, self.new_future, self.slots = in_flight, new_future, MessageSlots(kind)
        self.size_bytes_max, self.count_max, self.body_bytes_max, self.entry_bytes = limits
        self.encode_properties, self.place_other = encode_properties, place_other

    cdef bint is_of_batch(self, object message, object key) except -1:
        """Whether the message may be in this batch."""
        cdef object topic
        if self.slots.is_true(message, SHARDING_KEY) or not self.slots.is_true(message, WAIT) or self.slots.is_delayed(message):
            return False
        topic = self.slots.value(message, TOPIC)
        return topic is key or topic == key

    cdef str properties_of(self, object message):
        cdef object tag = self.slots.value(message, TAG)
        if self.slots.is_true(message, KEYS) or self.slots.is_true(message, PROPERTIES) or type(tag) is not str:
            return self.encode_properties(message)
        if tag is not self.tag:
            self.tag_properties, self.tag = self.encode_properties(message), tag
        return self.tag_properties

    def try_add(self, message):
        cdef Batch batch = self.batch
        cdef int64_t own_bytes
        cdef Py_ssize_t body_bytes
        cdef object future
        cdef str properties
        if batch is None or not self.slots.fits(message) or not self.is_of_batch(message, batch.key):
            return self.place_other(message)
        properties, body_bytes = self.properties_of(message), len(self.slots.value(message, BODY))
        own_bytes = body_bytes + len(properties) + self.entry_bytes
        if batch.size_bytes + own_bytes > self.size_bytes_max or len(batch.messages) > self.count_max:
            return self.place_other(message)
        if body_bytes > self.body_bytes_max or not self.in_flight.acquire_room(own_bytes):
            return None
        future = self.new_future()
        batch.size_bytes += own_bytes
        batch.messages.append(message)
        batch.properties.append(properties)
        batch.futures.append(future)
        return future


def complete_futures(list futures not None, list receipts not None):
    cdef Py_ssize_t number
    cdef object future
    if len(futures) != len(receipts):
        raise ValueError(f"{len(futures)} futures cannot get {len(receipts)} receipts")
    for number in range(len(futures)):
        future = futures[number]
        if not future.done():
            future.set_result(receipts[number])
