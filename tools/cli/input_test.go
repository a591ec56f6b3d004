package cli

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestUntilDoneReadsAllAndEndsWithItsContext(t *testing.T) {
	text := strings.Repeat("0123456789", 20<<10)
	if err := iotest.TestReader(UntilDone(t.Context(), strings.NewReader(text)), []byte(text)); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	defer w.Close()
	in := UntilDone(ctx, r)
	go cancel()
	if n, err := in.Read(make([]byte, 10)); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d, %v; want the context's error", n, err)
	}
	if n, err := in.Read(make([]byte, 10)); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("again: %d, %v; want the context's error", n, err)
	}
}
