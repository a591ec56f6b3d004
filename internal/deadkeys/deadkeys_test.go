package deadkeys

import (
	"testing"

	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/ikey"
)

// record returns a log record of one put.
func record(seq ikey.Seq, key string) []byte {
	r := batch.AppendRecordHeader(nil, seq, 0)
	r = batch.AppendOp(r, ikey.Set, []byte(key), nil)
	batch.SetRecordCount(r, 1)
	return r
}

// TestAReportFromBeforeAnIngestNeverCounts lets a cursor, whose state is that from before an ingest at its sequence
// number, report a range twice: the first report begins the notes, the second finds them complete.
func TestAReportFromBeforeAnIngestNeverCounts(t *testing.T) {
	var d Ranges
	lo, hi := []byte("a"), []byte("m")
	d.Ingested(10)
	d.Report(lo, hi, 10)
	d.Wrote(record(11, "z"))
	d.Report(lo, hi, 10)
	if d.Len() > 0 {
		t.Error("the report of a cursor that may not have what was ingested counts")
	}
	d.Report(lo, hi, 11)
	if _, ok := d.At([]byte("b"), 11); !ok {
		t.Error("the report of a later cursor does not count")
	}
}
