"""Lists of features as kernel builds hand them over."""

from __future__ import annotations

import pytest

from inlinetrace.errors import UsageError
from inlinetrace.generate.features import Features

KERNEL_BUILD = "encode_force,var,float,enum64,decl_tag,type_tag,optimized_func,consistent_func,decl_tag_kfuncs"


def test_the_list_of_a_kernel_build_is_the_default() -> None:
    assert Features.parse(KERNEL_BUILD) == Features() == Features.parse("default")
    assert Features.parse("all") == Features()


def test_what_is_not_named_is_off() -> None:
    assert Features.parse("float, of_the_future") == Features.parse("float")
    assert Features.parse("float").floats
    assert not Features.parse("float").var
    assert Features.parse("all,layout,global_var") == Features(layout=True, global_var=True)
    assert not any(getattr(Features.none(), name) for name in ("var", "floats", "enum64", "consistent_func"))


def test_an_empty_list() -> None:
    with pytest.raises(UsageError, match="empty"):
        Features.parse(" , ")
