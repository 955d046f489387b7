# A message's properties, split as `broker/send/property_split.py` defines, and what they mean. The send loop includes this file.

cdef enum:
    KEYS_BYTES = 5  # the name of the property KEYS, with the byte that ends it
    NAME_END = 1

cdef const char *KEYS = b"KEYS\x01"
cdef Text NO_TEXT = Text(NULL, 0)


cdef inline bint is_joined(Text first, Text second, bytes known):
    """Whether two texts, one behind the other, are the known one."""
    return (
        known is not None
        and <size_t>PyBytes_Size(known) == first.size + second.size
        and memcmp(first.at, bytes_of(known), first.size) == 0
        and memcmp(second.at, bytes_of(known) + first.size, second.size) == 0
    )


cdef inline bytes joined(Text first, Text second):
    cdef bytes text = PyBytes_FromStringAndSize(NULL, first.size + second.size)
    memcpy(bytes_of(text), first.at, first.size)
    memcpy(bytes_of(text) + first.size, second.at, second.size)
    return text


cdef Text cut_keys(Text *text, Text *rest) noexcept:
    """Cut the first property KEYS out of a text, which then ends before it; `rest` is what follows. Return the value, or an empty text."""
    cdef const unsigned char *end = text.at + text.size
    cdef const unsigned char *found = find(text.at, text.size, KEYS, KEYS_BYTES)
    cdef const unsigned char *value
    cdef const unsigned char *value_end
    rest[0] = Text(end, 0)
    while found != NULL and found != text.at and (found - 1)[0] != VALUE_END:
        found = find(found + 1, end - found - 1, KEYS, KEYS_BYTES)
    if found == NULL:
        return NO_TEXT
    value = found + KEYS_BYTES
    value_end = <const unsigned char *>memchr(value, VALUE_END, end - value)
    if value_end == NULL or value_end == value or memchr(value, NAME_END, value_end - value) != NULL:
        return NO_TEXT
    rest[0] = Text(value_end + 1, end - value_end - 1)
    text.size = found - text.at
    return Text(value, value_end - value)


cdef class _Properties:
    """The properties of the current message. Those of most messages mean the same as those of the one before."""

    cdef object lookups
    # What is known from earlier messages.
    cdef bytes before_known, after_known
    cdef bint is_fast
    cdef object code, redirect
    cdef tuple last_keys
    cdef bint is_changed  # the current message is not like the one before
    # The current message.
    cdef Text unique  # the unique key; empty when there is none
    cdef Text keys  # the value of the property KEYS; empty when there is none

    def __init__(self, lookups):
        self.lookups = lookups

    cdef bint look_up(self, Text text) except -1:
        """Split the properties, and look up what they mean. Return False if the message is not for the fast path."""
        cdef Text before = text, after = Text(text.at + text.size, 0)
        cdef const unsigned char *found = find(text.at, text.size, UNIQUE, UNIQUE_BYTES)
        self.unique, self.keys, self.is_changed = NO_TEXT, NO_TEXT, False
        if found != NULL:
            before.size, found = found - text.at, found + UNIQUE_BYTES
            after.at = <const unsigned char *>memchr(found, VALUE_END, text.at + text.size - found)
            if after.at == NULL or not is_alphanumeric(found, after.at - found):
                return False
            self.unique, after.at = Text(found, after.at - found), after.at + 1
            after.size = text.at + text.size - after.at
        if is_same(after.at, after.size, self.after_known) and is_same(before.at, before.size, self.before_known):
            return self.is_fast
        return self.look_up_parts(before, after)

    cdef bint look_up_parts(self, Text before, Text after) except -1:
        """Look up the properties before and behind the unique key, without the property KEYS."""
        cdef Text before_rest, after_rest = Text(after.at + after.size, 0)
        self.keys = cut_keys(&before, &before_rest)
        if self.keys.size == 0:
            self.keys = cut_keys(&after, &after_rest)
        if is_joined(after, after_rest, self.after_known) and is_joined(before, before_rest, self.before_known):
            return self.is_fast
        self.is_changed, self.is_fast = True, False
        self.before_known, self.after_known = joined(before, before_rest), joined(after, after_rest)
        try:
            found = self.lookups.profile(self.before_known.decode(), self.after_known.decode())
        except UnicodeDecodeError:
            return False
        self.is_fast, self.code, self.last_keys, self.redirect = found
        return self.is_fast

    cdef tuple index_keys(self):
        """Return the keys of the current message, or None if they are not UTF-8."""
        cdef list keys
        cdef const unsigned char *at = self.keys.at
        cdef const unsigned char *end = at + self.keys.size
        cdef const unsigned char *key_end
        cdef object unique = None
        if self.unique.size:
            unique = PyUnicode_DecodeASCII(<char *>self.unique.at, self.unique.size, NULL)
        if not self.keys.size:
            return self.last_keys if unique is None else prepend(unique, self.last_keys)
        keys = [] if unique is None else [unique]
        while at < end:
            key_end = <const unsigned char *>memchr(at, b" ", end - at)
            key_end = end if key_end == NULL else key_end
            if key_end > at:
                try:
                    keys.append(PyUnicode_DecodeUTF8(<char *>at, key_end - at, NULL))
                except UnicodeDecodeError:
                    return None
            at = key_end + 1
        keys += self.last_keys
        return tuple(keys)
