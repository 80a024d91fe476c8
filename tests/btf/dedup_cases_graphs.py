"""Deduplication of structs, unions and forward declarations: see ``dedup_cases``."""

from __future__ import annotations

CASES: dict[str, str] = {}
DIFFERENT: dict[str, str] = {}

# ---- structs and unions ----

CASES["equal structs"] = """
[1] int int 4
[2] struct s 8: a=1@0, b=1@32
[3] int int 4
[4] struct s 8: a=3@0, b=3@32
[5] ptr 4
->
[1] int int 4
[2] struct s 8: a=1@0, b=1@32
[3] ptr 2
"""

CASES["structs that differ in size, order, offset, name or kind"] = """
[1] int int 4
[2] struct s 8: a=1@0, b=1@32
[3] struct s 12: a=1@0, b=1@32
[4] struct s 8: b=1@0, a=1@32
[5] struct s 8: a=1@0, b=1@24
[6] struct t 8: a=1@0, b=1@32
[7] union s 8: a=1@0, b=1@32
->
[1] int int 4
[2] struct s 8: a=1@0, b=1@32
[3] struct s 12: a=1@0, b=1@32
[4] struct s 8: b=1@0, a=1@32
[5] struct s 8: a=1@0, b=1@24
[6] struct t 8: a=1@0, b=1@32
[7] union s 8: a=1@0, b=1@32
"""

CASES["structs that differ in the type of a member"] = """
[1] int int 4
[2] int uint 4
[3] struct s 4: a=1@0
[4] struct s 4: a=2@0
->
[1] int int 4
[2] int uint 4
[3] struct s 4: a=1@0
[4] struct s 4: a=2@0
"""

CASES["bitfields"] = """
[1] int int 4
[2] struct s 4: a=1@0:3, b=1@3:5
[3] struct s 4: a=1@0:3, b=1@3:5
[4] struct s 4: a=1@0:4, b=1@3:5
->
[1] int int 4
[2] struct s 4: a=1@0:3, b=1@3:5
[3] struct s 4: a=1@0:4, b=1@3:5
"""

CASES["empty structs"] = """
[1] struct s 0
[2] struct s 0
[3] union s 0
[4] struct _ 0
[5] struct _ 0
->
[1] struct s 0
[2] union s 0
[3] struct _ 0
"""

CASES["anonymous structs inside of structs"] = """
[1] int int 4
[2] struct _ 4: a=1@0
[3] struct s 4: _=2@0
[4] int int 4
[5] struct _ 4: a=4@0
[6] struct s 4: _=5@0
[7] struct _ 4: b=4@0
->
[1] int int 4
[2] struct _ 4: a=1@0
[3] struct s 4: _=2@0
[4] struct _ 4: b=1@0
"""

CASES["a list"] = """
[1] struct node 8: next=2@0
[2] ptr 1
[3] struct node 8: next=4@0
[4] ptr 3
->
[1] struct node 8: next=2@0
[2] ptr 1
"""

CASES["a list through qualifiers and a typedef"] = """
[1] struct node 8: next=4@0
[2] typedef node_t 1
[3] const 2
[4] ptr 3
[5] ptr 6
[6] const 7
[7] typedef node_t 8
[8] struct node 8: next=5@0
->
[1] struct node 8: next=4@0
[2] typedef node_t 1
[3] const 2
[4] ptr 3
"""

CASES["two structs that refer to each other"] = """
[1] struct a 8: b=2@0
[2] ptr 3
[3] struct b 8: a=4@0
[4] ptr 1
[5] struct b 8: a=6@0
[6] ptr 7
[7] struct a 8: b=8@0
[8] ptr 5
->
[1] struct a 8: b=2@0
[2] ptr 3
[3] struct b 8: a=4@0
[4] ptr 1
"""

