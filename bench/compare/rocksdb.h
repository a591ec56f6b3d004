#ifndef BLOOMKV_ROCKSDB_H
#define BLOOMKV_ROCKSDB_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <rocksdb/c.h>

#include <built.h>

// Each function replaces several calls from Go, because a call from Go into C costs some tens of nanoseconds: a lookup,
// a batch, a short scan or a part of a long one is one call. No function keeps memory of Go.

static void kv_nothing(void) {}

typedef struct {
	char *err;
	int found;                      // 0 or 1
	rocksdb_pinnableslice_t *slice; // NULL if the value was copied
	const char *value;
	size_t size;
} kv_value;

// kv_get copies the value to dst if it fits. If not, the caller copies and destroys the slice.
static kv_value kv_get(rocksdb_t *db, const rocksdb_readoptions_t *o, const char *key, size_t key_size,
	char *dst, size_t room)
{
	kv_value v = {0};
	v.slice = rocksdb_get_pinned(db, o, key, key_size, &v.err);
	if (v.slice == NULL)
		return v;
	v.found = 1;
	v.value = rocksdb_pinnableslice_value(v.slice, &v.size);
	if (v.size <= room) {
		if (v.size > 0)
			memcpy(dst, v.value, v.size);
		rocksdb_pinnableslice_destroy(v.slice);
		v.slice = NULL;
		v.value = NULL;
	}
	return v;
}

static char *kv_put(rocksdb_t *db, const rocksdb_writeoptions_t *o, const char *key, size_t key_size,
	const char *value, size_t size)
{
	char *err = NULL;
	rocksdb_put(db, o, key, key_size, value, size, &err);
	return err;
}

// A packed pair is the size of the key and that of the value, four bytes each in the machine's order, and their bytes.
enum { kv_head = 8 };

// kv_apply writes n packed pairs as one batch.
static char *kv_apply(rocksdb_t *db, const rocksdb_writeoptions_t *o, rocksdb_writebatch_t *b,
	const char *packed, size_t n)
{
	char *err = NULL;
	rocksdb_writebatch_clear(b);
	for (; n > 0; n--) {
		uint32_t size[2];
		memcpy(size, packed, kv_head);
		packed += kv_head;
		rocksdb_writebatch_put(b, packed, size[0], packed + size[0], size[1]);
		packed += (size_t)size[0] + size[1];
	}
	rocksdb_write(db, o, b, &err);
	return err;
}

// A part of a scan: packed pairs, and an iterator at the first pair of the next part.
typedef struct {
	char *err;
	rocksdb_iterator_t *it;
	int own;     // 1 if the iterator is the scan's own and destroyed at its end
	int ended;   // 1 if there is no more
	size_t n;    // pairs
	size_t want; // bytes that the next pair takes, if it did not fit
} kv_part;

// kv_scan_on packs pairs from the position of p on, up to limit, into dst.
static kv_part kv_scan_on(kv_part p, char *dst, size_t room, size_t limit)
{
	p.n = p.want = 0;
	while (p.n < limit) {
		if (p.n > 0)
			rocksdb_iter_next(p.it); // not before the next pair is needed
		if (!rocksdb_iter_valid(p.it)) {
			rocksdb_iter_get_error(p.it, &p.err);
			break;
		}
		size_t key_size, value_size;
		const char *key = rocksdb_iter_key(p.it, &key_size);
		const char *value = rocksdb_iter_value(p.it, &value_size);
		size_t whole = kv_head + key_size + value_size;
		if (whole > room) {
			p.want = whole;
			return p;
		}
		uint32_t size[2] = {(uint32_t)key_size, (uint32_t)value_size};
		memcpy(dst, size, kv_head);
		memcpy(dst + kv_head, key, key_size);
		memcpy(dst + kv_head + key_size, value, value_size);
		dst += whole;
		room -= whole;
		p.n++;
	}
	p.ended = 1;
	if (p.own)
		rocksdb_iter_destroy(p.it);
	return p;
}

// kv_scan begins a scan at the first key that is not below from, with the iterator it, or with a new one if it is NULL.
static kv_part kv_scan(rocksdb_t *db, const rocksdb_readoptions_t *o, rocksdb_iterator_t *it,
	const char *from, size_t from_size, char *dst, size_t room, size_t limit)
{
	kv_part p = {0};
	p.own = it == NULL;
	p.it = p.own ? rocksdb_create_iterator(db, o) : it;
	rocksdb_iter_seek(p.it, from, from_size);
	return kv_scan_on(p, dst, room, limit);
}

// The loops below run all operations of a chunk. Keys and values lie end to end in buffers; an end is the offset after a
// key or a value, and the first end is 0. A loop stops before the operation for which a buffer has no room.
typedef struct {
	char *err;
	size_t done;        // operations
	size_t pairs;       // appended
	size_t keys_want;   // bytes of keys that the buffer must hold for the next operation; 0 if it can
	size_t values_want; // the same for values
} kv_loop;

