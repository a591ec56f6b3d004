package manifest

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/ikey"
)

// table returns a table with sound fields derived from its number.
func table(number uint64, smallest, largest string) *Table {
	return &Table{
		Number: number, ID: number * 0x1111, Size: 1000 + number, TailLen: 100, FilterLen: 64,
		Smallest: []byte(smallest), Largest: []byte(largest),
		MinSeq: ikey.Seq(number), MaxSeq: ikey.Seq(number), Entries: 10, Deletes: 2, FilterRate: 0.25,
	}
}

func add(level int, run uint64, t *Table) Added { return Added{level, run, t} }

func TestEditByteForByte(t *testing.T) {
	e := &Edit{
		NextFile: 0x1234, LastSeq: 0x56, MinLog: 7, Log: &LogMark{8, 9},
		Seed:    0x99,
		Mark:    batch.Mark{Seq: 0x55, Bytes: []byte("mark")},
		Deleted: []Deleted{{6, 10}},
		Added: []Added{{2, 0x0d, &Table{
			Number: 1, ID: 2, Size: 0x30, TailLen: 4, FilterLen: 5,
			Smallest: []byte("k"), Largest: []byte("kz"), Flags: LargestExclusive,
			MinSeq: 6, MaxSeq: 7, Entries: 9, Deletes: 8, RangeDeletes: 3, FilterRate: 0.5,
		}}},
		Counts:  []TableCounts{{1, Counts{0x11, 0x22, 0x33, 0x44}}},
		Filters: &Filters{FPR: 0.5, Kind: 1, Ratio: 10, Prefix: "len:8"},
		Records: 2,
	}
	u64 := func(digits string) string { return digits + strings.Repeat("0", 16-len(digits)) }
	want := "01" +
		"0108000000" + u64("3412") +
		"0208000000" + u64("56") +
		"0308000000" + u64("07") +
		"0410000000" + u64("08") + u64("09") +
		"0609000000" + "06" + u64("0a") +
		"0769000000" + "02" + "01" +
		u64("0d") + u64("01") + u64("02") + u64("30") + u64("04") + u64("05") + u64("06") + u64("07") +
		u64("09") + u64("08") + u64("03") + "000000000000e03f" +
		"01000000" + "6b" + "6b7a" +
		"0808000000" + u64("99") +
		"090c000000" + u64("55") + "6d61726b" +
		"8028000000" + u64("01") + u64("11") + u64("22") + u64("33") + u64("44") +
		"811a000000" + "000000000000e03f" + u64("00") + "01" + "0a000000" + "6c656e3a38" +
		"8204000000" + "02000000"
	if got := hex.EncodeToString(AppendEdit(nil, e)); got != want {
		t.Errorf("edit is\n%s, want\n%s", got, want)
	}
	if got, err := ParseEdit(AppendEdit(nil, e)); err != nil || !reflect.DeepEqual(got, e) {
		t.Errorf("parsed %+v, %v; want %+v", got, err, e)
	}
}

