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
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/sstable"
)

// A Key is one key, followed through the tables that may hold it. Logs are not asked.
type Key struct {
	Key    string     `json:"key"`  // escaped
	Hash   string     `json:"hash"` // XXH64, in hexadecimal digits
	Tables []KeyTable `json:"tables"`

	key []byte
}

// A KeyTable is what one run of tables has to say of a key, or the one table that is looked at.
type KeyTable struct {
	Level    *int    `json:"level,omitempty"`
	Run      *uint64 `json:"run,omitempty"`
	File     string  `json:"file"`     // empty where no table of the run reaches over the key
	Smallest string  `json:"smallest"` // the fences, escaped
	Largest  string  `json:"largest"`
	NoEnd    bool    `json:"no_end"` // there is no largest key
	Within   bool    `json:"within"` // the key is between the fences: a lookup asks the filter

	Answer string                 `json:"answer"` // of the filter: "no", "maybe", or "none" where there is none to ask
	Units  []bloomblock.UnitTrace `json:"units"`  // offsets are those in the file
	Found  string                 `json:"found"`  // by reading: the newest version is a "value" or a "delete"; "nothing"
	// RangeDeleted says that a range delete of the table covers the key: it ends a lookup, whatever the filter says.
	RangeDeleted bool `json:"range_deleted"`
	// Verdict is what the answer was worth: "negative" and "true positive" are right; "false positive" cost a read; "false negative"
	// hides data; "not asked" is without a filter, or behind a fence.
	Verdict string `json:"verdict"`
}

func newKey(key []byte) *Key {
	return &Key{Key: words.Escaped(key, words.KeyLimit), Hash: fmt.Sprintf("%016x", uint64(bloomblock.HashKey(key))), Tables: []KeyTable{}, key: key}
}

// ask completes what is known of the key with what the table's filter answers, and with what the table has.
func (t *KeyTable) ask(key []byte, name string) error {
	t.File, t.Answer, t.Verdict, t.Units, t.Found = filepath.Base(name), "none", "not asked", []bloomblock.UnitTrace{}, "nothing"
	return withTable(name, func(o *openTable) error {
		for _, d := range o.reader.RangeDels() {
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
		if err := it.Close(); err != nil {
			return err
		}
		filter, err := bloomblock.Parse(o.block)
		if err != nil || filter.Units() == 0 {
			return nil //nolint:nilerr // none, or a damaged one, which is told with the table
		}
		h, err := bloomblock.ParseHeader(o.block)
		if err != nil {
			return err
		}
		hash := bloomblock.HashKey(key)
		t.Units = filter.Trace(hash)
		for i := range t.Units {
			t.Units[i].Offset += o.offset + h.Units[i].Offset
		}
		t.judge(filter.MayContain(hash))
		return nil
	})
}

// judge says what an answer was worth.
func (t *KeyTable) judge(maybe bool) {
	there := t.Found != "nothing"
	t.Answer = "no"
	if maybe {
		t.Answer = "maybe"
	}
	switch {
	case there && !maybe:
		t.Verdict = "false negative"
	case !t.Within:
	case there:
		t.Verdict = "true positive"
	case maybe:
		t.Verdict = "false positive"
	default:
		t.Verdict = "negative"
	}
}

// askTable asks the one table that is looked at. Its fences are the bounds of its versions, and of its range deletes where they
// go further.
func (k *Key) askTable(name string) error {
	t := KeyTable{}
	var low, high []byte
	err := withTable(name, func(o *openTable) error {
		p, err := o.reader.Properties()
		if err != nil {
			return err
		}
		low, high = p.Smallest, p.Largest
		dels := o.reader.RangeDels()
		if len(dels) == 0 {
			return nil
		}
		last := dels[len(dels)-1].End
		if p.Entries == 0 {
			low, high = dels[0].Start, last
		} else if bytes.Compare(dels[0].Start, low) < 0 {
			low = dels[0].Start
		}
		if last == nil {
			t.NoEnd = true
		} else if bytes.Compare(last, high) > 0 {
			high = last // exclusive, which makes no difference to who has nothing there
		}
		return nil
	})
	if err != nil {
		return err
	}
	t.Smallest, t.Largest = words.Escaped(low, words.KeyLimit), words.Escaped(high, words.KeyLimit)
	t.Within = bytes.Compare(low, k.key) <= 0 && (t.NoEnd || bytes.Compare(k.key, high) <= 0)
	err = t.ask(k.key, name)
	k.Tables = append(k.Tables, t)
	return err
}

// askRun asks the table of a run that reaches over the key, if there is one.
func (k *Key) askRun(dir string, level int, run *manifest.Run) error {
	t := KeyTable{Level: &level, Run: &run.ID, Units: []bloomblock.UnitTrace{}}
	var err error
	if m := run.Find(k.key); m != nil {
		t.Within, t.NoEnd = true, m.Upper() == nil
		t.Smallest, t.Largest = words.Escaped(m.Smallest, words.KeyLimit), words.Escaped(m.Upper(), words.KeyLimit)
		err = t.ask(k.key, filename.Make(dir, filename.Table, m.Number))
	}
	k.Tables = append(k.Tables, t)
	return err
}

// damage is the error of a key that a filter hides.
func (k *Key) damage() error {
	if k == nil {
		return nil
	}
	var errs []error
	for i := range k.Tables {
		if t := &k.Tables[i]; t.Verdict == "false negative" {
			errs = append(errs, corrupt.Newf(t.File, int64(t.Units[0].Offset), "the filter denies key %s, which the table holds", k.Key)) //nolint:gosec // an offset in a file
		}
	}
	return errors.Join(errs...)
}
