"""Inputs of deduplication and their results, in the notation of ``notation.py``.

A case is the lines of the input, ``->``, and the lines of the result; lines before ``base`` are those of a base.
``DIFFERENT`` has the results of the form of libbpf 1.1 where it has another one.
"""

from __future__ import annotations

from tests.btf import dedup_cases_graphs, dedup_cases_references, dedup_cases_simple

CASES = dedup_cases_simple.CASES | dedup_cases_graphs.CASES | dedup_cases_references.CASES
DIFFERENT = dedup_cases_graphs.DIFFERENT | dedup_cases_references.DIFFERENT
