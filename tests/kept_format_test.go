package tests

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"path"
	"regexp"
	"slices"
	"strings"
)

// keptContents describe the files of a store: versions by the name of the format, and how often each feature of the
// format is used. They are read by the drawings of the formats, without the packages that write them.
type keptContents struct {
	versions map[string]int // the largest of each format
	features map[string]int

	levels, runs map[string]int // of the tables, by the names of their files
}

// Names of the formats that have a version.
const (
	tableFormat    = "table"
	filterFormat   = "filter block"
	sampleFormat   = "sample block"
	logFormat      = "log"
	manifestFormat = "manifest"
	batchFormat    = "batch"
)

// wantedFeatures are the features of the format that the newest kept stores have.
var wantedFeatures = []string{
	"table of level 0", "table of a level between", "table of the last level", "run of several tables",
	"raw block", "s2 block", "zstd block",
	"filter of 1 Bloom units", "filter of 2 Bloom units", "filter of 3 Bloom units", "Ribbon filter",
	"filter with checksums of pages", "filter with units side by side", "filter of whole units with checksums of pages",
	"filter of version 2",
	"prefix filter by length", "prefix filter by separator", "table without a filter", "sample",
	"tombstone in a table", "range tombstone in a table", "range tombstone without an end in a table",
	"two range tombstones over the same keys in a table",
	"range tombstones that overlap in a table", "table whose range tombstones overlap",
	"table whose largest key is exclusive", "table whose largest key is infinite",
	"index in parts", "table whose index is in parts",
	"ingested table", "table with older versions for snapshots",
	"manifest with a snapshot alone", "manifest with further edits",
	"manifest: next file", "manifest: last sequence", "manifest: smallest log", "manifest: log", "manifest: no log",
	"manifest: deleted table", "manifest: added table", "manifest: seed", "manifest: counts",
	"manifest: mark", "manifest: options for filters", "manifest: synced length of a log",
	"filter option: rate", "filter option: memory", "filter option: Ribbon", "filter option: prefix",
	"log", "record with a promise of its own log", "record with a promise of older logs", "reserved space in a log",
	"batch of several operations in a log", "put in a log", "delete in a log", "range delete in a log",
	"range delete without an end in a log", "mark in a log",
	"batch in bytes", "mark in a batch in bytes",
}

var currentForm = regexp.MustCompile(`^MANIFEST-[0-9]{6} [0-9a-f]{8}\n$`)

// readContents reads the files of one store, by their names. What it cannot read is a feature of its own.
func readContents(files map[string][]byte) (c keptContents) {
	c = keptContents{make(map[string]int), make(map[string]int), make(map[string]int), make(map[string]int)}
	defer func() {
		if reason := recover(); reason != nil {
			c.has("something that kept_format_test.go cannot read: %v", reason)
		}
	}()
	if !currentForm.Match(files["CURRENT"]) {
		c.has("CURRENT of another form: %q", files["CURRENT"])
	}
	current, _, _ := strings.Cut(string(files["CURRENT"]), " ")
	c.manifest(files[current])
	for name, b := range files {
		switch path.Ext(name) {
		case ".sst":
			if level, ok := c.levels[name]; ok {
				c.table(b, level)
			}
		case ".log":
			c.log(b)
		}
	}
	runs := make(map[int]int)
	for _, run := range c.runs {
		if runs[run]++; runs[run] > 1 {
			c.has("run of several tables")
		}
	}
	return c
}

// add adds the versions and features of another store.
func (c *keptContents) add(o keptContents) {
	for format, version := range o.versions {
		c.version(format, version)
	}
	for feature, n := range o.features {
		c.features[feature] += n
	}
}

// version adds the version of a file or a block in a format.
func (c *keptContents) version(format string, version int) {
	c.versions[format] = max(c.versions[format], version)
}

// lacks returns the names of wanted that are not in c, in order.
func (c *keptContents) lacks(wanted []string) (missing []string) {
	for _, feature := range wanted {
		if c.features[feature] == 0 {
			missing = append(missing, feature)
		}
	}
	slices.Sort(missing)
	return missing
}

func (c *keptContents) has(format string, args ...any) { c.features[fmt.Sprintf(format, args...)]++ }

func u32(b []byte) int { return int(binary.LittleEndian.Uint32(b)) }
func u64(b []byte) int { return int(binary.LittleEndian.Uint64(b)) }

