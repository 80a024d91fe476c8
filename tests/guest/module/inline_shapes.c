// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Inlined functions with parameters of every shape, called on demand with known values.
 *
 *   echo "take_s16 -5" > /sys/kernel/debug/inline_shapes/call
 *   cat /sys/kernel/debug/inline_shapes/log       -> "take_s16 value=-5"
 *   echo > /sys/kernel/debug/inline_shapes/log    empties it
 *
 * A line "NAME ARGUMENT..." calls call_NAME(), which logs the values and then passes them to the inlined NAME().
 * Arguments are numbers (any base of C) or, where a string is wanted, text without spaces. Logged: integers in decimal,
 * pointers in hexadecimal, strings in quotes, members of structures as "name.member=value". One log line is one entry of
 * one inlined function.
 */
#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/types.h>
#include <linux/uaccess.h>

#define MAX_ARGUMENTS 12
#define LOG_SIZE 65536

enum shade { SHADE_NONE, SHADE_LIGHT, SHADE_DARK = 7, SHADE_BLACK = 1000 };
enum temperature { FROST = -40, THAW = 0, HEAT = 35 };

struct one_register {
	u32 id;
	u16 kind;
	s16 delta;
};

struct two_registers {
	u64 first;
	s64 second;
};

struct on_stack {
	u64 words[6];
};

struct record {
	u64 before;
	s32 number;
	u16 flags;
	const char *label;
};

struct arguments {
	s64 number[MAX_ARGUMENTS];
	const char *text[MAX_ARGUMENTS];
	int count;
};

static DEFINE_MUTEX(lock);
static char *log_text;
static size_t log_length;

static int global_counter = 17;
static volatile u64 sink;

static __printf(1, 2) void note(const char *format, ...)
{
	va_list values;

	va_start(values, format);
	log_length += vscnprintf(log_text + log_length, LOG_SIZE - log_length, format, values);
	va_end(values);
}

/* Opaque to the optimiser: what goes in must have been computed, what comes out is unknown. */
static noinline u64 opaque(u64 value)
{
	sink = value;
	barrier();
	return sink;
}

/* Integers of each size. */

#define TAKE_INTEGER(name, type, format)                                  \
	static __always_inline void take_##name(type value)               \
	{                                                                 \
		if (opaque((u64)value) == 0x5a5a)                         \
			opaque((u64)value + 1);                           \
		sink = (u64)value;                                        \
	}                                                                 \
	static noinline void call_take_##name(const struct arguments *a)  \
	{                                                                 \
		type value = (type)a->number[0];                          \
									  \
		note("take_" #name " value=" format "\n", value);         \
		take_##name(value);                                       \
	}

TAKE_INTEGER(s8, s8, "%hhd")
TAKE_INTEGER(u8, u8, "%hhu")
TAKE_INTEGER(s16, s16, "%hd")
TAKE_INTEGER(u16, u16, "%hu")
TAKE_INTEGER(s32, s32, "%d")
TAKE_INTEGER(u32, u32, "%u")
TAKE_INTEGER(s64, s64, "%lld")
TAKE_INTEGER(u64, u64, "%llu")
TAKE_INTEGER(bool, bool, "%d")
TAKE_INTEGER(enum, enum shade, "%u")
TAKE_INTEGER(signed_enum, enum temperature, "%d")

static __always_inline void take_u128(unsigned __int128 value)
{
	opaque((u64)(value >> 64));
	opaque((u64)value);
}

static noinline void call_take_u128(const struct arguments *a)
{
	u64 high = opaque(a->number[0]), low = opaque(a->number[1]);

	note("take_u128 value.high=%llu value.low=%llu\n", high, low);
	take_u128((unsigned __int128)high << 64 | low);
}

/* Pointers and strings. */

static __always_inline void take_pointer(const struct record *record)
{
	opaque(record->number);
	opaque(record->flags);
}

static noinline void call_take_pointer(const struct arguments *a)
{
	struct record *record = kzalloc(sizeof(*record), GFP_KERNEL);

	if (!record)
		return;
	record->number = a->number[0];
	record->flags = a->number[1];
	note("take_pointer record=0x%llx record.number=%d record.flags=%u\n", (u64)record, record->number, record->flags);
	take_pointer(record);
	kfree(record);
}

static __always_inline void take_string(const char *text, size_t length)
{
	opaque(text[0]);
	opaque((u64)text + length);
}

static noinline void call_take_string(const struct arguments *a)
{
	const char *text = a->text[0];
	size_t length = strlen(text);

	note("take_string text=\"%s\" length=%zu\n", text, length);
	take_string(text, length);
}

static __always_inline void take_null(const void *nothing, int number)
{
	opaque((u64)nothing);
	opaque(number);
}

static noinline void call_take_null(const struct arguments *a)
{
	int number = a->number[0];

	note("take_null nothing=0x0 number=%d\n", number);
	take_null(NULL, number);
}

static __always_inline void take_function(u64 (*function)(u64), u64 value)
{
	opaque(value);
	opaque((u64)function);
}

static noinline void call_take_function(const struct arguments *a)
{
	u64 value = a->number[0];

	note("take_function function=0x%llx value=%llu\n", (u64)opaque, value);
	take_function(opaque, value);
}

/* Structures by value. */

static __always_inline void take_one_register(struct one_register value)
{
	opaque(value.id);
	opaque(value.kind);
	opaque(value.delta);
}

static noinline void call_take_one_register(const struct arguments *a)
{
	struct one_register value = { a->number[0], a->number[1], a->number[2] };

	note("take_one_register value.id=%u value.kind=%u value.delta=%d\n", value.id, value.kind, value.delta);
	take_one_register(value);
}

static __always_inline void take_two_registers(struct two_registers value)
{
	opaque(value.first);
	opaque(value.second);
}

static noinline void call_take_two_registers(const struct arguments *a)
{
	struct two_registers value = { a->number[0], a->number[1] };

	note("take_two_registers value.first=%llu value.second=%lld\n", value.first, value.second);
	take_two_registers(value);
}

static __always_inline void take_on_stack(struct on_stack value)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(value.words); i++)
		opaque(value.words[i]);
	opaque((u64)&value);
}

