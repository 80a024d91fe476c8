"""How the C library treats memory that was given back."""

def keep_memory() -> None:
    """Have this process keep memory that is given back, up to a gigabyte."""
