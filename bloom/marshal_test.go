package bloom

import (
	"bytes"
	"encoding"
	"encoding/binary"
	"encoding/gob"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/bloomkv/bloomkv/bloomblock"
)

// A traveller is a set that can be encoded.
type traveller interface {
	set
	encoding.BinaryMarshaler
	encoding.BinaryAppender
	encoding.BinaryUnmarshaler
	encoding.TextMarshaler
	encoding.TextUnmarshaler
	io.WriterTo
	io.ReaderFrom
}

// travellers returns sets of all kinds that can be encoded, with keys, and an empty one of the same kind for each.
func travellers() map[string][2]traveller {
	all := make(map[string][2]traveller)
	for _, layout := range []Layout{LayoutBlocked, LayoutClassic, LayoutPartitioned} {
		for _, rate := range []float64{0.1, 1e-5} {
			f := must(New(Options{Keys: 500, Rate: rate, Seed: testSeed, Layout: layout}))
			all[fmt.Sprint(layout, " ", rate)] = [2]traveller{f, new(Filter)}
		}
	}
	o := Options{Keys: 500, Rate: 1e-4, Seed: testSeed}
	c := must(NewCounting(o))
	c.Remove([]byte("absent"))
	all["counting"] = [2]traveller{c, new(Counting)}
	all["scalable"] = [2]traveller{must(NewScalable(o)), new(Scalable)}
	o.Keys = 300
	w := must(NewWindow(o, 3))
	w.Advance()
	all["window"] = [2]traveller{w, new(Window)}
	for _, s := range all {
		addRange(s[0], 0, 500)
	}
	addRange(all["scalable"][0], 500, 2000)
	return all
}

func TestSetsTravel(t *testing.T) {
	for name, s := range travellers() {
		from, to := s[0], s[1]
		encoded := must(from.MarshalBinary())
		appended := must(from.AppendBinary([]byte("before")))
		if string(appended) != "before"+string(encoded) {
			t.Errorf("%s: AppendBinary and MarshalBinary differ", name)
		}
		var stream bytes.Buffer
		for range 2 {
			if n, err := from.WriteTo(&stream); n != int64(len(encoded)) || err != nil {
				t.Errorf("%s: wrote %d bytes, want %d; %v", name, n, len(encoded), err)
			}
		}
		if stream.String() != string(encoded)+string(encoded) {
			t.Errorf("%s: WriteTo and MarshalBinary differ", name)
		}
		check := func() {
			t.Helper()
			for i := range uint64(20_000) {
				if got, want := to.MayContainHash(hash(i)), from.MayContainHash(hash(i)); got != want {
					t.Fatalf("%s: hash %d: %v, want %v", name, i, got, want)
				}
			}
			if again := must(to.MarshalBinary()); !bytes.Equal(again, encoded) || to.Options() != from.Options() {
				t.Errorf("%s: encoded again, it differs", name)
			}
		}
		if err := to.UnmarshalBinary(encoded); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		check()
		reader := iotest.HalfReader(&stream)
		for range 2 {
			if n, err := to.ReadFrom(reader); n != int64(len(encoded)) || err != nil {
				t.Fatalf("%s: read %d bytes, want %d; %v", name, n, len(encoded), err)
			}
			check()
		}
		if _, err := to.ReadFrom(reader); !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v at the end, want EOF", name, err)
		}
		// A set that was read takes further keys like the one that was written.
		addRange(from, 5000, 700)
		addRange(to, 5000, 700)
		if !bytes.Equal(must(to.MarshalBinary()), must(from.MarshalBinary())) {
			t.Errorf("%s: with further keys the sets differ", name)
		}
	}
}