static noinline void call_take_on_stack(const struct arguments *a)
{
	struct on_stack value;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(value.words); i++)
		value.words[i] = a->number[i];
	opaque((u64)&value);
	note("take_on_stack value.words=%llu,%llu,%llu,%llu,%llu,%llu\n", value.words[0], value.words[1],
	     value.words[2], value.words[3], value.words[4], value.words[5]);
	take_on_stack(value);
}

/* What the compiler knows, and what it computes. */

static __always_inline void take_constant(int first, long second, unsigned char third)
{
	opaque(first);
	opaque(second);
	opaque(third);
}

static noinline void call_take_constant(const struct arguments *a)
{
	note("take_constant first=42 second=-7 third=255\n");
	take_constant(42, -7, 255);
}

static __always_inline void take_constant_and_register(int constant, u64 value)
{
	opaque(value);
	opaque(constant);
}

static noinline void call_take_constant_and_register(const struct arguments *a)
{
	u64 value = a->number[0];

	note("take_constant_and_register constant=3 value=%llu\n", value);
	take_constant_and_register(3, value);
}

static __always_inline void take_sum(u64 sum)
{
	opaque(sink);
	opaque(sum);
}

static noinline void call_take_sum(const struct arguments *a)
{
	u64 value = opaque(a->number[0]);

	note("take_sum sum=%llu\n", value + 300);
	take_sum(value + 300);
	opaque(value);
}

static __always_inline void take_masked(unsigned int bits)
{
	opaque(sink);
	opaque(bits);
}

static noinline void call_take_masked(const struct arguments *a)
{
	u32 value = opaque(a->number[0]);

	note("take_masked bits=%u\n", value & 7);
	take_masked(value & 7);
	opaque(value);
}

static __always_inline void take_member(s32 number, const char *label)
{
	opaque(sink);
	opaque(number);
	opaque((u64)label);
}

static noinline void call_take_member(const struct arguments *a)
{
	struct record *record = kzalloc(sizeof(*record), GFP_KERNEL);

	if (!record)
		return;
	record->number = a->number[0];
	record->label = a->text[1];
	opaque((u64)record);
	note("take_member number=%d label=\"%s\"\n", record->number, record->label);
	take_member(record->number, record->label);
	kfree(record);
}

static __always_inline void take_global(int *counter)
{
	*counter += 1;
	opaque((u64)counter);
}

static noinline void call_take_global(const struct arguments *a)
{
	note("take_global counter=0x%llx\n", (u64)&global_counter);
	take_global(&global_counter);
}

static __always_inline void take_literal(const char *text)
{
	opaque((u64)text);
}

