package sstable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/ikey"
)

// Verify reads the whole table and checks all there is to check: every checksum, the order of versions, the index against
// the blocks, the properties against what was counted, the bounds, and that the filter says maybe for each key. Each, if not
// nil, is called for every version in order and ends the check with its error; the slices are valid during the call. Damage,
// also of the filter, is an error that Is corrupt.Err.
func (r *Reader) Verify(ctx context.Context, each func(k ikey.Key, value []byte) error) error {
	x, err := r.touchIndex(new(Stats))
	if err != nil {
		return err
	}
	t := r.tail.Load()
	filter, err := r.readFilter(&t.footer, x)
	if err != nil {
		return err
	}
	v := verifier{r: r, x: x, filter: filter, each: each}
	it := r.Iter(IterOptions{Bypass: true})
	it.x = x
	for ok := it.First(); ok; ok = it.Next() {
		if it.i == 0 {
			if err := ctx.Err(); err != nil {
				return errors.Join(err, it.Close())
			}
		}
		if err := v.version(it); err != nil {
			return errors.Join(err, it.Close())
		}
	}
	if err := it.Close(); err != nil {
		return err
	}
	return v.totals(t)
}

// readFilter reads the filter from the file whole, with the padding before it. It is nil if there is none, or one of a kind
// unknown.
func (r *Reader) readFilter(f *footer, x *index) (*bloomblock.Filter, error) {
	if f.filterLen == 0 {
		return nil, nil
	}
	n := f.indexOff - x.end
	if n > math.MaxInt/2 {
		return nil, fmt.Errorf("%s: %w: filter of %d bytes", r.meta.Name, ErrSize, f.filterLen)
	}
	b := make([]byte, n)
	if err := r.readAt(b, x.end); err != nil {
		return nil, err
	}
	pad := f.filterOff - x.end
	for _, c := range b[:pad] {
		if c != 0 {
			return nil, r.damaged(x.end, errors.New("padding before the filter is not zero"))
		}
	}
	b = b[pad:]
	h, err := bloomblock.ParseHeader(b)
	if errors.Is(err, bloomblock.ErrUnknownKind) {
		return nil, nil
	}
	if err != nil {
		return nil, r.damaged(f.filterOff, err)
	}
	if sum := r.seal.filterSum(f.filterOff, b); sum != f.filterSum {
		return nil, r.damaged(f.filterOff, fmt.Errorf("filter header: %w: got %08x, want %08x", errChecksum, sum, f.filterSum))
	}
	if keys := r.tail.Load().props.FilterKeys; h.Keys != keys {
		return nil, r.damaged(f.filterOff, fmt.Errorf("filter of %d keys, want %d", h.Keys, keys))
	}
	filter, err := bloomblock.Parse(b)
	if err != nil {
		return nil, r.damaged(f.filterOff, err)
	}
	return &filter, nil
}

// A verifier compares what it sees with what the table says.
type verifier struct {
	r      *Reader
	x      *index
	filter *bloomblock.Filter
	each   func(ikey.Key, []byte) error
	seen   Properties
	last   ikey.Key
}

func (v *verifier) version(it *Iter) error {
	k, p := it.Key(), &v.seen
	offset := v.x.handles[it.at].offset
	switch kind := k.Trailer.Kind(); kind {
	case ikey.Delete:
		p.Deletes++
	case ikey.Set:
	default:
		return v.r.damaged(offset, fmt.Errorf("%w: %v", ErrKind, kind))
	}
	if p.Entries == 0 {
		p.Smallest, p.MinSeq = bytes.Clone(k.User), k.Trailer.Seq()
	} else if ikey.Compare(v.last, k) >= 0 {
		return v.r.damaged(offset, fmt.Errorf("%w: %q@%d after %q@%d", ErrOrder,
			k.User, k.Trailer.Seq(), v.last.User, v.last.Trailer.Seq()))
	}
	if it.i == 0 && it.at > 0 && v.separator(it.at-1, k.User) >= 0 && !bytes.Equal(v.last.User, k.User) {
		return v.r.damaged(offset, fmt.Errorf("first key %q is not behind the separator before it", k.User))
	}
	if it.i == it.b.n-1 && v.separator(it.at, k.User) < 0 {
		return v.r.damaged(offset, fmt.Errorf("last key %q is behind its separator", k.User))
	}
	if v.filter != nil && !v.filter.MayContain(bloomblock.HashKey(k.User)) {
		return v.r.damaged(v.r.tail.Load().footer.filterOff, fmt.Errorf("the filter denies key %q", k.User))
	}
	if p.Entries == 0 || !bytes.Equal(v.last.User, k.User) {
		p.FilterKeys++
	}
	v.last = ikey.Key{User: append(v.last.User[:0], k.User...), Trailer: k.Trailer}
	p.Entries++
	p.RawKeyBytes += uint64(len(k.User))
	p.RawValueBytes += uint64(len(it.Value()))
	p.MinSeq, p.MaxSeq = min(p.MinSeq, k.Trailer.Seq()), max(p.MaxSeq, k.Trailer.Seq())
	if v.each != nil {
		return v.each(k, it.Value())
	}
	return nil
}

