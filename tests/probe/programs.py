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
