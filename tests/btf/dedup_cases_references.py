"""Deduplication of types that refer to others, of location info, and on a base: see ``dedup_cases``."""

from __future__ import annotations

CASES: dict[str, str] = {}
DIFFERENT: dict[str, str] = {}

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
