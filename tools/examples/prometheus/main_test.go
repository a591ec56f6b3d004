package main

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

func TestTheFiguresAreCollected(t *testing.T) {
	db, err := bloomkv.Open("db", &bloomkv.Options{FS: vfstest.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, key := range []string{"a", "b"} {
		if err := db.Put([]byte(key), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Has([]byte("a")); err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector{db})
	want := `
# HELP bloomkv_lookups_total Lookups of single keys.
# TYPE bloomkv_lookups_total counter
bloomkv_lookups_total 1
# HELP bloomkv_operations_total Puts, deletes and range deletes.
# TYPE bloomkv_operations_total counter
bloomkv_operations_total 2
`
	names := []string{"bloomkv_lookups_total", "bloomkv_operations_total"}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}
