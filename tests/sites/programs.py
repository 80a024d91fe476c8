"""Small programs with inlined functions, and how tests compile them."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

ONE = r"""
struct pair { long first; int second; };
struct node { struct node *next; int value; char name[16]; };
extern int sink(long, long), checks;
extern void keep(void *);
int shared(struct node *node, int depth);

static inline int leaf(int value, const char *text) { return sink(value, (long) text) + value; }
static inline int twice(int a, struct node *node) { return leaf(a + 1, node->name) + leaf(a * 3, "constant"); }
static inline long by_value(struct pair pair, unsigned char flag) { return pair.first + (flag ? pair.second : 7); }
static inline int unused(int never, int used) { return sink(used, 2); }
static inline int callback(int (*function)(int, long *), long *argument) { return function(3, argument); }
static int counter(int number, long *total) { *total += number; return number & 7; }
static inline __attribute__((always_inline)) int loop(struct node *node, int limit)
{
    int sum = 0;
    for (int i = 0; i < limit && node; i++, node = node->next)
        sum += twice(node->value + i, node);
    return sum;
}
__attribute__((noinline)) int outer(struct node *node, int limit, unsigned short small)
{
    struct pair pair = { limit * 2L, small };
    long total = 4;
    int result = loop(node, limit) + (int) by_value(pair, small & 1) + unused(1, limit);
    keep(&total);
    return result + callback(counter, &total) + shared(node, limit - 1);
}
static __attribute__((noinline)) int partly(struct node *node, int a, int b, int unused_here)
{
    if (!node) return a;
    return sink(a, b) + twice(b, node) + sink(b, (long) node);
}
int entry(struct node *node, int a)
{
    return partly(node, a, a + 1, 9) + partly(node->next, 3, a, 9) + loop(node, 3);
}
int double_sum(double x, float y) { return (int) (x + y); }
"""

TWO = r"""
struct node { struct node *next; int value; char name[16]; };
extern int outer(struct node *node, int limit, unsigned short small);
extern int entry(struct node *node, int a);
int checks;
__attribute__((noinline)) int sink(long a, long b)
{ __asm__ volatile ("" : : "r" (a), "r" (b) : "memory"); return (int) (a ^ b); }
__attribute__((noinline)) void keep(void *p) { __asm__ volatile ("" : : "r" (p) : "memory"); }
static inline int check(struct node *node) { checks++; return node && node->value > 2; }
int shared(struct node *node, int depth)
{
    if (depth <= 0 || !check(node)) return 0;
    return outer(node->next, depth - 1, 3) + check(node->next);
}
int main(void)
{
    struct node last = { 0, 5, "last" }, first = { &last, 3, "first" };
    return outer(&first, 2, 5) + entry(&first, 1);
}
"""

CXX = r"""
extern int sink(long, long);
namespace shapes {
template <typename T> struct box {
    T value;
    struct inner { int n; int get(int more) const { return n + more; } } part;
    T grow(T by) { value += by; return value * 2; }
    static int count(const box &other, int from) { return other.part.get(from) + 1; }
};
class base { public: virtual int area(int scale) = 0; int kind; };
class square : public base { public: int side; int area(int scale) override { return side * side * scale; } };
}
int use(shapes::box<int> &box, shapes::square &square, int n)
{
    auto lambda = [&](int x) { return sink(x, n) + box.grow(x); };
    return lambda(n + 1) + shapes::box<int>::count(box, n) + sink(square.shapes::square::area(n), 4) + lambda(3);
}
int use_long(shapes::box<long> &box, long n) { return sink(box.grow(n), box.part.get(5)); }
"""

RUST = r"""
#![crate_type = "cdylib"]
pub struct Pair { pub first: i64, pub second: Option<u32> }
#[inline(always)]
fn add(pair: &Pair, by: i64) -> i64 { pair.first + by + pair.second.unwrap_or(3) as i64 }
#[no_mangle]
pub extern "C" fn entry(pair: &Pair, values: *const i64, count: usize) -> i64 {
    let slice = unsafe { std::slice::from_raw_parts(values, count) };
    slice.iter().filter(|v| **v > 2).map(|v| add(pair, *v)).sum()
}
"""


def run(*command: str | Path, directory: Path) -> str:
    """Run a tool; its output, or an error that shows what it said."""
    done = subprocess.run([str(part) for part in command], cwd=directory, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"{' '.join(map(str, command))}: {done.stderr}"
    return done.stdout


def build(
    directory: Path, compiler: str, flags: Sequence[str], *, link: bool = True, sources: dict[str, str] | None = None
) -> Path:
    """Compile the program (two units) in ``directory``; the path of the program, or of the first object."""
    chosen = sources if sources is not None else {"one.c": ONE, "two.c": TWO}
    for name, text in chosen.items():
        (directory / name).write_text(text)
        run(compiler, "-g", *flags, "-c", name, directory=directory)
    objects = [f"{name.rsplit('.', 1)[0]}.o" for name in chosen]
    if not link:
        return directory / objects[0]
    run(compiler, "-g", *flags, *objects, "-o", "program", directory=directory)
    return directory / "program"