// The numbers of a Counting are those of its keys, and not of the filter in it, which counts no Remove.
func TestTheNumbersOfACountingTravel(t *testing.T) {
	c := must(NewCounting(Options{Keys: 500, Rate: 1e-4, Seed: testSeed}))
	addRange(c, 0, 100)
	for i := range uint64(50) {
		c.RemoveHash(hash(i))
	}
	c.RemoveHash(hash(0))
	var got Counting
	if err := got.UnmarshalBinary(must(c.MarshalBinary())); err != nil || got.Len() != 50 || got.Refused() != 1 {
		t.Errorf("%d keys, %d refused, %v; want 50 and 1", got.Len(), got.Refused(), err)
	}
}

// By the encoders of the standard library a set travels as a pointer, as a value and inside of a struct.
func TestSetsTravelByEveryEncoder(t *testing.T) {
	for name, s := range travellers() {
		from, want := s[0], must(s[0].MarshalBinary())
		value := reflect.ValueOf(from).Elem().Interface()
		check := func(form string, decode func(to any) error) {
			t.Helper()
			to, ok := reflect.TypeAssert[traveller](reflect.New(reflect.TypeOf(value)))
			if !ok {
				t.Fatalf("%s, %s: not a set", name, form)
			}
			if err := decode(to); err != nil {
				t.Errorf("%s, %s: %v", name, form, err)
				return
			}
			if got := must(to.MarshalBinary()); !bytes.Equal(got, want) {
				t.Errorf("%s, %s: the set differs", name, form)
			}
		}
		for form, set := range map[string]any{"JSON of a pointer": from, "JSON of a value": value} {
			text := must(json.Marshal(set))
			check(form, func(to any) error { return json.Unmarshal(text, to) })
		}
		text := must(json.Marshal(map[string]any{"Set": []any{value}}))
		check("JSON inside of a value", func(to any) error {
			return json.Unmarshal(text, &struct{ Set []any }{[]any{to}})
		})
		var stream bytes.Buffer
		if err := gob.NewEncoder(&stream).Encode(from); err != nil {
			t.Errorf("%s: gob: %v", name, err)
		}
		check("gob", func(to any) error { return gob.NewDecoder(&stream).Decode(to) })
		for _, damage := range []string{"{}", `""`, `"AAAA"`, `"?"`, "[]", "1"} {
			if err := json.Unmarshal([]byte(damage), s[1]); err == nil {
				t.Errorf("%s: JSON %s is a set", name, damage)
			}
		}
		if err := s[1].UnmarshalText([]byte("AAAA?")); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: text that is not base 64: %v, want %v", name, err, ErrDamaged)
		}
	}
	a := must(NewAtomic(Options{Keys: 10}))
	for form, set := range map[string]any{"pointer": a, "value": *a, "struct": struct{ A Atomic }{*a}} {
		if b, err := json.Marshal(set); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("JSON of an Atomic, %s: %s, %v, want an error", form, b, err)
		}
	}
	if err := json.Unmarshal([]byte(`"AAAA"`), a); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("an Atomic of JSON: %v, want an error", err)
	}
	if err := gob.NewEncoder(io.Discard).Encode(a); err == nil {
		t.Error("gob encodes an Atomic")
	}
}

