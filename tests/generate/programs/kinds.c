/* Every kind of type that C has, in one program of two units (with more.c). */
#include "shared.h"

struct bits {
	unsigned int a : 3;
	unsigned int b : 5;
	long long c : 40;
	char d;
	int e : 7;
	unsigned char f : 2, : 4, g : 2;
};

struct __attribute__((packed)) squeezed {
	char a;
	long b;
	int c : 11;
	unsigned long long d : 60;
};

enum signs { MINUS = -1, NIL, PLUS };
enum wide { SMALL = 1, LARGE = 0x123456789aULL };
enum wide_signed { LOW = -0x123456789aLL, HIGH = 1 };
enum tiny { ONE_BYTE = 200 } __attribute__((packed));

typedef int (*callback)(struct outer *, const char *restrict, ...);
typedef struct {
	int x;
	union {
		float f;
		double d;
		struct {
			unsigned char bytes[4];
		};
	};
} unnamed;

struct outer {
	struct list link;
	struct only_declared *opaque;
	union either *other;
	callback call;
	void (*nothing)(void);
	int (*table[3])(int, int);
	unnamed inner;
	enum signs sign;
	enum wide wide;
	enum wide_signed wide_signed;
	enum tiny tiny;
	_Bool flag;
	const volatile int *const volatile register_like;
	int matrix[2][3][4];
	long double precise;
	struct squeezed squeezed;
	struct bits bits;
	char tail[];
};

union either {
	struct outer *up;
	unsigned long word;
};

struct outer *chain;
volatile struct squeezed *volatile where;
unnamed anything;
_Atomic int counter;
int numbers[] = {1, 2, 3};
#ifdef __SIZEOF_INT128__
unsigned __int128 huge;
#endif

static __attribute__((noinline)) int quiet(struct bits *bits, enum tiny tiny)
{
	return bits->a + tiny + counter;
}

static inline __attribute__((always_inline)) int folded_away(const struct outer *outer, int offset)
{
	return outer->matrix[1][2][3] + offset;
}

int variadic(const char *format, ...)
{
	return format[0] + numbers[2];
}

void *nothing_named(void)
{
	struct local {
		int a;
		struct local *next;
	};
	static struct local head;
	return head.next;
}

int main(int argc, char **argv)
{
	struct bits bits = {.a = argc};
	return folded_away(chain, argc) + quiet(&bits, ONE_BYTE) + variadic(argv[0]) + (nothing_named() != 0) + shared(0);
}
