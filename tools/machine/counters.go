package machine

import "time"

// Counters are the operating system's counters for this process since it started.
type Counters struct {
	Reads     uint64 `json:"reads"`      // calls of read on files of any kind
	ReadChars uint64 `json:"read_chars"` // bytes returned by them, from the page cache or the disk
	ReadBytes uint64 `json:"read_bytes"` // bytes read from the disk

	Writes     uint64 `json:"writes"`      // calls of write
	WriteChars uint64 `json:"write_chars"` // bytes written by them
	WriteBytes uint64 `json:"write_bytes"` // bytes to be written to the disk, now or later

	Resident     uint64 `json:"resident"`      // bytes in memory now
	PeakResident uint64 `json:"peak_resident"` // maximum of Resident since the start or ResetPeak
	Anonymous    uint64 `json:"anonymous"`     // the part of Resident that is of no file

	User   time.Duration `json:"user_ns"`   // processor time in the program
	System time.Duration `json:"system_ns"` // processor time in the kernel
}

// Sub returns the difference to earlier counters. Resident, PeakResident and Anonymous stay as they
// are.
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
