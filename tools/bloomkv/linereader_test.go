package main

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestLinesAndTheirNumbers(t *testing.T) {
	long := strings.Repeat("x", 600<<10)
	for _, c := range []struct {
		name, in string
		want     []string
	}{
		{"nothing", "", nil},
		{"one line", "a\n", []string{"a"}},
		{"the last without its end", "a\nb", []string{"a", "b"}},
		{"empty lines", "\n\na\n\n", []string{"", "", "a", ""}},
		{"longer than the buffer", long + "\n" + long, []string{long, long}},
		{"carriage returns stay", "a\r\n\r\n", []string{"a\r", "\r"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLineReader(iotest.HalfReader(strings.NewReader(c.in)), 600<<10)
			for i, want := range c.want {
				line, err := l.next()
				if err != nil || string(line) != want || l.number != i+1 {
					t.Fatalf("line %d of %d bytes, %v; want %d of %d", l.number, len(line), err, i+1, len(want))
				}
			}
			if line, err := l.next(); !errors.Is(err, io.EOF) {
				t.Errorf("after the last: %q, %v; want the end", line, err)
			}
		})
	}
}

func TestALineThatIsTooLongIsNotRead(t *testing.T) {
	for _, end := range []string{"", "\n", "x\n"} {
		l := newLineReader(strings.NewReader("ok\n"+strings.Repeat("x", 1001)+end), 1000)
		if _, err := l.next(); err != nil {
			t.Fatal(err)
		}
		if _, err := l.next(); err == nil || err.Error() != "line 2: longer than 1000 bytes" {
			t.Errorf("got %v", err)
		}
	}
	l := newLineReader(endless{}, 1<<20)
	if _, err := l.next(); err == nil {
		t.Error("an endless line was read")
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestErrorsOfReadingNameTheLine(t *testing.T) {
	broken := errors.New("broken")
	l := newLineReader(io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(broken)), 1000)
	if _, err := l.next(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.next(); !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "line 2: ") {
		t.Errorf("got %v", err)
	}
}
