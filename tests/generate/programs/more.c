/* The same names as kinds.c, some of them with other contents. */
#include "shared.h"

struct clash {
	int a;
	struct list *list;
};

struct uses_clash {
	struct clash *clash;
	struct uses_clash *next;
};

struct outer {
	int of_another_kind;
	struct uses_clash *uses;
};

struct uses_clash *first;
struct outer *outers;

int shared(struct list *list)
{
	return list ? first->clash->a : outers->of_another_kind;
}