// records calls each for the records of a log, and returns the offset of the end of the last one.
func records(b []byte, each func(header, payload []byte)) (end int) {
	const fileHeader, header, kindAt, kind = 32, 24, 23, 0xb7
	for end = fileHeader; end+header <= len(b) && b[end+kindAt] == kind; {
		h, length := b[end:end+header], u32(b[end+8:])
		each(h, b[end+header:end+header+length])
		end += header + length
	}
	return end
}

func (c *keptContents) manifest(b []byte) {
	tags := map[byte]string{
		1: "next file", 2: "last sequence", 3: "smallest log", 4: "log", 5: "no log", 6: "deleted table",
		7: "added table", 8: "seed", 9: "mark", 128: "counts", 129: "options for filters",
	}
	c.version(logFormat, u32(b[8:]))
	edits := 0
	records(b, func(_, edit []byte) {
		edits++
		c.version(manifestFormat, int(edit[0]))
		for fields := edit[1:]; len(fields) > 0; {
			tag, body := fields[0], fields[5:5+u32(fields[1:])]
			fields = fields[5+len(body):]
			if name, ok := tags[tag]; ok {
				c.has("manifest: %s", name)
			} else {
				c.has("manifest: field %d", tag)
			}
			c.field(tag, body)
		}
	})
	if edits == 1 {
		c.has("manifest with a snapshot alone")
	} else {
		c.has("manifest with further edits")
	}
}

// field reads the field of an edit.
func (c *keptContents) field(tag byte, body []byte) {
	table := func(number []byte) string { return fmt.Sprintf("%06d.sst", u64(number)) }
	switch tag {
	case 4:
		if u64(body[8:]) > 32 {
			c.has("manifest: synced length of a log")
		}
	case 6:
		delete(c.levels, table(body[1:]))
		delete(c.runs, table(body[1:]))
	case 7:
		c.levels[table(body[10:])], c.runs[table(body[10:])] = int(body[0]), u64(body[2:])
		for i, flag := range []string{
			"table whose largest key is exclusive", "table whose largest key is infinite", "ingested table",
			"table with older versions for snapshots", "table whose index is in parts",
			"table whose range tombstones overlap",
		} {
			if body[1]&(1<<i) != 0 {
				c.has("%s", flag)
			}
		}
	case 129:
		if math.Float64frombits(binary.LittleEndian.Uint64(body)) != 0 {
			c.has("filter option: rate")
		}
		if u64(body[8:]) != 0 {
			c.has("filter option: memory")
		}
		if body[16] == 1 {
			c.has("filter option: Ribbon")
		}
		if len(body) > 21 {
			c.has("filter option: prefix")
		}
	}
}

func (c *keptContents) log(b []byte) {
	c.version(logFormat, u32(b[8:]))
	c.has("log")
	end := records(b, func(header, payload []byte) {
		if u32(header[16:]) > 32 {
			c.has("record with a promise of its own log")
		}
		if header[22]&1 != 0 {
			c.has("record with a promise of older logs")
		}
		if u32(payload[8:]) > 1 {
			c.has("batch of several operations in a log")
		}
		c.operations(payload[12:])
	})
	if end < len(b) && len(bytes.Trim(b[end:], "\x00")) == 0 {
		c.has("reserved space in a log")
	}
}

// operations reads the operations of a batch.
func (c *keptContents) operations(b []byte) {
	for len(b) > 0 {
		kind, rest := b[0], b[1:]
		field := func(less uint64) {
			n, w := binary.Uvarint(rest)
			rest = rest[w+int(max(n, less)-less):]
		}
		field(0)
		switch {
		case kind == 0:
			c.has("delete in a log")
		case kind == 1:
			field(0)
			c.has("put in a log")
		case kind == 4:
			c.has("mark in a log")
		case rest[0] == 0:
			rest = rest[1:]
			c.has("range delete without an end in a log")
		default:
			field(1)
			c.has("range delete in a log")
		}
		b = rest
	}
}

