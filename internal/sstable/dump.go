package sstable

import (
	"errors"
	"fmt"
	"io"
	"strconv"
)

// Dump writes the table as text: footer, properties, filter, range tombstones, then each data block and, if entries is
// true, each version in it.
func (r *Reader) Dump(w io.Writer, entries bool) error {
	if err := r.Load(0); err != nil {
		return err
	}
	t, fs := r.tail.Load(), r.Keys.State()
	f, p := &t.footer, &t.props
	d := dumper{w: w}
	d.printf("table %016x: %d bytes, version %d\n", f.id, r.meta.Size, f.version)
	d.printf("entries %d (%d deletes), user keys %q … %q, %d range deletes, sequence %d … %d\n",
		p.Entries, p.Deletes, p.Smallest, p.Largest, p.RangeDeletes, p.MinSeq, p.MaxSeq)
	if r.seq != 0 {
		d.printf("sequence of all: %d\n", r.seq)
	}
	d.printf("raw keys %d bytes, raw values %d bytes\n", p.RawKeyBytes, p.RawValueBytes)
	d.printf("data 0: %d bytes in %d blocks, aimed at %d\n", t.top.end, p.Blocks, p.BlockSize)
	d.printf("filter %d: %d bytes, %d keys, %d units, promised rate %.3g\n",
		f.filterOff, t.keysLen(), p.FilterKeys, fs.AllUnits, fs.Rate)
	if fs.Damage != nil {
		d.printf("filter not used: %v\n", fs.Damage)
	}
	if f.sampleLen > 0 {
		d.printf("sample %d: %d bytes\n", f.sampleOff(), f.sampleLen)
	}
	if x := &p.Prefixes; x.Bytes > 0 {
		d.printf("prefix filter %d: %d bytes, %d prefixes by %q\n", t.prefixesOff(), x.Bytes, x.Keys, x.Rule)
	}
	index := "index"
	if f.inParts() {
		index = "top"
		for p := range t.top.parts {
			w := &t.top.parts[p]
			d.printf("part %d of the index at %d: %d bytes, blocks %d … %d, up to %q\n", p, w.offset, w.length,
				w.base, w.base+int(w.blocks)-1, t.top.separatorKey(p))
		}
	}
	d.printf("%s %d: %d bytes, prefix %q\n", index, f.indexOff, f.indexLen, t.top.prefix)
	if f.rangeDelLen > 0 {
		d.printf("range deletes %d: %d bytes, %d fragments\n", f.rangeDelOff(), f.rangeDelLen, len(t.dels.List()))
	}
	d.printf("properties %d: %d bytes\n", f.propsOff(), f.propsLen)
	for _, del := range t.dels.List() {
		end := "the end"
		if del.End != nil {
			end = strconv.Quote(string(del.End))
		}
		d.printf("range delete %q … before %s at %d\n", del.Start, end, del.Seqs)
	}

	it := r.Iter(IterOptions{Bypass: true})
	for ok := it.First(); ok && d.err == nil; ok = it.Next() {
		if it.i == 0 {
			x, i := it.x, it.local(it.at)
			offset, stored, decoded := x.extent(i)
			d.printf("block %d at %d: %d bytes, %d decoded, %d entries, prefix %q, up to %q\n",
				it.at, offset, stored, decoded, it.b.n, it.key[:it.b.prefix], x.separatorKey(i))
		}
		if entries {
			k := it.Key()
			d.printf("  %q@%d:%v %q\n", k.User, k.Trailer.Seq(), k.Trailer.Kind(), it.Value())
		}
	}
	return errors.Join(d.err, it.Close())
}

// A dumper keeps the first error of its writer.
type dumper struct {
	w   io.Writer
	err error
}

func (d *dumper) printf(format string, args ...any) {
	if d.err == nil {
		_, d.err = fmt.Fprintf(d.w, format, args...)
	}
}
