package filename

import (
	"math"
	"path/filepath"
	"testing"
)

func TestNamesArePrintedAndParsed(t *testing.T) {
	for _, test := range []struct {
		kind   Kind
		number uint64
		want   string
	}{
		{Log, 1, "000001.log"},
		{Log, 0, "000000.log"},
		{Table, 99999, "099999.sst"},
		{Table, 100000, "100000.sst"},
		{Table, 123456, "123456.sst"},
		{Table, 1000000, "1000000.sst"},
		{Table, 1234567, "1234567.sst"},
		{Temp, 42, "000042.tmp"},
		{Manifest, 7, "MANIFEST-000007"},
		{Manifest, math.MaxUint64, "MANIFEST-18446744073709551615"},
		{Current, 0, "CURRENT"},
		{Lock, 0, "LOCK"},
	} {
		if got := Base(test.kind, test.number); got != test.want {
			t.Errorf("Base(%d, %d) is %q, want %q", test.kind, test.number, got, test.want)
		}
		if got, want := Make("dir", test.kind, test.number), filepath.Join("dir", test.want); got != want {
			t.Errorf("Make(dir, %d, %d) is %q, want %q", test.kind, test.number, got, want)
		}
		if kind, number := Parse(test.want); kind != test.kind || number != test.number {
			t.Errorf("Parse(%q) is %d, %d; want %d, %d", test.want, kind, number, test.kind, test.number)
		}
	}
}

func TestOtherNamesAreUnknown(t *testing.T) {
	for _, name := range []string{
		"", ".", "..", "/", "1.sst", "00001.sst", "0000001.sst", "0123456.sst", "+00001.sst", "-00001.sst",
		" 00001.sst", "000001.sst ",
		"000001.SST", "000001.sst\n", "000001.sst\x00", "000001.", "000001", ".sst", "00000a.sst",
		"0x0001.sst", "00_001.sst", "000001.sst.sst", "../000001.sst", "/000001.sst", "dir/000001.sst",
		"18446744073709551616.log", "000000000000000000001.log", "MANIFEST-", "MANIFEST-7", "MANIFEST-0000007",
		"MANIFEST-+00007", "MANIFEST-000007 ", "MANIFEST-000007.tmp", "manifest-000007", "MANIFEST-../000007",
		"MANIFEST-18446744073709551616", "CURRENT ", "CURRENT.tmp", "current", "LOCK\n", "lock", "٠٠٠٠٠١.sst",
	} {
		if kind, number := Parse(name); kind != Unknown || number != 0 {
			t.Errorf("Parse(%q) is %d, %d; want unknown", name, kind, number)
		}
	}
}

func TestWhatHasNoNamePanics(t *testing.T) {
	for _, kind := range []Kind{Unknown, Lock + 1} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Base(%d, 1) does not panic", kind)
				}
			}()
			Base(kind, 1)
		}()
	}
}

// FuzzParse parses any name: a known one equals the result of Base, and is not a path.
func FuzzParse(f *testing.F) {
	for _, name := range []string{
		"000001.log", "1234567.sst", "MANIFEST-000007", "000009.tmp", "CURRENT", "LOCK", "+00001.sst", "../1.log", "",
	} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		kind, number := Parse(name)
		if kind == Unknown {
			return
		}
		if again := Base(kind, number); again != name || filepath.Base(name) != name {
			t.Fatalf("Parse(%q) is %d, %d, whose name is %q", name, kind, number, again)
		}
	})
}
