package bloomkv_test

import "github.com/bloomkv/bloomkv"

// afterSeq calls f once, when a reader has read the newest sequence for the nth time, counted from 1, and has not used
// it yet. f may read too.
func afterSeq(db *bloomkv.DB, nth int, f func()) {
	calls := 0
	db.Tree().SeqGate = func(read func() uint64) uint64 {
		seq := read()
		if calls++; calls == nth {
			f()
		}
		return seq
	}
}

// beforeSeq calls f once, just before a reader reads the newest sequence for the nth time.
func beforeSeq(db *bloomkv.DB, nth int, f func()) {
	calls := 0
	db.Tree().SeqGate = func(read func() uint64) uint64 {
		if calls++; calls == nth {
			f()
		}
		return read()
	}
}
