# Answers to sends, as `broker/send/responses.py` defines. The send loop includes this file.

cdef enum:
    JSON_PIECES = 9
    BINARY_PIECES = 7
    BINARY_OPAQUE_AT = 5
    BINARY_FIELDS_LENGTH_AT = 17
    BINARY_HEAD_BYTES = 21
    BINARY_MARK = 1 << 24
    PREFIX_BYTES = 8
    NUMBERS_BYTES = 64  # more than all numbers of an answer, and the lengths before its values


cdef unsigned char *put_ids(unsigned char *at, object place, bytes id_prefix) except NULL:
    if isinstance(place, bytes):
        return copy_bytes(at, place)
    return put_hexadecimal(copy_bytes(at, id_prefix), place)


cdef unsigned char *put_json(unsigned char *at, tuple row, bytes id_prefix, tuple pieces) except NULL:
    _, queue_id, unique_key, place, handle, queue_offset, opaque = row
    at = put_decimal(copy_bytes(at, pieces[0]), queue_id)
    at = copy_bytes(copy_bytes(at, pieces[1]), unique_key)
    at = put_ids(copy_bytes(at, pieces[2]), place, id_prefix)
    at = copy_bytes(at, pieces[3])
    if handle is not None:
        at = copy_bytes(copy_bytes(copy_bytes(at, pieces[4]), handle), pieces[5])
    at = put_decimal(copy_bytes(at, pieces[6]), queue_offset)
    at = put_decimal(copy_bytes(at, pieces[7]), opaque)
    return copy_bytes(at, pieces[8])


cdef unsigned char *put_binary(unsigned char *start, tuple row, bytes id_prefix, tuple pieces) except NULL:
    cdef unsigned char *value
    cdef unsigned char *at
    _, queue_id, unique_key, place, handle, queue_offset, opaque = row
    value = copy_bytes(copy_bytes(start, pieces[0]), pieces[1])
    at = put_ids(value + 4, place, id_prefix)
    put32(value, <uint32_t>(at - value - 4))
    value = copy_bytes(at, pieces[2])
    at = put_decimal(value + 4, queue_id)
    put32(value, <uint32_t>(at - value - 4))
    value = copy_bytes(at, pieces[3])
    at = put_decimal(value + 4, queue_offset)
    put32(value, <uint32_t>(at - value - 4))
    value = copy_bytes(at, pieces[4])
    put32(value, <uint32_t>PyBytes_Size(unique_key))
    at = copy_bytes(value + 4, unique_key)
    if handle is not None:
        value = copy_bytes(at, pieces[5])
        put32(value, <uint32_t>PyBytes_Size(handle))
        at = copy_bytes(value + 4, handle)
    at = copy_bytes(at, pieces[6])
    put32(start + BINARY_OPAQUE_AT, <uint32_t><int32_t>opaque)
    put32(start + BINARY_FIELDS_LENGTH_AT, <uint32_t>(at - start - BINARY_HEAD_BYTES))
    return at


cdef size_t sizes_of(tuple pieces) except? 0:
    cdef size_t sizes = 0
    for piece in pieces:
        sizes += PyBytes_Size(piece)
    return sizes
