package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/cli"
)

func (a *app) ingestCommand() *cobra.Command {
	var w writeFlags
	var lf lineFlags
	var r rangeFlags
	var replace bool
	c := &cobra.Command{
		Use:   "ingest DIR [FILE]",
		Short: "Store many sorted pairs in one step",
		Long: `ingest stores one pair for each line of FILE, like load, but writes tables directly and adds them in one
step: readers and crashes see either all pairs or none. Without FILE, or with "-", it reads standard input. If the
store does not exist, ingest creates it in a new or empty directory. When ingest returns, everything is on stable
storage.

The keys must be unique and in ascending order of bytes: the order in which dump writes them, and "LC_ALL=C sort" sorts
most lines of tsv and hex. At a line that is out of order or cannot be read, ingest stops, prints its number and returns
exit status 2. Then nothing has been stored, and no store is created.

With --replace, every key of the store that is not in the input is deleted in the same step. --replace-prefix,
--replace-from and --replace-to limit this to the keys that match all given flags. The input may have keys outside of
that range. Replacing keys by an empty input is an error.

` + formatHelp + crlfHelp,
		Example: `  bloomkv ingest ./store pairs.tsv
  LC_ALL=C sort pairs.tsv | bloomkv ingest ./store
  bloomkv dump ./old --format json | bloomkv ingest ./new --format json
  bloomkv ingest ./store users.tsv --replace-prefix user/`,
		RunE: func(c *cobra.Command, args []string) error {
			l, err := lf.loader()
			if err != nil {
				return err
			}
			var o bloomkv.IngestOptions
			switch {
			case replace && r.given():
				return cli.Hint(c, errors.New("--replace and a range are given, want only one of them"))
			case replace:
				o.Replace = &bloomkv.KeyRange{}
			case r.given():
				kr, err := r.keyRange()
				if err != nil {
					return err
				}
				if everything(kr) {
					return cli.Hint(c, errors.New("the range is the whole store: use --replace to replace every key"))
				}
				o.Replace = &kr
			}
			return a.store(c, args, &w, l, func(db *bloomkv.DB, in io.Reader, _ bool) (bool, error) {
				return false, db.Ingest(c.Context(), l.sorted(in, o.Replace != nil), o)
			})
		},
	}
	lf.add(c)
	c.Flags().BoolVar(&replace, "replace", false, "delete all other keys of the store")
	r.add(c, "replace-", "delete other keys", "PREFIX, FROM and TO")
	a.addJSON(c, "print a JSON object with the number of lines and bytes")
	w.add(c)
	return c
}

// sorted returns the pairs of lines for one Ingest, as pairs does. A key that is out of order is bloomkv.ErrOrder, and
// if some is true, an empty input is an error too.
func (l *loader) sorted(in io.Reader, some bool) iter.Seq2[bloomkv.KV, error] {
	return func(yield func(bloomkv.KV, error) bool) {
		var last []byte
		for kv, err := range l.pairs(in) {
			if err == nil && l.lines > 0 {
				err = checkOrder(l.number, last, kv.Key)
			}
			if err == nil {
				last = append(last[:0], kv.Key...)
				l.lines++
				l.bytes += int64(len(kv.Key)) + int64(len(kv.Value))
			}
			if !yield(kv, err) || err != nil {
				return
			}
		}
		if some && l.lines == 0 {
			yield(bloomkv.KV{}, errors.New("the input is empty, want at least one line to replace keys; to delete "+
				"keys use del"))
		}
	}
}

// checkOrder returns an error if the key of a line does not follow last.
func checkOrder(line int, last, key []byte) error {
	switch bytes.Compare(last, key) {
	case 0:
		return fmt.Errorf("line %d: key %s again: %w", line, words.Escaped(key, 64), bloomkv.ErrOrder)
	case 1:
		return fmt.Errorf("line %d: key %s after %s: %w", line, words.Escaped(key, 64), words.Escaped(last, 64),
			bloomkv.ErrOrder)
	default:
		return nil
	}
}
