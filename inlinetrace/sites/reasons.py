"""Why a value cannot be had, why it may be wrong, and how hits and calls can differ.

The values of the enums are the words of the JSON output; they only grow.
"""

from __future__ import annotations

import enum
from typing import NamedTuple


class Reason(enum.Enum):
    """Why a parameter has no value at a site."""

    NO_LOCATION = "no-location"
    """The compiler described no location for this parameter anywhere in this copy."""
    NOT_LIVE = "not-live"
    """There is a location list, but none of its entries is live at the site."""
    ENTRY_VALUE = "entry-value"
    """Only the value a register had when the containing function was entered is described."""
    IMPLICIT_POINTER = "implicit-pointer"
    """The pointer was optimised away; only what it points at is described."""
    PARTLY = "partly-described"
    """Some bytes of the value are described, others are not."""
    VECTOR_REGISTER = "vector-register"
    """The value is in a vector or floating-point register, which probes cannot fetch."""
    UNSUPPORTED = "unsupported-expression"
    """The expression has an operation that cannot be evaluated at a probe."""
    NO_FRAME = "no-frame-base"
    """A frame-base location, and no CFI row gives the frame at the site."""
    UNDEFINED_SYMBOL = "undefined-symbol"
    """The address of something that another file defines: a module's parameter that points into the kernel."""
    HIDDEN_ADDRESS = "hidden-address"
    """An address in a section of a module whose place in memory is not known."""
    BAD_BOOL = "bad-bool"
    """A bool whose byte is neither 0 nor 1: the location is wrong."""
    FAULT = "fault"
    """The memory could not be read."""
    DOUBTFUL = "doubtful"
    """The location has a doubt and doubtful values were not asked for."""
    NO_FORM = "no-form"
    """The format the site was read from cannot say it."""


class Unavailable(NamedTuple):
    """A value that cannot be had. ``detail`` is for people: the operations, or what a pointer points at."""

    reason: Reason
    detail: str = ""


class Doubt(enum.Enum):
    """Which rule says that a location may show another value than the one passed."""

    WIDTH = "width-dependent"
    """Arithmetic that gives something else in 64 bits than in the width that the compiler computed in."""
    UNSTORED_SLOT = "unstored-slot"
    """A dereferenced frame slot: the spill may not have been stored yet."""
    STALE_OPERAND = "stale-operand"
    """A constant on the left of a comparison: it may be an outdated value of the operand it stands for."""
    MIXED_PIECES = "mixed-pieces"
    """Pieces in memory and in registers together."""
    SINGLE_REGISTER = "single-register"
    """A register without a location list: of an inlined parameter, or another one than the parameter is passed in."""
    NO_VIEW = "no-view"
    """gcc left out the views of the list: which of the states of one address holds at the site is not known."""
    JUMP_TARGET = "jump-target"
    """An expression bound by an empty range at an address that is also jumped to."""
    NO_ENTRY = "no-entry"
    """gcc gave the site no entry address: the arguments may not be there yet where its code begins."""
    COPY_CONSTANT = "copy-constant"
    """A constant without a location list on an out-of-line copy: not every caller of the copy may pass it."""
    COMPILER = "compiler"
    """A shape that this compiler (clang, or an unknown one) is known to describe wrongly."""


class Mark(enum.Enum):
    """How the hits of a site can differ from the calls of its function."""

    REENTERED = "reentered"
    """The address can be reached again from inside the site's own code: may hit more than once a call."""
    SHARED_ADDRESS = "shared-target"
    """The address lies only in an empty range of the site and is a jump target: hit from elsewhere too."""
    HOISTED = "hoisted"
    """gcc gave no entry address: the code may run although the call is not made."""
    COPIES = "copies"
    """The code was unrolled or duplicated, one entry stands for all copies: may hit less often than called."""
    TRANSPARENT = "transparent"
    """A function inlined directly into itself (a part that was split off and joined again): no call."""


class Compiler(enum.Enum):
    """Family of the producer of a unit; the rules of trust differ."""

    GCC = "gcc"
    CLANG = "clang"
    OTHER = "other"
