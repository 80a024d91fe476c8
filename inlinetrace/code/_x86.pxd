# cython: language_level=3
from libc.stdint cimport int64_t, uint8_t, uint64_t

cdef enum:
    KIND_OTHER = 0
    KIND_JUMP = 1
    KIND_CALL = 2
    KIND_INDIRECT = 3

cdef struct Instruction:
    unsigned length      # 0: not an instruction
    int kind
    int64_t displacement # of a direct branch, from the end of the instruction

cdef void decode_at(const uint8_t* code, uint64_t available, Instruction* out) noexcept nogil
