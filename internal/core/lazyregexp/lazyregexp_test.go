package lazyregexp

import (
	"slices"
	"testing"
)

func TestRegexp(t *testing.T) {
	t.Parallel()
	r := New(`a(b*)`)
	if r.String() != `a(b*)` || !r.MatchString("cabb") || r.MatchString("c") || !slices.Equal(r.FindStringIndex("cabb"), []int{1, 4}) {
		t.Error("a match is not found where it stands")
	}
	if m := r.FindStringSubmatch("cabb"); !slices.Equal(m, []string{"abb", "bb"}) {
		t.Error(m)
	}
	if m := r.FindAllStringSubmatch("aab", -1); len(m) != 2 || m[1][1] != "b" {
		t.Error(m)
	}
}

// An invalid pattern is reported at its first use, not before.
func TestCompilesAtFirstUse(t *testing.T) {
	t.Parallel()
	r := New(`(`)
	defer func() {
		if recover() == nil {
			t.Error("a text that does not compile matched")
		}
	}()
	r.MatchString("")
}
