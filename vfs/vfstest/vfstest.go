// Package vfstest has file systems for tests. [NewMem] keeps files in memory and can crash, losing any part of what was
// not synced, so that a program can prove its own durability. [NewHook] wraps another FS and can observe, delay or fail
// each operation. Both are safe for concurrent use.
package vfstest
