package vfstest_test

import (
	"fmt"

	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// A program forgets one step, and the enumeration of all crashes finds what that can cost.
func ExampleMem_Crashes() {
	m := vfstest.NewMem()
	f, _ := m.Create("settings.tmp")
	_, _ = f.Write([]byte("colour=blue"))
	// f.Sync() belongs here.
	_ = f.Close()
	_ = m.Rename("settings.tmp", "settings")
	_ = m.SyncDir(".")

	for found := range m.Crashes() {
		data, err := vfs.ReadFile(found, "settings", 1<<20)
		fmt.Printf("%q %v\n", data, err)
	}
	// Output:
	// "" <nil>
	// "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" <nil>
	// "colour=blue" <nil>
}

// A crash before every operation of a program, with all that was not synced lost.
func ExampleNewHook() {
	m := vfstest.NewMem()
	hooked := vfstest.NewHook(m, func(op vfstest.Op) error {
		names, err := m.Crash(vfstest.KeepNothing).List(".")
		fmt.Printf("%q before %s\n", names, op)
		return err
	})
	if err := vfs.WriteFileAtomic(hooked, ".", "tmp", "settings", []byte("colour=blue")); err != nil {
		fmt.Println(err)
	}
	names, err := m.Crash(vfstest.KeepNothing).List(".")
	fmt.Printf("%q after all, %v\n", names, err)
	// Output:
	// [] before create tmp
	// [] before write tmp 11
	// [] before sync tmp
	// [] before close tmp
	// [] before rename tmp settings
	// [] before syncdir .
	// ["settings"] after all, <nil>
}