// separator compares separator i with key.
func (v *verifier) separator(i int, key []byte) int {
	p := v.x.prefix
	n := min(len(p), len(key))
	if c := bytes.Compare(p[:n], key[:n]); c != 0 {
		return c
	}
	if n < len(p) {
		return 1
	}
	return bytes.Compare(v.x.sep(i), key[n:])
}

func (v *verifier) totals(t *tail) error {
	p, want := &v.seen, &t.props
	p.Largest, p.Blocks, p.BlockSize = v.last.User, uint64(v.x.blocks()), want.BlockSize //nolint:gosec // a length
	if t.footer.filterLen == 0 || p.FilterKeys != want.FilterKeys {
		// Consecutive keys of one hash count once; that the filter denies none of them has been seen.
		p.FilterKeys = min(p.FilterKeys, want.FilterKeys)
	}
	got, say := p.append(nil), want.append(nil)
	if !bytes.Equal(got, say) {
		return v.r.damaged(t.footer.indexOff+t.footer.indexLen+trailerSize,
			fmt.Errorf("properties differ: got %+v, want %+v", *p, *want))
	}
	if !bytes.Equal(v.lastSeparator(), p.Largest) {
		return v.r.damaged(t.footer.indexOff, fmt.Errorf("last separator %q, want %q", v.lastSeparator(), p.Largest))
	}
	return nil
}

func (v *verifier) lastSeparator() []byte {
	return append(bytes.Clone(v.x.prefix), v.x.sep(v.x.blocks()-1)...)
}

// Dump writes the table as text: footer, properties, filter, then each data block and, with entries, each version in it.
func (r *Reader) Dump(w io.Writer, entries bool) error {
	x, err := r.touchIndex(new(Stats))
	if err != nil {
		return err
	}
	if err := r.Load(0); err != nil {
		return err
	}
	t, fs := r.tail.Load(), r.FilterState()
	f, p := &t.footer, &t.props
	d := dumper{w: w}
	d.printf("table %016x: %d bytes, version %d\n", f.id, r.meta.Size, version)
	d.printf("entries %d (%d deletes), user keys %q … %q, sequence %d … %d\n",
		p.Entries, p.Deletes, p.Smallest, p.Largest, p.MinSeq, p.MaxSeq)
	d.printf("raw keys %d bytes, raw values %d bytes\n", p.RawKeyBytes, p.RawValueBytes)
	d.printf("data 0: %d bytes in %d blocks, aimed at %d\n", x.end, p.Blocks, p.BlockSize)
	d.printf("filter %d: %d bytes, %d keys, %d units, promised rate %.3g\n",
		f.filterOff, f.filterLen, p.FilterKeys, fs.AllUnits, fs.Rate)
	if fs.Damage != nil {
		d.printf("filter not used: %v\n", fs.Damage)
	}
	d.printf("index %d: %d bytes, prefix %q\n", f.indexOff, f.indexLen, x.prefix)
	d.printf("properties %d: %d bytes\n", f.indexOff+f.indexLen+trailerSize, f.propsLen)

	it := r.Iter(IterOptions{Bypass: true})
	it.x = x
	for ok := it.First(); ok && d.err == nil; ok = it.Next() {
		if it.i == 0 {
			offset, stored, decoded := x.extent(it.at)
			d.printf("block %d at %d: %d bytes, %d decoded, %d entries, prefix %q, up to %q\n", it.at, offset, stored, decoded,
				it.b.n, it.key[:it.b.prefix], append(bytes.Clone(x.prefix), x.sep(it.at)...))
		}
		if entries {
			k := it.Key()
			d.printf("  %q@%d:%v %q\n", k.User, k.Trailer.Seq(), k.Trailer.Kind(), it.Value())
		}
	}
	return errors.Join(d.err, it.Close())
}

// A dumper remembers the first error of its writer.
type dumper struct {
	w   io.Writer
	err error
}

func (d *dumper) printf(format string, args ...any) {
	if d.err == nil {
		_, d.err = fmt.Fprintf(d.w, format, args...)
	}
}
