package main

import (
	"encoding/json"
	"expvar"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

func TestTheVariableIsTheMetrics(t *testing.T) {
	db, err := bloomkv.Open("db", &bloomkv.Options{FS: vfstest.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	publish("store", db)
	for range 3 {
		if _, err := db.Has([]byte("absent")); err != nil {
			t.Fatal(err)
		}
	}
	var got bloomkv.Metrics
	if err := json.Unmarshal([]byte(expvar.Get("store").String()), &got); err != nil {
		t.Fatal(err)
	}
	if got.Lookups.Gets != 3 || got.FPRPromised != 0.01 {
		t.Errorf("published %d lookups and a rate of %v, want 3 and 0.01", got.Lookups.Gets, got.FPRPromised)
	}
}
