package sstable

// Shed drops the prefix filter, and all but the first keep units of the filter, and the index and the table's cached blocks too if
// index is true, as memory is needed elsewhere. It never waits: while the table's index or a filter is being read from the file it
// does nothing and returns false. A later Load or lookup may load them again.
func (r *Reader) Shed(keep int, index bool) bool {
	if !r.mu.TryLock() {
		return false
	}
	defer r.mu.Unlock()
	r.dropPrefixes(1)
	if len(r.units) > keep {
		_ = r.publish(append([][]byte(nil), r.units[:keep]...)) // they are in use: their checksums were right
	}
	if index {
		if x := r.index.Swap(nil); x != nil {
			r.cache.Drop(x.slots)
		}
	}
	return true
}
