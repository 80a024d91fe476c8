struct outer;
struct list {
	struct list *next, *prev;
};
int shared(struct list *list);
