package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/wal"
	"github.com/bloomkv/bloomkv/vfs"
)

func TestCurrentHasOneForm(t *testing.T) {
	m := newFS(t)
	if _, err := Load(m, dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without CURRENT: error is %v, want %v", err, fs.ErrNotExist)
	}
	create(t, m, 2, State{NextFile: 3})
	whole := contentOf(t, m, "CURRENT")
	if want := "MANIFEST-000002 6d83da7e\n"; whole != want {
		t.Errorf("CURRENT is %q, want %q", whole, want)
	}
	sum := func(name string) string { // content with a correct checksum
		return fmt.Sprintf("%s %08x\n", name, crc32.Checksum([]byte(name), crc32.MakeTable(crc32.Castagnoli)))
	}
	contents := map[string]string{
		"is empty":                       "",
		"is zeros":                       strings.Repeat("\x00", 16),
		"has no newline":                 whole[:len(whole)-1],
		"has two newlines":               whole + "\n",
		"begins with a space":            " " + whole,
		"ends in CR LF":                  whole[:len(whole)-1] + "\r\n",
		"has no checksum":                "MANIFEST-000002\n",
		"has a checksum in upper case":   strings.ToUpper(whole),
		"has a wrong checksum":           "MANIFEST-000002 6d83da70\n",
		"is very long":                   strings.Repeat("x", 5000),
		"names a path":                   sum("../MANIFEST-000002"),
		"names an absolute path":         sum("/etc/MANIFEST-000002"),
		"names a path below":             sum("MANIFEST-000002/../MANIFEST-000002"),
		"names a table":                  sum("000002.sst"),
		"names a number with a sign":     sum("MANIFEST-+00002"),
		"names a number without padding": sum("MANIFEST-2"),
		"names a number of 21 digits":    sum("MANIFEST-000000000000000000002"),
		"names a number over 2^64":       sum("MANIFEST-18446744073709551616"),
		"names what is not there":        sum("MANIFEST-000004"),
		"names itself":                   sum("CURRENT"),
	}
	for i := range whole {
		contents[fmt.Sprint("has a flipped bit in byte ", i)] = whole[:i] + string(whole[i]^1) + whole[i+1:]
	}
	for name, content := range contents {
		put(t, m, "CURRENT", content)
		s, err := Load(m, dir)
		var at *corrupt.Error
		if !errors.As(err, &at) || at.File != "CURRENT" || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("CURRENT %s: %+v, %v; want corruption of CURRENT", name, s, err)
		}
		if n, err := ReadCurrent(m, dir); !errors.Is(err, corrupt.Err) && n != 4 {
			t.Errorf("CURRENT %s: names %d, %v; want corruption", name, n, err)
		}
	}
}

func TestEveryFlippedBitOfAManifestIsNoticed(t *testing.T) {
	m := newFS(t)
	s, edits := history(t)
	l := create(t, m, 9, s)
	appendEdits(t, l, edits[0])
	before, last := load(t, m), l.w.Size()
	appendEdits(t, l, edits[1])
	whole := contentOf(t, m, "MANIFEST-000009")
	before.Torn = true
	for i := range whole {
		b := []byte(whole)
		b[i] ^= 1 << (i % 8)
		put(t, m, "MANIFEST-000009", string(b))
		got, err := Load(m, dir)
		if int64(i) < last {
			if !errors.Is(err, corrupt.Err) || errors.Is(err, ErrUnsupportedVersion) {
				t.Errorf("byte %d: %+v, %v; want corruption", i, got, err)
			}
		} else if err != nil || !reflect.DeepEqual(got, before) {
			t.Errorf("byte %d: %+v, %v; want %+v", i, got, err, before)
		}
	}
}

func TestATornLastEditIsNotThere(t *testing.T) {
	m := newFS(t)
	s, edits := history(t)
	l := create(t, m, 9, s)
	states, ends := []State{load(t, m)}, []int64{l.w.Size()}
	for _, e := range edits {
		appendEdits(t, l, e)
		states, ends = append(states, load(t, m)), append(ends, l.w.Size())
	}
	whole := contentOf(t, m, "MANIFEST-000009")
	for n := range whole {
		for _, tail := range []int{0, 1, 600} { // zeros behind
			put(t, m, "MANIFEST-000009", whole[:n]+strings.Repeat("\x00", tail))
			got, err := Load(m, dir)
			i := len(ends) - 1
			for i >= 0 && ends[i] > int64(n) {
				i--
			}
			if i < 0 { // CURRENT named the manifest only once the snapshot was durable
				if !errors.Is(err, corrupt.Err) {
					t.Errorf("%d bytes: %+v, %v; want corruption", n, got, err)
				}
				continue
			}
			// A record whose last bytes are zeros is complete again with zeros behind it.
			if i+1 < len(ends) && int(ends[i+1])-n <= tail && strings.Trim(whole[n:ends[i+1]], "\x00") == "" {
				i++
			}
			want := states[i]
			want.Torn = int64(n+tail) != ends[i]
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%d bytes, %d zeros: %+v, %v; want %+v", n, tail, got, err, want)
			}
		}
	}
}