CASES["a cycle that differs at its far end"] = """
[1] int int 4
[2] struct a 8: b=3@0
[3] ptr 4
[4] struct b 16: a=5@0, x=1@64
[5] ptr 2
[6] float int 4
[7] struct a 8: b=8@0
[8] ptr 9
[9] struct b 16: a=10@0, x=6@64
[10] ptr 7
->
[1] int int 4
[2] struct a 8: b=3@0
[3] ptr 4
[4] struct b 16: a=5@0, x=1@64
[5] ptr 2
[6] float int 4
[7] struct a 8: b=8@0
[8] ptr 9
[9] struct b 16: a=10@0, x=6@64
[10] ptr 7
"""

CASES["a struct that contains itself in different depths"] = """
[1] struct s 8: next=2@0
[2] ptr 1
[3] struct s 8: next=4@0
[4] ptr 5
[5] struct s 8: next=6@0
[6] ptr 3
->
[1] struct s 8: next=2@0
[2] ptr 1
[3] struct s 8: next=4@0
[4] ptr 3
"""

CASES["callbacks"] = """
[1] struct ops 8: call=2@0
[2] ptr 3
[3] proto 4: ops=5, _=0
[4] int int 4
[5] ptr 1
[6] int int 4
[7] struct ops 8: call=8@0
[8] ptr 9
[9] proto 6: ops=10, _=0
[10] ptr 7
->
[1] struct ops 8: call=2@0
[2] ptr 3
[3] proto 4: ops=5, _=0
[4] int int 4
[5] ptr 1
"""

CASES["callbacks whose parameters have other names"] = """
[1] int int 4
[2] struct ops 8: call=3@0
[3] ptr 4
[4] proto 1: a=1
[5] struct ops 8: call=6@0
[6] ptr 7
[7] proto 1: b=1
->
[1] int int 4
[2] struct ops 8: call=3@0
[3] ptr 4
[4] proto 1: a=1
[5] struct ops 8: call=6@0
[6] ptr 7
[7] proto 1: b=1
"""

CASES["callbacks with another return type"] = """
[1] int int 4
[2] struct ops 8: call=3@0
[3] ptr 4
[4] proto 1: a=1
[5] struct ops 8: call=6@0
[6] ptr 7
[7] proto 0: a=1
->
[1] int int 4
[2] struct ops 8: call=3@0
[3] ptr 4
[4] proto 1: a=1
[5] struct ops 8: call=6@0
[6] ptr 7
[7] proto 0: a=1
"""

CASES["arrays inside of structs"] = """
[1] int int 4
[2] array 1 4
[3] struct s 16: a=2@0
[4] array 1 4
[5] struct s 16: a=4@0
[6] array 1 3
[7] struct s 16: a=6@0
->
[1] int int 4
[2] array 1 4
[3] struct s 16: a=2@0
[4] array 1 3
[5] struct s 16: a=4@0
"""

CASES["arrays of structs in a cycle"] = """
[1] int int 4
[2] struct s 8: p=3@0
[3] ptr 4
[4] array 2 2
[5] struct s 8: p=6@0
[6] ptr 7
[7] array 5 2
->
[1] int int 4
[2] struct s 8: p=3@0
[3] ptr 4
[4] array 2 2
"""

CASES["a struct with a declared and with a defined enum"] = """
[1] enum e 4: A=0
[2] struct s 8: e=3@0
[3] ptr 1
[4] enum e 4
[5] struct s 8: e=6@0
[6] ptr 4
->
[1] enum e 4: A=0
[2] struct s 8: e=3@0
[3] ptr 1
"""

CASES["an array that was written twice inside of one struct"] = """
[1] int int 4
[2] struct s 16: a=3@0, b=3@64
[3] array 1 2
[4] struct s 16: a=5@0, b=6@64
[5] array 1 2
[6] array 1 2
->
[1] int int 4
[2] struct s 16: a=3@0, b=3@64
[3] array 1 2
"""

CASES["a pointer that was written twice inside of one struct"] = """
[1] int int 4
[2] struct s 16: a=3@0, b=3@64
[3] ptr 1
[4] struct s 16: a=5@0, b=6@64
[5] ptr 1
[6] ptr 1
->
[1] int int 4
[2] struct s 16: a=3@0, b=3@64
[3] ptr 1
"""

