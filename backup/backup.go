// Package backup keeps generations of a store in one place, a directory or an object storage, where they share tables.
//
// A backup stores the tables that no earlier one has stored, and then one small object that lists the tables of its
// generation. It is therefore incremental, and each generation is restored on its own. Interrupted at any point, a
// backup is whole or not there: what it has stored is used by the next one, or removed by [Prune].
//
// Only one program at a time may change a place. A [Dir] is locked; for an object storage the caller sees to it.
package backup

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/stream"
	"github.com/bloomkv/bloomkv/internal/words"
)

// Storage stores objects by name. Names consist of lower-case letters, digits, "-" and one "/".
type Storage interface {
	// Put stores an object, or replaces it by an equal one. The object is there as a whole and durable when Put returns
	// nil, and never in part. If r fails, Put returns its error and stores nothing.
	Put(ctx context.Context, name string, r io.Reader) error
	// Get returns the content of an object. The error for an absent one matches fs.ErrNotExist. If the reader is an
	// io.ReaderAt, Verify reads each table twice from it; else it calls Get a few times for each, and has up to two
	// readers open.
	Get(ctx context.Context, name string) (io.ReadCloser, error)
	// List returns the names that begin with prefix, which ends with "/", in any order.
	List(ctx context.Context, prefix string) ([]string, error)
	// Delete removes an object. It is no error if there is none.
	Delete(ctx context.Context, name string) error
}

