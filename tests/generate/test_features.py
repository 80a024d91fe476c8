"""Lists of features as kernel builds hand them over."""

from __future__ import annotations

import pytest

from inlinetrace.errors import UsageError
from inlinetrace.generate.features import Features

KERNEL_BUILD = "encode_force,var,float,enum64,decl_tag,type_tag,optimized_func,consistent_func,decl_tag_kfuncs"


def test_the_list_of_a_kernel_build_is_the_default() -> None:
    assert Features.parse(KERNEL_BUILD) == Features() == Features.parse("default")
    assert Features.parse("all") == Features()
    # what scripts/Makefile.btf adds for newer versions
    assert Features.parse(KERNEL_BUILD, "attributes") == Features()
    assert Features.parse("attributes", "default,global_var") == Features(global_var=True)


def test_what_is_not_named_is_off() -> None:
    assert Features.parse("float, of_the_future") == Features.parse("float")
    assert Features.parse("float").floats
    assert not Features.parse("float").var
    assert Features.parse("all,layout,global_var") == Features(layout=True, global_var=True)
    assert not any(getattr(Features.none(), name) for name in ("var", "floats", "enum64", "consistent_func"))


def test_an_empty_list() -> None:
    with pytest.raises(UsageError, match="empty"):
        Features.parse(" , ", "")


def test_strict_lists_have_known_names_only() -> None:
    assert Features.parse("var,typo_tag") == Features.parse("var")
    with pytest.raises(UsageError, match=r"no such feature: typo_tag, vars; there are var, .*float, .*encode_force"):
        Features.parse("vars,float", "typo_tag", strict=True)
    for name in (
        *KERNEL_BUILD.split(","),
        "reproducible_build",
        "distilled_base",
        "global_var",
        "attributes",
        "layout",
    ):
        Features.parse(name, "all,default", strict=True)
