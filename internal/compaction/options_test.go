package compaction

import "testing"

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
