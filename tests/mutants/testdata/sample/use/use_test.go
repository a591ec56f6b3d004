// Package use has tests of package sample.
package use

import (
	"testing"

	"github.com/bloomkv/bloomkv/tests/mutants/testdata/sample"
)

func TestRoot(t *testing.T) {
	if r, err := sample.Root(17); r != 4 || err != nil {
		t.Errorf("got %d, %v, want 4", r, err)
	}
	if _, err := sample.Root(-4); err == nil {
		t.Error("no error")
	}
}

func TestThatFails(t *testing.T) {
	if r, _ := sample.Root(0); r != 1 {
		t.Error("fails without a mutant too, so it judges none")
	}
}
