package bloomkv_test

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// TestTheTextOfMetricsFitsAndLeavesOutZeros prints the figures of a new store, of one in use, and large ones.
func TestTheTextOfMetricsFitsAndLeavesOutZeros(t *testing.T) {
	o := storetest.Small(vfstest.NewMem())
	db, err := bloomkv.Open("db", o)
	must(t, err)
	fresh := db.Metrics()
	for i := range 2000 {
		must(t, storetest.PutWith(db, bloomkv.DurabilityNoSync, fmt.Appendf(nil, "key%05d", i), make([]byte, 100)))
	}
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	for i := range 100 {
		if _, err := db.Get(fmt.Appendf(nil, "key%05d/", i)); !errors.Is(err, bloomkv.ErrNotFound) {
			t.Fatal(err)
		}
	}
	storetest.Settle(t, db)
	used := db.Metrics()
	must(t, db.Close())
	large := used
	large.Levels = append([]bloomkv.LevelMetrics(nil), used.Levels...)
	for l := range large.Levels {
		fill(reflect.ValueOf(&large.Levels[l]).Elem())
		large.Levels[l].Level, large.Levels[l].Runs, large.Levels[l].Tables = l, 12, 1_000_000
		large.Levels[l].Entries = 9_999_999_999
	}
	fill(reflect.ValueOf(&large).Elem())
	zero := regexp.MustCompile(` 0( bytes)?(,|$)`)
	for name, m := range map[string]bloomkv.Metrics{
		"new": fresh, "in use": used, "large": large, "closed": db.Metrics(), "zero": {},
	} {
		page := m.String()
		for line := range strings.Lines(page) {
			line = strings.TrimSuffix(line, "\n")
			if utf8.RuneCountInString(line) > 80 {
				t.Errorf("%s: a line of %d characters: %q", name, utf8.RuneCountInString(line), line)
			}
			if zero.MatchString(line) {
				t.Errorf("%s: zeros in %q", name, line)
			}
		}
		t.Logf("%s:\n%s", name, page)
	}
	text := strings.Join(strings.Fields(large.String()), " ")
	for name := range strings.FieldsSeq(metricNames) {
		names := strings.Split(name, ".")
		if names[0] == "levels" || names[0] == "work" && len(names) > 2 {
			continue // in columns, or in lines of their own
		}
		name = strings.ReplaceAll(strings.TrimSuffix(names[min(1, len(names)-1)], "_ns"), "_", " ")
		if !strings.Contains(text, " "+name) {
			t.Errorf("no %q in\n%s", name, large)
		}
	}
	page := used.String()
	if n := strings.Count(page[:strings.Index(page, "store:")], "\n"); n != 2 {
		t.Errorf("%d lines of levels, want a head and one level with tables:\n%s", n, page)
	}
	for _, want := range []string{"absent 100", "filter negatives ", "settled"} {
		if !strings.Contains(strings.Join(strings.Fields(page), " "), want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	if fresh := fresh.String(); strings.Contains(fresh, "lookups:") || strings.Contains(fresh, "level ") {
		t.Errorf("a new store has no lookups and no levels:\n%s", fresh)
	}
}

// fill sets the figures of a struct, and of structs inside it, to large numbers.
func fill(v reflect.Value) {
	for _, f := range v.Fields() {
		switch f.Kind() {
		case reflect.Struct:
			fill(f)
		case reflect.Uint64:
			f.SetUint(123_456_789_012)
		case reflect.Int64:
			f.SetInt(int64(123456789012 * time.Nanosecond))
		case reflect.Int:
			f.SetInt(1_234_567)
		case reflect.Float64:
			f.SetFloat(0.000012345)
		default:
		}
	}
}
