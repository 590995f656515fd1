package client

import (
	"strings"
	"testing"
)

// Each terminal has its own name, which is the same for all of its calls.
func TestSessionName(t *testing.T) {
	t.Parallel()
	name := sessionName(4711, "8523", "boot")
	if name != sessionName(4711, "8523", "boot") || !strings.HasPrefix(name, "terminal-") || len(name) > 64 {
		t.Errorf("the name is %q", name)
	}
	for _, other := range []string{sessionName(4712, "8523", "boot"), sessionName(4711, "8524", "boot"), sessionName(4711, "8523", "another")} {
		if other == name {
			t.Errorf("two terminals are called %s", name)
		}
	}
}

func TestStartOf(t *testing.T) {
	t.Parallel()
	fields := "S 1 4711 4711 34816 4711 4194304 1 2 3 4 5 6 7 8 20 0 1 0 8523 9 10"
	for stat, want := range map[string]string{
		"4711 (bash) " + fields: "8523", "4711 (a ) b) S) " + fields: "8523", "": "", "4711 (bash) S 1": "", "no brackets": "",
	} {
		if got := startOf(stat); got != want {
			t.Errorf("%q started at %q, want %q", stat, got, want)
		}
	}
}