// kv_loop_get looks up the keys from number first to n-1 and appends their values to dst, which holds used bytes.
static kv_loop kv_loop_get(rocksdb_t *db, const rocksdb_readoptions_t *o, const char *keys, const int64_t *ends,
	size_t first, size_t n, char *dst, size_t used, size_t room, int64_t *value_ends, uint8_t *found)
{
	kv_loop l = {0};
	for (size_t i = first; i < n; i++) {
		rocksdb_pinnableslice_t *slice = rocksdb_get_pinned(db, o, keys + ends[i], ends[i + 1] - ends[i], &l.err);
		if (l.err != NULL)
			return l;
		found[i] = slice != NULL;
		if (slice != NULL) {
			size_t size;
			const char *value = rocksdb_pinnableslice_value(slice, &size);
			if (size > room - used) {
				l.values_want = used + size;
				rocksdb_pinnableslice_destroy(slice);
				return l;
			}
			if (size > 0)
				memcpy(dst + used, value, size);
			used += size;
			rocksdb_pinnableslice_destroy(slice);
		}
		value_ends[i] = (int64_t)used;
		l.done++;
	}
	return l;
}

// A buffer of pairs: bytes and ends, how much of them is used, and the room for bytes. The ends always have room.
typedef struct {
	char *keys, *values;
	int64_t *key_ends, *value_ends;
	size_t keys_room, values_room;
	size_t keys_used, values_used, pairs;
} kv_pairs;

// kv_copy appends the pair at the position of an iterator, or reports in l that there is no room for it.
static int kv_copy(rocksdb_iterator_t *it, kv_pairs *p, kv_loop *l)
{
	size_t key_size, value_size;
	const char *key = rocksdb_iter_key(it, &key_size);
	const char *value = rocksdb_iter_value(it, &value_size);
	if (key_size > p->keys_room - p->keys_used || value_size > p->values_room - p->values_used) {
		l->keys_want = p->keys_used + key_size;
		l->values_want = p->values_used + value_size;
		return 0;
	}
	memcpy(p->keys + p->keys_used, key, key_size);
	if (value_size > 0)
		memcpy(p->values + p->values_used, value, value_size);
	p->key_ends[p->pairs] = (int64_t)(p->keys_used += key_size);
	p->value_ends[p->pairs] = (int64_t)(p->values_used += value_size);
	p->pairs++;
	return 1;
}

// kv_loop_seek seeks the keys from number first to n-1 and appends up to limit pairs for each to a buffer. Without an
// iterator it makes one for each key.
static kv_loop kv_loop_seek(rocksdb_t *db, const rocksdb_readoptions_t *o, rocksdb_iterator_t *kept, const char *keys,
	const int64_t *ends, size_t first, size_t n, size_t limit, int64_t *counts, char *to_keys, char *to_values,
	int64_t *key_ends, int64_t *value_ends, size_t keys_room, size_t values_room, size_t keys_used,
	size_t values_used)
{
	kv_loop l = {0};
	kv_pairs p = {to_keys, to_values, key_ends, value_ends, keys_room, values_room, keys_used, values_used, 0};
	for (size_t i = first; i < n && l.err == NULL; i++) {
		kv_pairs before = p;
		rocksdb_iterator_t *it = kept != NULL ? kept : rocksdb_create_iterator(db, o);
		int room = 1;
		rocksdb_iter_seek(it, keys + ends[i], ends[i + 1] - ends[i]);
		for (size_t j = 0; room && j < limit; j++) {
			if (j > 0)
				rocksdb_iter_next(it);
			if (!rocksdb_iter_valid(it)) {
				rocksdb_iter_get_error(it, &l.err);
				break;
			}
			room = kv_copy(it, &p, &l);
		}
		if (kept == NULL)
			rocksdb_iter_destroy(it);
		if (!room) {
			p = before;
			break;
		}
		counts[i] = (int64_t)(p.pairs - before.pairs);
		l.done++;
	}
	l.pairs = p.pairs;
	return l;
}

// kv_loop_scan appends up to n pairs to a buffer, from the position of the iterator on.
static kv_loop kv_loop_scan(rocksdb_iterator_t *it, size_t n, char *to_keys, char *to_values, int64_t *key_ends,
	int64_t *value_ends, size_t keys_room, size_t values_room, size_t keys_used, size_t values_used)
{
	kv_loop l = {0};
	kv_pairs p = {to_keys, to_values, key_ends, value_ends, keys_room, values_room, keys_used, values_used, 0};
	for (; p.pairs < n && rocksdb_iter_valid(it) && kv_copy(it, &p, &l); l.done++)
		rocksdb_iter_next(it);
	rocksdb_iter_get_error(it, &l.err);
	l.pairs = p.pairs;
	return l;
}

// kv_work reads the figures of background work: running flushes and compactions, whether more are due, and failures.
enum { kv_work_figures = 5, kv_failures = 4 };

static int kv_work(rocksdb_t *db, uint64_t *figures)
{
	static const char *const names[kv_work_figures] = {
		"rocksdb.num-running-flushes",
		"rocksdb.num-running-compactions",
		"rocksdb.mem-table-flush-pending",
		"rocksdb.compaction-pending",
		"rocksdb.background-errors",
	};
	for (int i = 0; i < kv_work_figures; i++)
		if (rocksdb_property_int(db, names[i], &figures[i]) != 0)
			return i;
	return kv_work_figures;
}

#endif
