/* A third meaning of struct clash, and a unit that only declares it. */
struct clash {
	long b;
};

struct uses_clash {
	struct clash *clash;
	struct uses_clash *next;
};

struct only_declared {
	struct clash *clash;
};

struct uses_clash *second;
struct only_declared *told;

long look(struct only_declared *declared)
{
	return declared->clash->b + second->clash->b + (told != 0);
}
