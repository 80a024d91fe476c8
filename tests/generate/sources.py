"""C programs whose types, functions and variables use what BTF can say. Each is one or more units."""

from __future__ import annotations

SHAPES = r"""
#include <stdarg.h>
#include <stddef.h>
struct later;
struct node { struct node *next; int value; struct later *later; };
enum color { RED, GREEN = 5, BLUE };
enum sign { MINUS = -1, PLUS = 1 };
enum empty_named;
typedef unsigned long word;
typedef int (*callback)(struct node *, const char *format, ...);
union number { int i; float f; double d; long double l; unsigned char raw[16]; };
struct bits { unsigned a : 3; unsigned b : 5; _Bool c : 1; signed d : 7; long long e : 40; enum color f : 4; };
struct packed { char c; int i; short s[3]; } __attribute__((packed));
struct aligned { char c; int i __attribute__((aligned(32))); };
struct inner {
    union { int x; struct { short low, high; }; };
    struct { const volatile char *name; struct { int deep; } deeper[2]; } named;
    callback call;
    void (*callbacks[4])(struct inner *, union number);
    char *restrict const *strings;
    int matrix[2][3][4];
    void *anything;
    char tail[];
};
struct empty {};
struct self_array { struct self_array *other[4]; int (*row)[5]; };

volatile int sink;
int global_counter = 3;
const char *const names[] = {"a", "b"};

__attribute__((noinline)) int shapes_sum(int count, ...)
{
    va_list list;
    int total = 0;
    va_start(list, count);
    while (count--)
        total += va_arg(list, int);
    va_end(list);
    return total;
}
__attribute__((noinline)) word shapes_walk(
    const struct node *node, union number number, struct bits *bits, struct packed *packed)
{
    word sum = 0;
    for (; node; node = node->next)
        sum += node->value + number.i + bits->a + packed->i;
    return sum;
}
__attribute__((noinline)) void shapes_inner(
    struct inner *inner, struct aligned *aligned, struct empty *empty, struct self_array *array)
{
    inner->x = aligned->i + (array->other[0] != 0);
    sink = inner->matrix[1][2][3] + (empty != 0);
}
static inline int half(int value) { return value / 2; }
static __attribute__((noinline)) enum color shapes_static(enum color color, enum sign sign, _Bool flag)
{
    sink += half(color) + flag;
    return sign == MINUS ? RED : color;
}
__attribute__((noinline)) float shapes_floats(float f, double d, long double l) { return f + d + l; }
int shapes_main(int argc, char **argv)
{
    struct node node = {0, argc, 0};
    union number number = {argc};
    struct bits bits = {1};
    struct packed packed = {1};
    (void)argv;
    return shapes_sum(1, 2) + shapes_walk(&node, number, &bits, &packed) + shapes_static(BLUE + argc, PLUS, argc) +
           shapes_floats(1, 2, 3);
}
"""

WIDE = r"""
enum wide { SMALL = 1, HUGE_ONE = 1ULL << 40 };
enum wide_signed { NEGATIVE = -1LL, FAR = 1LL << 50 };
typedef __int128 wide_int;
struct wide_holder { enum wide wide; enum wide_signed sign; wide_int value; unsigned __int128 bits; };
__attribute__((noinline)) enum wide wide_pick(struct wide_holder *holder, enum wide_signed sign)
{
    return sign == FAR ? SMALL : holder->wide;
}
"""

# The two units know different parts of the same types, and have functions of the same name.
FIRST = r"""
struct shared; struct only_declared;
struct owner { struct shared *shared; struct owner *next; struct only_declared *unknown; };
struct first_view { int a; };
static __attribute__((noinline)) int same_static(int a) { return a + 1; }
int shared_value(struct shared *);
__attribute__((noinline)) int first_entry(struct owner *owner, struct first_view *view)
{
    return shared_value(owner->shared) + same_static(view->a);
}
"""
SECOND = r"""
struct owner;
struct shared { int value; struct owner *owner; };
typedef struct shared shared_t;
static __attribute__((noinline)) int same_static(int a) { return a * 3; }
__attribute__((noinline)) int shared_value(shared_t *shared) { return same_static(shared->value); }
struct owner { struct shared *shared; struct owner *next; struct only_declared *unknown; };
__attribute__((noinline)) int second_entry(struct owner *owner) { return owner->next != 0; }
"""

MAIN = r"""
int shapes_main(int, char **);
int main(int argc, char **argv) { return shapes_main(argc, argv); }
"""

ANNOTATED = r"""
#define tagged(x) __attribute__((btf_decl_tag(x)))
#define typed(x) __attribute__((btf_type_tag(x)))
struct tagged_struct { int a tagged("member"); int typed("user") *b; } tagged("whole");
typedef int tagged_type tagged("alias");
int tagged_function(struct tagged_struct *s tagged("parameter"), tagged_type t) tagged("function");
int tagged_function(struct tagged_struct *s, tagged_type t) { return s->a + t; }
"""

ASSEMBLER = r"""
        .text
        .globl asm_function
        .type asm_function, @function
asm_function:
        nop
        .size asm_function, . - asm_function
"""

UNITS = {"shapes": SHAPES, "wide": WIDE, "first": FIRST, "second": SECOND, "main": MAIN}

CPLUSPLUS = r"""
struct cpp_only { int member; virtual ~cpp_only() {} };
namespace hidden { enum class scoped { one, two }; }
extern "C" int cpp_function(cpp_only *object, hidden::scoped which) { return object->member + int(which); }
"""
