package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/tools/internal/inspect"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// onTable is a part of the help of commands that also read a table.
const onTable = `
DIR may also be the path of a single table, FILE.sst. Then the command reads the newest value of each key in this table,
unless the table also deletes it. Values and deletions in other tables and in logs are ignored.`

// openData opens a store or a single table for reading.
func (a *app) openData(ctx context.Context, path string) (*bloomkv.DB, error) {
	if isTable(path) {
		return a.openTable(path)
	}
	return openToRead(ctx, path)
}

// isTable reports whether path names a table.
func isTable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && strings.HasSuffix(path, ".sst")
}

// A oneTable is a file system with a store in memory, whose only table is a file of the operating system.
type oneTable struct {
	vfs.FS
	name, path string // of the table in the store and of the file
}

const oneDir = "table"

// Open opens the table, or a file in memory.
func (o *oneTable) Open(name string) (vfs.File, error) {
	if name == o.name {
		return vfs.OS.Open(o.path)
	}
	return o.FS.Open(name)
}

// Stat describes the table, or a file in memory.
func (o *oneTable) Stat(name string) (os.FileInfo, error) {
	if name == o.name {
		return vfs.OS.Stat(o.path)
	}
	return o.FS.Stat(name)
}

// List returns the names of the files in memory and that of the table.
func (o *oneTable) List(dir string) ([]string, error) {
	names, err := o.FS.List(dir)
	return append(names, filepath.Base(o.name)), err
}

// openTable opens a table for reading, as a store of its own.
func (a *app) openTable(path string) (*bloomkv.DB, error) {
	resolved, err := filepath.EvalSymlinks(path) // package vfs does not follow links
	if err != nil {
		return nil, err
	}
	meta, err := tableMeta(resolved)
	if err != nil {
		return nil, err
	}
	o := &oneTable{FS: vfstest.NewMem(), name: filename.Make(oneDir, filename.Table, meta.Number), path: resolved}
	if err := o.Mkdir(oneDir); err != nil {
		return nil, err
	}
	added := manifest.Added{Level: manifest.NumLevels - 1, Run: 1, Table: meta}
	v, err := new(manifest.Version).Apply(&manifest.Edit{Added: []manifest.Added{added}})
	if err != nil {
		return nil, err
	}
	next := meta.Number + 1
	state := manifest.State{Version: v, NextFile: next + 1, MinLog: next}
	m, err := manifest.Create(o, oneDir, next, state)
	if err == nil {
		err = m.Close()
	}
	if err != nil {
		return nil, err
	}
	fmt.Fprintln(a.Err, "bloomkv: reading a single table: values and deletions in other tables and in logs are ignored")
	return bloomkv.Open(oneDir, &bloomkv.Options{FS: o, ReadOnly: true})
}

// numberOf returns the number in the name of a table, which errors then have, or 1 if it has another name.
func numberOf(path string) uint64 {
	kind, number := filename.Parse(filepath.Base(path))
	if kind != filename.Table || manifest.CheckFile(number+1) != nil { // that of the manifest
		return 1
	}
	return number
}

// tableMeta describes a table as a manifest does.
func tableMeta(path string) (meta *manifest.Table, err error) {
	f, err := vfs.OS.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	r, err := sstable.Open(f, size, path)
	if err != nil && inspect.IsForeignTable(path) {
		return nil, fmt.Errorf("%s is a table of another kind of store: bloomkv inspect shows it", path)
	}
	if err != nil {
		return nil, err
	}
	defer r.Close()
	info, err := r.Info()
	return compaction.Table(numberOf(path), info), err
}
