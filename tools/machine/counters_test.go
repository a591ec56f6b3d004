package machine

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// noise is the number of other reads and writes during a test, by the Go runtime and the test's log.
const noise = 50

func counters(t *testing.T) Counters {
	t.Helper()
	c, ok := Read()
	if !ok {
		if runtime.GOOS == "linux" {
			t.Fatal("no counters, on Linux")
		}
		t.Skip("the system has no counters")
	}
	return c
}

func TestReadsAndWritesAreCounted(t *testing.T) {
	const size, times = 4096, 1000
	name := filepath.Join(t.TempDir(), "file")
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	block := bytes.Repeat([]byte("x"), size)
	check := func(what string, calls, chars uint64) {
		t.Helper()
		if calls < times || calls > times+noise || chars < times*size || chars > times*size+noise*size {
			t.Errorf("%d %s of %d bytes together, want %d of %d", calls, what, chars, times, times*size)
		}
	}
	before := counters(t)
	for i := range times {
		if _, err := f.WriteAt(block, int64(i)*size); err != nil {
			t.Fatal(err)
		}
	}
	written := counters(t)
	for i := range times {
		if _, err := f.ReadAt(block, int64(i)*size); err != nil {
			t.Fatal(err)
		}
	}
	d := counters(t).Sub(written)
	check("reads", d.Reads, d.ReadChars)
	if d.Writes > noise {
		t.Errorf("%d writes, want none", d.Writes)
	}
	d = written.Sub(before)
	check("writes", d.Writes, d.WriteChars)
	if d.Reads > noise {
		t.Errorf("%d reads, want none", d.Reads)
	}
}

func TestReadingTheCountersIsNotCounted(t *testing.T) {
	before := counters(t)
	for range 1000 {
		counters(t)
	}
	if d := counters(t).Sub(before); d.Reads > noise || d.ReadChars > noise*100 {
		t.Errorf("%d reads of %d bytes, want none", d.Reads, d.ReadChars)
	}
}

func TestResidentMemoryAndItsPeakAreSeen(t *testing.T) {
	const size = 64 << 20
	before := counters(t)
	block := make([]byte, size)
	for i := 0; i < size; i += 512 {
		block[i] = 1
	}
	with := counters(t)
	if with.Resident < before.Resident+size*3/4 || with.PeakResident < with.Resident*9/10 || with.Resident > 64*size {
		t.Errorf("%d bytes resident before, %d with %d more, at most %d",
			before.Resident, with.Resident, size, with.PeakResident)
	}
	runtime.KeepAlive(block)
	if d := with.Sub(before); d.Resident != with.Resident || d.PeakResident != with.PeakResident {
		t.Errorf("the difference has %d resident, at most %d; want them as they are", d.Resident, d.PeakResident)
	}
}

func TestProcessorTimeIsCounted(t *testing.T) {
	before := counters(t)
	var sum uint64
	const want, patience = 50 * time.Millisecond, time.Minute // a busy machine has others run meanwhile
	for begin := time.Now(); counters(t).Sub(before).User < want && time.Since(begin) < patience; {
		for i := range uint64(10_000) {
			sum += i * i
		}
	}
	for range 2000 {
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, f); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	if d := counters(t).Sub(before); d.User < want || d.User+d.System > patience {
		t.Errorf("%v in the program and %v in the kernel, want some %v (%d)", d.User, d.System, want, sum)
	}
}

func TestThePeakCanBeginAnew(t *testing.T) {
	counters(t)
	if !ResetPeak() {
		t.Skip("the system does not allow it")
	}
	c := counters(t)
	if c.PeakResident > c.Resident+c.Resident/2+16<<20 {
		t.Errorf("%d bytes at most, with %d resident now", c.PeakResident, c.Resident)
	}
}
