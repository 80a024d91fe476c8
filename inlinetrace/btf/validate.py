"""Is an object valid BTF? ``validate`` lists which rules it breaks, how often, and where first.

Strict is for what we write ourselves and for whoever wants to load the object into a kernel: it adds that names are C
identifiers and that every LOC_PROTO has one slot per parameter. A tolerant reader goes on after every fault listed
here, with one warning each; what cannot be read at all (a record that does not fit, a kind that cannot be skipped)
has raised FormatError long before.
"""

from __future__ import annotations

import enum

from inlinetrace.btf._validate import check
from inlinetrace.btf.reader import Btf
from inlinetrace.errors import FormatError


class Rule(enum.IntEnum):
    """The rules, numbered as in the compiled checker."""

    NAME_OFFSET = 0
    NAME_MISSING = 1
    NAME_SURPLUS = 2
    NAME_IDENTIFIER = 3
    KIND_FLAG = 4
    VLEN = 5
    LINKAGE = 6
    THIRD_WORD = 7
    INT_SIZE = 8
    INT_BITS = 9
    INT_ENCODING = 10
    FLOAT_SIZE = 11
    TYPE_ID = 12
    TYPE_KIND = 13
    ELEMENT_UNSIZED = 14
    INDEX_TYPE = 15
    MEMBER_UNSIZED = 16
    MEMBER_BOUNDS = 17
    MEMBER_ORDER = 18
    MEMBER_ALIGNED = 19
    UNION_OFFSET = 20
    BITFIELD = 21
    ENUM_SIZE = 22
    PARAM_VOID = 23
    VARIABLE_ORDER = 24
    VARIABLE_BOUNDS = 25
    TAG_COMPONENT = 26
    CONTAINS_ITSELF = 27
    ENDLESS = 28
    LOC_FLAGS = 29
    LOC_SIZE = 30
    LOC_CONSTANT = 31
    LOC_SLOTS = 32
    LOCSEC_ID = 33
    HEADER_FLAGS = 34
    STRING_END = 35


STRICT_ONLY = frozenset({Rule.NAME_IDENTIFIER, Rule.LOC_SLOTS, Rule.MEMBER_ORDER, Rule.UNION_OFFSET})

_TEXTS = {
    Rule.NAME_OFFSET: "the string offset {value:#x} leads to no string",
    Rule.NAME_MISSING: "a kind that has to have a name has none",
    Rule.NAME_SURPLUS: "a kind that has no name has one",
    Rule.NAME_IDENTIFIER: "the name is no C identifier",
    Rule.KIND_FLAG: "kind_flag is set on a kind that has no use for it",
    Rule.VLEN: "a vlen of {value} on a kind without elements",
    Rule.LINKAGE: "linkage {value} does not exist",
    Rule.THIRD_WORD: "the unused third word is {value:#x}, not 0",
    Rule.INT_SIZE: "an integer of {value} bytes",
    Rule.INT_BITS: "the bits of the integer do not fit into its size (data word {value:#x})",
    Rule.INT_ENCODING: "an encoding of integers that does not exist (data word {value:#x})",
    Rule.FLOAT_SIZE: "a floating-point number of {value} bytes",
    Rule.TYPE_ID: "type [{value}] does not exist",
    Rule.TYPE_KIND: "type [{value}] is of a kind that cannot stand here",
    Rule.ELEMENT_UNSIZED: "an array of type [{value}], which has no size",
    Rule.INDEX_TYPE: "the index type [{value}] of the array is no integer",
    Rule.MEMBER_UNSIZED: "a member of type [{value}], which has no size",
    Rule.MEMBER_BOUNDS: "the member at bit {value} ends behind the end of the struct",
    Rule.MEMBER_ORDER: "the member at bit {value} comes after one that lies behind it",
    Rule.MEMBER_ALIGNED: "the member at bit {value} is no bitfield and begins inside a byte",
    Rule.UNION_OFFSET: "a member of a union at bit {value}",
    Rule.BITFIELD: "a bitfield of {value} bits, more than its type has",
    Rule.ENUM_SIZE: "an enum of {value} bytes",
    Rule.PARAM_VOID: "parameter {value} is void and not the nameless last one of a variadic function",
    Rule.VARIABLE_ORDER: "the variable at {value:#x} overlaps the one before",
    Rule.VARIABLE_BOUNDS: "the variable at {value:#x} ends behind the end of the section",
    Rule.TAG_COMPONENT: "the tag is on component {value}, which does not exist",
    Rule.CONTAINS_ITSELF: "the type contains itself (through type [{value}])",
    Rule.ENDLESS: "no declaration can name this type, because it refers to itself (through type [{value}])",
    Rule.LOC_FLAGS: "a mix of flags and number of values that means nothing (flags {value:#x})",
    Rule.LOC_SIZE: "a parameter of {value} bytes",
    Rule.LOC_CONSTANT: "a constant of {value} bytes with a number of value words that does not fit",
    Rule.LOC_SLOTS: "LOC_PROTO [{value}] has another number of slots than the function has parameters",
    Rule.LOCSEC_ID: "a site without function or without LOC_PROTO",
    Rule.HEADER_FLAGS: "flags {value:#x} in the header, where none are defined",
    Rule.STRING_END: "the string section does not end with a NUL",
}


class Fault:
    """One rule that an object breaks: how often, and where first (``offset`` from the start of the blob)."""

    __slots__ = ("count", "offset", "rule", "type_id", "value")

    def __init__(self, rule: Rule, count: int, type_id: int, offset: int, value: int) -> None:
        self.rule = rule
        self.count = count
        self.type_id = type_id
        self.offset = offset
        self.value = value

    @property
    def text(self) -> str:
        """What is wrong, without the place."""
        return _TEXTS[self.rule].format(value=self.value)

    def error(self, btf: Btf) -> FormatError:
        """The fault as an error that names file, section, offset and type."""
        return FormatError(
            self.text, path=btf.path, section=btf.section, offset=self.offset, type_id=self.type_id or None
        )

    def __repr__(self) -> str:
        return f"<Fault {self.rule.name} x{self.count} type [{self.type_id}] at {self.offset:#x}: {self.text}>"


def validate(btf: Btf, *, strict: bool = False) -> list[Fault]:
    """The faults of an object (of its own types, not those of its bases), each rule once, in order of their places."""
    faults = [Fault(Rule(rule), *where) for rule, *where in check(btf.index, btf.pointer_size)]
    header = btf.header
    if header.flags:
        faults.append(Fault(Rule.HEADER_FLAGS, 1, 0, 3, header.flags))
    if header.string_len and btf.data[header.string_at + header.string_len - 1] != 0:
        faults.append(Fault(Rule.STRING_END, 1, 0, header.string_at + header.string_len - 1, 0))
    if not strict:
        faults = [fault for fault in faults if fault.rule not in STRICT_ONLY]
    return sorted(faults, key=lambda fault: fault.offset)
