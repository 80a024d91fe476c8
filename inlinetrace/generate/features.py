"""What to encode, named as pahole's ``--btf_features`` names it, so that kernel builds can hand over their list.

>>> Features.parse("encode_force,var,float,enum64,decl_tag,type_tag,optimized_func,consistent_func")
"""

from __future__ import annotations

from typing import NamedTuple

from inlinetrace.errors import UsageError

_NAMED_OTHERWISE = {"float": "floats"}


class Features(NamedTuple):
    """One flag per feature; the defaults are what the kernel's build asks for (scripts/Makefile.btf).

    Of pahole's other names ``encode_force`` and ``reproducible_build`` always hold, ``distilled_base`` is a step of its
    own here, and ``attributes`` (kind_flag on tags) is not written.
    """

    var: bool = True
    """VAR and DATASEC for per-CPU variables."""
    global_var: bool = False
    """VAR and DATASEC for all variables with an address."""
    floats: bool = True
    """FLOAT (``float``); without it they are integers of the same size and name."""
    decl_tag: bool = True
    """DECL_TAG for ``btf_decl_tag`` annotations (DW_TAG_LLVM_annotation, DW_TAG_GNU_annotation)."""
    type_tag: bool = True
    """TYPE_TAG for ``btf_type_tag`` annotations of pointers."""
    enum64: bool = True
    """ENUM64 for enums of more than four bytes; without it their values are cut."""
    optimized_func: bool = True
    """FUNC for functions whose symbol has a suffix: ``foo.isra.0``, ``foo.constprop.0``."""
    consistent_func: bool = True
    """No FUNC for a name whose functions have different prototypes, or parameters where no caller would put them."""
    decl_tag_kfuncs: bool = True
    """DECL_TAG "bpf_kfunc" for the functions that ``.BTF_ids`` lists as such."""
    layout: bool = False
    """A layout section, so that readers can pass over kinds that they do not know."""

    @classmethod
    def parse(cls, text: str) -> Features:
        """The features of a comma-separated list; ``all`` and ``default`` as pahole has them, others are ignored.

        pahole ignores unknown names so that one list serves many versions. Raises UsageError for an empty list.
        """
        names = [name.strip() for name in text.split(",") if name.strip()]
        if not names:
            raise UsageError("an empty list of features; name some, or all, or default")
        known = set(cls._fields)
        if "default" in names:
            return cls()
        chosen = {_NAMED_OTHERWISE.get(name, name) for name in names}
        if "all" in names:
            chosen |= known - {"global_var", "layout"}
        return cls(**{name: name in chosen for name in known})

    @classmethod
    def none(cls) -> Features:
        """No feature at all."""
        return cls(**dict.fromkeys(cls._fields, False))
