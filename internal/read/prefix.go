package read

import (
	"sync/atomic"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// A prefixProbe queries prefix filters for a cursor: is there a key with the prefix shared by all keys within the
// cursor's bounds? It counts the answers.
type prefixProbe struct {
	asking bool // there is such a prefix
	hash   bloomblock.Hash
	PrefixCounts
}

// ask sets the prefix shared by all keys of [lower, upper), by the rule; a nil upper means no end.
func (p *prefixProbe) ask(rule sstable.PrefixRule, lower, upper []byte) {
	*p = prefixProbe{}
	if prefix := rule.Of(stem(lower, upper)); prefix != nil {
		p.asking, p.hash = true, bloomblock.HashKey(prefix)
	}
}

// stem returns a common start of all keys in [lower, upper), as a part of lower; a nil upper means no end. If the
// bounds are those of all keys with a prefix, it is the longest such start.
func stem(lower, upper []byte) []byte {
	n := 0
	if upper != nil {
		n = ikey.CommonPrefix(lower, upper)
		if n == len(lower) || len(upper) != n+1 || upper[n] != lower[n]+1 {
			return lower[:n]
		}
		n++ // a key below upper has at most the byte of lower here, and a key from lower on at least that
	}
	for n < len(lower) && lower[n] == 0xff { // no byte is greater
		n++
	}
	return lower[:n]
}

// PrefixCounts count what prefix filters did for closed cursors, as bloomkv.PrefixMetrics describes it.
type PrefixCounts struct{ Probes, Negatives, Unasked uint64 }

// prefixCounts are the counters of PrefixCounts.
type prefixCounts struct{ probes, negatives, unasked atomic.Uint64 }

// add adds the counts of a cursor.
func (c *prefixCounts) add(p *PrefixCounts) {
	if p.Probes+p.Unasked > 0 {
		c.probes.Add(p.Probes)
		c.negatives.Add(p.Negatives)
		c.unasked.Add(p.Unasked)
	}
}

// Prefixes returns the counts for all closed cursors.
func (c *prefixCounts) Prefixes() PrefixCounts {
	return PrefixCounts{Probes: c.probes.Load(), Negatives: c.negatives.Load(), Unasked: c.unasked.Load()}
}

// without reports whether the prefix filter of a table excludes all keys within the cursor's bounds. It loads the
// filter if that is not loaded yet.
func (r *runCursor) without(t *tree.Table) (bool, error) {
	p := r.prefix
	maybe, probed := t.Reader.Prefixes.MayContain(p.hash)
	if !probed && !t.Prefixes.Known() {
		if err := r.reader.Tables.LoadPrefixes(t); err != nil {
			return false, err
		}
		maybe, probed = t.Reader.Prefixes.MayContain(p.hash)
	}
	if !probed {
		p.Unasked++
		return false, nil
	}
	p.Probes++
	if !maybe {
		p.Negatives++
	}
	return !maybe, nil
}
