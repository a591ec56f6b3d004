package salvage

import "errors"

// A Loss is a part of a file that cannot be read.
type Loss struct {
	File          string
	Offset, Bytes int64  // both 0 for a whole file
	Part          string // "data block", "log record" and so on
	Harmless      bool   // the part held no key and no deletion that is not somewhere else
	Lower, Upper  []byte // the part's keys lie between these, inclusive; an empty Lower and a nil Upper are unknown
	Err           error
}

func (s *Salvage) lose(l Loss) { s.losses = append(s.losses, l) }

// missing returns the error for a file that is not there.
func (s *Salvage) missing() error {
	if !s.traces.Whole {
		return errors.New("missing, a part of the manifest names it; a later part, which is lost, may not")
	}
	return errors.New("missing, the manifest names it")
}

// advance reports progress by the given number of bytes.
func (s *Salvage) advance(n uint64) {
	s.done = min(s.done+n, s.total)
	if s.progress != nil {
		s.progress(s.done, s.total)
	}
}
