# Where a record has its parts, and the bits of its sys flag. `protocol/message/record.py` draws the layout.
# tests/unit/compiled/test_record_layout.py compares every number here with `protocol`.

cdef enum:
    SIZE_AT = 0
    MAGIC_AT = 4
    CRC_AT = 8
    QUEUE_ID_AT = 12
    FLAG_AT = 16
    QUEUE_OFFSET_AT = 20
    PHYSICAL_OFFSET_AT = 28
    SYS_FLAG_AT = 36
    BORN_TIMESTAMP_AT = 40
    BORN_HOST_AT = 48
    BODY_LENGTH_AT = 84  # with two IPv4 hosts, as the next two
    BODY_AT = 88
    FIXED_BYTES_MIN = 91  # of a record without topic, body and properties

    MAGIC_LAST_AT = 7  # the two magics differ in their last byte
    MAGIC_V1_LAST = 0xA7
    SYS_FLAG_LAST_AT = 39  # all bits that matter are in the last byte

    TIMESTAMP_BYTES = 8
    RECONSUME_TIMES_BYTES = 4
    TRANSACTION_OFFSET_BYTES = 8
    BODY_LENGTH_BYTES = 4
    PROPERTIES_LENGTH_BYTES = 2
    V4_BYTES = 8
    V6_BYTES = 20
    V6_MORE_BYTES = 12
    TOPIC_BYTES_MAX = 127
    TOPIC_BYTES_MAX_V2 = 32767
    PROPERTIES_BYTES_MAX = 32767
    BATCH_BYTES_MAX = 4194304

    COMPRESSED = 0x1
    TRANSACTION_PREPARED = 0x4
    TRANSACTION_COMMIT = 0x8
    TRANSACTION_ROLLBACK = 0xC
    TRANSACTION_MASK = 0xC
    BORN_HOST_V6 = 0x10
    STORE_HOST_V6 = 0x20
    HOST_BITS = 0x30

cdef unsigned int MAGIC = 0xDAA320A7
cdef unsigned int MAGIC_V2 = 0xDAA320AB