// Records with correct checksums and wrong content.
func TestHostileManifests(t *testing.T) {
	t1 := table(1, "a", "c")
	first := &Edit{NextFile: 9, Added: []Added{add(6, 0, t1)}}
	for name, test := range map[string]struct {
		edits       []*Edit
		raw         []byte
		unsupported bool
		text        string
	}{
		"no snapshot":                {nil, nil, false, "want a snapshot"},
		"no next file":               {[]*Edit{{LastSeq: 1}}, nil, false, "manifest 3, but next file 0"},
		"a manifest not yet counted": {[]*Edit{{NextFile: 3}}, nil, false, "manifest 3, but next file 3"},
		"a delete before anything": {
			[]*Edit{{NextFile: 9, Deleted: []Deleted{{0, 1}}}}, nil, false, "where it is not",
		},
		"a delete from another level": {[]*Edit{first, {Deleted: []Deleted{{0, 1}}}}, nil, false, "where it is not"},
		"a delete twice": {
			[]*Edit{first, {Deleted: []Deleted{{6, 1}}}, {Deleted: []Deleted{{6, 1}}}}, nil, false, "where it is not",
		},
		"an add twice": {
			[]*Edit{first, {Added: []Added{add(2, 1, t1)}}}, nil, false, "already at level 6",
		},
		"an add twice in one edit": {
			[]*Edit{{NextFile: 9, Added: []Added{add(2, 1, t1), add(3, 1, t1)}}}, nil, false, "already at level 2",
		},
		"a move within a level": {
			[]*Edit{first, {Deleted: []Deleted{{6, 1}}, Added: []Added{add(6, 1, t1)}}}, nil, false, "both deleted",
		},
		"tables of a run that overlap": {
			[]*Edit{first, {Added: []Added{add(6, 0, table(2, "b", "d"))}}}, nil, false, "overlap",
		},
		"a table not yet counted": {
			[]*Edit{first, {Added: []Added{add(5, 0, table(9, "b", "d"))}}}, nil, false, "next file 9",
		},
		"a log not yet counted": {[]*Edit{first, {Log: &LogMark{9, 0}}}, nil, false, "next file 9"},
		"counts of no table": {
			[]*Edit{first, {Counts: []TableCounts{{2, Counts{Negatives: 1}}}}}, nil, false, "counts of table 2",
		},
		"counts of a deleted table": {
			[]*Edit{first, {Deleted: []Deleted{{6, 1}}, Counts: []TableCounts{{1, Counts{Negatives: 1}}}}},
			nil, false,
			"counts of table 1",
		},
		"next file 2^64-1":   {[]*Edit{{NextFile: math.MaxUint64}}, nil, false, "next file"},
		"last sequence 2^56": {[]*Edit{{NextFile: 9, LastSeq: ikey.MaxSeq + 1}}, nil, false, "last sequence"},
		"level 255": {
			[]*Edit{first, {Added: []Added{add(255, 0, table(2, "b", "d"))}}}, nil, false, "level 255",
		},
		"an empty edit":    {[]*Edit{first}, []byte{}, false, "0 bytes"},
		"a newer edit":     {[]*Edit{first}, []byte{2}, true, "version 2"},
		"an unknown field": {[]*Edit{first}, []byte{1, 10, 0, 0, 0, 0}, true, "field 10"},
	} {
		t.Run(name, func(t *testing.T) {
			var payloads [][]byte
			for _, e := range test.edits {
				payloads = append(payloads, AppendEdit(nil, e))
			}
			if test.raw != nil {
				payloads = append(payloads, test.raw)
			}
			m := newFS(t)
			putManifest(t, m, payloads...)
			s, err := Load(m, dir)
			if err == nil || errors.Is(err, corrupt.Err) == test.unsupported ||
				errors.Is(err, ErrUnsupportedVersion) != test.unsupported {
				t.Fatalf("loaded %+v, %v", s, err)
			}
			if !strings.Contains(err.Error(), test.text) || !strings.Contains(err.Error(), "MANIFEST-000003") {
				t.Errorf("error is %v, want one with MANIFEST-000003 and %q", err, test.text)
			}
		})
	}
}