static noinline void call_take_literal(const struct arguments *a)
{
	note("take_literal text=\"inline\"\n");
	take_literal("inline");
}

/* The stack. */

static __always_inline void take_local(u64 *local)
{
	*local += 1;
	opaque((u64)local);
}

static noinline void call_take_local(const struct arguments *a)
{
	u64 local = a->number[0];

	opaque((u64)&local);
	note("take_local local=0x%llx *local=%llu\n", (u64)&local, local);
	take_local(&local);
}

static __always_inline void take_many(u64 a, u64 b, u64 c, u64 d, u64 e, u64 f, u64 g, u64 h, u64 i, u64 j)
{
	opaque(a);
	opaque(b);
	opaque(c);
	opaque(d);
	opaque(e);
	opaque(f);
	opaque(g);
	opaque(h);
	opaque(i);
	opaque(j);
	opaque(a + b + c + d + e + f + g + h + i + j);
}

static noinline void call_take_many(const struct arguments *n)
{
	u64 a = opaque(n->number[0]), b = opaque(n->number[1]), c = opaque(n->number[2]), d = opaque(n->number[3]);
	u64 e = opaque(n->number[4]), f = opaque(n->number[5]), g = opaque(n->number[6]), h = opaque(n->number[7]);
	u64 i = opaque(n->number[8]), j = opaque(n->number[9]);

	note("take_many a=%llu b=%llu c=%llu d=%llu e=%llu f=%llu g=%llu h=%llu i=%llu j=%llu\n", a, b, c, d, e, f, g, h,
	     i, j);
	take_many(a, b, c, d, e, f, g, h, i, j);
}

/* Sites in special places. */

static __always_inline u64 nest_four(u64 innermost)
{
	return opaque(innermost);
}

static __always_inline u64 nest_three(u64 third)
{
	return opaque(third) + nest_four(third ^ 5);
}

static __always_inline u64 nest_two(u64 second)
{
	return opaque(second) + nest_three(second * 2);
}

static __always_inline u64 nest_one(u64 first)
{
	return opaque(first) + nest_two(first + 1);
}

static noinline void call_nest(const struct arguments *a)
{
	u64 first = a->number[0];

	note("nest_one first=%llu\n", first);
	note("nest_two second=%llu\n", first + 1);
	note("nest_three third=%llu\n", (first + 1) * 2);
	note("nest_four innermost=%llu\n", ((first + 1) * 2) ^ 5);
	opaque(nest_one(first));
}

static __always_inline u64 same_inner(u64 inner)
{
	return opaque(inner);
}

static __always_inline u64 same_outer(u64 outer)
{
	return same_inner(outer);
}

static noinline void call_same(const struct arguments *a)
{
	u64 value = a->number[0];

	note("same_outer outer=%llu\nsame_inner inner=%llu\n", value, value);
	opaque(same_outer(value));
}

static __always_inline u64 take_reassigned(u64 value)
{
	value = value * 3 + 1;
	opaque(value);
	value ^= 0xff;
	return opaque(value);
}

static noinline void call_take_reassigned(const struct arguments *a)
{
	u64 value = a->number[0];

	note("take_reassigned value=%llu\n", value);
	opaque(take_reassigned(value));
}

static __always_inline u64 take_unused(u64 used, u64 unused)
{
	return opaque(used);
}

static noinline void call_take_unused(const struct arguments *a)
{
	u64 used = a->number[0];

	note("take_unused used=%llu unused=%lld\n", used, a->number[1]);
	opaque(take_unused(used, a->number[1]));
}

static __always_inline void take_in_loop(u64 round, u64 value)
{
	opaque(round);
	opaque(value);
}

static noinline void call_take_in_loop(const struct arguments *a)
{
	u64 rounds = a->number[0], value = a->number[1], round;

	for (round = 0; round < rounds; round++) {
		note("take_in_loop round=%llu value=%llu\n", round, value);
		take_in_loop(round, value);
	}
}

/* Two sites in one function. */

static __always_inline void take_twice(u64 value)
{
	opaque(value);
	opaque(value + 2);
}

static noinline void call_take_twice(const struct arguments *a)
{
	u64 first = a->number[0], second = a->number[1];

	note("take_twice value=%llu\n", first);
	take_twice(first);
	note("take_twice value=%llu\n", second);
	take_twice(second);
}

/* Inlined here, called there. */

