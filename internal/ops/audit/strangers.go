package audit

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"

	"palyra/internal/core/limit"
)

const (
	// mostEvents bounds the events of a period about callers without a credential: one for each of
	// the largest sources, and one for all others.
	mostEvents = 20
	// mostSources and mostPerSource limit the memory.
	mostSources, mostPerSource = 1024, 8
	// sampled is how many sources are compared to find the one to drop.
	sampled = 8
)

// kind is a refused procedure with its reason.
type kind struct {
	procedure string
	code      string
}

// tally counts the refusals of a source.
type tally struct {
	count       int
	first, last time.Time
	kinds       map[kind]int
}

func (t *tally) add(k kind, now time.Time) {
	if t.count == 0 {
		t.first, t.kinds = now, map[kind]int{}
	}
	t.count, t.last = t.count+1, now
	if _, known := t.kinds[k]; known || len(t.kinds) < mostPerSource {
		t.kinds[k]++
	}
}

// most returns the most frequent kind of a source.
func (t *tally) most() kind {
	return slices.MaxFunc(slices.Collect(maps.Keys(t.kinds)), func(a, b kind) int {
		return cmp.Or(cmp.Compare(t.kinds[a], t.kinds[b]), cmp.Compare(b.procedure, a.procedure), cmp.Compare(b.code, a.code))
	})
}

// strangers are the refusals of callers without a credential in one period, by source. Above the
// limit of sources, those with few refusals are dropped, so that the largest remain.
type strangers struct {
	sources map[string]*tally
	// rest has the refusals of the dropped sources.
	rest    tally
	dropped int
}

// sourceOf returns the name under which an address is counted. It is the network of the address
// (package limit), or one name for all addresses of this host.
func sourceOf(source string) string {
	network := limit.Address(source)
	if a, err := netip.ParseAddr(network); err == nil && a.IsLoopback() {
		return "loopback"
	}
	return network
}

func (s *strangers) add(source string, k kind, now time.Time) {
	if s.sources == nil {
		s.sources = map[string]*tally{}
	}
	source = sourceOf(source)
	t := s.sources[source]
	if t == nil {
		if len(s.sources) >= mostSources {
			s.makeRoom()
		}
		t = &tally{}
		s.sources[source] = t
	}
	t.add(k, now)
}

// makeRoom drops the smallest of some sources, which are selected by map order.
func (s *strangers) makeRoom() {
	var name string
	var smallest *tally
	n := 0
	for source, t := range s.sources {
		if smallest == nil || t.count < smallest.count {
			name, smallest = source, t
		}
		if n++; n == sampled {
			break
		}
	}
	delete(s.sources, name)
	s.putInRest(smallest)
	s.dropped++
}

// putInRest adds a source to those without their own event.
func (s *strangers) putInRest(t *tally) {
	if s.rest.count == 0 || t.first.Before(s.rest.first) {
		s.rest.first = t.first
	}
	if t.last.After(s.rest.last) {
		s.rest.last = t.last
	}
	s.rest.count += t.count
}

// events returns the events of the period, at most mostEvents.
func (s *strangers) events() (list []callersRefused) {
	names := slices.SortedFunc(maps.Keys(s.sources), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.sources[b].count, s.sources[a].count), cmp.Compare(a, b))
	})
	own := len(names)
	if own > mostEvents-1 || s.dropped > 0 {
		own = min(own, mostEvents-1)
	}
	for _, name := range names[:own] {
		t := s.sources[name]
		most := t.most()
		list = append(list, callersRefused{
			Source: name, Procedure: most.procedure, Reason: most.code, Kinds: len(t.kinds), Count: t.count, First: t.first, Last: t.last,
		})
	}
	for _, name := range names[own:] {
		s.putInRest(s.sources[name])
	}
	if others := len(names) - own + s.dropped; others > 0 {
		list = append(list, callersRefused{Sources: others, Count: s.rest.count, First: s.rest.first, Last: s.rest.last})
	}
	return list
}
