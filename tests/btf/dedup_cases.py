"""Inputs of deduplication and their results, in the notation of ``notation.py``.

A case is the lines of the input, ``->``, and the lines of the result; lines before ``base`` are those of a base.
``DIFFERENT`` has the results of the form of libbpf 1.1 where it has another one.
"""

from __future__ import annotations

CASES: dict[str, str] = {}
DIFFERENT: dict[str, str] = {}

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

# ---- types that refer to others ----

CASES["pointers, qualifiers, typedefs"] = """
[1] int int 4
[2] ptr 1
[3] const 1
[4] volatile 1
[5] restrict 2
[6] typedef t 1
[7] int int 4
[8] ptr 7
[9] const 7
[10] volatile 7
[11] restrict 8
[12] typedef t 7
[13] typedef u 7
->
[1] int int 4
[2] ptr 1
[3] const 1
[4] volatile 1
[5] restrict 2
[6] typedef t 1
[7] typedef u 1
"""

CASES["void"] = """
[1] ptr 0
[2] ptr 0
[3] const 0
[4] ptr 3
[5] const 0
[6] ptr 5
->
[1] ptr 0
[2] const 0
[3] ptr 2
"""

CASES["arrays"] = """
[1] int int 4
[2] array 1 4
[3] array 1 4
[4] array 1 5
[5] int idx 4
[6] array 1 4 5
->
[1] int int 4
[2] array 1 4
[3] array 1 5
[4] int idx 4
[5] array 1 4 4
"""

CASES["the order of what refers to what comes later"] = """
[1] typedef a 3
[2] typedef a 4
[3] const 5
[4] const 6
[5] int int 4
[6] int int 4
->
[1] typedef a 2
[2] const 3
[3] int int 4
"""

CASES["chains of pointers"] = """
[1] ptr 2
[2] ptr 3
[3] ptr 4
[4] int int 4
[5] ptr 4
[6] ptr 5
[7] ptr 6
->
[1] ptr 2
[2] ptr 3
[3] ptr 4
[4] int int 4
"""

CASES["prototypes and functions"] = """
[1] int int 4
[2] proto 1: a=1, b=1
[3] func f 2
[4] proto 1: a=1, b=1
[5] func f 4
[6] func f 4 1
[7] proto 1: a=1, c=1
[8] func f 7
[9] func g 4
->
[1] int int 4
[2] proto 1: a=1, b=1
[3] func f 2
[4] func f 2 1
[5] proto 1: a=1, c=1
[6] func f 5
[7] func g 2
"""

CASES["variadic prototypes"] = """
[1] int int 4
[2] proto 1: a=1, _=0
[3] proto 1: a=1, _=0
[4] proto 1: a=1
->
[1] int int 4
[2] proto 1: a=1, _=0
[3] proto 1: a=1
"""

CASES["type tags"] = """
[1] int int 4
[2] type_tag user 1
[3] ptr 2
[4] type_tag user 1
[5] ptr 4
[6] type_tag rcu 1
[7] ptr 6
->
[1] int int 4
[2] type_tag user 1
[3] ptr 2
[4] type_tag rcu 1
[5] ptr 4
"""

CASES["declaration tags"] = """
[1] int int 4
[2] struct s 8: a=1@0, b=1@32
[3] decl_tag t 2
[4] decl_tag t 2 0
[5] decl_tag t 2 1
[6] struct s 8: a=1@0, b=1@32
[7] decl_tag t 6
[8] decl_tag t 6 1
[9] decl_tag other 6
->
[1] int int 4
[2] struct s 8: a=1@0, b=1@32
[3] decl_tag t 2
[4] decl_tag t 2 0
[5] decl_tag t 2 1
[6] decl_tag other 2
"""

CASES["tags of functions"] = """
[1] proto 0
[2] func f 1
[3] decl_tag kfunc 2
[4] proto 0
[5] func f 4
[6] decl_tag kfunc 5
[7] func g 4
[8] decl_tag kfunc 7
->
[1] proto 0
[2] func f 1
[3] decl_tag kfunc 2
[4] func g 1
[5] decl_tag kfunc 4
"""

CASES["a struct that is the same but for a type tag"] = """
[1] int int 4
[2] type_tag user 1
[3] ptr 2
[4] struct s 8: p=3@0
[5] ptr 1
[6] struct s 8: p=5@0
->
[1] int int 4
[2] type_tag user 1
[3] ptr 2
[4] struct s 8: p=3@0
[5] ptr 1
[6] struct s 8: p=5@0
"""

CASES["typedefs of one name and different types"] = """
[1] int int 4
[2] int uint 4
[3] typedef t 1
[4] typedef t 2
[5] typedef t 1
->
[1] int int 4
[2] int uint 4
[3] typedef t 1
[4] typedef t 2
"""

CASES["typedefs of pointers to structs"] = """
[1] struct s 8: next=2@0
[2] typedef s_p 3
[3] ptr 1
[4] struct s 8: next=5@0
[5] typedef s_p 6
[6] ptr 4
->
[1] struct s 8: next=2@0
[2] typedef s_p 3
[3] ptr 1
"""

CASES["a loop of typedefs, as Go writes them"] = """
[1] typedef main.Foo 2
[2] ptr 3
[3] proto 1
[4] typedef main.Foo 5
[5] ptr 6
[6] proto 4
->
[1] typedef main.Foo 2
[2] ptr 3
[3] proto 1
"""

DIFFERENT["a loop of typedefs, as Go writes them"] = "refers to itself"

# ---- variables, sections, location info ----

