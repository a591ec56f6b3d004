package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/internal/filterexam"
)

// A Verify is the result of rebuilding a filter of a table from its keys.
type Verify struct {
	OK       bool   `json:"ok"`               // every bit is right, and no key is denied
	Cannot   string `json:"cannot,omitempty"` // why it was not rebuilt; then everything else is 0
	Recorded uint64 `json:"keys_recorded"`    // in the filter's header
	// versions whose keys or prefixes the filter denies, so that lookups or scans miss them
	Denied uint64 `json:"keys_denied"`
	filterexam.Difference
}

// A verifier rebuilds one filter.
type verifier struct {
	Verify

	name   string // of the table
	of     string // "table's keys" or their prefixes
	block  []byte
	offset uint64 // of the block in the file
	filter bloomblock.Filter
	again  bloomblock.Builder
}

// newVerifier returns nil if there is no filter, or if it is damaged, which is reported with the table.
func newVerifier(name string, block []byte, offset uint64, of string) *verifier {
	filter, err := bloomblock.Parse(block)
	if err != nil {
		return nil
	}
	return &verifier{
		Verify: Verify{Recorded: filter.Keys()}, name: name, of: of, block: block, offset: offset, filter: filter,
	}
}

// see adds the hash of a version. Equal ones, of versions of a key or of keys with a prefix, follow each other.
func (v *verifier) see(h bloomblock.Hash) {
	if v == nil {
		return
	}
	if !v.filter.MayContain(h) {
		v.Denied++
	}
	v.again.Add(h)
}

// finish compares the filters. If they differ, it also returns an error with file and offset.
func (v *verifier) finish() (*Verify, error) {
	if v == nil {
		return nil, nil //nolint:nilnil // there is no filter
	}
	var err error
	if v.Difference, err = filterexam.Compare(v.block, &v.again); err != nil {
		return nil, fmt.Errorf("%s: offset %d: %w", filepath.Base(v.name), v.offset, err)
	}
	if v.OK = v.Denied+v.Missing+v.Extra == 0 && v.Keys == v.Recorded; v.OK {
		return &v.Verify, nil
	}
	at := v.offset
	if v.First != nil {
		at += *v.First
	}
	offset := int64(at) //nolint:gosec // an offset in a file
	return &v.Verify, corrupt.Newf(v.name, offset, "the filter does not match the %s: %s", v.of, &v.Verify)
}

// verifyFilters rebuilds the filters of a table from its keys and compares. The result is nil without a readable
// filter. An error is one of reading the table, or says which filters do not match.
func verifyFilters(ctx context.Context, name string) (keys, prefixes *Verify, err error) {
	return keys, prefixes, withTable(name, func(t *openTable) error {
		k := newVerifier(name, t.block, t.offset, "table's keys")
		p := newVerifier(name, t.prefixes, t.offset+uint64(len(t.block)), "prefixes of the table's keys")
		props, err := t.reader.Properties()
		if err != nil {
			return err
		}
		var rule sstable.PrefixRule
		var cannot *Verify
		if p != nil && rule.UnmarshalText([]byte(props.Prefixes.Rule)) != nil {
			p, cannot = nil, &Verify{Cannot: "this program does not know the rule " + words.Quoted(props.Prefixes.Rule)}
		}
		it := t.reader.Iter(sstable.IterOptions{Bypass: true})
		for ok := it.First(); ok && ctx.Err() == nil; ok = it.Next() {
			user := it.Key().User
			k.see(bloomblock.HashKey(user))
			if prefix := rule.Of(user); p != nil && prefix != nil {
				p.see(bloomblock.HashKey(prefix))
			}
		}
		if err := errors.Join(it.Close(), ctx.Err()); err != nil {
			return err
		}
		var differs error
		keys, err = k.finish()
		prefixes, differs = p.finish()
		prefixes = cmp.Or(prefixes, cannot)
		return errors.Join(err, differs)
	})
}

// String describes what was found.
func (v *Verify) String() string {
	return fmt.Sprintf("rebuilt from %s, the header says %d; %s missing, %s too many, %s", words.Plural(v.Keys, "key"),
		v.Recorded,
		words.Plural(v.Missing, "bit"), words.Plural(v.Extra, "bit"), words.Plural(v.Denied, "false negative"))
}

// verdict describes the result for one filter.
func (v *Verify) verdict() string {
	switch {
	case v == nil:
		return "there is no filter to verify"
	case v.Cannot != "":
		return "not rebuilt: " + string(words.AppendPrintable(nil, []byte(v.Cannot)))
	case v.OK:
		return fmt.Sprintf("ok, bit for bit: %s", v)
	default:
		return fmt.Sprintf("does NOT match the table's keys: %s", v)
	}
}
