package bloomkv

import (
	"github.com/bloomkv/bloomkv/internal/sstable"
)

// A PrefixRule determines which prefix of a key the prefix filters hold: see [Options.FilterPrefix]. [PrefixLen] and
// [PrefixSeparator] return one; the zero value means no rule. Rules may be compared with ==. As text, as in JSON and
// in flags, they read "len:8" or "sep:/:2"; a separator that is not a visible ASCII character is written as in
// "sep:0x00:1".
type PrefixRule = sstable.PrefixRule

// PrefixLen returns the rule whose prefix is the first n bytes of a key, 1 to MaxKeySize. A shorter key has no
// prefix.
func PrefixLen(n int) PrefixRule { return sstable.PrefixLen(n) }

// PrefixSeparator returns the rule whose prefix is all bytes of a key up to and including the nth separator; n is 1
// to MaxKeySize. A key with fewer separators has no prefix. With the second '/', the key "user/17/name" has the
// prefix "user/17/".
func PrefixSeparator(separator byte, n int) PrefixRule {
	return sstable.PrefixSeparator(separator, n)
}
