package egress

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"palyra/internal/core/tool"
)

// mostSums is how many targets the connections that are not listed one by one
// are added up for.
const mostSums = 256

// kind is what connections that are added up have in common.
type kind struct {
	leg             string
	target          Target
	verdict, reason string
}

// amount is what there was of a kind.
type amount struct {
	count, requests int
	out, in         int64
}

func (a amount) plus(b amount) amount {
	return amount{a.count + b.count, a.requests + b.requests, a.out + b.out, a.in + b.in}
}

// compare orders by what was sent, and then by what was received.
func (a amount) compare(b amount) int {
	return cmp.Or(cmp.Compare(a.out, b.out), cmp.Compare(a.in, b.in))
}

// sums are amounts by kind, for at most mostSums targets: those to which most
// was sent. Example: with mostSums 2, a.org has 9 bytes, b.org 5, and now c.org
// 7. b.org gives way, and its 5 bytes are added up under no target, with those
// of the same verdict and reason: a.org 9, c.org 7, elsewhere 5. Legs, verdicts
// and reasons are few, so that sums are bounded.
type sums struct {
	of map[kind]amount
	// targets is how many of them have one.
	targets int
}

func (s *sums) add(k kind, a amount) {
	if s.of == nil {
		s.of = map[kind]amount{}
	}
	if _, known := s.of[k]; !known && k.target != (Target{}) {
		k = s.admit(k, a)
	}
	s.of[k] = s.of[k].plus(a)
}

// admit lets a kind with a new target in, or returns it without its target when
// others have sent more.
func (s *sums) admit(k kind, a amount) kind {
	if s.targets < mostSums {
		s.targets++
		return k
	}
	least, less := k, a
	if a.compare(amount{}) > 0 { // nothing is less than nothing
		for other, has := range s.of {
			if other.target != (Target{}) && has.compare(less) < 0 {
				least, less = other, has
			}
		}
	}
	if least == k {
		return k.anywhere()
	}
	delete(s.of, least)
	s.add(least.anywhere(), less)
	return k
}

// more adds to a kind that was added to before, and may have lost its target
// since.
func (s *sums) more(k kind, a amount) {
	if _, known := s.of[k]; !known {
		k = k.anywhere()
	}
	s.add(k, a)
}

func (k kind) anywhere() kind {
	k.target = Target{}
	return k
}

func (s *sums) clone() *sums { return &sums{of: maps.Clone(s.of), targets: s.targets} }

// list returns the sums, most bytes first and those without target last, and of
// how many connections they are.
func (s *sums) list() (list []tool.Connection, count int) {
	for k, a := range s.of {
		c := tool.Connection{
			Host: k.target.Host.String(), Port: int(k.target.Port), Verdict: k.verdict, Leg: k.leg, Reason: k.reason,
			BytesOut: a.out, BytesIn: a.in, Requests: a.requests, Count: a.count,
		}
		list = append(list, c)
		count += a.count
	}
	slices.SortFunc(list, inOrder)
	return list, count
}

func inOrder(a, b tool.Connection) int {
	if (a.Host == "") != (b.Host == "") {
		return strings.Compare(b.Host, a.Host)
	}
	return cmp.Or(
		cmp.Compare(b.BytesOut, a.BytesOut), cmp.Compare(b.BytesIn, a.BytesIn), strings.Compare(a.Host, b.Host), cmp.Compare(a.Port, b.Port),
		strings.Compare(a.Leg, b.Leg), strings.Compare(a.Verdict, b.Verdict), strings.Compare(a.Reason, b.Reason),
	)
}