static inline u64 take_either(u64 value)
{
	return opaque(value);
}

static u64 (*volatile take_either_pointer)(u64) = take_either;

static noinline void call_take_either(const struct arguments *a)
{
	u64 value = a->number[0];

	note("take_either value=%llu\n", value);
	opaque(take_either(value));
	note("take_either value=%llu\n", value + 1);
	opaque(take_either_pointer(value + 1));
}

static const struct {
	const char *name;
	void (*call)(const struct arguments *a);
} shapes[] = {
#define SHAPE(name) { #name, call_##name }
	SHAPE(take_s8), SHAPE(take_u8), SHAPE(take_s16), SHAPE(take_u16),
	SHAPE(take_s32), SHAPE(take_u32), SHAPE(take_s64), SHAPE(take_u64),
	SHAPE(take_bool), SHAPE(take_enum), SHAPE(take_signed_enum), SHAPE(take_u128),
	SHAPE(take_pointer), SHAPE(take_string), SHAPE(take_null), SHAPE(take_function),
	SHAPE(take_one_register), SHAPE(take_two_registers), SHAPE(take_on_stack),
	SHAPE(take_constant), SHAPE(take_constant_and_register), SHAPE(take_sum), SHAPE(take_masked),
	SHAPE(take_member), SHAPE(take_global), SHAPE(take_literal), SHAPE(take_local), SHAPE(take_many),
	SHAPE(nest), SHAPE(same), SHAPE(take_reassigned), SHAPE(take_unused), SHAPE(take_in_loop),
	SHAPE(take_twice), SHAPE(take_either),
};

static int call_shape(char *line)
{
	struct arguments a = {};
	const char *name = strsep(&line, " ");
	char *word;
	unsigned int i;

	for (i = 0; i < MAX_ARGUMENTS; i++)
		a.text[i] = "";
	while ((word = strsep(&line, " ")) != NULL && a.count < MAX_ARGUMENTS) {
		u64 number = 0;

		if (kstrtoll(word, 0, &a.number[a.count]) && !kstrtoull(word, 0, &number))
			a.number[a.count] = number;
		a.text[a.count++] = word;
	}
	for (i = 0; i < ARRAY_SIZE(shapes); i++) {
		if (!strcmp(shapes[i].name, name)) {
			shapes[i].call(&a);
			return 0;
		}
	}
	return -ENOENT;
}

static ssize_t call_write(struct file *file, const char __user *data, size_t size, loff_t *position)
{
	char *line;
	int result;

	if (size >= 1024)
		return -E2BIG;
	line = memdup_user_nul(data, size);
	if (IS_ERR(line))
		return PTR_ERR(line);
	mutex_lock(&lock);
	result = call_shape(strim(line));
	mutex_unlock(&lock);
	kfree(line);
	return result ?: size;
}

static const struct file_operations call_operations = {
	.owner = THIS_MODULE,
	.write = call_write,
};

static int log_show(struct seq_file *output, void *unused)
{
	mutex_lock(&lock);
	seq_write(output, log_text, log_length);
	mutex_unlock(&lock);
	return 0;
}

static int log_open(struct inode *inode, struct file *file)
{
	return single_open_size(file, log_show, NULL, LOG_SIZE);
}

static ssize_t log_write(struct file *file, const char __user *data, size_t size, loff_t *position)
{
	mutex_lock(&lock);
	log_length = 0;
	mutex_unlock(&lock);
	return size;
}

static const struct file_operations log_operations = {
	.owner = THIS_MODULE,
	.open = log_open,
	.read = seq_read,
	.write = log_write,
	.llseek = seq_lseek,
	.release = single_release,
};

static struct dentry *directory;

static int __init inline_shapes_init(void)
{
	log_text = kvzalloc(LOG_SIZE, GFP_KERNEL);
	if (!log_text)
		return -ENOMEM;
	directory = debugfs_create_dir("inline_shapes", NULL);
	debugfs_create_file("call", 0200, directory, NULL, &call_operations);
	debugfs_create_file("log", 0600, directory, NULL, &log_operations);
	return 0;
}

static void __exit inline_shapes_exit(void)
{
	debugfs_remove(directory);
	kvfree(log_text);
}

module_init(inline_shapes_init);
module_exit(inline_shapes_exit);
MODULE_DESCRIPTION("Inlined functions with parameters of every shape");
MODULE_LICENSE("Dual BSD/GPL");
