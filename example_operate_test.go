package bloomkv_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"sync"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// A checkpoint is a copy of a store in use. It is an independent store.
func ExampleDB_Checkpoint() {
	defer inTemp()()
	db, err := bloomkv.Open("data", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := db.Put([]byte("state"), []byte("before")); err != nil {
		log.Fatal(err)
	}

	if err := db.Checkpoint(context.Background(), "backup"); err != nil {
		log.Fatal(err)
	}
	if err := db.Put([]byte("state"), []byte("after")); err != nil {
		log.Fatal(err)
	}

	backup, err := bloomkv.Open("backup", &bloomkv.Options{ReadOnly: true})
	if err != nil {
		log.Fatal(err)
	}
	defer backup.Close()
	value, err := backup.Get([]byte("state"))
	fmt.Printf("%s %v\n", value, err)
	// Output: before <nil>
}

// Any number of processes may read one store at a time, from a disk that may be write-protected.
func ExampleOptions_readOnly() {
	files := vfstest.NewMem() // stands for the shared disk
	db, err := bloomkv.Open("data", &bloomkv.Options{FS: files})
	if err != nil {
		log.Fatal(err)
	}
	if err := errors.Join(db.Put([]byte("key"), []byte("value")), db.Close()); err != nil {
		log.Fatal(err)
	}

	for range 2 {
		reader, err := bloomkv.Open("data", &bloomkv.Options{FS: files, ReadOnly: true})
		if err != nil {
			log.Fatal(err)
		}
		defer reader.Close()
		value, err := reader.Get([]byte("key"))
		fmt.Printf("%s %v, ", value, err)
		fmt.Println(errors.Is(reader.Delete([]byte("key")), bloomkv.ErrReadOnly))
	}
	_, err = bloomkv.Open("data", &bloomkv.Options{FS: files}) // to write
	fmt.Println(errors.Is(err, bloomkv.ErrLocked))
	_, err = bloomkv.Open("elsewhere", &bloomkv.Options{FS: files, ReadOnly: true})
	fmt.Println(errors.Is(err, fs.ErrNotExist))
	// Output:
	// value <nil>, true
	// value <nil>, true
	// true
	// true
}

// A file system in memory can simulate a power cut, to check that all acknowledged writes survive.
func Example_powerCut() {
	files := vfstest.NewMem()
	db, err := bloomkv.Open("data", &bloomkv.Options{FS: files})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	var b bloomkv.Batch
	b.Put([]byte("a note"), nil)
	if err := db.Put([]byte("an order"), nil); err != nil { // Sync, as by default
		log.Fatal(err)
	}
	if err := db.ApplyWith(&b, bloomkv.DurabilityNoSync); err != nil {
		log.Fatal(err)
	}

	for _, cut := range []struct {
		what  string
		files *vfstest.Mem
	}{
		{"after a power cut", files.Crash(vfstest.KeepNothing)}, // the worst case: no unsynced data is left
		{"after a kill", files.Kill()},
	} {
		again, err := bloomkv.Open("data", &bloomkv.Options{FS: cut.files})
		if err != nil {
			log.Fatal(err)
		}
		order, err := again.Has([]byte("an order"))
		if err != nil {
			log.Fatal(err)
		}
		note, err := again.Has([]byte("a note"))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: order %v, note %v\n", cut.what, order, note)
		again.Close()
	}
	// Output:
	// after a power cut: order true, note false
	// after a kill: order true, note true
}

// A program's own guarantee, tested at every moment: coins move between two accounts, and the power fails before each
// operation on the disk. Whichever half of the unsynced bytes is left, no coin is lost or created.
func Example_powerCutAnywhere() {
	var (
		mu     sync.Mutex // the store's goroutines work on files too
		after  []*vfstest.Mem
		memory = vfstest.NewMem()
	)
	files := vfstest.NewHook(memory, func(op vfstest.Op) error {
		if op.Kind.Changes() {
			mu.Lock()
			defer mu.Unlock()
			after = append(after, memory.Crash(vfstest.KeepSome(uint64(len(after)), 50)))
		}
		return nil
	})

	db, err := bloomkv.Open("bank", &bloomkv.Options{FS: files})
	if err != nil {
		log.Fatal(err)
	}
	for coins := byte(0); coins <= 10; coins++ {
		var b bloomkv.Batch
		b.Put([]byte("from"), []byte{10 - coins})
		b.Put([]byte("to"), []byte{coins})
		if err := db.ApplyWith(&b, bloomkv.DurabilityNoSync); err != nil {
			log.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		log.Fatal(err)
	}

	wrong := 0
	for _, files := range after {
		db, err := bloomkv.Open("bank", &bloomkv.Options{FS: files})
		if err != nil {
			log.Fatal(err)
		}
		from, errFrom := db.Get([]byte("from"))
		to, errTo := db.Get([]byte("to"))
		switch {
		case errors.Is(errFrom, bloomkv.ErrNotFound) && errors.Is(errTo, bloomkv.ErrNotFound):
			// cut before the first transfer
		case errFrom != nil || errTo != nil || from[0]+to[0] != 10:
			wrong++
		}
		if err := db.Close(); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(len(after) > 20, wrong)
	// Output: true 0
}

// Check verifies every checksum of a store that is not open for writing. Damage is reported by file and offset.
func ExampleCheck() {
	files := vfstest.NewMem()
	db, err := bloomkv.Open("data", &bloomkv.Options{FS: files})
	if err != nil {
		log.Fatal(err)
	}
	if err := errors.Join(db.Put([]byte("key"), []byte("value")), db.Close()); err != nil {
		log.Fatal(err)
	}

	report, err := bloomkv.Check(context.Background(), "data", bloomkv.CheckOptions{FS: files})
	if damage, ok := errors.AsType[*bloomkv.CorruptionError](err); ok {
		fmt.Println("damaged:", damage.File, damage.Offset)
	}
	fmt.Println(report.Tables, report.Entries, err)
	// Output: 1 1 <nil>
}
