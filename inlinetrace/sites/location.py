"""Locations (see the class)."""

from __future__ import annotations


class Location:
    """Where a value is."""