// A zero value has no bits: it denies no key, also after a call of each of its methods, and is not encoded.
func TestZeroValuesDenyNothing(t *testing.T) {
	arguments := map[reflect.Type]reflect.Value{
		reflect.TypeFor[io.Writer]():         reflect.ValueOf(io.Discard),
		reflect.TypeFor[io.Reader]():         reflect.ValueOf(strings.NewReader("")),
		reflect.TypeFor[*Filter]():           reflect.ValueOf(new(Filter)),
		reflect.TypeFor[[]bloomblock.Hash](): reflect.ValueOf(make([]bloomblock.Hash, 70)),
	}
	for _, s := range []interface{ MayContain(key []byte) bool }{
		new(Filter), new(Atomic), new(Counting), new(Scalable), new(Window),
	} {
		v := reflect.ValueOf(s)
		for i := range v.NumMethod() {
			name, method := v.Type().Method(i).Name, v.Method(i)
			in := make([]reflect.Value, method.Type().NumIn())
			for j := range in {
				in[j] = reflect.Zero(method.Type().In(j))
				if argument, ok := arguments[method.Type().In(j)]; ok {
					in[j] = argument
				}
			}
			out := method.Call(in)
			want := any(nil)
			switch name {
			case "Add", "AddHash", "AddIfAbsent", "AddHashIfAbsent":
				want = false
			case "MayContain", "MayContainHash":
				want = true
			case "MayContainMany":
				want = ^uint64(0)
			case "Rate", "RateAt", "RateBound", "Fill":
				want = 1.0
			case "Bytes", "Generations", "Stuck":
				want = 0
			case "Len":
				want = uint64(0)
			case "EstimatedCount":
				want = unknown
			case "MarshalBinary", "AppendBinary", "WriteTo":
				if err, _ := reflect.TypeAssert[error](out[len(out)-1]); !errors.Is(err, ErrNoBits) {
					t.Errorf("%T.%s: %v, want %v", s, name, err, ErrNoBits)
				}
			}
			if want != nil && len(out) > 0 && out[0].Interface() != want { // Atomic.Add returns nothing
				t.Errorf("%T.%s: %v, want %v", s, name, out, want)
			}
		}
		if !s.MayContain([]byte("any")) {
			t.Errorf("%T: a zero value denies a key at the end", s)
		}
		if _, err := json.Marshal(s); err == nil {
			t.Errorf("%T: a zero value is encoded as JSON", s)
		}
	}
	if got := must(new(Filter).Compare(new(Filter))); got.Union != unknown {
		t.Errorf("two zero values: %v, want %v", got.Union, unknown)
	}
	f := must(New(Options{Keys: 10}))
	if err := f.Union(new(Filter)); !errors.Is(err, ErrShape) {
		t.Errorf("united with a zero value: %v, want %v", err, ErrShape)
	}
}

func TestReadingAndWritingFail(t *testing.T) {
	broken := errors.New("broken")
	for name, s := range travellers() {
		encoded := must(s[0].MarshalBinary())
		for _, n := range []int{0, 5, headerSize, headerSize + 1, len(encoded) - 1} {
			r := io.MultiReader(bytes.NewReader(encoded[:n]), iotest.ErrReader(broken))
			if _, err := s[1].ReadFrom(r); !errors.Is(err, broken) {
				t.Errorf("%s: reading fails after %d bytes: %v", name, n, err)
			}
			written, err := s[0].WriteTo(&limited{left: n, err: broken})
			if !errors.Is(err, broken) || written != int64(n) {
				t.Errorf("%s: writing fails after %d bytes: %v, %d written", name, n, err, written)
			}
		}
	}
}

// A limited writer fails after some bytes.
type limited struct {
	left int
	err  error
}

func (l *limited) Write(b []byte) (int, error) {
	n := min(len(b), l.left)
	l.left -= n
	if n < len(b) {
		return n, l.err
	}
	return n, nil
}

// Any byte changed, removed or added is an error, and the set that was there stays.
func TestDamageIsAnError(t *testing.T) {
	for name, s := range travellers() {
		from, to := s[0], s[1]
		encoded := must(from.MarshalBinary())
		if err := to.UnmarshalBinary(encoded); err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(encoded); i += 1 + i/(3*headerSize)*7 {
			damaged := bytes.Clone(encoded)
			damaged[i] ^= 1 << (i % 8)
			if err := to.UnmarshalBinary(damaged); !errors.Is(err, ErrDamaged) {
				t.Fatalf("%s: byte %d changed: %v", name, i, err)
			}
			if err := to.UnmarshalBinary(encoded[:i]); !errors.Is(err, ErrDamaged) {
				t.Fatalf("%s: %d bytes of %d: %v", name, i, len(encoded), err)
			}
		}
		if err := to.UnmarshalBinary(append(bytes.Clone(encoded), 0)); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: a byte too many: %v", name, err)
		}
		if again := must(to.MarshalBinary()); !bytes.Equal(again, encoded) {
			t.Errorf("%s: an error changed the set", name)
		}
	}
}

