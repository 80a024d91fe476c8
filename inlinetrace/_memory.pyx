# cython: language_level=3
"""Memory that is not needed any more: what the C library does with it, and pages of files."""
from libc.stdint cimport uint8_t

cdef extern from "<sys/mman.h>" nogil:
    enum:
        MADV_DONTNEED
    int madvise(void* address, size_t length, int advice)

cdef extern from *:
    """
    #include <stdlib.h>
    #ifdef __GLIBC__
    #include <malloc.h>
    #define inlinetrace_keep(bytes) \\
        (mallopt(M_TRIM_THRESHOLD, bytes), mallopt(M_MMAP_THRESHOLD, bytes), mallopt(M_TOP_PAD, bytes / 32))
    #else
    #define inlinetrace_keep(bytes) ((void)0)
    #endif
    """
    void inlinetrace_keep(int) nogil


def keep_memory():
    """Have this process keep memory that is given back, up to a gigabyte.

    Unit after unit is read into memory that the one before has used; to return it to the kernel and have it again,
    page by page and cleared, takes a tenth of the time of generate.
    """
    with nogil:
        inlinetrace_keep(1 << 30)


def forget_pages(const uint8_t[::1] mapping):
    if mapping.shape[0]:
        with nogil:
            # what it says of failure matters to nobody: the pages stay
            madvise(<void*>&mapping[0], mapping.shape[0], MADV_DONTNEED)