// Objects:
//
//	generations/00000001                from 1 to 2^62-1: an export (package bloomkv) that leaves out all tables
//	tables/ID-SIZE-FINGERPRINT          in hexadecimal: the bytes of a table and their CRC-32C, u32 little-endian
//
// A generation is stored after its tables, and removed before them (I39).
const (
	generations = "generations/"
	tables      = "tables/"
	sumSize     = 4

	// maxGeneration is the largest number of a generation. An object with a larger one was not stored by a backup, and
	// no number is counted on from it.
	maxGeneration = 1<<62 - 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func tableName(id stream.ID) string {
	return fmt.Sprintf("%s%016x-%x-%016x", tables, id.ID, id.Size, id.Sum)
}

func parseTableName(name string) (id stream.ID, ok bool) {
	_, err := fmt.Sscanf(name, tables+"%16x-%x-%16x", &id.ID, &id.Size, &id.Sum)
	return id, err == nil && tableName(id) == name
}

func generationName(n uint64) string { return fmt.Sprintf("%s%08d", generations, n) }

// List returns the numbers of all generations, ascending. It leaves out objects with other names.
func List(ctx context.Context, s Storage) ([]uint64, error) {
	all, _, err := list(ctx, s)
	return all, err
}

// list returns the numbers of all generations, ascending, and the names of the objects beside them.
func list(ctx context.Context, s Storage) (all []uint64, others []string, err error) {
	names, err := s.List(ctx, generations)
	for _, name := range names {
		n, err := strconv.ParseUint(strings.TrimPrefix(name, generations), 10, 64)
		if err == nil && n >= 1 && n <= maxGeneration && generationName(n) == name {
			all = append(all, n)
		} else {
			others = append(others, name)
		}
	}
	slices.Sort(all)
	return all, others, err
}

// A Generation says what a generation has.
type Generation struct {
	Number uint64
	Tables int
	Bytes  int64 // of these tables, which other generations may share
}

// Describe reads the list of tables of a generation. The error for one that is not there matches fs.ErrNotExist.
func Describe(ctx context.Context, s Storage, n uint64) (Generation, error) {
	g := Generation{Number: n}
	h, err := header(ctx, s, n)
	if err == nil {
		g.Tables = len(h.Tables)
		for i := range h.Tables {
			g.Bytes += int64(h.Tables[i].Size) //nolint:gosec // the size of a file
		}
	}
	return g, err
}

// A Report says what a backup has stored.
type Report struct {
	Generation uint64
	Tables     int   // of the generation
	Stored     int   // tables among them that were not there before
	Bytes      int64 // of these
}

// Make stores a new generation: the store as of now. Its number is above those of all generations. If the largest
// number, 2^62-1, is in use, Make returns an error. Reads and writes of the store go on.
func Make(ctx context.Context, db *bloomkv.DB, s Storage) (Report, error) {
	all, err := List(ctx, s)
	if err != nil {
		return Report{}, err
	}
	r := Report{Generation: 1}
	if n := len(all); n > 0 {
		r.Generation = all[n-1] + 1
	}
	if r.Generation > maxGeneration {
		return Report{}, fmt.Errorf("backup: generation %d, want at most %d: the numbers of generations are exhausted",
			r.Generation, uint64(maxGeneration))
	}
	has, err := stored(ctx, s)
	if err != nil {
		return r, err
	}
	inventory := new(bloomkv.Inventory)
	known := stream.AppendInventory(nil, slices.Collect(maps.Keys(has)))
	if err := inventory.UnmarshalBinary(known); err != nil {
		return r, err
	}
	x, err := db.Export(ctx, bloomkv.ExportOptions{Since: inventory})
	if err != nil {
		return r, err
	}
	from := reader(func(to io.Writer) error {
		_, err := x.WriteTo(to)
		return err
	})
	err = r.store(ctx, from, s)
	from.end()
	return r, errors.Join(err, x.Close())
}

// stored returns the tables that are there.
func stored(ctx context.Context, s Storage) (map[stream.ID]bool, error) {
	names, err := s.List(ctx, tables)
	has := map[stream.ID]bool{}
	for _, name := range names {
		if id, ok := parseTableName(name); ok {
			has[id] = true
		}
	}
	return has, err
}

// store stores the tables of an export, and then its generation.
func (r *Report) store(ctx context.Context, from io.Reader, s Storage) error {
	in, err := stream.NewReader(from)
	if err != nil {
		return err
	}
	r.Tables = len(in.Header.Tables)
	for i := range in.Header.Tables {
		t := &in.Header.Tables[i]
		if !t.Travels {
			continue
		}
		if err := putTable(ctx, in, t, s); err != nil {
			return err
		}
		r.Stored++
		r.Bytes += int64(t.Size) //nolint:gosec // the size of a file
		t.Travels = false
	}
	if err := in.End(); err != nil {
		return err
	}
	w, err := stream.NewWriter(in.Header)
	if err != nil {
		return err
	}
	return put(ctx, s, generationName(r.Generation), func(to io.Writer) error {
		_, err := w.Write(to, nil)
		return err // only if the storage has stopped reading
	})
}

// putTable stores the next table of an export.
func putTable(ctx context.Context, in *stream.Reader, t *stream.Table, s Storage) error {
	return put(ctx, s, tableName(t.Identity()), func(to io.Writer) error {
		crc := uint32(0)
		err := in.Table(t.Size, func(payload []byte) error {
			crc = crc32.Update(crc, castagnoli, payload)
			_, err := to.Write(payload)
			return err
		})
		if err == nil {
			_, err = to.Write(binary.LittleEndian.AppendUint32(nil, crc))
		}
		return err
	})
}

// put stores an object that a function writes.
func put(ctx context.Context, s Storage, name string, write func(io.Writer) error) error {
	r := reader(write)
	defer r.end() // the storage may not have read to the end
	return s.Put(ctx, name, r)
}

// A piped reader yields what a function writes.
type piped struct {
	*io.PipeReader

	done chan struct{}
}

func reader(write func(io.Writer) error) piped {
	r, w := io.Pipe()
	p := piped{r, make(chan struct{})}
	go func() {
		defer close(p.done)
		_ = w.CloseWithError(write(w)) // it never fails
	}()
	return p
}

// end ends the function, if it has not ended, and waits for that.
func (p piped) end() {
	_ = p.Close() // it never fails
	<-p.done
}

// header reads a generation.
func header(ctx context.Context, s Storage, n uint64) (_ *stream.Header, err error) {
	r, err := s.Get(ctx, generationName(n))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	in, err := stream.NewReader(r)
	if err == nil {
		err = in.End()
	}
	if err == nil {
		err = ends(r, "stream", in.Offset())
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", generationName(n), err)
	}
	return in.Header, nil
}

// Restore makes a store of a generation in dir, as [bloomkv.Import] does. The error for a generation that is not there
// matches fs.ErrNotExist.
func Restore(ctx context.Context, s Storage, n uint64, dir string, opts bloomkv.NewStoreOptions) error {
	h, err := header(ctx, s, n)
	if err != nil {
		return err
	}
	for i := range h.Tables {
		h.Tables[i].Travels = true
	}
	w, err := stream.NewWriter(h)
	if err != nil {
		return err
	}
	r := reader(func(to io.Writer) error {
		open := &object{ctx: ctx, s: s}
		_, err := w.Write(to, func(i int) (io.ReaderAt, string, error) {
			return open, tableName(h.Tables[i].Identity()), open.next(&h.Tables[i])
		})
		return errors.Join(err, open.close())
	})
	defer r.end()
	return bloomkv.Import(ctx, r, dir, opts)
}

// Verify reads all generations and all tables that they name, compares each with its checksum, and checks each table as
// bloomkv.Check does. The error joins all damage and all that is missing, by object. progress, if not nil, is called
// with the number of tables read and that of all.
func Verify(ctx context.Context, s Storage, progress func(done, total uint64)) error {
	all, others, err := list(ctx, s)
	if err != nil {
		return err
	}
	need, damage := referenced(ctx, s, all)
	damage = append(damage, unknown(others)...)
	o := &object{ctx: ctx, s: s}
	buf := make([]byte, 256<<10)
	for i, t := range need {
		if progress != nil {
			progress(uint64(i), uint64(len(need)))
		}
		err := o.next(&t)
		for at := uint64(0); err == nil && at < t.Size; {
			n := min(uint64(len(buf)), t.Size-at)
			_, err = o.ReadAt(buf[:n], int64(at))
			at += n
		}
		if err == nil {
			err = o.check(&t)
		}
		if err != nil {
			damage = append(damage, fmt.Errorf("%s: %w", tableName(t.Identity()), err))
		}
		if err := ctx.Err(); err != nil {
			return errors.Join(err, o.close())
		}
	}
	return errors.Join(append(damage, o.close())...)
}

// unknown returns an error for each object beside the generations, which may be a generation of a later version.
func unknown(others []string) (errs []error) {
	for _, name := range others {
		name = words.Escaped([]byte(name), words.KeyLimit)
		errs = append(errs, fmt.Errorf("%s: not the name of a generation", name))
	}
	return errs
}

// referenced returns the tables of generations, each once. damage has an error for each generation that cannot be read.
func referenced(ctx context.Context, s Storage, of []uint64) (need []stream.Table, damage []error) {
	seen := map[stream.ID]bool{}
	for _, n := range of {
		h, err := header(ctx, s, n)
		if err != nil {
			damage = append(damage, err)
			continue
		}
		for _, t := range h.Tables {
			if !seen[t.Identity()] {
				seen[t.Identity()] = true
				need = append(need, t)
			}
		}
	}
	return need, damage
}

// Prune removes all but the newest keep generations, at least 1, and then the tables that no generation needs, also
// those that an interrupted backup has left. If the list of tables of a generation that stays cannot be read, nothing
// is removed. If an object beside the generations has another name, no table is removed.
func Prune(ctx context.Context, s Storage, keep int) error {
	if keep < 1 {
		return fmt.Errorf("backup: keep %d generations, want at least 1", keep)
	}
	all, others, err := list(ctx, s)
	if err != nil {
		return err
	}
	old := max(0, len(all)-keep)
	need, damage := referenced(ctx, s, all[old:])
	if err := errors.Join(damage...); err != nil {
		return err
	}
	for _, n := range all[:old] {
		if err := s.Delete(ctx, generationName(n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := errors.Join(unknown(others)...); err != nil {
		return err
	}
	has, err := stored(ctx, s)
	if err != nil {
		return err
	}
	for _, t := range need {
		delete(has, t.Identity())
	}
	for id := range has {
		if err := s.Delete(ctx, tableName(id)); err != nil {
			return err
		}
	}
	return nil
}