CASES["variables and sections stay"] = """
[1] int int 4
[2] var v 1
[3] datasec .data 4: 2@0+4
[4] int int 4
[5] var v 4
[6] datasec .data 4: 5@0+4
->
[1] int int 4
[2] var v 1
[3] datasec .data 4: 2@0+4
[4] var v 1
[5] datasec .data 4: 4@0+4
"""

CASES["a tag of each of two equal variables"] = """
[1] int int 4
[2] var v 1
[3] var v 1
[4] decl_tag t 2
[5] decl_tag t 3
->
[1] int int 4
[2] var v 1
[3] var v 1
[4] decl_tag t 2
[5] decl_tag t 3
"""

CASES["locations"] = """
[1] loc_param 4 8: 5
[2] loc_param 4 8: 5
[3] loc_param 8 8: 5
[4] loc_param 4 8: 6
[5] loc_param 4 2: 5
[6] loc_param 8 8: 5, 6
->
[1] loc_param 4 8: 5
[2] loc_param 8 8: 5
[3] loc_param 4 8: 6
[4] loc_param 4 2: 5
[5] loc_param 8 8: 5, 6
"""

CASES["location prototypes"] = """
[1] loc_param 4 8: 5
[2] loc_proto: 1, 0
[3] loc_param 4 8: 5
[4] loc_proto: 3, 0
[5] loc_proto: 0, 1
[6] loc_proto: 1
[7] loc_proto
[8] loc_proto
->
[1] loc_param 4 8: 5
[2] loc_proto: 1, 0
[3] loc_proto: 0, 1
[4] loc_proto: 1
[5] loc_proto
"""

CASES["location sections stay, and follow their functions"] = """
[1] proto 0
[2] func f 1
[3] loc_proto
[4] locsec .text: 2/3@16
[5] proto 0
[6] func f 5
[7] loc_proto
[8] locsec .text: 6/7@16
->
[1] proto 0
[2] func f 1
[3] loc_proto
[4] locsec .text: 2/3@16
[5] locsec .text: 2/3@16
"""

CASES["a location prototype before its locations"] = """
[1] loc_proto: 3
[2] loc_proto: 4
[3] loc_param 4 8: 5
[4] loc_param 4 8: 5
->
[1] loc_proto: 2
[2] loc_param 4 8: 5
"""

# ---- on a base ----

CASES["all of it is in the base"] = """
[1] int int 4
[2] struct s 8: next=3@0
[3] ptr 2
base
[4] int int 4
[5] struct s 8: next=6@0
[6] ptr 5
[7] const 5
->
[4] const 2
"""

CASES["duplicates inside of the base stay"] = """
[1] int int 4
[2] int int 4
[3] ptr 2
[4] ptr 1
base
[5] int int 4
[6] ptr 5
[7] ptr 2
->
"""

CASES["a declaration becomes the base's struct"] = """
[1] int int 4
[2] struct s 4: a=1@0
base
[3] fwd struct s
[4] ptr 3
->
[3] ptr 2
"""

CASES["a declaration of the base stands for the object's struct"] = """
[1] fwd struct s
[2] ptr 1
base
[3] int int 4
[4] struct s 4: a=3@0
[5] fwd struct s
[6] ptr 5
->
[3] int int 4
[4] struct s 4: a=3@0
"""

CASES["a struct of the base with a declaration is not changed"] = """
[1] fwd struct s
[2] ptr 1
[3] struct user 8: s=2@0
base
[4] int int 4
[5] struct s 4: a=4@0
[6] ptr 5
[7] struct user 8: s=6@0
[8] fwd struct s
[9] ptr 8
->
[4] int int 4
[5] struct s 4: a=4@0
[6] ptr 5
[7] struct user 8: s=6@0
"""

CASES["a struct with a declaration of what the base defines"] = """
[1] int int 4
[2] struct s 4: a=1@0
[3] ptr 2
[4] struct user 8: s=3@0
base
[5] fwd struct s
[6] ptr 5
[7] struct user 8: s=6@0
->
"""

CASES["an enum that the base declares"] = """
[1] enum e 4
[2] ptr 1
base
[3] enum e 4: A=0
[4] ptr 3
[5] struct s 8: e=1@0
->
[3] enum e 4: A=0
[4] ptr 3
[5] struct s 8: e=3@0
"""

CASES["typedefs of the base"] = """
[1] int int 4
[2] typedef t 1
[3] ptr 2
base
[4] int int 4
[5] typedef t 4
[6] ptr 5
[7] typedef u 5
->
[4] typedef u 2
"""

CASES["members lead into the base"] = """
[1] int int 4
[2] struct s 8: next=3@0
[3] ptr 2
base
[4] struct t 16: s=3@0, i=1@64
[5] struct t 16: s=3@0, i=1@64
[6] func f 7
[7] proto 1: s=3
->
[4] struct t 16: s=3@0, i=1@64
[5] func f 6
[6] proto 1: s=3
"""

CASES["a name of the base that the object defines anew"] = """
[1] int int 4
[2] struct s 4: a=1@0
base
[3] struct s 4: b=1@0
[4] fwd struct s
[5] ptr 4
->
[3] struct s 4: b=1@0
[4] fwd struct s
[5] ptr 4
"""

CASES["functions and tags of the base"] = """
[1] proto 0
[2] func f 1
[3] decl_tag kfunc 2
base
[4] proto 0
[5] func f 4
[6] decl_tag kfunc 5
[7] decl_tag other 5
->
[4] decl_tag other 2
"""

CASES["locations of the base"] = """
[1] proto 0
[2] func f 1
[3] loc_param 4 8: 5
[4] loc_proto: 3
base
[5] loc_param 4 8: 5
[6] loc_proto: 5
[7] locsec .text: 2/6@16
->
[5] locsec .text: 2/4@16
"""
