package agents

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra/internal/core/must"
	"palyra/test/process"
)

// fresh removes palyrad's policies and configuration, which the tests wrote for the person.
func (p *person) fresh() {
	p.t.Helper()
	must.Do(p.t, os.RemoveAll(filepath.Join(p.home, ".config")))
}

// TestFirstMinute: with a fresh account, the first shell command of each agent after `palyra up` is
// decided, approved by a person and journaled.
func TestFirstMinute(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	p.fresh()
	p.up()
	for _, a := range all {
		line, made := p.mark("first" + a.name)
		p.model.wants(a.shell(line))
		c := a.start(p, false)
		q := p.waiting(c)
		if made() {
			t.Errorf("%s: it ran before anybody answered", a.name)
		}
		p.palyra("approve", q.ID, "--digest", q.Digest).Want(t, 0)
		r := c.Wait(t)
		table.want(t, "a fresh account: the first command, after a yes", a, happened(made()), ran, r.Out+r.Err+p.model.results())
		shown := p.palyra("journal", "list", "-o", "json", "--limit", "0")
		for _, what := range []string{"PAL-A100", "PAL-A102", "PAL-X100", "agent:" + a.name} {
			if !strings.Contains(shown.Out, what) {
				t.Errorf("%s: the journal has no %s: %s", a.name, what, shown.Err)
			}
		}
	}
}

// ordinary returns an ordinary session of Claude Code: reads, edits in the workspace and tests.
func ordinary(dir string) []call {
	in := func(name string) string { return filepath.Join(dir, name) }
	read := func(name string) call { return call{"Read", map[string]any{"file_path": in(name)}} }
	edit := func(name, was, is string) call {
		return call{"Edit", map[string]any{"file_path": in(name), "old_string": was, "new_string": is}}
	}
	test := claude.shell("sh test.sh")
	return []call{
		read("parse.go"), read("parse_test.go"), test,
		edit("parse.go", "return 0", "return 1"), test,
		edit("parse.go", "return 1", "return len(s)"), edit("parse_test.go", "want 0", "want 3"), test,
		{"Write", map[string]any{"file_path": in("doc.go"), "content": "// Package parse parses.\npackage parse\n"}},
		read("doc.go"), test,
	}
}

// TestOrdinarySession has Claude Code run an ordinary session under the profile laptop. A
// person is asked at most three times, each time for the whole session, and every call runs.
func TestOrdinarySession(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	p.fresh()
	p.write("project/parse.go", "package parse\n\nfunc Parse(s string) int { return 0 }\n")
	p.write("project/parse_test.go", "package parse // want 0\n")
	p.write("project/test.sh", "echo tested >> tested\n")
	p.palyra("policy", "init", "--profile", "laptop").Want(t, 0)
	p.up()
	p.model.wants(ordinary(p.workspace)...)
	c := claude.start(p, false)
	asked := p.answers(c, "--allow", "session", "--match", "subject")
	r := c.Wait(t)
	t.Logf("asked %d times", asked)
	if asked == 0 || asked > 3 {
		t.Errorf("a person was asked %d times: %s%s", asked, r.Out, p.model.results())
	}
	for name, want := range map[string]string{
		"parse.go": "return len(s)", "parse_test.go": "want 3", "doc.go": "parses", "tested": strings.Repeat("tested\n", 4),
	} {
		if text, err := os.ReadFile(filepath.Join(p.workspace, name)); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s has %q, %v: %s", name, text, err, p.model.results())
		}
	}
	table.want(t, "an ordinary session under laptop, 3 questions at most", claude, happened(asked <= 3), ran, "")
}

// answers approves every request of a run until the agent exits, and returns the number of
// approvals. If an approval cannot cover the wider match, it covers the exact call for the
// session.
func (p *person) answers(c *process.Child, wide ...string) int {
	p.t.Helper()
	var seen []string
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-c.Ended:
			return len(seen)
		case <-tick.C:
		}
		var list struct {
			Items []ask `json:"items"`
		}
		if r := p.palyra("approvals", "list", "-o", "json"); r.Code != 0 || json.Unmarshal([]byte(r.Out), &list) != nil {
			continue
		}
		for _, q := range list.Items {
			if slices.Contains(seen, q.ID) {
				continue
			}
			seen = append(seen, q.ID)
			answer := []string{"approve", q.ID, "--digest", q.Digest}
			if r := p.palyra(append(answer, wide...)...); r.Code != 0 {
				p.palyra(append(answer, "--allow", "session")...).Want(p.t, 0)
			}
		}
	}
}
