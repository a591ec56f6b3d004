package inspect

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/internal/filterexam"
	"github.com/bloomkv/bloomkv/tools/picture"
)

// A Key is one key, followed through the tables that may hold it. Logs are not searched.
type Key struct {
	Key    string     `json:"key"`  // escaped
	Hash   string     `json:"hash"` // XXH64, in hexadecimal digits
	Tables []KeyTable `json:"tables"`

	key []byte
}

// A KeyTable is the result for a key in one run of tables, or in a single table.
type KeyTable struct {
	Level    *int    `json:"level,omitempty"`
	Run      *uint64 `json:"run,omitempty"`
	File     string  `json:"file"`     // empty if no table of the run covers the key
	Smallest string  `json:"smallest"` // the fences, escaped
	Largest  string  `json:"largest"`
	NoEnd    bool    `json:"no_end"` // there is no largest key
	Within   bool    `json:"within"` // the key is within the fences, so a lookup asks the filter

	Answer string                 `json:"answer"` // of the filter: "no", "maybe", or "none" without a filter
	Units  []filterexam.UnitTrace `json:"units"`  // with offsets in the file
	// by reading: "value" or "delete" for the newest version, or "nothing"
	Found string `json:"found"`
	// RangeDeleted reports whether a range delete of the table covers the key. It ends a lookup, whatever the filter
	// answers.
	RangeDeleted bool `json:"range_deleted"`
	// Verdict judges the answer: "negative" and "true positive" are right, "false positive" costs a read, "false
	// negative" hides data, and "not asked" means no filter or a key outside the fences.
	Verdict string     `json:"verdict"`
	Prefix  *KeyPrefix `json:"prefix,omitempty"` // set if the table has a prefix filter
}

// A KeyPrefix is the result for a key's prefix in the prefix filter of a table.
type KeyPrefix struct {
	Rule string `json:"rule"` // escaped
	// escaped; empty if the key has no prefix by the rule, or the rule is not known
	Prefix string                 `json:"prefix,omitempty"`
	Hash   string                 `json:"hash,omitempty"` // of the prefix
	Answer string                 `json:"answer"`         // "no", "maybe", or "none" if it is not asked
	Units  []filterexam.UnitTrace `json:"units"`
	Found  bool                   `json:"found"` // by reading: the table has a key with that prefix
	// Verdict is like that of the key: a false positive costs a scan of the prefix a read, and a false negative hides
	// data from it.
	Verdict string `json:"verdict"`
}

// Keys are the keys of --key.
type Keys struct {
	Key  *Key   `json:"key,omitempty"`       // the first
	More []*Key `json:"more_keys,omitempty"` // the others, if the flag was repeated
}

func newKeys(keys [][]byte) (all Keys) {
	for i, key := range keys {
		k := &Key{
			Key: words.Escaped(key, words.KeyLimit), Hash: hashText(bloomblock.HashKey(key)),
			Tables: []KeyTable{}, key: key,
		}
		if i == 0 {
			all.Key = k
		} else {
			all.More = append(all.More, k)
		}
	}
	return all
}

func (k *Keys) all() []*Key {
	if k.Key == nil {
		return nil
	}
	return append([]*Key{k.Key}, k.More...)
}

// denials returns a note and an error for each filter that hides one of the keys.
func (k *Keys) denials() (notes []picture.Note, err error) {
	for _, key := range k.all() {
		more, hidden := key.denials()
		notes, err = append(notes, more...), errors.Join(err, hidden)
	}
	return notes, err
}

// newKeyTable returns the result for a table that was not read.
func newKeyTable(name string) KeyTable {
	return KeyTable{
		File: filepath.Base(name), Answer: "none", Units: []filterexam.UnitTrace{}, Found: "nothing",
		Verdict: "not asked",
	}
}

// ask adds the answer of the filter and the contents of the table to t.
func (t *KeyTable) ask(key []byte, o *openTable) (err error) {
	for _, d := range o.reader.RangeDels().List() {
		if bytes.Compare(d.Start, key) <= 0 && (d.End == nil || bytes.Compare(key, d.End) < 0) {
			t.RangeDeleted = true
		}
	}
	it := o.reader.Iter(sstable.IterOptions{Bypass: true})
	if it.SeekGE(ikey.Search(key, ikey.MaxSeq)) && bytes.Equal(it.Key().User, key) {
		t.Found = "value"
		if it.Key().Trailer.Kind() == ikey.Delete {
			t.Found = "delete"
		}
	}
	if err = it.Close(); err != nil {
		return err
	}
	if t.Prefix, err = o.askPrefix(key); err != nil {
		return err
	}
	if maybe, units := trace(o.block, o.offset, bloomblock.HashKey(key)); units != nil {
		there := t.Found != "nothing"
		answer, worth := verdict(maybe, there)
		t.Units, t.Answer = units, answer
		if t.Within || there && !maybe {
			t.Verdict = worth
		}
	}
	return nil
}