DIFFERENT["a pointer that was written twice inside of one struct"] = """
[1] int int 4
[2] struct s 16: a=3@0, b=3@64
[3] ptr 1
[4] struct s 16: a=3@0, b=3@64
"""

CASES["an anonymous struct that was written twice"] = """
[1] int int 4
[2] struct s 8: a=3@0, b=3@32
[3] struct _ 4: x=1@0
[4] struct s 8: a=5@0, b=6@32
[5] struct _ 4: x=1@0
[6] struct _ 4: x=1@0
->
[1] int int 4
[2] struct s 8: a=3@0, b=3@32
[3] struct _ 4: x=1@0
"""

CASES["a group of members that was written twice, with arrays of its own"] = """
[1] int int 4
[2] struct s 16: _=3@0
[3] union _ 16: _=4@0, group=4@0
[4] struct _ 16: a=5@0, b=5@64
[5] array 1 2
[6] struct s 16: _=7@0
[7] union _ 16: _=8@0, group=9@0
[8] struct _ 16: a=10@0, b=11@64
[9] struct _ 16: a=12@0, b=13@64
[10] array 1 2
[11] array 1 2
[12] array 1 2
[13] array 1 2
->
[1] int int 4
[2] struct s 16: _=3@0
[3] union _ 16: _=4@0, group=4@0
[4] struct _ 16: a=5@0, b=5@64
[5] array 1 2
"""

CASES["a struct written twice whose members were written twice"] = """
[1] int int 4
[2] struct s 16: a=3@0, b=3@64
[3] struct _ 8: x=4@0
[4] ptr 10
[5] struct s 16: a=6@0, b=7@64
[6] struct _ 8: x=8@0
[7] struct _ 8: x=9@0
[8] ptr 11
[9] ptr 11
[10] struct t 4: x=1@0
[11] struct t 4: x=1@0
->
[1] int int 4
[2] struct s 16: a=3@0, b=3@64
[3] struct _ 8: x=4@0
[4] ptr 5
[5] struct t 4: x=1@0
"""

DIFFERENT["a struct written twice whose members were written twice"] = """
[1] int int 4
[2] struct s 16: a=3@0, b=3@64
[3] struct _ 8: x=4@0
[4] ptr 6
[5] struct s 16: a=3@0, b=3@64
[6] struct t 4: x=1@0
"""

CASES["an array written twice with another element type"] = """
[1] int int 4
[2] int uint 4
[3] struct s 16: a=4@0, b=4@64
[4] array 1 2
[5] struct s 16: a=6@0, b=7@64
[6] array 1 2
[7] array 2 2
->
[1] int int 4
[2] int uint 4
[3] struct s 16: a=4@0, b=4@64
[4] array 1 2
[5] struct s 16: a=4@0, b=6@64
[6] array 2 2
"""

CASES["types that one unit has twice and the other once, the other way round"] = """
[1] int int 4
[2] struct s 16: a=3@0, b=4@64
[3] ptr 1
[4] ptr 1
[5] struct s 16: a=6@0, b=6@64
[6] ptr 1
->
[1] int int 4
[2] struct s 16: a=3@0, b=3@64
[3] ptr 1
"""

# ---- forward declarations ----

CASES["a declaration before the definition"] = """
[1] fwd struct s
[2] ptr 1
[3] int int 4
[4] struct s 4: a=3@0
[5] ptr 4
->
[1] ptr 3
[2] int int 4
[3] struct s 4: a=2@0
"""

CASES["a declaration after the definition"] = """
[1] struct s 8: next=2@0
[2] ptr 1
[3] fwd struct s
[4] ptr 3
->
[1] struct s 8: next=2@0
[2] ptr 1
"""

CASES["a declared union"] = """
[1] fwd union u
[2] ptr 1
[3] int int 4
[4] union u 4: a=3@0
->
[1] ptr 3
[2] int int 4
[3] union u 4: a=2@0
"""

CASES["a declared struct does not become a union"] = """
[1] fwd struct s
[2] ptr 1
[3] int int 4
[4] union s 4: a=3@0
->
[1] fwd struct s
[2] ptr 1
[3] int int 4
[4] union s 4: a=3@0
"""

