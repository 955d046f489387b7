# The digest of the sources that this module was built from. `hatch_build.py` defines the macro.

cdef extern from *:
    """
    #ifndef SKYROCKET_SOURCE_DIGEST
    #define SKYROCKET_SOURCE_DIGEST ""
    #endif
    """
    const char *SKYROCKET_SOURCE_DIGEST

SOURCE_DIGEST = SKYROCKET_SOURCE_DIGEST.decode("ascii")
