"""C programs that the live tests trace. Each says on stdout what it passed."""

QUEUE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
struct dev { int id; char name[16]; struct dev *next; };
enum color { RED, GREEN = 7, BLUE = -2 };
struct queue { long len; struct dev *dev; unsigned a : 3, b : 5; int c : 7; enum color color; short row[4];
    const char *label; union { int x; unsigned char y[4]; }; struct { long in; } inner; _Bool on; };
volatile long sink;
static inline __attribute__((always_inline)) void push(struct queue *queue, int number, const char *what)
{
    sink += queue->len + number;
    if (what)
        sink += strlen(what);
}
__attribute__((noinline)) void work(struct queue *queue, int number, const char *what) { push(queue, number, what); }
struct dev lo = { 1, "lo", 0 }, eth = { 42, "eth0", &lo };
struct queue full = { 5, &eth, 3, 9, -7, GREEN, { 1, -2, 3, 4 }, "label", { 0x04030201 }, { 77 }, 1 };
struct queue bare = { 6, 0, 1, 2, 3, BLUE, { 0 }, 0, { 0 }, { -1 }, 0 };
int main(int argc, char **argv)
{
    work(&full, argc > 1 ? atoi(argv[1]) : -1, "one");
    work(&bare, 2, 0);
    work(&full, 3, argv[0]);
    puts("done");
    return 0;
}
"""

SERVER = r"""
#include <stdio.h>
#include <pthread.h>
#include <unistd.h>
volatile long sink;
static inline __attribute__((always_inline)) void serve(int who, long number) { sink += who ^ number; }
__attribute__((noinline)) void answer(int who, long number) { serve(who, number); }
static void *work(void *byte)
{
    answer(getpid(), *(char *)byte);
    return 0;
}
int main(void)
{
    char byte = 'r';
    do {
        pthread_t thread;
        if (byte != 'r') {
            pthread_create(&thread, 0, work, &byte);
            pthread_join(thread, 0);
        }
        if (write(1, &byte, 1) != 1)
            break;
    } while (read(0, &byte, 1) == 1);
    return 0;
}
"""
"""Answers each byte on stdin, each in a thread of its own, after saying ``r``: that it is ready. Idle in between."""

LIBRARY = r"""
volatile long sink;
static inline __attribute__((always_inline)) void count(int who, long number) { sink += who ^ number; }
void tally(int who, long number) { count(who, number * 3); }
"""

USER = r"""
#include <stdlib.h>
void tally(int who, long number);
int main(int argc, char **argv)
{
    for (int i = 0; i < atoi(argv[1]); i++)
        tally(atoi(argv[2]), i);
    return 0;
}
"""

BURST = r"""
#include <stdlib.h>
static volatile long sink;
static inline __attribute__((always_inline)) void tick(long number) { sink += number; }
__attribute__((noinline)) void loop(long count) { for (long i = 0; i < count; i++) tick(i); }
int main(int argc, char **argv) { loop(atol(argv[1])); return 0; }
"""

CHAIN = r"""
#include <pthread.h>
#include <unistd.h>
static volatile long sink;
__attribute__((noipa)) void next(long number) { sink += number; }
static void *wait(void *unused) { pause(); return unused; }
static void *run(void *number)
{
    pthread_attr_t detached;
    pthread_t thread;
    next((long)number);
    usleep(2000);
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    pthread_create(&thread, &detached, run, (char *)number + 1);
    return 0;
}
int main(void)
{
    pthread_t thread;
    char byte;
    pthread_create(&thread, 0, wait, 0);
    pthread_create(&thread, 0, run, 0);
    return (int)read(0, &byte, 1);
}
"""

NULL_CHAIN = r"""
struct node { long value; struct node *next; };
volatile long sink;
static inline __attribute__((always_inline)) void visit(struct node *node) { sink += (long)node; }
__attribute__((noinline)) void step(struct node *node) { visit(node); }
struct node last = { 33, 0 }, first = { 0x1122334455667788, &last }, zero = { 0, 0 }, before = { 1, &zero };
int main(void)
{
    step(&first);
    step(&last);
    step(0);
    step((struct node *)16);
    step(&before);
    step(&first);
    return 0;
}
"""

LONG_TEXT = r"""
#include <string.h>
struct long_text { int number; char fill[3000]; char text[4]; };
struct names { char id[4]; char next[8]; char rows[2][4]; char large[523]; char behind[600]; };
volatile long sink;
static inline __attribute__((always_inline)) void look(struct long_text *a, struct long_text *b)
{
    sink += (long)a ^ (long)b;
}
__attribute__((noipa)) void name(struct names *names) { sink += (long)names; }
__attribute__((noipa)) void step(struct long_text *a, struct long_text *b) { look(a, b); }
struct long_text first, second;
struct names names = { "ABCD", "EFGHIJKL", { "mnop", "qrst" }, "", "" };
int main(void)
{
    static const int numbers[] = { 0, 0x7f010101, -1, 5 };
    for (int i = 0; i < 4; i++) {
        first.number = second.number = numbers[i];
        memset(first.fill, i ? 0xff : 0, 2999);
        memset(second.fill, i ? 'x' : 0, 2999);
        step(&first, &second);
    }
    memset(names.large, 'u', sizeof names.large);
    memset(names.behind, 'v', 599);
    name(&names);
    return 0;
}
"""

PAGE_END = r"""
#include <sys/mman.h>
struct node { int value, small; };
volatile long sink;
static inline __attribute__((always_inline)) void visit(struct node *node) { sink += (long)node; }
__attribute__((noipa)) void step(void *node) { visit(node); }
int main(void)
{
    char *page = mmap(0, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *end = page + 4096;
    mprotect(end, 4096, PROT_NONE);
    *(int *)(end - 4) = 9;
    step(end - 4);
    *(int *)(end - 4) = 0;
    step(end - 4);
    step(end - 12);
    *(int *)(end - 4) = -1;
    step(end - 8);
    step(end - 2);
    step(end);
    return 0;
}
"""