CASES["a declaration with two definitions of its name stays"] = """
[1] fwd struct s
[2] ptr 1
[3] int int 4
[4] struct s 4: a=3@0
[5] struct s 4: b=3@0
->
[1] fwd struct s
[2] ptr 1
[3] int int 4
[4] struct s 4: a=3@0
[5] struct s 4: b=3@0
"""

CASES["a declaration with a struct and a union of its name stays"] = """
[1] fwd struct s
[2] int int 4
[3] struct s 4: a=2@0
[4] union s 4: a=2@0
[5] ptr 1
->
[1] fwd struct s
[2] int int 4
[3] struct s 4: a=2@0
[4] union s 4: a=2@0
[5] ptr 1
"""

CASES["two equal definitions are one"] = """
[1] fwd struct s
[2] ptr 1
[3] int int 4
[4] struct s 4: a=3@0
[5] struct s 4: a=3@0
->
[1] ptr 3
[2] int int 4
[3] struct s 4: a=2@0
"""

CASES["ambiguous, but the struct around it tells which"] = """
[1] int int 4
[2] struct s 4: a=1@0
[3] struct user 8: s=4@0
[4] ptr 2
[5] struct s 4: b=1@0
[6] fwd struct s
[7] ptr 6
[8] struct user 8: s=7@0
->
[1] int int 4
[2] struct s 4: a=1@0
[3] struct user 8: s=4@0
[4] ptr 2
[5] struct s 4: b=1@0
"""

CASES["a graph with the declaration first, then with the definition"] = """
[1] fwd struct s
[2] struct user 8: s=3@0
[3] ptr 1
[4] int int 4
[5] struct s 4: a=4@0
[6] struct user 8: s=7@0
[7] ptr 5
->
[1] struct user 8: s=2@0
[2] ptr 4
[3] int int 4
[4] struct s 4: a=3@0
"""

CASES["units that declare what the other defines"] = """
[1] struct a 16: self=2@0, b=4@64
[2] ptr 1
[3] fwd struct b
[4] ptr 3
[5] struct s 16: a=2@0, b=4@64
[6] struct b 16: self=7@0, a=9@64
[7] ptr 6
[8] fwd struct a
[9] ptr 8
[10] struct s 16: a=9@0, b=7@64
->
[1] struct a 16: self=2@0, b=3@64
[2] ptr 1
[3] ptr 5
[4] struct s 16: a=2@0, b=3@64
[5] struct b 16: self=3@0, a=2@64
"""

CASES["a declaration fits the first of two different graphs that contain it"] = """
[1] int int 4
[2] fwd struct s
[3] ptr 2
[4] struct user 8: s=3@0
[5] struct s 4: a=1@0
[6] ptr 5
[7] struct user 8: s=6@0
[8] struct s 4: b=1@0
[9] ptr 8
[10] struct user 8: s=9@0
->
[1] int int 4
[2] ptr 4
[3] struct user 8: s=2@0
[4] struct s 4: a=1@0
[5] struct s 4: b=1@0
[6] ptr 5
[7] struct user 8: s=6@0
"""

CASES["anonymous declarations"] = """
[1] fwd struct _
[2] ptr 1
[3] int int 4
[4] struct _ 4: a=3@0
->
[1] ptr 3
[2] int int 4
[3] struct _ 4: a=2@0
"""

CASES["a typedef of a declaration of an ambiguous name"] = """
[1] int int 4
[2] struct s 4: a=1@0
[3] typedef s_t 2
[4] struct s 4: b=1@0
[5] fwd struct s
[6] typedef s_t 5
->
[1] int int 4
[2] struct s 4: a=1@0
[3] typedef s_t 2
[4] struct s 4: b=1@0
"""

DIFFERENT["a typedef of a declaration of an ambiguous name"] = """
[1] int int 4
[2] struct s 4: a=1@0
[3] typedef s_t 2
[4] struct s 4: b=1@0
[5] fwd struct s
[6] typedef s_t 5
"""
