//go:build leveldb

#include "leveldb.h"

#include <cstring>
#include <memory>
#include <string>

#include <leveldb/db.h>
#include <leveldb/filter_policy.h>

namespace {

// A recorder is LevelDB's Bloom filter, and keeps the last answer.
class recorder : public leveldb::FilterPolicy {
public:
	explicit recorder(int bits) : bloom(leveldb::NewBloomFilterPolicy(bits)) {}

	const char *Name() const override { return bloom->Name(); }

	void CreateFilter(const leveldb::Slice *keys, int n, std::string *dst) const override
	{
		bloom->CreateFilter(keys, n, dst);
	}

	bool KeyMayMatch(const leveldb::Slice &key, const leveldb::Slice &filter) const override
	{
		last = bloom->KeyMayMatch(key, filter);
		return last == 1;
	}

	mutable int last = -1;

private:
	std::unique_ptr<const leveldb::FilterPolicy> bloom;
};

}

struct store {
	explicit store(int bits) : filter(bits) {}

	recorder filter;
	std::unique_ptr<leveldb::DB> db;
};

struct store *store_open(const char *dir, int bits, size_t block, int snappy, char **err)
{
	auto s = std::make_unique<store>(bits);
	leveldb::Options o;
	leveldb::DB *db;

	o.create_if_missing = true;
	o.write_buffer_size = 1 << 30;
	o.max_file_size = 1 << 30;
	o.block_size = block;
	o.compression = snappy ? leveldb::kSnappyCompression : leveldb::kNoCompression;
	o.filter_policy = &s->filter;
	leveldb::Status status = leveldb::DB::Open(o, dir, &db);
	if (!status.ok()) {
		*err = strdup(status.ToString().c_str());
		return nullptr;
	}
	s->db.reset(db);
	return s.release();
}

void store_close(struct store *s)
{
	s->db.reset(); // before the filter
	delete s;
}

int store_put(struct store *s, const char *key, size_t n, const char *value, size_t m)
{
	return s->db->Put(leveldb::WriteOptions(), leveldb::Slice(key, n), leveldb::Slice(value, m)).ok();
}

int store_maybe(struct store *s, const char *key, size_t n)
{
	std::string value;

	s->filter.last = -1;
	s->db->Get(leveldb::ReadOptions(), leveldb::Slice(key, n), &value);
	return s->filter.last;
}