// Where fields of an encoded set begin, and bytes of its units: see format.go.
const (
	offVersion, offKind, offHash, offLayout, offParts, offReserved = 8, 9, 10, 11, 12, 13
	offKeys, offRate, offSeed, offAdded, offRefused                = 16, 24, 32, 40, 48
	offUnits, unitProbes, offReserved2                             = 56, 8, 104
	offContents, offHeader                                         = 120, 124
)

// seal computes the checksum of a header again.
func seal(b []byte) []byte {
	binary.LittleEndian.PutUint32(b[offHeader:], crc32.Checksum(b[:offHeader], castagnoli))
	return b
}

// Each field of the header is wrong alone, under a right checksum.
func TestEachFieldIsChecked(t *testing.T) {
	put8 := func(at int, v uint8) func(b []byte) { return func(b []byte) { b[at] = v } }
	put64 := func(at int, v uint64) func(b []byte) {
		return func(b []byte) { binary.LittleEndian.PutUint64(b[at:], v) }
	}
	all := travellers()
	for _, tt := range []struct {
		name, set string
		change    func(b []byte)
		want      string // part of the message
	}{
		{"the magic", "blocked 0.1", put8(0, 'B'), "magic"},
		{"the version", "blocked 0.1", put8(offVersion, 2), "version 2"},
		{"the kind", "blocked 0.1", put8(offKind, kindCounting), "kind 2"},
		{"the hash", "blocked 0.1", put8(offHash, 2), "hash 2"},
		{"the layout", "blocked 0.1", put8(offLayout, 3), "layout 3"},
		{"another layout", "counting", put8(offLayout, 1), "parts"},
		{
			"a layout for a counting set", "counting",
			func(b []byte) { b[offLayout], b[offParts] = 2, 1 }, "Counting with layout",
		},
		{"no parts", "blocked 0.1", put8(offParts, 0), "0 parts"},
		{"too many units", "blocked 0.1", put8(offParts, 4), "4 parts"},
		{"a unit too many", "blocked 0.1", put8(offParts, 2), "unit 1: 0 probes"},
		{"a unit too few", "blocked 1e-05", put8(offParts, 1), "unit 1 is not zero"},
		{"two units of a classic filter", "classic 0.1", put8(offParts, 2), "2 parts"},
		{"too many arrays", "partitioned 0.1", put8(offParts, 31), "31 parts"},
		{"an array too many", "partitioned 0.1", put8(offParts, 30), "bytes are missing"},
		{"too many stages", "scalable", put8(offParts, 49), "49 parts"},
		{"a stage too many", "scalable", put8(offParts, 3), "2 filters, want 3"},
		{"one generation", "window", put8(offParts, 1), "1 parts"},
		{"another number of generations", "window", put8(offParts, 4), "other options"},
		{"the first reserved byte", "blocked 0.1", put8(offReserved, 1), "reserved"},
		{"the third reserved byte", "blocked 0.1", put8(offKeys-1, 1), "reserved"},
		{"too many keys", "blocked 0.1", put64(offKeys, 1<<40+1), "keys"},
		{"negative keys", "blocked 0.1", put64(offKeys, math.MaxUint64), "keys"},
		{"other keys of a scalable set", "scalable", put64(offKeys, 1025), "other options"},
		{"a rate of 1", "blocked 0.1", put64(offRate, math.Float64bits(1)), "rate"},
		{"a rate of 0", "blocked 0.1", put64(offRate, 0), "rate"},
		{"a rate that is not a number", "blocked 0.1", put64(offRate, math.Float64bits(math.NaN())), "rate"},
		{"another rate of a window", "window", put64(offRate, math.Float64bits(0.1)), "other options"},
		{"another seed of a window", "window", put64(offSeed, 1), "other options"},
		{"more added keys than bits", "blocked 0.1", put64(offAdded, 1<<30), "added keys"},
		{"added keys of a scalable set", "scalable", put64(offAdded, 1), "another kind"},
		{"refused keys of a filter", "blocked 0.1", put64(offRefused, 1), "another kind"},
		{"no words", "classic 0.1", put64(offUnits, 0), "0 words"},
		{"half a block", "blocked 0.1", put64(offUnits, 4), "4 words"},
		{"too many words", "classic 0.1", put64(offUnits, maxWords+1), "words"},
		{"words that overflow", "partitioned 0.1", put64(offUnits, maxWords/2), "arrays"},
		{"more words than there are", "blocked 0.1", put64(offUnits, maxWords/8*8), "bytes are missing"},
		{"a unit of a window", "window", put64(offUnits, 8), "not zero"},
		{"no probes", "blocked 0.1", put8(offUnits+unitProbes, 0), "0 probes"},
		{"too many probes of a blocked filter", "blocked 0.1", put8(offUnits+unitProbes, 15), "15 probes"},
		{"too many probes of a classic filter", "classic 0.1", put8(offUnits+unitProbes, 31), "31 probes"},
		{"two probes in an array", "partitioned 0.1", put8(offUnits+unitProbes, 2), "2 probes"},
		{"a reserved byte of a unit", "blocked 0.1", put8(offUnits+unitProbes+1, 1), "reserved"},
		{"the last reserved byte of a unit", "blocked 0.1", put8(offReserved2-1, 1), "reserved"},
		{"reserved bytes at the end", "blocked 0.1", put8(offContents-1, 1), "reserved"},
		{"the checksum of the contents", "blocked 0.1", put8(offContents, 1), "checksum of the contents"},
		{"the checksum of counters", "counting", put8(offContents, 1), "checksum of the contents"},
		{"a checksum of no contents", "window", put8(offContents, 1), "another kind"},
	} {
		s := all[tt.set]
		b := must(s[0].MarshalBinary())
		tt.change(b)
		err := s[1].UnmarshalBinary(seal(b))
		unknown := tt.name == "the version" || tt.name == "the hash"
		if errors.Is(err, ErrDamaged) == unknown || errors.Is(err, ErrUnknownVersion) != unknown ||
			!strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// A header that promises a terabyte, followed by little, costs little memory.
func TestMemoryIsBoundedByTheBytesThatCome(t *testing.T) {
	for name, s := range travellers() {
		b := must(s[0].MarshalBinary())
		switch name {
		case "scalable", "window":
			continue // they consist of filters
		}
		words := uint64(maxWords / 64 / 8 * 8)
		binary.LittleEndian.PutUint64(b[offUnits:], words)
		seal(b)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := s[1].UnmarshalBinary(b); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20 {
			t.Errorf("%s: %d bytes of memory for an encoded set of %d", name, used, len(b))
		}
	}
}

// The format does not change: a small filter byte for byte.
func TestTheFormatIsKept(t *testing.T) {
	f := must(New(Options{Keys: 10, Rate: 0.01, Seed: 0x0123456789abcdef}))
	for i := range 3 {
		f.Add(fmt.Append(nil, "key", i))
	}
	got := hex.EncodeToString(must(f.MarshalBinary()))
	if got != golden {
		t.Errorf("got  %s\nwant %s", got, golden)
	}
}

const golden = "" +
	"626c6f6f6d736574" + "01" + "01" + "01" + "00" + "01" + "000000" + // magic, version, kind, hash, layout, parts
	"0a00000000000000" + "7b14ae47e17a843f" + "efcdab8967452301" + // keys, rate, seed
	"0300000000000000" + "0000000000000000" + // added, refused
	"0800000000000000" + "06" + "00000000000000" + // words, probes
	"00000000000000000000000000000000" + "00000000000000000000000000000000" + // units 1 and 2
	"00000000000000000000000000000000" + "7c71b572" + "2ac8798c" + // reserved, checksums
	"0182000000080000" + "4002000080021000" + "0001000000000000" + "2000010001000000" +
	"0100000200000000" + "2000000000000000" + "0000000000000000" + "0000040000004000"

// Filters of format version 1 have the bits of an arithmetic progression. They are read, deny none of their keys, and
// are encoded as they were.
func TestOldPositionsAreKept(t *testing.T) {
	for layout, encoded := range map[Layout]string{LayoutClassic: oldClassic, LayoutPartitioned: oldPartitioned} {
		old, again := must(hex.DecodeString(encoded)), new(Filter)
		if err := again.UnmarshalBinary(old); err != nil {
			t.Fatalf("%v: %v", layout, err)
		}
		for i := range 3 {
			if !again.Clone().MayContain(fmt.Append(nil, "key", i)) {
				t.Errorf("%v: key %d is denied", layout, i)
			}
		}
		if got := must(again.MarshalBinary()); !bytes.Equal(got, old) {
			t.Errorf("%v: encoded again %x, want %x", layout, got, old)
		}
		o := again.Options()
		now := newFilter(t, o)
		if err := now.Union(again); !errors.Is(err, ErrShape) {
			t.Errorf("%v: united with other positions: %v, want %v", layout, err, ErrShape)
		}
		addRange(now, 0, 3)
		if b := must(now.MarshalBinary()); b[offVersion] != independentVersion {
			t.Errorf("%v: version %d, want %d", layout, b[offVersion], independentVersion)
		}
		again.Clear()
		for i := range 3 {
			again.Add(fmt.Append(nil, "key", i))
		}
		if got := must(again.MarshalBinary()); !bytes.Equal(got, old) {
			t.Errorf("%v: with the same keys %x, want %x", layout, got, old)
		}
	}
}

const (
	oldClassic = "" +
		"626c6f6f6d736574" + "01" + "01" + "01" + "01" + "01" + "000000" + // magic, version, kind, hash, layout, parts
		"0300000000000000" + "7b14ae47e17a843f" + "efcdab8967452301" + // keys, rate, seed
		"0300000000000000" + "0000000000000000" + // added, refused
		"0100000000000000" + "07" + "00000000000000" + // words, probes
		"00000000000000000000000000000000" + "00000000000000000000000000000000" + // units 1 and 2
		"00000000000000000000000000000000" + "cdc7df14" + "7f2ed902" + // reserved, checksums
		"100a2414e03148a0"
	oldPartitioned = "" +
		"626c6f6f6d736574" + "01" + "01" + "01" + "02" + "07" + "000000" +
		"0300000000000000" + "7b14ae47e17a843f" + "efcdab8967452301" +
		"0300000000000000" + "0000000000000000" +
		"0100000000000000" + "01" + "00000000000000" +
		"00000000000000000000000000000000" + "00000000000000000000000000000000" +
		"00000000000000000000000000000000" + "db54def7" + "6fd2684a" +
		"0008000020000000" + "0002000020000800" + "0000001040200000" + "1000040080000000" +
		"0000000080104000" + "0000200400010000" + "00000000000100a0"
)

// Any bytes are an error or a set that encodes to the same bytes and answers.
func FuzzUnmarshal(f *testing.F) {
	for _, s := range travellers() {
		b := must(s[0].MarshalBinary())
		f.Add(b)
		f.Add(b[:headerSize])
	}
	f.Add(must(hex.DecodeString(oldClassic)))
	f.Add(must(hex.DecodeString(oldPartitioned)))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) >= headerSize {
			seal(data) // or hardly anything would come past the checksum
		}
		for _, s := range []traveller{new(Filter), new(Counting), new(Scalable), new(Window)} {
			err := s.UnmarshalBinary(data)
			switch {
			case err == nil:
				if again := must(s.MarshalBinary()); !bytes.Equal(again, data) {
					t.Errorf("%T: encoded again, it differs", s)
				}
				s.AddHash(bloomblock.Hash(len(data)))
				if !s.MayContainHash(bloomblock.Hash(len(data))) {
					t.Errorf("%T denies what was added", s)
				}
			case !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrUnknownVersion):
				t.Errorf("%T: %v", s, err)
			}
		}
	})
}