func TestEditsAreParsedAsTheyWereAppended(t *testing.T) {
	infinite, ingested := table(9, "a", ""), table(8, "", "")
	infinite.Flags = LargestInfinite
	ingested.Flags, ingested.FilterRate, ingested.FilterLen = SeqOverridden, 1, 0
	long := table(7, strings.Repeat("k", maxBound), strings.Repeat("l", maxBound))
	long.Flags = IndexInParts | RangesOverlap
	extreme := &Table{
		Number: MaxNumber - 1, ID: math.MaxUint64, Size: maxSize, TailLen: maxSize - 1, FilterLen: 1,
		Smallest: []byte{}, Largest: []byte{}, MinSeq: ikey.MaxSeq, MaxSeq: ikey.MaxSeq,
		Entries: math.MaxUint64, Deletes: math.MaxUint64, RangeDeletes: math.MaxUint64,
	}
	for name, e := range map[string]*Edit{
		"nothing": {},
		"numbers": {NextFile: 1, LastSeq: 2, MinLog: 3},
		"the largest numbers": {
			NextFile: MaxNumber, LastSeq: ikey.MaxSeq, MinLog: MaxNumber, Log: &LogMark{MaxNumber - 1, math.MaxInt64},
		},
		"a mark":           {Mark: batch.Mark{Seq: ikey.MaxSeq, Bytes: bytes.Repeat([]byte{0xff}, batch.MaxMark)}},
		"no mark any more": {Mark: batch.Mark{Seq: 3, Bytes: []byte{}}},
		"a log":            {Log: &LogMark{1, 0}},
		"no log":           {NoLog: true},
		"tables": {
			Deleted: []Deleted{{0, 3}, {6, 1}},
			Added:   []Added{add(6, 0, infinite), add(0, MaxNumber-1, ingested), add(3, 1, long)},
		},
		"an extreme table":  {Added: []Added{add(1, 2, extreme)}},
		"filters":           {Filters: &Filters{FPR: 1, Ratio: math.MaxUint32, Prefix: strings.Repeat("r", maxRule)}},
		"memory of filters": {Filters: &Filters{Memory: math.MaxUint64, Kind: 255}},
		"many records":      {Records: math.MaxUint32},
		"counts": {
			Counts: []TableCounts{
				{1, Counts{Unfiltered: 1}},
				{MaxNumber - 1, Counts{math.MaxUint64, math.MaxUint64, math.MaxUint64, math.MaxUint64}},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := AppendEdit(nil, e)
			got, err := ParseEdit(b)
			if err != nil || !reflect.DeepEqual(got, e) {
				t.Fatalf("parsed %+v, %v; want %+v", got, err, e)
			}
			clear(b)
			if !reflect.DeepEqual(got, e) {
				t.Error("the edit shares the bytes that it was parsed from")
			}
		})
	}
}

func TestEveryFieldIsChecked(t *testing.T) {
	at := func(change func(t *Table)) *Edit {
		t := table(5, "b", "d")
		change(t)
		return &Edit{Added: []Added{add(1, 2, t)}}
	}
	for name, e := range map[string]*Edit{
		"next file too large":       {NextFile: MaxNumber + 1},
		"next file 2^64-1":          {NextFile: math.MaxUint64},
		"sequence too large":        {LastSeq: ikey.MaxSeq + 1},
		"smallest log too large":    {MinLog: MaxNumber + 1},
		"log 0":                     {Log: &LogMark{0, 5}},
		"log too large":             {Log: &LogMark{MaxNumber, 5}},
		"log of negative length":    {Log: &LogMark{1, -1}},
		"log and no log":            {Log: &LogMark{1, 1}, NoLog: true},
		"delete at level 7":         {Deleted: []Deleted{{NumLevels, 1}}},
		"delete at level 255":       {Deleted: []Deleted{{255, 1}}},
		"delete of number 0":        {Deleted: []Deleted{{1, 0}}},
		"delete of too large":       {Deleted: []Deleted{{1, MaxNumber}}},
		"add at level 7":            {Added: []Added{add(NumLevels, 1, table(1, "a", "b"))}},
		"add to run too large":      {Added: []Added{add(1, MaxNumber, table(1, "a", "b"))}},
		"table 0":                   at(func(t *Table) { t.Number = 0 }),
		"table number too large":    at(func(t *Table) { t.Number = MaxNumber }),
		"bounds the wrong way":      at(func(t *Table) { t.Largest = []byte("a") }),
		"empty range":               at(func(t *Table) { t.Largest, t.Flags = t.Smallest, LargestExclusive }),
		"infinite with a key":       at(func(t *Table) { t.Flags = LargestInfinite }),
		"infinite and exclusive":    at(func(t *Table) { t.Largest, t.Flags = nil, LargestInfinite|LargestExclusive }),
		"smallest too long":         at(func(t *Table) { t.Smallest = make([]byte, maxBound+1) }),
		"largest too long":          at(func(t *Table) { t.Largest = bytes.Repeat([]byte("z"), maxBound+1) }),
		"size too large":            at(func(t *Table) { t.Size = maxSize + 1 }),
		"tail longer than the file": at(func(t *Table) { t.TailLen = t.Size + 1 }),
		"tail of 2^64-1":            at(func(t *Table) { t.TailLen = math.MaxUint64 }),
		"filter and tail too long":  at(func(t *Table) { t.FilterLen = t.Size - t.TailLen + 1 }),
		"filter of 2^64-1":          at(func(t *Table) { t.FilterLen = math.MaxUint64 }),
		"sequences the wrong way":   at(func(t *Table) { t.MinSeq = t.MaxSeq + 1 }),
		"sequences too large":       at(func(t *Table) { t.MaxSeq = ikey.MaxSeq + 1 }),
		"more deletes than entries": at(func(t *Table) { t.Deletes = t.Entries + 1 }),
		"negative rate":             at(func(t *Table) { t.FilterRate = -0.1 }),
		"rate over 1":               at(func(t *Table) { t.FilterRate = 1.1 }),
		"rate that is no number":    at(func(t *Table) { t.FilterRate = math.NaN() }),
		"infinite rate":             at(func(t *Table) { t.FilterRate = math.Inf(1) }),
		"filters of no rate":        {Filters: &Filters{}},
		"filters of both":           {Filters: &Filters{FPR: 0.1, Memory: 1}},
		"filters of rate 2":         {Filters: &Filters{FPR: 2}},
		"filters of a rate below 0": {Filters: &Filters{FPR: -0.1}},
		"filters of no number":      {Filters: &Filters{FPR: math.NaN()}},
		"one record":                {Records: 1},
		"filters of a long rule":    {Filters: &Filters{FPR: 0.1, Prefix: strings.Repeat("r", maxRule+1)}},
		"counts of table 0":         {Counts: []TableCounts{{0, Counts{Negatives: 1}}}},
		"counts of too large":       {Counts: []TableCounts{{MaxNumber, Counts{Negatives: 1}}}},
		"counts that are 0":         {Counts: []TableCounts{{1, Counts{}}}},
		"counts twice":              {Counts: []TableCounts{{1, Counts{Negatives: 1}}, {1, Counts{Negatives: 1}}}},
		"counts in another order":   {Counts: []TableCounts{{2, Counts{Negatives: 1}}, {1, Counts{Negatives: 1}}}},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := ParseEdit(AppendEdit(nil, e)); err == nil || errors.Is(err, ErrUnsupportedVersion) {
				t.Errorf("parsed %+v, %v; want an error", got, err)
			}
			if _, err := new(Version).Apply(e); err == nil {
				t.Error("Apply accepts it")
			}
		})
	}
}

