package egress

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"palyra/internal/core/tool"
)

// mostSums limits the targets for which unlisted connections are summed.
const mostSums = 256

// kind is the key by which connections are summed.
type kind struct {
	leg             string
	target          Target
	verdict, reason string
}

// amount is the total of a kind.
type amount struct {
	count, requests int
	out, in         int64
}

func (a amount) plus(b amount) amount {
	return amount{a.count + b.count, a.requests + b.requests, a.out + b.out, a.in + b.in}
}

// compare orders by bytes sent, then by bytes received.
func (a amount) compare(b amount) int {
	return cmp.Or(cmp.Compare(a.out, b.out), cmp.Compare(a.in, b.in))
}

// sums holds amounts by kind for the mostSums targets with the most bytes sent. Example: with
// mostSums 2, a.org has 9 bytes, b.org 5, and c.org now gets 7. b.org is evicted, and its 5
// bytes are added to the sum without a target with the same verdict and reason: a.org 9, c.org
// 7, elsewhere 5. The numbers of legs, verdicts and reasons are small, so the sums are bounded.
type sums struct {
	of map[kind]amount
	// targets is the number of kinds with a target.
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

// admit accepts a kind with a new target, or returns it without its target if the others have sent
// more.
func (s *sums) admit(k kind, a amount) kind {
	if s.targets < mostSums {
		s.targets++
		return k
	}
	least, less := k, a
	if a.compare(amount{}) > 0 { // an empty amount never replaces another
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

// more adds to a kind that was added earlier and may have lost its target since.
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

// list returns the sums, most bytes first and sums without a target last, and the number of
// connections that they cover.
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
