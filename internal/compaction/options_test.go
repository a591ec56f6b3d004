package compaction

import (
	"testing"

	"github.com/bloomkv/bloomkv/internal/sstable"
)

func TestTheCodecOfALevel(t *testing.T) {
	for c, want := range map[Compression][2]sstable.Codec{
		compressS2: {sstable.S2, sstable.S2}, compressZstdBottom: {sstable.S2, sstable.Zstd},
		compressNone: {sstable.None, sstable.None},
	} {
		o := Options{Compression: c}
		if got := [2]sstable.Codec{o.Codec(last - 1), o.Codec(last)}; got != want {
			t.Errorf("compression %d: %v above the last level and in it, want %v", c, got, want)
		}
	}
}

func TestOptionsOfTablesHaveBounds(t *testing.T) {
	for _, c := range []struct {
		change func(o *Options)
		ok     bool
	}{
		{func(*Options) {}, true},
		{func(o *Options) { o.BlockSize = 256 }, true},
		{func(o *Options) { o.BlockSize = 255 }, false},
		{func(o *Options) { o.BlockSize = 1 << 20 }, true},
		{func(o *Options) { o.BlockSize = 1<<20 + 1 }, false},
		{func(o *Options) { o.TableSize = 16 << 10 }, true},
		{func(o *Options) { o.TableSize = 16<<10 - 1 }, false},
		{func(o *Options) { o.TableSize = 1 << 30 }, true},
		{func(o *Options) { o.TableSize = 1<<30 + 1 }, false},
		{func(o *Options) { o.Compression = compressNone }, true},
		{func(o *Options) { o.Compression = compressNone + 1 }, false},
	} {
		o := Options{}.WithDefaults()
		c.change(&o)
		if err := o.Check(); (err == nil) != c.ok {
			t.Errorf("%+v: %v, want that they are valid: %v", o, err, c.ok)
		}
	}
}
