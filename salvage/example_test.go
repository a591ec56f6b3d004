package salvage_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/salvage"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// Open refuses a store whose manifest is lost. Run saves all readable data in a new store.
func ExampleRun() {
	files := vfstest.NewMem() // stands for the disk
	db, err := bloomkv.Open("data", &bloomkv.Options{FS: files})
	if err != nil {
		log.Fatal(err)
	}
	if err := errors.Join(db.Put([]byte("key"), []byte("value")), db.Close()); err != nil {
		log.Fatal(err)
	}
	if err := files.Remove("data/CURRENT"); err != nil { // one kind of damage
		log.Fatal(err)
	}
	_, err = bloomkv.Open("data", &bloomkv.Options{FS: files})
	fmt.Println(errors.Is(err, bloomkv.ErrCorruption))

	opts := salvage.Options{Store: &bloomkv.Options{FS: files}}
	report, err := salvage.Run(context.Background(), "data", "saved", opts)
	if err != nil {
		log.Fatal(err)
	}
	for _, l := range report.Lost {
		fmt.Printf("%s: %v; harmless: %v\n", l.File, l.Err, l.Harmless)
	}
	fmt.Println(report.Keys, "keys, nothing lost:", report.Whole())
	// Output:
	// true
	// CURRENT: missing; harmless: true
	// 1 keys, nothing lost: true
}
