package filterplan

import "github.com/bloomkv/bloomkv/bloomblock"

// askAbove is the rate of a filter in memory above which the filter in the file is asked. Below it, a page would be
// read for each table that then is searched in vain, and for each that has the key.
const askAbove = 0.1

// margin is by how much more than expected is promised of a filter that is not whole in memory: its rate follows
// from its form alone, from which the bits of some differ by a percent or two.
const margin = 1.03

// WorthAsking reports whether lookups shall ask the filter in the file, which has the rate of whole, after one in
// memory in the given form.
func WorthAsking(form bloomblock.Form, whole float64) bool {
	return form.Rate > askAbove && whole <= form.Rate/2
}

// A Promise is what lookups of absent keys cost at most, with the filters that are in memory. The zero value is that of
// an empty tree.
type Promise struct {
	FPR    float64 `json:"fpr_promised"`   // tables searched in vain
	Passed float64 `json:"filters_passed"` // filters in memory that let the key through, or that are not there
	// pages of filters asked in their files, since what is in memory lets more than a tenth of all keys through
	Pages float64 `json:"filter_pages"`
	// what is used outside of memory: the pages, and for each table that is searched a part of its index and a block
	Reads  float64 `json:"reads_promised"`
	Budget int64   `json:"budget_needed"` // memory in bytes that holds all filters, and so keeps what was asked
}

// Add adds a filter by its weight: in the form that is in memory, and whole.
func (p *Promise) Add(weight float64, form, whole bloomblock.Form) {
	asked := WorthAsking(form, whole.Rate)
	if form.Bytes < whole.Bytes {
		form.Rate = min(margin*form.Rate, 1)
	}
	p.Passed += weight * form.Rate
	if asked {
		p.Pages += weight * form.Rate * (1 + form.MorePages)
		form = whole
	}
	p.FPR += weight * form.Rate
	p.Reads = p.ReadsWith(2)
}

// atLeast raises the promise to the rate of the plan, which other filters may need.
func (p *Promise) atLeast(fpr float64) {
	p.FPR, p.Passed = max(p.FPR, fpr), max(p.Passed, fpr)
	p.Reads = p.ReadsWith(2)
}

// ReadsWith returns what is used outside of memory if each table that is searched costs the given number of reads.
func (p *Promise) ReadsWith(search float64) float64 { return p.Pages + search*p.FPR }

// ReadsNow returns what is used outside of memory by a tree whose filters in memory predict a rate, if each table that
// is searched costs the given number of reads. If all that was asked is kept, and no filter is asked in its file, the
// shares of levels that the tree does not have are not needed: then it is what is predicted and a tenth more.
func (p Promise) ReadsNow(asked, predicted, search float64) float64 {
	kept := p.FPR <= asked && p.Pages == 0
	if p.FPR = Promised(p.FPR, predicted); kept {
		p.FPR = min(p.FPR, 1.1*predicted)
	}
	return p.ReadsWith(search)
}

// Promise returns the promise of filters with the chosen forms, and of a plan for a rate.
func (demands Demands) Promise(fpr float64, chosen []int) (p Promise) {
	for i, d := range demands {
		p.Add(d.Weight, d.Forms[chosen[i]], d.Whole)
	}
	p.atLeast(fpr)
	return p
}

// Promised returns what a store promises that plans filters for a rate, and whose filters in memory predict another
// one. Plans are of filters as they are on average: the bits of the present ones may be a little worse.
func Promised(planned, predicted float64) float64 { return max(planned, min(predicted, 1.02*planned)) }
