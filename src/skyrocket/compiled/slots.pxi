# Attributes that a class keeps in slots (msgspec structs, classes with __slots__), read at their place in the object. Modules
# include this file.

from cpython.object cimport PyObject, PyTypeObject

cdef extern from "structmember.h":
    ctypedef struct PyMemberDef:
        int type
        Py_ssize_t offset

    ctypedef struct PyMemberDescrObject:
        PyMemberDef *d_member

    int T_OBJECT_EX
    PyTypeObject PyMemberDescr_Type
    PyTypeObject *Py_TYPE(object one)


cdef Py_ssize_t slot_of(object kind, str name) except -2:
    """Return where objects of this class keep the attribute; -1 when it is not in a slot."""
    cdef object found = getattr(kind, name, None)
    if Py_TYPE(found) is not &PyMemberDescr_Type:
        return -1
    cdef PyMemberDef *member = (<PyMemberDescrObject *>found).d_member
    return member.offset if member.type == T_OBJECT_EX and not issubclass(kind, type) else -1


cdef inline PyObject *slot_value(object one, Py_ssize_t at) noexcept:
    """Return what is in the slot, without a reference of its own; NULL when the attribute is not set."""
    return (<PyObject **>(<char *><PyObject *>one + at))[0]
