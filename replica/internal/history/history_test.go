package history

import (
	"testing"
	"time"
)

func write(h *History, value string, o Outcome) { h.Write("k", value, func() Outcome { return o }) }

func read(h *History, value string) { h.Read("k", func() (string, Outcome) { return value, Done }) }

func TestCheckFindsWhatIsNotLinearizable(t *testing.T) {
	for name, test := range map[string]struct {
		run func(h *History)
		ok  bool
	}{
		"a write is read": {func(h *History) { write(h, "1", Done); read(h, "1") }, true},
		"a write is lost": {func(h *History) { write(h, "1", Done); read(h, "") }, false},
		"an old value is read": {
			func(h *History) { write(h, "1", Done); write(h, "2", Done); read(h, "1") }, false,
		},
		"an unknown write is read":     {func(h *History) { write(h, "1", Unknown); read(h, "1") }, true},
		"an unknown write is not read": {func(h *History) { write(h, "1", Unknown); read(h, "") }, true},
		"an unknown write comes and goes": {
			func(h *History) { write(h, "1", Unknown); read(h, "1"); read(h, "") }, false,
		},
		"a failed write is read": {func(h *History) { write(h, "1", Failed); read(h, "1") }, false},
	} {
		h := New()
		test.run(h)
		if err := h.Check(time.Minute); (err == nil) != test.ok {
			t.Errorf("%s: %v, want an error: %v", name, err, !test.ok)
		}
	}
}
