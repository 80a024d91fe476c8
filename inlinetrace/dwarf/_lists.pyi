"""Types of the compiled reader of location lists."""

from inlinetrace.dwarf._units import Info

def location_list(
    info: Info, unit_index: int, offset: int, views: int = 0
) -> list[tuple[int, int, int, int, bytes]]: ...
