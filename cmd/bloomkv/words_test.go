package main

import "testing"

func TestNounsAgreeWithTheirNumbers(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{plural(0, "table"), "0 tables"},
		{plural(1, "table"), "1 table"},
		{plural(uint64(1), "entry"), "1 entry"},
		{plural(uint64(2), "entry"), "2 entries"},
		{plural(int64(3), "flush"), "3 flushes"},
		{plural(4, "key"), "4 keys"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

func TestCountsHaveTheirThousandsApart(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 123456: "123,456", 1234567: "1,234,567"} {
		if got := count(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}
