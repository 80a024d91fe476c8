#!/usr/bin/env python3
"""Print a C program with N inline sites of one function (default 300; perf stops at 128)."""

import sys

n = int(sys.argv[1]) if len(sys.argv) > 1 else 300
print("#include <stdio.h>\nvolatile long out;")
print("static inline void tick(int who, long when) { out = who + when; }")
for i in range(n):
    print(f"__attribute__((noinline)) void t{i}(int who, long when) {{ tick(who, when + {i}); }}")
print("int main(int argc, char **argv)\n{")
for i in range(n):
    print(f'\tt{i}(argc, {i * 7}); printf("tick who=%d when=%d\\n", argc, {i * 8});')
print("\treturn 0;\n}")
