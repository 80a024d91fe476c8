"""Memory that is not needed any more."""

def keep_memory() -> None:
    """Have this process keep memory that is given back, up to a gigabyte."""

def forget_pages(mapping: memoryview) -> None:
    """Let go of the pages of a mapped file that are in memory (madvise(2)); they come back when they are read again.

    ``mapping`` is all of it. Other threads go on meanwhile.
    """
