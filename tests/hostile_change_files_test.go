package tests

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"

	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
)

// manifest makes a random change to the manifest's edits.
func (v *vandal) manifest() {
	r, s := v.rng, v.s
	if len(s.edits) == 0 {
		return
	}
	i := r.IntN(len(s.edits))
	e, err := manifest.ParseEdit(s.edits[i])
	if err != nil || r.IntN(8) == 0 {
		s.edits[i] = v.bytes(s.edits[i])
		v.note("bytes of edit %d", i)
		return
	}
	n := len(e.Added)
	switch k := r.IntN(12); {
	case k == 0 && n > 1:
		a, b := e.Added[r.IntN(n)].Table, e.Added[r.IntN(n)].Table
		a.Smallest, b.Smallest, a.Largest, b.Largest, a.Flags, b.Flags = b.Smallest, a.Smallest, b.Largest, a.Largest,
			b.Flags, a.Flags
		v.note("bounds of tables %d and %d swapped", a.Number, b.Number)
	case k == 1 && n > 0:
		a := e.Added[r.IntN(n)].Table
		switch r.IntN(3) {
		case 0:
			a.Smallest = v.key()
		case 1:
			a.Largest, a.Flags = v.key(), a.Flags&^manifest.LargestInfinite
		default:
			a.Largest, a.Flags = nil, a.Flags&^manifest.LargestExclusive|manifest.LargestInfinite
		}
		v.note("bounds of table %d: %v", a.Number, a.Bounds())
	case k == 2 && n > 1:
		a, b := &e.Added[r.IntN(n)], &e.Added[r.IntN(n)]
		a.Run, b.Run, a.Level, b.Level = b.Run, a.Run, b.Level, a.Level
		v.note("positions of tables %d and %d swapped", a.Table.Number, b.Table.Number)
	case k == 3 && n > 0:
		a := &e.Added[r.IntN(n)]
		a.Level, a.Run = r.IntN(manifest.NumLevels), a.Run+uint64(r.IntN(5))-2
		v.note("table %d at level %d, run %d", a.Table.Number, a.Level, a.Run)
	case k == 4 && n > 0:
		j := r.IntN(n)
		v.note("table %d removed", e.Added[j].Table.Number)
		e.Added = slices.Delete(e.Added, j, j+1)
	case k == 5 && n > 0:
		a := e.Added[r.IntN(n)]
		c := *a.Table
		a.Table = &c
		a.Level = r.IntN(manifest.NumLevels)
		e.Added = append(e.Added, a)
		v.note("table %d duplicated", c.Number)
	case k == 6:
		s.edits = slices.Insert(s.edits, r.IntN(len(s.edits)+1), s.edits[i])
		v.note("edit %d duplicated", i)
		return
	case k == 7 && n > 1:
		a, b := e.Added[r.IntN(n)].Table, e.Added[r.IntN(n)].Table
		v.note("files of tables %d and %d swapped", a.Number, b.Number)
		a.Number, b.Number = b.Number, a.Number
	default:
		v.leaf(reflect.ValueOf(e).Elem(), fmt.Sprintf("edit %d: ", i))
	}
	s.edits[i] = manifest.AppendEdit(nil, e)
}

