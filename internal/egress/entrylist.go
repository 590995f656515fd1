package egress

import "slices"

// entryList lists so many entries.
type entryList struct {
	size     int
	listed   []*Entry
	refusals int // how many of listed are denied
}

// add takes an entry in, and returns the one that there is no room for, or
// nil. When the room is full and the other kind has more than its half, that is
// the newest of the other kind; else it is the entry itself.
func (r *entryList) add(e *Entry) *Entry {
	var out *Entry
	if len(r.listed) == r.size {
		others := r.refusals
		if e.denied() {
			others = r.size - r.refusals
		}
		if others <= r.size/2 {
			return e
		}
		out = r.dropNewest(!e.denied())
	}
	e.listed = true
	r.listed = append(r.listed, e)
	if e.denied() {
		r.refusals++
	}
	return out
}

// dropNewest takes one entry out, the newest that is denied or that is not.
func (r *entryList) dropNewest(denied bool) *Entry {
	newest := -1
	for i, e := range r.listed {
		if e.denied() == denied && (newest < 0 || e.number > r.listed[newest].number) {
			newest = i
		}
	}
	out := r.listed[newest]
	out.listed = false
	r.listed = slices.Delete(r.listed, newest, newest+1)
	if denied {
		r.refusals--
	}
	return out
}