func TestMalformedEdits(t *testing.T) {
	field := func(tag byte, body ...byte) []byte {
		return append(binary.LittleEndian.AppendUint32([]byte{tag}, uint32(len(body))), body...)
	}
	number := []byte{1, 0, 0, 0, 0, 0, 0, 0}
	edit := func(fields ...[]byte) []byte { return append([]byte{editVersion}, slices.Concat(fields...)...) }
	tableBody := appendTable(nil, add(1, 2, table(3, "a", "b")))
	longSmallest := bytes.Clone(tableBody)
	binary.LittleEndian.PutUint32(longSmallest[tableSize-4:], 3)
	hugeSmallest := bytes.Clone(tableBody)
	binary.LittleEndian.PutUint32(hugeSmallest[tableSize-4:], math.MaxUint32)
	for _, test := range []struct {
		name        string
		bytes       []byte
		unsupported bool
		ok          bool
	}{
		{"no bytes", nil, false, false},
		{"version 0", []byte{0}, true, false},
		{"version 2", []byte{2}, true, false},
		{"a version alone", edit(), false, true},
		{"a tag alone", edit([]byte{1}), false, false},
		{"a cut length", edit([]byte{1, 8, 0, 0}), false, false},
		{"a cut body", edit(field(1, number...)[:12]), false, false},
		{"a length of 2^32-1", edit([]byte{1, 255, 255, 255, 255, 0}), false, false},
		{"a skipped field with a length of 2^32-1", edit([]byte{ignorable, 255, 255, 255, 255, 0}), false, false},
		{"a short number", edit(field(1, 1)), false, false},
		{"a long number", edit(field(1, append(number, 0)...)), false, false},
		{"a number that is 0", edit(field(2, make([]byte, 8)...)), false, false},
		{"a field twice", edit(field(1, number...), field(1, number...)), false, false},
		{"a field twice, without a body", edit(field(5), field(5)), false, false},
		{"fields in another order", edit(field(2, number...), field(1, number...)), false, false},
		{"tag 0", edit(field(0, number...)), false, false},
		{"tag 0 without a body", edit(field(0)), false, false},
		{"no log, with a body", edit(field(5, 1)), false, false},
		{"a log synced up to 2^63", edit(field(4, append(number, 0, 0, 0, 0, 0, 0, 0, 128)...)), false, false},
		{"a short table", edit(field(7, tableBody[:tableSize-1]...)), false, false},
		{"a smallest key longer than both", edit(field(7, longSmallest...)), false, false},
		{"a smallest key of 2^32-1", edit(field(7, hugeSmallest...)), false, false},
		{"an unknown flag of a table", edit(field(7, append([]byte{1, 64}, tableBody[2:]...)...)), true, false},
		{"an unknown tag", edit(field(10)), true, false},
		{"a short mark", edit(field(9, 1, 2, 3)), false, false},
		{"a mark of sequence 0", edit(field(9, append(make([]byte, 8), 'm')...)), false, false},
		{"a mark, twice", edit(field(9, number...), field(9, number...)), false, false},
		{"the longest mark", edit(field(9, append(number, make([]byte, batch.MaxMark)...)...)), false, true},
		{"a longer mark", edit(field(9, append(number, make([]byte, batch.MaxMark+1)...)...)), false, false},
		{"a short seed", edit(field(8, 1, 2, 3)), false, false},
		{"seed 0", edit(field(8, make([]byte, 8)...)), false, false},
		{"a seed, twice", edit(field(8, number...), field(8, number...)), false, false},
		{"the last unknown tag that may not be skipped", edit(field(127, 1, 2, 3)), true, false},
		{"a tag that may be skipped", edit(field(1, number...), field(131, 1, 2, 3), field(255)), false, true},
		{"short options for filters", edit(field(129, make([]byte, filtersSize-1)...)), false, false},
		{
			"options for filters, twice",
			edit(
				field(129, appendFilters(nil, &Filters{FPR: 1})...),
				field(129, appendFilters(nil, &Filters{FPR: 1})...),
			),
			false, false,
		},
		{"short counts", edit(field(128, make([]byte, countsSize-1)...)), false, false},
		{"long counts", edit(field(128, append(number, make([]byte, countsSize)...)...)), false, false},
		{"0 records", edit(field(130, 0, 0, 0, 0)), false, false},
		{"a short number of records", edit(field(130, 2, 0, 0)), false, false},
		{"a number of records, twice", edit(field(130, 2, 0, 0, 0), field(130, 2, 0, 0, 0)), false, false},
		{"a tag that may be skipped, twice", edit(field(131, 1), field(131, 2)), false, true},
		{"a tag that may be skipped, too early", edit(field(131), field(1, number...)), false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			e, err := ParseEdit(test.bytes)
			if (err == nil) != test.ok || errors.Is(err, ErrUnsupportedVersion) != test.unsupported {
				t.Errorf("parsed %+v, %v; want ok %v, unsupported %v", e, err, test.ok, test.unsupported)
			}
		})
	}
}

