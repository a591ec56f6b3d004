package compaction

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/rangedel"
	"github.com/bloomkv/bloomkv/internal/sstable"
)

// A content holds everything that a reader returns of a table.
type content struct {
	keys   []ikey.Key
	values []string
	dels   rangedel.List
}

// readTable returns the content of a table. It reads each table once, since tables do not change.
func (d *disk) readTable(m *manifest.Table) *content {
	d.t.Helper()
	if c, ok := d.read[m.Number]; ok {
		return c
	}
	c := &content{dels: d.rangeDels(m)}
	it := d.reader(m).Iter(sstable.IterOptions{Bypass: true})
	for ok := it.First(); ok; ok = it.Next() {
		c.keys = append(c.keys, ikey.Key{User: append([]byte{}, it.Key().User...), Trailer: it.Key().Trailer})
		c.values = append(c.values, string(it.Value()))
	}
	must(d.t, errors.Join(it.Err(), it.Close()))
	if d.read == nil {
		d.read = map[uint64]*content{}
	}
	d.read[m.Number] = c
	return c
}

// get returns the newest version of key that a reader at seq sees in the table, which may be a tombstone.
func (c *content) get(key []byte, seq ikey.Seq) (p ikey.Trailer, value string, ok bool) {
	for i, k := range c.keys {
		if bytes.Equal(k.User, key) && k.Trailer.Seq() <= seq {
			return k.Trailer, c.values[i], true
		}
	}
	return 0, "", false
}

const absent = "\x00absent"

// lookup reads as a Get does: run by run, newest first, in the one table whose bounds include the key. The first
// version found is the result, unless a range tombstone of its run is newer. A tombstone over the key ends the
// search, since all versions in older runs are older.
func (d *disk) lookup(v *manifest.Version, key []byte, seq ikey.Seq) string {
	for _, runs := range v.Levels {
		for _, r := range runs {
			tables := r.Touching(manifest.Bounds{Lo: key, Hi: key})
			if len(tables) == 0 {
				continue
			}
			c := d.readTable(tables[0])
			newest := rangedel.NewIndex(c.dels).Covering(key, seq)
			p, value, ok := c.get(key, seq)
			switch {
			case ok && newest <= p.Seq() && p.Kind() == ikey.Set:
				return value
			case ok || newest > 0:
				return absent
			}
		}
	}
	return absent
}

// lookupAll reads as an iterator does: it compares the newest version of all runs with the newest range tombstone.
func (d *disk) lookupAll(v *manifest.Version, key []byte, seq ikey.Seq) string {
	var best ikey.Trailer
	var newest ikey.Seq
	found, result := false, absent
	for _, m := range v.Tables() {
		if bytes.Compare(m.Smallest, key) > 0 || m.EndsBefore(key) {
			continue
		}
		c := d.readTable(m)
		newest = max(newest, rangedel.NewIndex(c.dels).Covering(key, seq))
		if p, value, ok := c.get(key, seq); ok && (!found || p > best) {
			found, best, result = true, p, value
		}
	}
	if !found || best.Kind() == ikey.Delete || newest > best.Seq() {
		return absent
	}
	return result
}

// checkTables compares every table of a version with its description in the manifest.
func (d *disk) checkTables(v *manifest.Version) error {
	if err := v.Check(); err != nil {
		return err
	}
	for level, m := range v.Tables() {
		c := d.readTable(m)
		var deletes, dels uint64
		low, high, versions := ikey.MaxSeq, ikey.Seq(0), false
		see := func(seq ikey.Seq) { low, high = min(low, seq), max(high, seq) }
		var span manifest.Bounds
		for i, k := range c.keys {
			if k.Trailer.Kind() == ikey.Delete {
				deletes++
			}
			see(k.Trailer.Seq())
			versions = versions || i > 0 && bytes.Equal(c.keys[i-1].User, k.User)
			b := manifest.Bounds{Lo: k.User, Hi: k.User}
			if i > 0 {
				b = b.Union(span)
			}
			span = b
		}
		for i, f := range c.dels {
			dels += uint64(len(f.Seqs))
			see(f.Seqs[0])
			see(f.Seqs[len(f.Seqs)-1])
			b := manifest.Bounds{Lo: f.Start, Hi: f.End, Exclusive: true}
			if i+len(c.keys) > 0 {
				b = b.Union(span)
			}
			span = b
		}
		if m.Flags&manifest.SeqOverridden != 0 {
			low, high = m.MinSeq, m.MaxSeq
		}
		if uint64(len(c.keys)) != m.Entries || deletes != m.Deletes || dels != m.RangeDeletes ||
			low != m.MinSeq || high != m.MaxSeq ||
			span.String() != m.Bounds().String() || versions != (m.Flags&manifest.Superseded != 0) {
			return fmt.Errorf("level %d: %v holds %d versions, %d and %d tombstones, sequences %d..%d in %v, "+
				"several versions of a key: %v", level, m, len(c.keys), deletes, dels, low, high, span, versions)
		}
	}
	return nil
}

func TestTheTwoWaysToRead(t *testing.T) {
	d := newDisk(t)
	v := d.level(&manifest.Version{}, 6, 10, "a@1=a b@2=b c@3=c d@4=d")
	v = d.level(v, 0, 11, "a~c@7 c@8- d@9=new")
	for _, c := range []struct {
		key  string
		seq  ikey.Seq
		want string
	}{
		{"a", 6, "a"},
		{"a", 7, absent},
		{"b", 1, absent},
		{"b", 2, "b"},
		{"c", 7, "c"},
		{"c", 8, absent},
		{"d", 8, "d"},
		{"d", 9, "new"},
		{"e", 9, absent},
	} {
		got, all := d.lookup(v, []byte(c.key), c.seq), d.lookupAll(v, []byte(c.key), c.seq)
		if got != c.want || all != c.want {
			t.Errorf("%s@%d is %q and %q, want %q", c.key, c.seq, got, all, c.want)
		}
	}
}
