package main

import "io"

type streams struct {
	out, err io.Writer
	terminal bool
}
