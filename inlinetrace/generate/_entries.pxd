# cython: language_level=3
from libc.stdint cimport int64_t

from inlinetrace.generate._collect cimport Collector
from inlinetrace.generate._shapes cimport Shape

cdef int decode(Collector reader, Shape* shape, int64_t* v) noexcept nogil