func (c *keptContents) table(b []byte, level int) {
	footer := b[len(b)-80:]
	filterOff, filterLen := u64(footer[8:]), u64(footer[16:])
	indexOff, indexLen := u64(footer[24:]), u64(footer[32:])
	rangesLen, propsLen := u64(footer[40:]), u64(footer[48:])
	c.version(tableFormat, u32(footer[68:]))
	switch level {
	case 0:
		c.has("table of level 0")
	case lastLevel:
		c.has("table of the last level")
	default:
		c.has("table of a level between")
	}
	if sample := u32(footer[60:]); sample > 0 {
		c.has("sample")
		c.version(sampleFormat, int(b[filterOff-5-sample+8]))
	}

	const trailer = 5
	index := b[indexOff : indexOff+indexLen]
	flags := 0
	if u32(footer[68:]) > 1 {
		flags = u64(b[len(b)-128:])
	}
	if flags&2 != 0 {
		c.has("range tombstones that overlap in a table")
	}
	if flags&1 != 0 {
		c.has("index in parts")
		c.parts(b, index)
	} else {
		c.blocks(b, index)
	}
	next := indexOff + indexLen + trailer
	if rangesLen > 0 {
		c.rangeTombstones(b[next : next+rangesLen])
		next += rangesLen + trailer
	}
	props := b[next : next+propsLen]
	if u64(props[8:]) > 0 {
		c.has("tombstone in a table")
	}
	rest := props[80:]
	for range 2 { // the smallest and the largest key
		rest = rest[4+u32(rest):]
	}
	switch {
	case len(rest) == 0:
	case strings.HasPrefix(string(rest[20:]), "len:"):
		c.has("prefix filter by length")
	case strings.HasPrefix(string(rest[20:]), "sep:"):
		c.has("prefix filter by separator")
	}

	if filterLen == 0 {
		c.has("table without a filter")
		return
	}
	filter := b[filterOff : filterOff+128]
	c.version(filterFormat, int(filter[8]))
	if kind := filter[9]; kind == 2 {
		c.has("Ribbon filter")
	} else {
		c.has("filter of %d Bloom units", filter[11])
	}
	c.pages(b[filterOff:])
}

// pages reads the pages of the filter that begins at the start of b.
func (c *keptContents) pages(b []byte) {
	const header, page = 128, 4096
	units, parts := 0, u64(b[104:])
	for i := range int(b[11]) {
		blocks := u64(b[32+24*i:])
		if units += 64 * blocks; parts > 0 && blocks%parts != 0 {
			c.has("unit of %d blocks in %d parts", blocks, parts)
		}
	}
	if b[8] < 3 {
		c.has("filter of version 2")
		return
	}
	if parts > 0 {
		c.has("filter with units side by side")
	}
	switch b[116] {
	case 12:
		c.has("filter with checksums of pages")
	default:
		c.has("filter with pages of 1<<%d bytes", b[116])
		return
	}
	if parts == 0 {
		c.has("filter of whole units with checksums of pages")
	}
	sums := b[header+units:]
	for at := header; at < header+units; at += page {
		crc := crc32.Checksum(b[at:min(at+page, header+units)], castagnoli)
		if u32(sums) != int(crc) {
			c.has("page with another checksum")
		}
		sums = sums[4:]
	}
}

// blocks reads the codecs of the data blocks of a table.
func (c *keptContents) blocks(b, index []byte) {
	offset, entries := 0, index[8+u32(index[4:]):]
	for i := range u32(index) {
		offset += u32(entries[12*i:])
		c.codec(b[offset])
		offset += 5
	}
}

// parts reads the codecs of the data blocks of a table whose index is in parts.
func (c *keptContents) parts(b, top []byte) {
	const trailer = 5
	start, part, entries := 0, 0, top[8+u32(top[4:]):]
	for i := range u32(top) {
		part += u64(entries[20*i+8:]) // the first part follows all data blocks
	}
	for i := range u32(top) {
		length, blocks, data := u32(entries[20*i:]), u32(entries[20*i+4:]), u64(entries[20*i+8:])
		p := b[part : part+length]
		for j := range u32(p) {
			c.codec(b[start+u32(p[8+u32(p[4:])+12*j:])-trailer])
		}
		if u32(p) != blocks {
			c.has("part of the index with %d blocks, not %d", u32(p), blocks)
		}
		start += data
		part += length + trailer
	}
}

func (c *keptContents) codec(codec byte) {
	switch codec {
	case 0:
		c.has("raw block")
	case 1:
		c.has("s2 block")
	case 2:
		c.has("zstd block")
	default:
		c.has("block of codec %d", codec)
	}
}

// rangeTombstones reads the fragments of a table's range tombstones.
func (c *keptContents) rangeTombstones(b []byte) {
	fragments := u32(b)
	for b = b[4:]; fragments > 0; fragments-- {
		c.has("range tombstone in a table")
		b = b[4+u32(b):]
		if binary.LittleEndian.Uint32(b) == math.MaxUint32 {
			c.has("range tombstone without an end in a table")
			b = b[4:]
		} else {
			b = b[4+u32(b):]
		}
		n := u32(b)
		if n > 1 {
			c.has("two range tombstones over the same keys in a table")
		}
		b = b[4+8*n:]
	}
}
