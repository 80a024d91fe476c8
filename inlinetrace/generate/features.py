"""What to encode, named as pahole's ``--btf_features`` names it, so that kernel builds can hand over their list.

>>> Features.parse("encode_force,var,float,enum64,decl_tag,type_tag,optimized_func,consistent_func", "attributes")
"""

from __future__ import annotations

from typing import NamedTuple

from inlinetrace.errors import UsageError


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
    def parse(cls, *lists: str, strict: bool = False) -> Features:
        """The features that are in one of the comma-separated ``lists``; ``all`` and ``default`` are ``cls()``.

        pahole ignores names that it does not know, so that one list serves many versions; ``strict`` refuses them.
        Raises UsageError for that, and where no list has a name.
        """
        names = {name.strip() for text in lists for name in text.split(",")} - {""}
        if not names:
            raise UsageError("an empty list of features; name some, or all, or default")
        unknown = names - FEATURE_NAMES.keys() - {"all", "default"}
        if strict and unknown:
            raise UsageError(f"no such feature: {', '.join(sorted(unknown))}; there are {', '.join(FEATURE_NAMES)}")
        chosen = cls() if names & {"all", "default"} else cls.none()
        return chosen._replace(**{field: True for name in names if (field := FEATURE_NAMES.get(name))})

    @classmethod
    def none(cls) -> Features:
        """No feature at all."""
        return cls(**dict.fromkeys(cls._fields, False))


FEATURE_NAMES = {
    **{"float" if field == "floats" else field: field for field in Features._fields},
    **dict.fromkeys(("encode_force", "reproducible_build", "distilled_base", "attributes")),
}
"""The names that lists may have; those that change nothing here have no flag."""
