//go:build linux

package attack

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
)

// These are the words of the matrix.
const (
	denied    = "denied"
	escaped   = "ESCAPED"
	succeeded = "succeeded"
	failed    = "FAILED"
	notTried  = "NOT TRIED"
)

// outcome holds the results of an attack and of its negative control.
type outcome struct {
	Attack  string `json:"attack"`
	Control string `json:"control"`
}

func (o outcome) good() bool { return o.Attack == denied && o.Control == succeeded }

// matrix collects the outcomes of this process and of the process that it started as an
// ordinary user.
type matrix struct {
	mu   sync.Mutex
	own  map[string]outcome
	user map[string]outcome
}

// results is written by tests and read by TestMain.
var results = &matrix{own: map[string]outcome{}, user: map[string]outcome{}}

func (m *matrix) record(row string, o outcome) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.own[row] = o
}

// save writes the outcomes of this process to a file for the parent process.
func (m *matrix) save(file string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	text, err := json.Marshal(m.own)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}

// load reads the outcomes that an ordinary user's process saved.
func (m *matrix) load(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return json.Unmarshal(text, &m.user)
}

// print writes a line for each row of the catalogue and the totals, and reports whether every
// row has the required outcome. If some rows do not, it writes only these. If partial is set,
// rows that a command-line filter excluded are printed as such and are not failures.
func (m *matrix) print(w io.Writer, rows []row, partial bool) (good bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	root := places.root
	var all, bad bytes.Buffer
	tried, escapes, controls, others := 0, 0, 0, 0
	for _, r := range rows {
		if !places.applies(r) {
			others++
			continue
		}
		cells, ok := m.cells(r, root)
		if !ok && partial {
			continue
		}
		tried++
		text := matrixLine(r.id, r.variant, cells, strings.Join(r.layers(root), ", "))
		all.WriteString(text)
		if slices.ContainsFunc(cells, func(o outcome) bool { return !o.good() }) {
			bad.WriteString(text)
		}
		for i, o := range cells {
			if o.Attack == escaped {
				escapes++
			}
			if i == 0 && o.Control == succeeded {
				controls++
			}
		}
	}
	if root {
		fmt.Fprint(w, matrixLine("", "", []outcome{{"as root", ""}, {"as a user", ""}}, ""))
	}
	fmt.Fprint(w, matrixLine("id", "variant", []outcome{{"attack", "control"}, {"attack", "control"}}, "stopped by"))
	if good = bad.Len() == 0; good {
		_, _ = all.WriteTo(w)
	} else {
		_, _ = bad.WriteTo(w)
	}
	fmt.Fprintf(w, "%d rows, %d escapes, %d controls\n", tried, escapes, controls)
	if others > 0 {
		fmt.Fprintf(w, "%d more rows need a palyrad that is root or can make control groups (run the tests as root for them), another processor or another kernel\n", others)
	}
	return good
}

// matrixLine formats a row of the matrix, with the ordinary user's outcomes if there are any.
func matrixLine(id, variant string, cells []outcome, stopped string) string {
	user := outcome{}
	if len(cells) > 1 {
		user = cells[1]
	}
	return fmt.Sprintf("%-6s %-44s %-10s %-10s %-10s %-10s %s\n", id, variant, cells[0].Attack, cells[0].Control, user.Attack, user.Control, stopped)
}

// cells returns a row's outcomes in this process. If this process is root and the row is of the
// sandbox, it also returns the outcomes of an ordinary user. Without the whole matrix, only the
// outcomes of this process are returned.
func (m *matrix) cells(r row, root bool) (cells []outcome, ran bool) {
	own, ran := m.own[r.name()]
	if !ran {
		own = outcome{notTried, notTried}
	}
	cells = []outcome{own}
	if !root || !places.whole || !r.everybody() {
		return cells, ran
	}
	user, ranToo := m.user[r.name()]
	if !ranToo {
		user = outcome{notTried, notTried}
	}
	return append(cells, user), ran && ranToo
}

// everybody reports whether a row is tried as an ordinary user as well.
func (r row) everybody() bool { return r.ofSandbox() && !r.root && !r.groups }
