package sstable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/words"
)

// Verify reads the whole table from its file, ignoring what is in memory, and checks everything: every checksum, the
// order of versions and of range tombstones, the index against the blocks, the properties against the counts, the
// bounds, that the filters deny no key, and that the sample is one of these keys. It calls each, if not nil, for every
// version in order; range tombstones are not versions. The slices are valid during the call, and an error of each ends
// the check. Damage is an error matching corrupt.Err, also in a filter. Afterwards RangeDels returns the table's range
// tombstones; no part of the index is kept.
func (r *Reader) Verify(ctx context.Context, each func(k ikey.Key, value []byte) error) error {
	v, err := r.readBesideBlocks()
	if err != nil {
		return err
	}
	r.resident.mu.Lock()
	r.keep(v.t, r.seq)
	r.resident.mu.Unlock()
	it := r.Iter(IterOptions{Bypass: true})
	it.t, it.seq = v.t.top, 0 // parts of the index from the file, and its trailers
	for ok := it.First(); ok; ok = it.Next() {
		if it.i == 0 {
			if err := ctx.Err(); err != nil {
				return errors.Join(err, it.Close())
			}
		}
		if err := v.version(it); err != nil {
			return errors.Join(err, it.Close())
		}
		if each == nil {
			continue
		}
		k := it.Key()
		k.Trailer = r.override(k.Trailer)
		if err := each(k, it.Value()); err != nil {
			return errors.Join(err, it.Close())
		}
	}
	if err := it.Close(); err != nil {
		return err
	}
	return v.totals()
}

// VerifySums reads the whole table from its file, as Verify does, and checks every checksum, but decodes no data block.
func (r *Reader) VerifySums(ctx context.Context) error {
	v, err := r.readBesideBlocks()
	if err != nil {
		return err
	}
	blocks := blockSource{r: r, bypass: true, t: v.t.top}
	for at := range v.t.top.blocks {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := blocks.reach(at); err != nil {
			return err
		}
		i := blocks.local(at)
		sealed, err := blocks.sealed(i, true)
		if err != nil {
			return err
		}
		offset := blocks.x.handles[i].offset
		if _, _, err := r.seal.Open(KindData, offset, sealed); err != nil {
			return r.damaged(offset, err)
		}
	}
	return nil
}

// readBesideBlocks reads all of the table but its data blocks.
func (r *Reader) readBesideBlocks() (*verifier, error) {
	_, t, err := r.readTail()
	if err != nil {
		return nil, err
	}
	v := &verifier{f: &r.tableFile, t: t}
	if err := v.readFilters(); err != nil {
		return nil, err
	}
	sample, err := r.readSample(&t.footer)
	if err != nil && !errors.Is(err, bloomblock.ErrUnknownKind) {
		return nil, err
	}
	if v.sample = sample; sample != nil {
		v.sampled = make([]bool, sample.Len())
	}
	return v, nil
}

// readFilters reads both filters whole from the file, and the padding before them.
func (v *verifier) readFilters() (err error) {
	f, t := v.f, v.t
	if t.footer.filterLen == 0 {
		return nil
	}
	end := t.top.end
	if t.footer.inParts() {
		end = t.top.partsEnd()
	}
	pad := make([]byte, t.footer.sampleOff()-end) // at most that of slack
	if err := f.readAt(pad, end); err != nil {
		return err
	}
	if !bytes.Equal(pad, make([]byte, len(pad))) {
		return f.damaged(end, errors.New("padding before the filter is not zero"))
	}
	if v.filter, err = f.readFilter(t.keys()); err != nil || t.props.Prefixes.Bytes == 0 {
		return err
	}
	if v.prefixes, err = f.readFilter(t.anyPrefixes()); err != nil {
		return err
	}
	if v.rule, err = parsePrefixRule(t.props.Prefixes.Rule); err != nil { // of a later version, and so not known
		v.prefixes = nil
	}
	return nil
}

// readFilter reads a whole filter block. It returns nil for a filter of an unknown kind.
func (f *tableFile) readFilter(at filterPlace) (*bloomblock.Filter, error) {
	_, header, err := f.readFilterHeader(at) // before memory is taken for what it claims (I30)
	if errors.Is(err, bloomblock.ErrUnknownKind) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := f.checkUnits(at.size); err != nil {
		return nil, err
	}
	b := append(make([]byte, 0, at.size), header...)[:at.size]
	if err := f.readAt(b[len(header):], at.offset+uint64(len(header))); err != nil {
		return nil, err
	}
	filter, err := bloomblock.Parse(b)
	if err != nil {
		return nil, f.damaged(at.offset, err)
	}
	return &filter, nil
}

