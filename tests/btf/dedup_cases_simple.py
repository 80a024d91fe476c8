"""Deduplication of types that refer to nothing: see ``dedup_cases``."""

from __future__ import annotations

CASES: dict[str, str] = {}

# ---- types without references ----

CASES["nothing"] = """
->
"""

CASES["equal integers"] = """
[1] int int 4 1
[2] int int 4 1
[3] ptr 2
->
[1] int int 4 1
[2] ptr 1
"""

CASES["integers that differ in name, size or encoding"] = """
[1] int int 4 1
[2] int long 4 1
[3] int int 8 1
[4] int int 4
->
[1] int int 4 1
[2] int long 4 1
[3] int int 8 1
[4] int int 4
"""

CASES["floats"] = """
[1] float double 8
[2] float double 8
[3] float float 4
[4] float double 16
->
[1] float double 8
[2] float float 4
[3] float double 16
"""

CASES["equal declarations"] = """
[1] fwd struct s
[2] fwd struct s
[3] fwd union s
[4] ptr 2
[5] ptr 3
->
[1] fwd struct s
[2] fwd union s
[3] ptr 1
[4] ptr 2
"""

CASES["equal enums"] = """
[1] enum e 4: A=0, B=1
[2] enum e 4: A=0, B=1
[3] enum e 4: A=0, B=2
[4] enum e 4: B=1, A=0
[5] enum _ 4: A=0, B=1
->
[1] enum e 4: A=0, B=1
[2] enum e 4: A=0, B=2
[3] enum e 4: B=1, A=0
[4] enum _ 4: A=0, B=1
"""

CASES["enums that differ in size or sign"] = """
[1] enum e 4: A=0
[2] enum e 1: A=0
[3] enum e 4: A=-1
[4] enum64 e 4: A=0
->
[1] enum e 4: A=0
[2] enum e 1: A=0
[3] enum e 4: A=-1
[4] enum64 e 4: A=0
"""

CASES["equal 64-bit enums"] = """
[1] enum64 e 8: A=4294967296, B=-1
[2] enum64 e 8: A=4294967296, B=-1
[3] enum64 e 8: A=8589934592, B=-1
->
[1] enum64 e 8: A=4294967296, B=-1
[2] enum64 e 8: A=8589934592, B=-1
"""

# ---- declared enums ----

CASES["a declared enum after its definition"] = """
[1] enum e 4: A=0
[2] enum e 4
[3] ptr 2
->
[1] enum e 4: A=0
[2] ptr 1
"""

CASES["a declared enum before its definition"] = """
[1] enum e 4
[2] ptr 1
[3] enum e 4: A=0
[4] ptr 3
->
[1] ptr 2
[2] enum e 4: A=0
"""

CASES["a declared enum becomes a 64-bit one"] = """
[1] enum e 4
[2] ptr 1
[3] enum64 e 8: A=4294967296
[4] ptr 3
->
[1] ptr 2
[2] enum64 e 8: A=4294967296
"""

CASES["a declared 64-bit enum becomes an ordinary one"] = """
[1] enum e 4: A=0
[2] enum64 e 8
[3] ptr 2
->
[1] enum e 4: A=0
[2] ptr 1
"""

CASES["declared enums of different sizes are one"] = """
[1] enum e 4
[2] enum e 8
[3] enum64 e 8
[4] ptr 1
[5] ptr 2
[6] ptr 3
->
[1] enum e 4
[2] ptr 1
"""

CASES["a declared enum and two definitions: the last definition"] = """
[1] enum e 4
[2] enum e 4: A=0
[3] enum e 4: B=0
[4] ptr 1
->
[1] enum e 4: A=0
[2] enum e 4: B=0
[3] ptr 2
"""

CASES["a declared enum after two definitions: the newest candidate"] = """
[1] int int 4
[2] enum e 4: A=0
[3] enum e 4: B=0
[4] enum e 4
[5] ptr 4
->
[1] int int 4
[2] enum e 4: A=0
[3] enum e 4: B=0
[4] ptr 3
"""

CASES["the same when the table has grown in between: the oldest"] = """
[1] enum e 4: A=0
[2] enum e 4: B=0
[3] int a 4
[4] int b 4
[5] enum e 4
[6] ptr 5
->
[1] enum e 4: A=0
[2] enum e 4: B=0
[3] int a 4
[4] int b 4
[5] ptr 1
"""

CASES["a declaration takes a repeated definition only if it comes up first"] = """
[1] enum e 4
[2] enum e 4: A=0
[3] enum e 4: B=0
[4] enum e 4: A=0
[5] ptr 1
->
[1] enum e 4: A=0
[2] enum e 4: B=0
[3] ptr 2
"""

CASES["declared anonymous enums"] = """
[1] enum _ 4
[2] enum _ 4: A=0
[3] enum _ 4: B=0
[4] ptr 1
->
[1] enum _ 4: A=0
[2] enum _ 4: B=0
[3] ptr 2
"""
