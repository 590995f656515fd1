package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/tool"
)

// original is the call of a search as it came: what policy saw, and the same
// with secrets hidden.
type original struct {
	context, clean types.Record
}

func (s *Set) originalOf(r Request) original {
	one := r.perPath()[0]
	c, refused := s.prepare(one)
	if refused != nil {
		return original{}
	}
	v := s.viewCall(c, one)
	v.see(s.noApproval)
	return original{context: v.real, clean: v.shown}
}

// was is the text of what stood at a place before any change.
func (s solver) was(p spot) string {
	if p.file > 0 {
		var f tool.Facts
		setPath(&f, s.search.from.Request.Facts.Paths[p.file-1])
		if p.chain[1] == "path_folded" {
			return valueText(types.String(f.PathFolded))
		}
		return valueText(types.String(f.Path))
	}
	return s.masked(p, placeValue(evalEnv{Context: s.search.before.context}, p.chain))
}

// masked is the text of a proposed value. What it takes over from a value that
// is hidden, in whole or in part, is hidden as well.
func (s solver) masked(p spot, v types.Value) string {
	if v == nil {
		return ValueAbsent
	}
	real := placeValue(evalEnv{Context: s.search.before.context}, p.chain)
	shown := placeValue(evalEnv{Context: s.search.before.clean}, p.chain)
	switch {
	case real == nil || shown != nil && real.Equal(shown):
		return valueText(v)
	case v.Equal(real):
		return valueText(shown)
	}
	switch v := v.(type) {
	case types.Set:
		return maskedSet(v, real, shown)
	case types.String:
		if old, ok := real.(types.String); ok && old != "" && strings.Contains(string(v), string(old)) {
			return fmt.Sprintf("%q", tool.Redaction)
		}
	}
	return valueText(v)
}

// maskedSet hides the elements that are hidden where they come from.
func maskedSet(v types.Set, real, shown types.Value) string {
	old, _ := real.(types.Set)
	open, _ := shown.(types.Set)
	elements := sortedElements(v)
	for i, e := range elements {
		if old.Contains(e) && !open.Contains(e) {
			elements[i] = types.String(tool.Redaction)
		}
	}
	elements = slices.CompactFunc(elements, func(a, b types.Value) bool { return a.Equal(b) })
	return valueText(types.NewSet(elements...))
}
