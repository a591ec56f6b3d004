package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/cli"
	"github.com/bloomkv/bloomkv/tools/internal/inspect"
	"github.com/bloomkv/bloomkv/vfs"
)

// smallTable returns a table of a few keys.
func smallTable(tb testing.TB, ribbon bool, keys ...string) []byte {
	tb.Helper()
	params, err := bloomblock.ParamsNested(0.05, 0.001)
	if ribbon {
		params, err = bloomblock.ParamsRibbon(0.05)
	}
	must(tb, err)
	var b bytes.Buffer
	w := sstable.NewWriter(&b, sstable.WriterOptions{ID: 7, Filter: params})
	for i, key := range keys {
		if err := w.Add(ikey.Key{User: []byte(key), Trailer: ikey.MakeTrailer(ikey.Seq(i+1), ikey.Set)},
			[]byte("value")); err != nil {
			tb.Fatal(err)
		}
	}
	if _, err := w.Finish(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// printable fails if a printed line could control a terminal.
func printable(t *testing.T, args []string, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if line = strings.TrimSuffix(line, "\n"); line != string(words.AppendPrintable(nil, []byte(line))) {
			t.Fatalf("%q: a line that could drive a terminal: %q", args, line)
		}
	}
}

// repairLog corrects the checksums of the records of a log, as far as their lengths lead from one to the next.
func repairLog(b []byte, number uint64) {
	for at := 32; at+24 <= len(b); {
		n := int(binary.LittleEndian.Uint32(b[at+8:]))
		if n > len(b)-at-24 || n == 0 && bytes.Count(b[at:][:24], []byte{0}) == 24 {
			return
		}
		copy(b[at+12:], saltOf(b))
		b[at+23] = 0xb7
		fixHeader(b, number, at, n)
		at += 24 + n
	}
}

// saltOf returns the salt of a log's records.
func saltOf(b []byte) []byte {
	id := binary.LittleEndian.Uint64(b[24:])
	return binary.LittleEndian.AppendUint32(nil, uint32(id>>32)^uint32(id)|1)
}

// killed returns a store with every kind of table and a log, as the death of a process leaves it.
func killed(tb testing.TB) (files map[string][]byte) {
	tb.Helper()
	dir := tb.TempDir()
	db, err := bloomkv.Open(dir, &bloomkv.Options{FilterPrefix: bloomkv.PrefixLen(1)})
	must(tb, err)
	put := func(keys ...string) {
		for _, key := range keys {
			must(tb, db.Put([]byte(key), []byte("value")))
		}
	}
	put("\x1b[2J", "a", "b\x00", "\xff")
	err = errors.Join(db.DeleteRange(bloomkv.KeyRange{Lower: []byte("b")}), db.Flush(tb.Context()))
	put("c", "a")
	err = errors.Join(err, db.Delete([]byte("a")), db.DeleteRange(bloomkv.KeyRange{Upper: []byte("b")}))
	files = map[string][]byte{}
	names, listErr := os.ReadDir(dir)
	m, loadErr := manifest.Load(vfs.OS, dir)
	for _, name := range names {
		b, readErr := os.ReadFile(filepath.Join(dir, name.Name()))
		kind, number := filename.Parse(name.Name())
		if errors.Is(readErr, fs.ErrNotExist) && kind == filename.Log && number < m.MinLog {
			continue // the flush removes the log only after it is done
		}
		if filepath.Ext(name.Name()) == ".log" {
			b = bytes.TrimRight(b, "\x00") // reserved
		}
		files[name.Name()] = b
		err = errors.Join(err, readErr)
	}
	must(tb, errors.Join(err, listErr, loadErr, db.Close()))
	return files
}

// FuzzInspect checks that any file gives a result or an error that names it, and that no output can control a
// terminal.
func FuzzInspect(f *testing.F) {
	table := smallTable(f, false, "\x1b[2J", "a", "b\x00", "\xff")
	names := []string{"000001.sst", "000001.log", "MANIFEST-000001", "renamed"}
	for kind := range names {
		f.Add(table, uint8(kind), "a", false)
	}
	f.Add(smallTable(f, true, "a", "b"), uint8(0), "b", true)
	f.Add(table[:len(table)/2], uint8(0), "\x1b", true)
	f.Add([]byte(nil), uint8(0), "", false)
	f.Add([]byte("foreign"), uint8(0), "x", false)
	f.Add(bytes.Repeat([]byte{0}, 4096), uint8(1), "x", false)
	for name, b := range killed(f) {
		switch kind, _ := filename.Parse(name); kind {
		case filename.Table: // with a prefix filter
			f.Add(b, uint8(0), "a", true)
		case filename.Log, filename.Manifest:
			binary.LittleEndian.PutUint64(b[16:], 1) // its number, which is in the names above
			binary.LittleEndian.PutUint32(b[12:],
				crc32.Update(crc32.Checksum(b[:12], castagnoli), castagnoli, b[16:32]))
			f.Add(b, uint8(1), "", true)
			f.Add(b, uint8(2), "", true)
		default:
		}
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, file []byte, kind uint8, key string, repair bool) {
		name := names[int(kind)%len(names)]
		isLog := name == "000001.log"
		if repair { // lets the fuzzer past the checksums
			file = bytes.Clone(file)
			if isLog || name == "MANIFEST-000001" {
				if len(file) >= 32 {
					repairLog(file, 1)
				}
			} else if len(file) >= footerBytes {
				reseal(file)
			}
		}
		name = filepath.Join(dir, name)
		writeFile(t, name, file)
		asJSON := []string{
			"inspect", name, "--json", "--verify", "--key",
			string(words.AppendEscaped(nil, []byte(key))),
		}
		if isLog {
			asJSON = append(asJSON, "--entries")
		}
		for _, args := range [][]string{
			{
				"inspect", name, "--verify", "--hex", "--entries", "--key",
				string(words.AppendEscaped(nil, []byte(key))),
			}, asJSON,
		} {
			r := tool{}.run(t, args...)
			if r.code != cli.ExitOK && (r.code != cli.ExitTrouble || !strings.Contains(r.err, filepath.Base(name))) {
				t.Fatalf("%q: exit %d, %q", args, r.code, r.err)
			}
			printable(t, args, r.out+r.err)
		}
	})
}