// trace asks a filter block and returns what it probed, with offsets in the file. It returns nil without a filter, or
// if the filter is damaged, which is reported with the table.
func trace(block []byte, offset uint64, hash bloomblock.Hash) (maybe bool, units []filterexam.UnitTrace) {
	maybe, units, _ = filterexam.Trace(block, hash) // damage is reported with the table
	for i := range units {
		units[i].Offset += offset
	}
	return maybe, units
}

// askPrefix asks the prefix filter for the prefix of a key. It returns nil if there is no prefix filter.
func (o *openTable) askPrefix(key []byte) (*KeyPrefix, error) {
	props, err := o.reader.Properties()
	if err != nil || len(o.prefixes) == 0 {
		return nil, err
	}
	p := &KeyPrefix{
		Rule: words.Escaped([]byte(props.Prefixes.Rule), words.KeyLimit), Answer: "none",
		Units: []filterexam.UnitTrace{}, Verdict: "not asked",
	}
	var rule sstable.PrefixRule
	// a rule of a later version stays empty, which gives no key a prefix
	_ = rule.UnmarshalText([]byte(props.Prefixes.Rule))
	prefix := rule.Of(key)
	if prefix == nil {
		return p, nil
	}
	hash := bloomblock.HashKey(prefix)
	p.Prefix, p.Hash = words.Escaped(prefix, words.KeyLimit), hashText(hash)
	it := o.reader.Iter(sstable.IterOptions{Bypass: true})
	p.Found = it.SeekGE(ikey.Search(prefix, ikey.MaxSeq)) && bytes.HasPrefix(it.Key().User, prefix)
	if err := it.Close(); err != nil {
		return p, err
	}
	if maybe, units := trace(o.prefixes, o.offset+uint64(len(o.block)), hash); units != nil {
		p.Units = units
		p.Answer, p.Verdict = verdict(maybe, p.Found)
	}
	return p, nil
}

// verdict returns an answer and its verdict in words.
func verdict(maybe, there bool) (answer, worth string) {
	switch {
	case maybe && there:
		return "maybe", "true positive"
	case maybe:
		return "maybe", "false positive"
	case there:
		return "no", falseNegative
	default:
		return "no", "negative"
	}
}

// falseNegative is the verdict on a filter that hides data.
const falseNegative = "false negative"

func hashText(h bloomblock.Hash) string { return fmt.Sprintf("%016x", uint64(h)) }

// askTable asks a single table. Its fences are the bounds of its versions and of its range deletes.
func (k *Key) askTable(name string) error {
	return withTable(name, func(o *openTable) error {
		p, err := o.reader.Properties()
		if err != nil {
			return err
		}
		t := newKeyTable(name)
		low, high := p.Smallest, p.Largest
		if dels := o.reader.RangeDels().List(); len(dels) > 0 {
			first, last := dels.Bounds()
			if p.Entries == 0 {
				low, high = first, last
			} else if bytes.Compare(first, low) < 0 {
				low = first
			}
			if t.NoEnd = last == nil; bytes.Compare(last, high) > 0 {
				high = last // exclusive, but the table has no key there
			}
		}
		t.Smallest, t.Largest = words.Escaped(low, words.KeyLimit), words.Escaped(high, words.KeyLimit)
		t.Within = bytes.Compare(low, k.key) <= 0 && (t.NoEnd || bytes.Compare(k.key, high) <= 0)
		err = t.ask(k.key, o)
		k.Tables = append(k.Tables, t)
		return err
	})
}

// askRun asks the table of a run that covers the key, if there is one.
func (k *Key) askRun(dir string, level int, run *manifest.Run) (err error) {
	t := KeyTable{Units: []filterexam.UnitTrace{}}
	if m := run.Find(k.key); m != nil {
		name := filename.Make(dir, filename.Table, m.Number)
		t = newKeyTable(name)
		t.Within, t.NoEnd = true, m.Upper() == nil
		t.Smallest, t.Largest = words.Escaped(m.Smallest, words.KeyLimit), words.Escaped(m.Upper(), words.KeyLimit)
		err = withTable(name, func(o *openTable) error { return t.ask(k.key, o) })
	}
	t.Level, t.Run = &level, &run.ID
	k.Tables = append(k.Tables, t)
	return err
}

// denials returns a note and an error for each filter that hides the key.
func (k *Key) denials() (notes []picture.Note, err error) {
	for i := range k.Tables {
		t := &k.Tables[i]
		deny := func(filter, what string, units []filterexam.UnitTrace) {
			text := fmt.Sprintf("The %s of %s denies %s.", filter, words.Escaped([]byte(t.File), 64), what)
			notes = append(notes, serious(falseNegative, text))
			offset := int64(units[0].Offset) //nolint:gosec // an offset in a file
			err = errors.Join(err, corrupt.Newf(t.File, offset, "the %s denies %s", filter, what))
		}
		if t.Verdict == falseNegative {
			deny("filter", "key "+k.Key+", which the table holds", t.Units)
		}
		if p := t.Prefix; p != nil && p.Verdict == falseNegative {
			deny("prefix filter", "prefix "+p.Prefix+", which a key of the table has", p.Units)
		}
	}
	return notes, err
}
