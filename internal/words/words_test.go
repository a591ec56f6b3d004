package words

import "testing"

func TestNounsAgreeWithTheirNumbers(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Plural(0, "table"), "0 tables"},
		{Plural(1, "table"), "1 table"},
		{Plural(uint64(1), "entry"), "1 entry"},
		{Plural(uint64(2), "entry"), "2 entries"},
		{Plural(int64(3), "flush"), "3 flushes"},
		{Plural(4, "search"), "4 searches"},
		{Plural(5, "index"), "5 indexes"},
		{Plural(4, "key"), "4 keys"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

func TestCountsHaveTheirThousandsApart(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 123456: "123,456", 1234567: "1,234,567"} {
		if got := Count(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}

func TestMemoryIsCountedInMiB(t *testing.T) {
	for bytes, want := range map[int64]string{
		0: "0 MiB", 64 << 20: "64 MiB", 2 << 40: "2,097,152 MiB", 25 << 19: "12.5 MiB", 1000: "0.0 MiB",
	} {
		if got := MiB(bytes); got != want {
			t.Errorf("%d bytes: %q, want %q", bytes, got, want)
		}
	}
}
