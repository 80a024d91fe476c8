# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Where control can go inside of a set of ranges: whether an address is met again, and which ranges are entered.

The jumps are those of inlinetrace.code.analysis. Straight-line code is taken to fall through everywhere, so what is
found reachable may not be; what is found unreachable is not.
"""
from libc.stdint cimport uint64_t
from libc.stdlib cimport free, malloc

from inlinetrace._arrays cimport make_room

cdef enum:
    # Code in more parts than compilers make is not followed, which takes time by the square of their number.
    MAX_RANGES = 512


cdef Py_ssize_t _first_not_below(const uint64_t[::1] values, uint64_t wanted, Py_ssize_t near) noexcept nogil:
    """Index of the first of the ascending ``values`` that is not below ``wanted``; ``near`` is where to begin."""
    cdef Py_ssize_t low, high, middle, step = 1, count = values.shape[0]
    if near >= count:
        near = count
    if near < count and values[near] < wanted:
        low = near + 1
        high = low
        while high < count and values[high] < wanted:
            low = high + 1
            high += step
            step *= 2
        if high > count:
            high = count
    else:
        high = near
        low = high
        while low > 0 and values[low - 1] >= wanted:
            high = low - 1
            low -= step
            step *= 2
            if low < 0:
                low = 0
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


cdef class Flow:
    """The jumps of one stretch of code: ``sources`` and ``targets`` sorted by source, and again sorted by target.

    Questions about addresses that lie near each other are answered fastest. Not for several threads at once.
    """

    def __cinit__(self, const uint64_t[::1] sources, const uint64_t[::1] targets,
                  const uint64_t[::1] sorted_targets, const uint64_t[::1] their_sources):
        if (sources.shape[0] != targets.shape[0] or sorted_targets.shape[0] != their_sources.shape[0]
                or sources.shape[0] != sorted_targets.shape[0]):
            raise ValueError("the arrays of jumps differ in length")
        self.sources = sources
        self.targets = targets
        self.sorted_targets = sorted_targets
        self.their_sources = their_sources
        self.reached = NULL

    def __dealloc__(self):
        free(self.reached)

    cdef bint targeted(self, uint64_t address) noexcept nogil:
        """Whether a jump goes to ``address``."""
        self.at_target = _first_not_below(self.sorted_targets, address, self.at_target)
        return self.at_target < self.sorted_targets.shape[0] and self.sorted_targets[self.at_target] == address

    def is_target(self, uint64_t address):
        """Whether a jump goes to ``address``."""
        return self.targeted(address)

    def marks(self, list ranges, uint64_t address):
        """How the hits at ``address`` can differ from the calls of a site with these (begin, end) ranges.

        A sum of 1 (the address is met again from inside of the ranges), 2 (only an empty range is at the address and it
        is jumped to) and 4 (a range that does not hold the address is entered from outside). Empty ranges count as
        places, not as code. Of more than 512 ranges only the last is said.
        """
        cdef Range* copied = NULL
        cdef Py_ssize_t i, count = len(ranges)
        if not count:
            return 0
        copied = <Range*>malloc(count * sizeof(Range))
        if copied == NULL:
            raise MemoryError
        try:
            for i in range(count):
                copied[i].begin, copied[i].end = ranges[i]
            return self.marks_of(copied, count, address)
        finally:
            free(copied)

    cdef int marks_of(self, const Range* ranges, Py_ssize_t count, uint64_t address) except -1:
        cdef Py_ssize_t i, filled = 0
        cdef bint inside = False, empty_here = False
        cdef int marks = 0
        if count > MAX_RANGES:
            return COPIES
        for i in range(count):
            if ranges[i].begin < ranges[i].end:
                filled += 1
                if ranges[i].begin <= address < ranges[i].end:
                    inside = True
            elif ranges[i].begin == address and ranges[i].begin == ranges[i].end:
                empty_here = True
        if filled:
            make_room(<void**>&self.reached, &self.room, count, sizeof(uint64_t))
            if self.met_again(ranges, count, address):
                marks |= REENTERED
        if filled < count and not inside and empty_here and self.targeted(address):
            marks |= SHARED_ADDRESS
        if filled > 1 and self.copied(ranges, count, address):
            marks |= COPIES
        return marks

    cdef bint met_again(self, const Range* ranges, Py_ssize_t count, uint64_t address) noexcept nogil:
        """Whether control that starts at ``address`` and stays inside of ``ranges`` can come back to it.

        The jump that leads back must stand inside of the ranges; the address itself may lie outside of them.
        """
        cdef Py_ssize_t i, j, k
        cdef uint64_t target
        cdef uint64_t* reached = self.reached
        cdef bint changed = True, inside = False
        for i in range(count):
            reached[i] = ranges[i].end
            if ranges[i].begin <= address < ranges[i].end:
                reached[i] = address
                inside = True
        if not inside:
            # the entry lies before its code: all of it counts as reached
            for i in range(count):
                reached[i] = ranges[i].begin
        while changed:
            changed = False
            for i in range(count):
                if reached[i] >= ranges[i].end:
                    continue
                self.at_source = _first_not_below(self.sources, reached[i], self.at_source)
                for k in range(self.at_source, self.sources.shape[0]):
                    if self.sources[k] >= ranges[i].end:
                        break
                    target = self.targets[k]
                    if target == address:
                        return True
                    for j in range(count):
                        if ranges[j].begin <= target < reached[j] and target < ranges[j].end:
                            reached[j] = target
                            changed = True
                            if target <= address < ranges[j].end:
                                return True
                            break
                # falling through into the next range
                for j in range(count):
                    if ranges[j].begin != ranges[i].end or ranges[j].begin >= ranges[j].end:
                        continue
                    if ranges[j].begin == address:
                        return True
                    if reached[j] > ranges[j].begin:
                        reached[j] = ranges[j].begin
                        changed = True
                        if ranges[j].begin <= address < ranges[j].end:
                            return True
        return False

    cdef bint copied(self, const Range* ranges, Py_ssize_t count, uint64_t address) noexcept nogil:
        """Whether a range that does not hold ``address`` begins at the target of a jump from outside of all ranges."""
        cdef Py_ssize_t i, j, k
        cdef uint64_t begin, source
        for i in range(count):
            begin = ranges[i].begin
            if begin >= ranges[i].end or begin <= address < ranges[i].end:
                continue
            k = self.at_target = _first_not_below(self.sorted_targets, begin, self.at_target)
            while k < self.sorted_targets.shape[0] and self.sorted_targets[k] == begin:
                source = self.their_sources[k]
                for j in range(count):
                    if ranges[j].begin <= source < ranges[j].end:
                        break
                else:
                    return True
                k += 1
        return False