// TestARefusedEditLeavesNoNumbers reads manifests of two edits.
func TestARefusedEditLeavesNoNumbers(t *testing.T) {
	first := Edit{NextFile: 9, LastSeq: 5, Seed: 1, Mark: batch.Mark{Seq: 2, Bytes: []byte("m")}}
	for _, refused := range []Edit{
		{LastSeq: 7, MinLog: 10},
		{LastSeq: 7, Log: &LogMark{9, 0}},
		{LastSeq: 7, Seed: 2},
		{NextFile: 10, Mark: batch.Mark{Seq: 6, Bytes: []byte("n")}},
		{LastSeq: MaxSeq + 1},
		{LastSeq: 7, Added: []Added{add(5, 9, table(2, "a", "b"))}},
	} {
		m := newFS(t)
		putManifest(t, m, AppendEdit(nil, &first), AppendEdit(nil, &refused))
		f, err := m.Open(filename.Make(dir, filename.Manifest, 3))
		must(t, err)
		s, _, err := Read(f, "M", 3, nil)
		must(t, f.Close())
		if got := s.Snapshot(); !errors.Is(err, corrupt.Err) || !reflect.DeepEqual(got, &first) {
			t.Errorf("after %+v: %+v, %v; want the first edit alone", refused, got, err)
		}
	}
}

// putManifest writes a manifest 3 with those records, and makes it current.
func putManifest(tb testing.TB, fsys vfs.FS, payloads ...[]byte) {
	tb.Helper()
	f, err := fsys.Create(filename.Make(dir, filename.Manifest, 3))
	must(tb, err)
	w, err := wal.NewWriter(f, 3, 4)
	must(tb, err)
	for _, p := range payloads {
		must(tb, w.Append(append(make([]byte, wal.HeaderSize), p...)))
	}
	must(tb, w.Close())
	put(tb, fsys, "CURRENT", string(currentFor(3)))
}

// FuzzLoad reads edits in records with correct checksums. What loads is sound, and a snapshot of it loads the same.
func FuzzLoad(f *testing.F) {
	s, edits := history(f)
	var whole []byte
	for _, e := range append([]*Edit{s.Snapshot()}, edits...) {
		b := AppendEdit(nil, e)
		whole = append(append(whole, byte(len(b)), byte(len(b)>>8)), b...)
	}
	f.Add(whole)
	f.Add([]byte{})
	for i := 0; i < len(whole); i += 11 {
		damaged := bytes.Clone(whole)
		damaged[i] ^= 0x41
		f.Add(damaged)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var payloads [][]byte
		for len(data) >= 2 {
			n := min(int(data[0])|int(data[1])<<8, len(data)-2)
			payloads = append(payloads, data[2:2+n])
			data = data[2+n:]
		}
		m := newFS(t)
		putManifest(t, m, payloads...)
		s, err := Load(m, dir)
		if err != nil {
			if !errors.Is(err, corrupt.Err) && !errors.Is(err, ErrUnsupportedVersion) {
				t.Fatalf("error is %v", err)
			}
			return
		}
		must(t, s.Version.Check())
		if s.NextFile <= 4 {
			return
		}
		create(t, m, 4, s)
		s.ManifestNumber, s.Replaced = 4, nil
		if again := load(t, m); !reflect.DeepEqual(again, s) {
			t.Fatalf("loaded %+v, and from its snapshot %+v", s, again)
		}
	})
}

// FuzzCurrent reads any content of CURRENT: accepted content equals what is written for that number.
func FuzzCurrent(f *testing.F) {
	f.Add("MANIFEST-000003 ffffffff\n")
	f.Add(string(currentFor(3)))
	f.Add(string(currentFor(math.MaxUint64)))
	f.Add("../MANIFEST-000003\n")
	f.Fuzz(func(t *testing.T, content string) {
		m := newFS(t)
		put(t, m, "CURRENT", content)
		n, err := ReadCurrent(m, dir)
		if err != nil && !errors.Is(err, corrupt.Err) || err == nil && string(currentFor(n)) != content {
			t.Fatalf("%q is %d, %v", content, n, err)
		}
	})
}
