package sample

import "testing"

func TestSum(t *testing.T) {
	if got, err := Sum([]uint8{1, 2, 3}, 2); got != 5 || err != nil {
		t.Errorf("got %d, %v, want 5", got, err)
	}
}

func TestMask(t *testing.T) {
	if Mask(15) != 8 {
		t.Error("want 8")
	}
}
