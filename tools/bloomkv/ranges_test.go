package main

import (
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv"
)

func TestPrefixAndBoundsMakeOneRange(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		want bloomkv.KeyRange
	}{
		{"no flag is the whole store", nil, bloomkv.KeyRange{}},
		{
			"bounds are what they are",
			[]string{"--from", "b", "--to", "d"},
			bloomkv.KeyRange{Lower: []byte("b"), Upper: []byte("d")},
		},
		{
			"an empty bound is one",
			[]string{"--from", "", "--to", ""},
			bloomkv.KeyRange{Lower: []byte{}, Upper: []byte{}},
		},
		{
			"a prefix ends before the next one",
			[]string{"--prefix", "ab"},
			bloomkv.KeyRange{Lower: []byte("ab"), Upper: []byte("ac")},
		},
		{
			"the last byte has no next one",
			[]string{"--hex", "--prefix", "61feffff"},
			bloomkv.KeyRange{Lower: []byte("a\xfe\xff\xff"), Upper: []byte("a\xff")},
		},
		{
			"nothing comes after the last prefix",
			[]string{"--hex", "--prefix", "ffff"},
			bloomkv.KeyRange{Lower: []byte("\xff\xff")},
		},
		{
			"bounds outside of the prefix",
			[]string{"--prefix", "b", "--from", "a", "--to", "d"},
			bloomkv.KeyRange{Lower: []byte("b"), Upper: []byte("c")},
		},
		{
			"bounds inside of the prefix",
			[]string{"--prefix", "b", "--from", "b3", "--to", "b5"},
			bloomkv.KeyRange{Lower: []byte("b3"), Upper: []byte("b5")},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r rangeFlags
			cmd := new(app).command()
			r.add(cmd, "", "keys", "all")
			must(t, cmd.ParseFlags(c.args))
			got, err := r.keyRange()
			if err != nil || !sameBound(got.Lower, c.want.Lower) && len(c.want.Lower) > 0 ||
				!sameBound(got.Upper, c.want.Upper) {
				t.Errorf("got %q, %v; want %q", got, err, c.want)
			}
			if given := r.given(); given != (len(c.args) > 0) {
				t.Errorf("given: %v", given)
			}
			var o bloomkv.IterOptions
			if o, err = r.options(); err != nil {
				t.Fatal(err)
			}
			dir := newStore(t,
				"a\t\nab\t\nabc\t\nac\t\nb\t\nb3\t\nb4\t\nb5\t\nc\t\nd\t\n"+
					"a\xfe\xff\xff\t\na\xfe\xff\xff0\t\na\xff\t\n\xff\xff\t\n\xff\xff1\t\n")
			one, other := keysOf(t, dir, o), keysOf(t, dir, bloomkv.IterOptions{Lower: got.Lower, Upper: got.Upper})
			if one != other {
				t.Errorf("the range has %q, an iterator %q", other, one)
			}
		})
	}
}

func sameBound(a, b []byte) bool { return (a == nil) == (b == nil) && string(a) == string(b) }

func keysOf(t *testing.T, dir string, o bloomkv.IterOptions) string {
	t.Helper()
	var keys strings.Builder
	db, err := openToRead(t.Context(), dir)
	err = with(db, err, func(db *bloomkv.DB) error {
		for kv, err := range db.Scan(o) {
			if err != nil {
				return err
			}
			keys.Write(append(kv.Key, ' '))
		}
		return nil
	})
	must(t, err)
	return keys.String()
}

func TestRangesThatAreTheWholeStore(t *testing.T) {
	for _, c := range []struct {
		r   bloomkv.KeyRange
		all bool
	}{
		{bloomkv.KeyRange{}, true},
		{bloomkv.KeyRange{Lower: []byte{}}, true},
		{bloomkv.KeyRange{Lower: []byte("a")}, false},
		{bloomkv.KeyRange{Upper: []byte("a")}, false},
		{bloomkv.KeyRange{Upper: []byte{}}, false},
		{bloomkv.KeyRange{Lower: []byte("a"), Upper: []byte("a")}, false},
		{bloomkv.KeyRange{Lower: []byte("b"), Upper: []byte("a")}, false},
		{bloomkv.KeyRange{Lower: []byte("a"), Upper: []byte("b")}, false},
	} {
		if all := everything(c.r); all != c.all {
			t.Errorf("%q: everything %v, want %v", c.r, all, c.all)
		}
	}
}
