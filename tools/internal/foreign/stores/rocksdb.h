#ifndef BLOOMKV_FOREIGN_ROCKSDB_H
#define BLOOMKV_FOREIGN_ROCKSDB_H

#include <stdlib.h>

#include <rocksdb/c.h>

// asked looks a key up and returns 1 if the filter let the lookup through, 0 if it denied the key, and -1 if it was not
// asked. The counters belong to the thread, so all of it is one call.
static int asked(rocksdb_t *db, const rocksdb_readoptions_t *o, const char *key, size_t size, char **err)
{
	rocksdb_perfcontext_t *perf;
	rocksdb_pinnableslice_t *slice;
	int answer = -1;

	rocksdb_set_perf_level(rocksdb_enable_count);
	perf = rocksdb_perfcontext_create();
	rocksdb_perfcontext_reset(perf);
	slice = rocksdb_get_pinned(db, o, key, size, err);
	if (slice != NULL)
		rocksdb_pinnableslice_destroy(slice);
	if (rocksdb_perfcontext_metric(perf, rocksdb_bloom_sst_hit_count) > 0)
		answer = 1;
	else if (rocksdb_perfcontext_metric(perf, rocksdb_bloom_sst_miss_count) > 0)
		answer = 0;
	rocksdb_perfcontext_destroy(perf);
	return answer;
}

#endif