// FuzzParseEdit parses any bytes: it does not panic, and what parses encodes to the same bytes, except for skipped
// fields.
func FuzzParseEdit(f *testing.F) {
	infinite := table(9, "a", "")
	infinite.Flags = LargestInfinite
	whole := AppendEdit(nil, &Edit{
		NextFile: 10, LastSeq: 11, MinLog: 12, Log: &LogMark{13, 14},
		Deleted: []Deleted{{0, 3}, {6, 1}}, Added: []Added{add(6, 0, infinite), add(0, 7, table(2, "", "key"))},
		Counts:  []TableCounts{{2, Counts{1, 2, 3, 4}}, {9, Counts{Negatives: 64}}},
		Filters: &Filters{FPR: 0.01, Ratio: 10, Prefix: "len:8"}, Records: 3,
	})
	f.Add(whole)
	f.Add(AppendEdit(nil, &Edit{NoLog: true}))
	f.Add(append(bytes.Clone(whole), 0x83, 1, 0, 0, 0, 5))
	for i := 0; i < len(whole); i += 7 {
		f.Add(whole[:i])
		damaged := bytes.Clone(whole)
		damaged[i] ^= 0xff
		f.Add(damaged)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := ParseEdit(data)
		if err != nil {
			return
		}
		again := AppendEdit(nil, e)
		if !bytes.HasPrefix(data, again) || len(data) > len(again) && data[len(again)] <= tagRecords {
			t.Fatalf("%x parses to %+v, and that is %x", data, e, again)
		}
		v, err := new(Version).Apply(&Edit{Added: e.Added})
		if err != nil {
			return
		}
		if err := v.Check(); err != nil {
			t.Fatalf("Apply makes a version that Check refuses: %v\n%s", err, v)
		}
	})
}
