//go:build unix

package agents

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"text/tabwriter"
)

// outcome states whether a tool that an agent requested ran.
type outcome string

const (
	ran     outcome = "ran"
	blocked outcome = "blocked"
)

// happened returns the outcome for whether the tool left its mark.
func happened(mark bool) outcome {
	if mark {
		return ran
	}
	return blocked
}

// results is the table of the outcomes of all faults.
type results struct {
	mu   sync.Mutex
	rows []string
	of   map[string]map[string]string
}

var table results

// want records the outcome of a fault with an agent, and fails the test if the outcome differs
// from docs/hooks.md.
func (r *results) want(t *testing.T, fault string, a *agent, got, want outcome, why string) {
	t.Helper()
	note := string(got)
	if got != want {
		t.Errorf("%s, %s: the tool %s, want %s: %s", fault, a.name, got, want, why)
		note += " (WRONG)"
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil {
		r.of = make(map[string]map[string]string)
	}
	if r.of[fault] == nil {
		r.rows, r.of[fault] = append(r.rows, fault), make(map[string]string)
	}
	r.of[fault][a.name] = note
}

func (r *results) print(w io.Writer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.rows) == 0 {
		return
	}
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintf(out, "fault\t%s\t%s\n", claude.name, codex.name)
	for _, fault := range slices.Compact(r.rows) {
		row := r.of[fault]
		_, _ = fmt.Fprintf(out, "%s\t%s\t%s\n", fault, cmp.Or(row[claude.name], "-"), cmp.Or(row[codex.name], "-"))
	}
	_ = out.Flush()
}
