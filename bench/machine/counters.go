package machine

import "time"

// Counters is what the operating system has counted for this process since it began.
type Counters struct {
	Reads     uint64 `json:"reads"`      // calls that read, from files of any kind
	ReadChars uint64 `json:"read_chars"` // the bytes they returned, from the page cache or not
	ReadBytes uint64 `json:"read_bytes"` // the bytes that a disk had to deliver

	Writes     uint64 `json:"writes"`      // calls that wrote
	WriteChars uint64 `json:"write_chars"` // the bytes they took
	WriteBytes uint64 `json:"write_bytes"` // the bytes that go to a disk, now or later

	Resident     uint64 `json:"resident"`      // bytes in memory now
	PeakResident uint64 `json:"peak_resident"` // the most there ever were, or since ResetPeak

	User   time.Duration `json:"user_ns"`   // processor time in the program
	System time.Duration `json:"system_ns"` // and in the kernel on its behalf
}

// Sub is what was counted since before. What is resident stays as it is.
func (c Counters) Sub(before Counters) Counters {
	c.Reads -= before.Reads
	c.ReadChars -= before.ReadChars
	c.ReadBytes -= before.ReadBytes
	c.Writes -= before.Writes
	c.WriteChars -= before.WriteChars
	c.WriteBytes -= before.WriteBytes
	c.User -= before.User
	c.System -= before.System
	return c
}