// FuzzInspectStore checks that any directory gives a result or an error, and that opening it read-only does what
// inspect reports.
func FuzzInspectStore(f *testing.F) {
	files := killed(f)
	var table, log, manifest string
	for name := range files {
		switch kind, _ := filename.Parse(name); kind {
		case filename.Table:
			table = name
		case filename.Log:
			log = name
		case filename.Manifest:
			manifest = name
		default:
		}
	}
	_, logNumber := filename.Parse(log)
	_, manifestNumber := filename.Parse(manifest)
	whole := func(name string) []byte { return files[name] }
	f.Add(whole(table), whole(log), whole(manifest), whole("CURRENT"), "other\x1b", "a", true)
	f.Add(whole(table), whole(log), whole(manifest), []byte{}, "000099.sst", "", false)
	f.Add(whole(table)[:100], whole(log)[:70], whole(manifest), whole("CURRENT"), "MANIFEST-000001", "c", false)
	f.Add([]byte{}, []byte{}, []byte{}, whole("CURRENT"), "000001.tmp", "", false)
	f.Add(whole(table), whole(manifest), whole(log), whole("CURRENT"), "000001.log", "c", true)
	dir := filepath.Join(f.TempDir(), "store")
	f.Fuzz(func(t *testing.T, tableBytes, logBytes, manifestBytes, current []byte, other, key string, repair bool) {
		if repair {
			logBytes, manifestBytes = bytes.Clone(logBytes), bytes.Clone(manifestBytes)
			if len(logBytes) >= 32 && len(manifestBytes) >= 32 {
				repairLog(logBytes, logNumber)
				repairLog(manifestBytes, manifestNumber)
			}
		}
		must(t, errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)))
		_ = os.WriteFile(filepath.Join(dir, filepath.Base(other)), tableBytes, 0o600) // if that can be a name
		for name, b := range map[string][]byte{
			table: tableBytes, log: logBytes, manifest: manifestBytes,
			"CURRENT": current,
		} {
			writeFile(t, filepath.Join(dir, name), b)
		}
		var s inspect.Store
		alone := false // there is no manifest, and nothing but an error
		for _, args := range [][]string{
			{"inspect", dir, "--verify", "--key", string(words.AppendEscaped(nil, []byte(key)))},
			{"inspect", dir, "--json", "--key", string(words.AppendEscaped(nil, []byte(key)))},
		} {
			r := tool{}.run(t, args...)
			if r.code != cli.ExitOK && (r.code != cli.ExitTrouble || r.err == "") || r.out == "" &&
				r.code == cli.ExitOK {
				t.Fatalf("%q: exit %d, %q", args, r.code, r.err)
			}
			alone = r.out == ""
			printable(t, args, r.out+r.err)
			if args[2] == "--json" && !alone {
				must(t, json.Unmarshal([]byte(r.out), &s))
			}
		}
		db, err := bloomkv.Open(dir, &bloomkv.Options{ReadOnly: true})
		if err == nil {
			err = db.Close()
		}
		if alone {
			if err == nil {
				t.Fatal("opened, although inspect found no manifest")
			}
			return
		}
		if refused := s.Opening.Refused; (err == nil) != (refused == nil) || err != nil &&
			!strings.HasSuffix(err.Error(), refused.Error) {
			t.Fatalf("opened: %v; inspect says %+v", err, refused)
		}
	})
}
