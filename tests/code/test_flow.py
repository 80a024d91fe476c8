"""Flow: which addresses are met again and which ranges are entered, by hand and against a plain search."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inlinetrace.code._flow import Flow

REENTERED, SHARED_ADDRESS, COPIES = 1, 2, 4


def flow(jumps: list[tuple[int, int]]) -> Flow:
    by_source = sorted(jumps)
    by_target = sorted((target, source) for source, target in jumps)
    return Flow(
        array("Q", [source for source, _ in by_source]),
        array("Q", [target for _, target in by_source]),
        array("Q", [target for target, _ in by_target]),
        array("Q", [source for _, source in by_target]),
    )


@pytest.mark.parametrize(
    ("jumps", "ranges", "address", "marks"),
    [
        ([], [(10, 20)], 10, 0),
        ([(15, 10)], [(10, 20)], 10, REENTERED),
        ([(15, 12)], [(10, 20)], 10, 0),
        ([(25, 10)], [(10, 20)], 10, 0),
        ([(15, 9)], [(10, 20)], 12, 0),
        ([(15, 11)], [(10, 20)], 12, REENTERED),
        ([(12, 30), (35, 10)], [(10, 20), (30, 40)], 10, REENTERED),
        ([(35, 10)], [(10, 20), (30, 40)], 10, 0),
        ([(18, 5)], [(5, 10), (10, 20)], 10, REENTERED),
        ([(50, 10)], [(10, 10)], 10, SHARED_ADDRESS),
        ([(50, 10)], [(10, 10), (30, 40)], 10, SHARED_ADDRESS),
        ([(50, 10)], [(10, 10), (5, 40)], 10, 0),
        ([], [(10, 10)], 10, 0),
        ([(50, 30)], [(10, 20), (30, 40)], 10, COPIES),
        ([(12, 30)], [(10, 20), (30, 40)], 10, 0),
        ([(50, 30)], [(30, 40)], 10, 0),
        ([(50, 10)], [], 10, 0),
    ],
)
def test_marks(jumps: list[tuple[int, int]], ranges: list[tuple[int, int]], address: int, marks: int) -> None:
    assert flow(jumps).marks(ranges, address) == marks


def test_arrays_of_different_lengths() -> None:
    one, none = array("Q", [1]), array("Q")
    with pytest.raises(ValueError, match="length"):
        Flow(one, none, one, one)


def expected(jumps: list[tuple[int, int]], ranges: list[tuple[int, int]], address: int) -> int:
    """The same, instruction by instruction: every address is one."""
    filled = [(begin, end) for begin, end in ranges if begin < end]
    owned = {at for begin, end in filled for at in range(begin, end)}
    reached: set[int] = set()
    pending = [address] if address in owned else sorted(owned)
    again = False
    while pending:
        at = pending.pop()
        if at in reached:
            continue
        reached.add(at)
        for target in [target for source, target in jumps if source == at]:
            again = again or target == address
            pending += [target] if target in owned else []
        if at + 1 in owned:
            again = again or at + 1 == address
            pending.append(at + 1)
    marks = REENTERED if again else 0
    if address not in owned and (address, address) in ranges and any(target == address for _, target in jumps):
        marks |= SHARED_ADDRESS
    if len(filled) > 1:
        for begin, end in filled:
            if not begin <= address < end and any(t == begin and s not in owned for s, t in jumps):
                marks |= COPIES
    return marks


ADDRESS = st.integers(0, 40)


@given(
    st.lists(st.tuples(ADDRESS, ADDRESS), max_size=12),
    st.lists(ADDRESS, max_size=8),
    st.lists(ADDRESS, max_size=2),
    st.lists(ADDRESS, min_size=1, max_size=6),
)
def test_against_a_plain_search(
    jumps: list[tuple[int, int]], bounds: list[int], empty: list[int], addresses: list[int]
) -> None:
    bounds.sort()
    ranges = [*zip(bounds[::2], bounds[1::2], strict=False), *((at, at) for at in empty)]
    asked = flow(jumps)
    for address in addresses:
        assert asked.marks(ranges, address) == expected(jumps, ranges, address)
        assert asked.is_target(address) == any(target == address for _, target in jumps)


def test_more_ranges_than_compilers_make() -> None:
    ranges = [(at, at + 1) for at in range(10, 2000, 2)]
    assert flow([(12, 10)]).marks(ranges, 10) == COPIES
