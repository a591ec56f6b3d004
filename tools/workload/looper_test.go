package workload

import (
	"errors"
	"strings"
	"testing"
)

// loopStore runs chunks by loops.
type loopStore struct {
	*mapStore

	calls int
}

func (s *loopStore) AppendGet(dst, _ []byte) ([]byte, bool, error) {
	return dst, false, errors.New("a single lookup")
}

func (s *loopStore) Scan([]byte, int, func(key, value []byte) error) error {
	return errors.New("a single scan")
}

func (s *loopStore) LoopGet(keys, answers *Packed, found []bool) (err error) {
	s.calls++
	for i := range keys.len() {
		if answers.Values, found[i], err = s.mapStore.AppendGet(answers.Values, keys.key(i)); err != nil {
			return err
		}
		answers.end()
	}
	return nil
}

func (s *loopStore) LoopSeek(keys, answers *Packed, limit int, counts []int) error {
	s.calls++
	for i := range keys.len() {
		before := answers.len()
		err := s.mapStore.Scan(keys.key(i), limit, func(key, value []byte) error {
			answers.add(key, value)
			return nil
		})
		if counts[i] = answers.len() - before; err != nil {
			return err
		}
	}
	return nil
}

func (s *loopStore) LoopScan(answers *Packed, n int, part func() error) error {
	err := s.mapStore.Scan(nil, 0, func(key, value []byte) error {
		if answers.add(key, value); answers.len() < n {
			return nil
		}
		s.calls++
		return part()
	})
	return errors.Join(err, part())
}

func TestAStoreWithLoopsIsCalledOnceForAChunk(t *testing.T) {
	set := generated(t, Random, 10*chunkOps, 20)
	s := &loopStore{mapStore: load(t, set)}
	for _, p := range []Phase{
		{Kind: Absent},
		{Kind: Present},
		{Kind: Present, Choice: Zipfian},
		{Kind: Seek, Limit: 1},
		{Kind: Scan},
	} {
		s.calls, s.spoilGet, s.spoilScan = 0, nil, nil
		f, err := Run(t.Context(), s, set, p, nil)
		if err != nil || f.Wrong > 0 || f.Ops < set.Len()-1 || !(f.MedianNs > 0) || s.calls != 10 {
			t.Errorf("%+v: %d operations in %d calls, %v, %d wrong: %s", p, f.Ops, s.calls, err, f.Wrong, f.FirstWrong)
		}
		s.spoilGet = func(_, value []byte, found bool) ([]byte, bool, error) { return value, !found, nil }
		s.spoilScan = func(n int, key, value []byte) ([]byte, []byte, bool) { return key, value[1:], true }
		if f, err = Run(t.Context(), s, set, p, nil); err != nil || f.Wrong != f.Ops {
			t.Errorf("%+v: %d wrong answers are noticed of %d, %v", p, f.Wrong, f.Ops, err)
		}
		s.spoilGet = func(_, _ []byte, _ bool) ([]byte, bool, error) { return nil, false, errors.New("disk") }
		_, err = Run(t.Context(), s, set, p, nil)
		if p.Kind < Mixed && (err == nil || !strings.Contains(err.Error(), "disk")) {
			t.Errorf("%+v: %v, want the error of the store", p, err)
		}
	}
}

func TestPhasesCanShareTheOrderOfPopularity(t *testing.T) {
	set := generated(t, Decimal, 10_000, 0)
	often := func(p Phase) int {
		r := run{set: set, phase: p}
		must(t, r.choose())
		picks := make([]int, 1000)
		r.chooser.fill(picks, 0, newDice())
		counts := make(map[int]int)
		best := 0
		for _, pick := range picks {
			if counts[pick]++; counts[pick] > counts[best] {
				best = pick
			}
		}
		return best
	}
	zipf := Phase{Kind: Present, Choice: Zipfian, Workers: 1, Ops: 1000}
	first, second := zipf, zipf
	first.Seed, second.Seed = 1, 2
	if often(first) == often(second) {
		t.Error("two seeds have the same most popular key")
	}
	first.Ranks, second.Ranks = 7, 7
	if often(first) != often(second) {
		t.Error("two phases with the same ranks have other popular keys")
	}
}
