/* Two small functions that every compiler inlines, called with values that are easy to recognise. */
#include <stdio.h>
#include <stdlib.h>

struct box { long width, height; };

volatile long sum;

static inline long clamp(long value, long low, long high)
{
	return value < low ? low : value > high ? high : value;
}

static inline long area(const struct box *box, int scale)
{
	return clamp(box->width, 0, 100) * clamp(box->height, 0, 100) * scale;
}

__attribute__((noinline)) void paint(struct box *box, int coats)
{
	if (coats < 1)
		return;
	box->width += 7;
	sum += area(box, coats + 2);
}

int main(int argc, char **argv)
{
	struct box box = { argc, 4 };
	int coats = argc > 1 ? atoi(argv[1]) : 5;

	for (int i = 0; i < coats; i++)
		paint(&box, coats);
	printf("%ld\n", sum);
	return 0;
}
