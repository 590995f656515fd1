//go:build linux

package facts

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"
)

// enough is the number of changes at each stage of each tool that a long run must reach to be
// conclusive.
const enough = 1000

// tally counts what happened.
type tally struct {
	flips atomic.Int64

	mu         sync.Mutex
	mutations  map[string]*[stages]int
	endings    map[string]map[string]int
	violations []string
	kinds      map[string]int
}

func newTally() *tally {
	return &tally{mutations: map[string]*[stages]int{}, endings: map[string]map[string]int{}, kinds: map[string]int{}}
}

func (t *tally) mutation(s stage, tool string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mutations[tool] == nil {
		t.mutations[tool] = new([stages]int)
	}
	t.mutations[tool][s]++
}

// ended counts a call by its outcome.
func (t *tally) ended(tool, how string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.endings[tool] == nil {
		t.endings[tool] = map[string]int{}
	}
	t.endings[tool][how]++
}

// violated stores the first violations of each kind and counts all.
func (t *tally) violated(kind, text string) {
	const most = 3
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kinds[kind]++; t.kinds[kind] <= most {
		t.violations = append(t.violations, kind+": "+text)
	}
}

func (t *tally) count() (calls, violations int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, ends := range t.endings {
		for _, n := range ends {
			calls += n
		}
	}
	for _, n := range t.kinds {
		violations += n
	}
	return calls, violations
}

// few lists the pairs of stage and tool with too few changes.
func (t *tally) few(tools []string) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []string
	for _, name := range tools {
		for s := range stages {
			n := 0
			if t.mutations[name] != nil {
				n = t.mutations[name][s]
			}
			if s.reaches(name) && n < enough {
				list = append(list, fmt.Sprintf("%s of %s: %d", s, name, n))
			}
		}
	}
	return list
}

func (t *tally) print(out io.Writer, tools []string, took time.Duration) {
	calls, violations := t.count()
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(out, "%d calls in %s, %d turns of links while tools ran\n\ncalls by their end\n", calls, took.Round(time.Second/10), t.flips.Load())
	for _, name := range tools {
		fmt.Fprintf(out, "  %-12s %s\n", name, sums(t.endings[name]))
	}
	fmt.Fprintln(out, "\nchanges of the workspace by stage and tool")
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "\t%s\t\n", strings.Join(tools, "\t"))
	for s := range stages {
		fmt.Fprintf(table, "%s\t", s)
		for _, name := range tools {
			switch {
			case !s.reaches(name):
				fmt.Fprint(table, "-\t")
			case t.mutations[name] == nil:
				fmt.Fprint(table, "0\t")
			default:
				fmt.Fprintf(table, "%d\t", t.mutations[name][s])
			}
		}
		fmt.Fprintln(table)
	}
	_ = table.Flush()
	if violations == 0 {
		fmt.Fprint(out, "\nviolations: none\n\n")
		return
	}
	fmt.Fprintf(out, "\nviolations: %d (%s), the first of them:\n  %s\n\n", violations, sums(t.kinds), strings.Join(t.violations, "\n  "))
}

func sums(counts map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return strings.Join(parts, ", ")
}
