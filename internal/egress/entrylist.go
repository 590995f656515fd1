package egress

import "slices"

// entryList is a list of at most size entries.
type entryList struct {
	size     int
	listed   []*Entry
	refusals int // number of denied entries in listed
}

// add adds an entry and returns the entry it displaces, or nil. If the list is full and the
// other kind holds more than its half, the newest entry of the other kind is displaced;
// otherwise the new entry itself is.
func (l *entryList) add(e *Entry) *Entry {
	var out *Entry
	if len(l.listed) == l.size {
		others := l.refusals
		if e.denied() {
			others = l.size - l.refusals
		}
		if others <= l.size/2 {
			return e
		}
		out = l.dropNewest(!e.denied())
	}
	e.listed = true
	l.listed = append(l.listed, e)
	if e.denied() {
		l.refusals++
	}
	return out
}

// dropNewest removes the newest entry that is (or is not) denied.
func (l *entryList) dropNewest(denied bool) *Entry {
	newest := -1
	for i, e := range l.listed {
		if e.denied() == denied && (newest < 0 || e.number > l.listed[newest].number) {
			newest = i
		}
	}
	out := l.listed[newest]
	out.listed = false
	l.listed = slices.Delete(l.listed, newest, newest+1)
	if denied {
		l.refusals--
	}
	return out
}
