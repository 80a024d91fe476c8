"""Which LOC_PARAM says what a Location says; None where the format has no form for it.

>>> form_of(Location.memory(7, 8, size=4), Dialect.NEW, signed=True, image_base=None)
Form(size=4, flags=<REG|DEREF|OFFSET>, values=(7, 8))

A form is that of v2 and newest (include/uapi/linux/btf.h of the posted series); those of the RFC are made from it,
and what only the RFC cannot say is left out by ``fits``. Equal locations have equal forms: a constant is cut to the
size of the parameter, SIGNED is set if the parameter's type is signed and the number negative, the words above a
negative number of less than 32 bits are filled with ones, offsets take one word if it can hold them.

The compiled reader makes the same forms for the simple expressions (_expressions.pyx); the tests hold the two together.
"""

from __future__ import annotations

from typing import NamedTuple

from inlinetrace.btf.kinds import RFC_FRAME_BASE, Dialect, LocFlag
from inlinetrace.sites.location import Location, Shape
from inlinetrace.sites.nodes import Op

MAXIMUM_SIZE = 16
"""Largest parameter that a LOC_PARAM describes, in bytes."""

_WORD = 0xFFFFFFFF
_LARGEST_CONSTANT = 8
_RFC_SIZES = (1, 2, 4, 8)


class Form(NamedTuple):
    """A LOC_PARAM: size of the parameter in bytes, LocFlag bits, value words (see ``legal_location``)."""

    size: int
    flags: int
    values: tuple[int, ...]


def form_of(location: Location, dialect: Dialect, *, signed: bool, image_base: int | None) -> Form | None:
    """Return the form for a location of a parameter whose type is signed or not.

    Addresses count from ``image_base``; without one, in relocatable files, no form says them. An address below it does
    not move with the image (per-CPU data of x86-64 kernels, which is linked at 0): it is a constant.
    """
    size = location.size or location.address_size
    form = None
    if size <= MAXIMUM_SIZE:
        form = _form(location, size, signed, image_base)
    return form if form is not None and fits(form, dialect) else None


def _form(location: Location, size: int, signed: bool, image_base: int | None) -> Form | None:
    shape = location.shape
    if shape == Shape.REGISTER:
        return Form(size, LocFlag.REG, (location.base[0],))
    if shape == Shape.CONSTANT:
        return constant_form(location.nodes[-1].a, size, signed)
    if shape == Shape.ADDRESS:
        return address_form(location.nodes[-1].a, size, image_base)
    if shape in (Shape.VALUE, Shape.MEMORY):
        register, offset = location.base
        flags = LocFlag.REG | (LocFlag.DEREF if shape == Shape.MEMORY else 0)
        if not offset:
            return Form(size, flags, (register,))
        flags |= LocFlag.OFFSET | (LocFlag.SIGNED if offset < 0 else 0)
        if -(1 << 31) <= offset < 1 << 31:
            return Form(size, flags, (register, offset & _WORD))
        return Form(size, flags, (register, offset & _WORD, offset >> 32 & _WORD))
    if shape == Shape.PIECES:
        return _pair(location, size)
    return None


def constant_form(number: int, size: int, signed: bool) -> Form | None:
    """Return the form of a constant, of which ``size`` bytes count."""
    if size > _LARGEST_CONSTANT:
        return None
    bits = 8 * size
    number &= (1 << bits) - 1
    flags = LocFlag.CONST
    if signed and number >> (bits - 1):
        flags |= LocFlag.SIGNED
        number -= 1 << bits
    if size <= 4:
        return Form(size, flags, (number & _WORD,))
    return Form(size, flags, (number & _WORD, number >> 32 & _WORD))


def address_form(address: int, size: int, image_base: int | None) -> Form | None:
    """Return the form of a link-time address."""
    if image_base is None or size > _LARGEST_CONSTANT:
        return None
    if address < image_base:
        return constant_form(address, size, False)
    constant = constant_form(address - image_base, size, False)
    return None if constant is None else Form(size, LocFlag.CONST | LocFlag.ADDR, constant.values)


def _pair(location: Location, size: int) -> Form | None:
    """Return the form of a value in two registers, the one with the low part first."""
    nodes, address_size = location.nodes, location.address_size
    if len(nodes) != 2 or not address_size < size <= 2 * address_size:
        return None
    if any(node.op != Op.REGISTER or node.type is not None for node in nodes):
        return None
    in_order = [nodes[piece.node].a for piece in location.pieces]
    same = Location.registers(in_order, size=size, address_size=address_size, little_endian=location.little_endian)
    if len(in_order) != 2 or same.pieces != tuple(piece._replace(node=i) for i, piece in enumerate(location.pieces)):
        return None
    first, second = in_order if location.little_endian else reversed(in_order)
    return Form(size, LocFlag.REG, (first, second))


def fits(form: Form, dialect: Dialect) -> bool:
    """Whether ``dialect`` can say ``form``.

    The RFC has constants and memory of 1, 2, 4 and 8 bytes. It does not tell addresses from other constants, has 16
    bits for a register and 32 for an offset, and one register number stands for its frame base.
    """
    if dialect is not Dialect.RFC:
        return True
    if form.flags & (LocFlag.CONST | LocFlag.DEREF) and form.size not in _RFC_SIZES:
        return False
    if form.flags & LocFlag.CONST:
        return not form.flags & LocFlag.ADDR
    if form.flags & LocFlag.OFFSET:
        return _is_rfc_register(form.values[0]) and len(form.values) == 2
    return all(_is_rfc_register(number) for number in form.values)


def _is_rfc_register(number: int) -> bool:
    return number <= 0xFFFF and number != RFC_FRAME_BASE