// A verifier compares the contents of a table with its properties and filters.
type verifier struct {
	f        *tableFile
	t        *tail              // as the file has it
	filter   *bloomblock.Filter // nil without a filter and for an unknown kind; as prefixes
	prefixes *bloomblock.Filter // by rule
	rule     PrefixRule
	sample   *bloomblock.Sample // nil without a sample and for an unknown version
	seen     Properties
	last     ikey.Key

	sampled []bool // by position in the sample: its key was seen
}

func (v *verifier) version(it *Iter) error {
	k, p := it.Key(), &v.seen
	offset := it.x.handles[it.local(it.at)].offset
	switch kind := k.Trailer.Kind(); kind {
	case ikey.Delete:
		p.Deletes++
	case ikey.Set:
	default:
		return v.f.damaged(offset, fmt.Errorf("%w: %v", errKind, kind))
	}
	if p.Entries == 0 {
		p.Smallest = bytes.Clone(k.User)
	} else if ikey.Compare(v.last, k) >= 0 {
		return v.f.damaged(offset, outOfOrder(v.last, k))
	}
	same := p.Entries > 0 && bytes.Equal(v.last.User, k.User)
	if same && v.f.meta.Seq != 0 {
		return v.f.damaged(offset, fmt.Errorf("%w: two versions of %s in a table where all have one sequence number",
			ErrOrder, words.Quoted(k.User)))
	}
	if it.i == 0 && it.at > 0 && !same {
		if compareJoined(it.x.prefix, it.x.before(it.local(it.at)), k.User) >= 0 {
			return v.f.damaged(offset, fmt.Errorf("first key %s is not after the separator before it",
				words.Quoted(k.User)))
		}
	}
	hash := bloomblock.HashKey(k.User)
	if v.filter != nil && !v.filter.MayContain(hash) {
		return v.f.damaged(v.t.footer.filterOff, fmt.Errorf("the filter denies key %s", words.Quoted(k.User)))
	}
	if v.sample != nil {
		if i, found, taken := v.sample.Find(hash); found {
			v.sampled[i] = true
		} else if taken {
			return v.f.damaged(v.t.footer.sampleOff(), fmt.Errorf("the sample is without key %s", words.Quoted(k.User)))
		}
	}
	if !same {
		p.FilterKeys++
	}
	if prefix := v.rule.Of(k.User); prefix != nil && !bytes.HasPrefix(v.last.User, prefix) {
		if v.prefixes != nil && !v.prefixes.MayContain(bloomblock.HashKey(prefix)) {
			return v.f.damaged(v.t.prefixesOff(), fmt.Errorf("the prefix filter denies %s of key %s",
				words.Quoted(prefix), words.Quoted(k.User)))
		}
		p.Prefixes.Keys++
	}
	v.last = ikey.Key{User: append(v.last.User[:0], k.User...), Trailer: k.Trailer}
	p.see(k.Trailer.Seq(), k.Trailer.Seq())
	p.Entries++
	p.RawKeyBytes += uint64(len(k.User))
	p.RawValueBytes += uint64(len(it.Value()))
	return nil
}

func (v *verifier) totals() error {
	p, want, f := &v.seen, &v.t.props, &v.t.footer
	if i := slices.Index(v.sampled, false); i >= 0 {
		return v.f.damaged(f.sampleOff(), fmt.Errorf("hash %d of the sample is that of no key", i))
	}
	if v.sample != nil && v.sample.Keys() != want.FilterKeys {
		return v.f.damaged(f.sampleOff(), fmt.Errorf("sample of %d keys, want %d", v.sample.Keys(), want.FilterKeys))
	}
	if n, low, high := tombstones(v.t.dels.List()); n > 0 {
		p.see(low, high)
		p.RangeDeletes = n
	}
	p.Largest, p.Blocks, p.BlockSize = v.last.User, uint64(v.t.top.blocks), want.BlockSize //nolint:gosec // a length
	if f.filterLen == 0 || p.FilterKeys != want.FilterKeys {
		// The filter counts consecutive keys of one hash once. That it denies no key was checked for each version.
		p.FilterKeys = min(p.FilterKeys, want.FilterKeys)
	}
	prefixes := p.Prefixes.Keys
	p.Prefixes = want.Prefixes
	if v.rule != (PrefixRule{}) {
		p.Prefixes.Keys = min(prefixes, want.Prefixes.Keys) // as above
	}
	got, say := p.append(nil), want.append(nil)
	if !bytes.Equal(got, say) {
		return v.f.damaged(f.propsOff(), fmt.Errorf("properties differ: got %+v, want %+v", *p, *want))
	}
	if p.Blocks == 0 {
		return nil
	}
	if last := v.t.top.separatorKey(len(v.t.top.parts) - 1); !bytes.Equal(last, p.Largest) {
		return v.f.damaged(f.indexOff, fmt.Errorf("last separator %s, want %s",
			words.Quoted(last), words.Quoted(p.Largest)))
	}
	return nil
}