// leaf changes one field of the struct, or of a value reachable from it.
func (v *vandal) leaf(x reflect.Value, path string) {
	switch x.Kind() { //nolint:exhaustive // the fields of edits have no other kinds
	case reflect.Pointer:
		if x.IsNil() {
			x.Set(reflect.New(x.Type().Elem()))
		}
		v.leaf(x.Elem(), path)
	case reflect.Struct:
		i := v.rng.IntN(x.NumField())
		if x.Field(i).CanSet() {
			v.leaf(x.Field(i), path+" "+x.Type().Field(i).Name)
		}
	case reflect.Slice:
		switch {
		case x.Type().Elem().Kind() == reflect.Uint8:
			x.SetBytes(v.bytes(x.Bytes()))
			v.note("%s: %q", path, x.Bytes())
		case x.Len() == 0 || v.rng.IntN(16) == 0:
			x.Set(reflect.Append(x, reflect.Zero(x.Type().Elem())))
			if e := x.Index(x.Len() - 1); e.Kind() == reflect.Struct {
				for _, f := range e.Fields() {
					if f.Kind() == reflect.Pointer {
						f.Set(reflect.New(f.Type().Elem()))
					}
				}
			}
			fallthrough
		default:
			v.leaf(x.Index(v.rng.IntN(x.Len())), path)
		}
	case reflect.Bool:
		x.SetBool(!x.Bool())
		v.note("%s: %v", path, x.Bool())
	case reflect.Int, reflect.Int64:
		x.SetInt(int64(v.number(uint64(x.Int()))))
		v.note("%s: %d", path, x.Int())
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		x.SetUint(v.number(x.Uint()))
		v.note("%s: %d", path, x.Uint())
	case reflect.Float64:
		x.SetFloat(math.Float64frombits(v.number(math.Float64bits(x.Float()))))
		v.note("%s: %v", path, x.Float())
	case reflect.String:
		x.SetString(string(v.bytes([]byte(x.String()))))
		v.note("%s: %q", path, x.String())
	}
}

// log changes a log: a record, the order of records, or the log's number.
func (v *vandal) log() {
	r, s := v.rng, v.s
	numbers := slices.Sorted(maps.Keys(s.logs))
	n := numbers[r.IntN(len(numbers))]
	l := s.logs[n]
	switch {
	case r.IntN(8) == 0:
		to := v.number(n)
		if to > 1<<20 {
			to &= 1<<20 - 1
		}
		delete(s.logs, n)
		delete(s.files, filename.Base(filename.Log, n))
		s.logs[to] = l
		v.note("log %d becomes log %d", n, to)
	case len(l) == 0:
	case r.IntN(8) == 0:
		i, j := r.IntN(len(l)), r.IntN(len(l))
		l[i], l[j] = l[j], l[i]
		v.note("log %d: records %d and %d swapped", n, i, j)
	case r.IntN(4) == 0:
		i := r.IntN(len(l))
		l[i] = bytes.Clone(l[i])
		v.word(l[i], min(8, len(l[i])))
		v.note("log %d: sequence of record %d", n, i)
	case r.IntN(4) == 0:
		i := r.IntN(len(l))
		l[i] = bytes.Clone(l[i])
		if len(l[i]) >= 12 {
			v.word(l[i][8:], 4)
		}
		v.note("log %d: count of record %d", n, i)
	default:
		i := r.IntN(len(l))
		l[i] = v.bytes(l[i])
		v.note("log %d: bytes of record %d", n, i)
	}
}

// names changes which files exist, and which manifest is current.
func (v *vandal) names() {
	r, s := v.rng, v.s
	switch r.IntN(4) {
	case 0:
		old := s.manifest
		if s.manifest = v.number(old); s.manifest > 1<<20 {
			s.manifest &= 1<<20 - 1
		}
		delete(s.files, filename.Base(filename.Manifest, old))
		v.note("manifest %d", s.manifest)
	case 1:
		s.current = v.bytes(s.files[filename.CurrentName])
		v.note("CURRENT %q", s.current)
	case 2:
		n := uint64(r.IntN(200))
		name := filename.Base([]filename.Kind{
			filename.Table, filename.Log, filename.Manifest, filename.Temp,
		}[r.IntN(4)], n)
		if _, there := s.files[name]; !there {
			s.files[name] = []byte("a stranger")
			v.note("a file %s", name)
		}
	default:
		names := slices.Sorted(maps.Keys(s.files))
		name := names[r.IntN(len(names))]
		v.late = append(v.late, func(files map[string][]byte) { delete(files, name) })
		v.note("without %s", name)
	}
}
