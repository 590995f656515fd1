//go:build linux

package facts

import (
	"bytes"
	"maps"
	"slices"
	"sync"
	"testing"

	toolcall "palyra/internal/call"
	"palyra/internal/core/tool"
)

// lie falsifies the outcome of a call in a way that the judge must detect.
type lie struct {
	name, tool string
	// kind is the kind of violation that it produces.
	kind string
	// tell falsifies the outcome, or returns false if the lie does not apply to the call.
	tell func(*worker, *call, *toolcall.Outcome) bool
}

// says replaces text in the result.
func says(old, with string) func(*worker, *call, *toolcall.Outcome) bool {
	return func(_ *worker, _ *call, o *toolcall.Outcome) bool {
		before := o.Report.Result
		o.Report.Result = bytes.ReplaceAll(before, []byte(old), []byte(with))
		return !bytes.Equal(before, o.Report.Result)
	}
}

// lies has lies of every kind of violation.
var lies = []lie{
	{"sealed content", "fs.read", "forbidden content", says(public+"-", sealed+"-")},
	{"another file", "fs.read", "record", says(public+"-", public+"-9")},
	{"another path", "fs.read", "record", says(`"path":"open/`, `"path":"ask/`)},
	{"sealed matches", "fs.search", "forbidden content", says(public+"-", sealed+"-")},
	{"another match", "fs.search", "record", says(public+"-", public+"-9")},
	{"a sealed directory", "fs.list", "forbidden content", says(`"entries":[{`, `"entries":[{"kind":"file","path":"open/seal.id"},{`)},
	{"a sealed size", "fs.list", "forbidden size", says(`"entries":[{`, `"entries":[{"kind":"file","path":"sealed/a.txt","size":7},{`)},
	{"one file more", "fs.write", "effect", func(_ *worker, c *call, _ *toolcall.Outcome) bool {
		c.changes = append(c.changes, change{path: "open/more.txt", is: c.writes})
		return true
	}},
	{"a sealed file", "fs.patch", "forbidden effect", func(_ *worker, c *call, _ *toolcall.Outcome) bool {
		c.changes = append(c.changes, change{path: "sealed/a.txt", is: c.writes})
		return true
	}},
	{"an effect unsaid", "fs.write", "record", func(_ *worker, c *call, o *toolcall.Outcome) bool {
		o.Report.Files = nil
		return len(c.changes) > 0
	}},
	{"an effect of a call that was denied", "fs.write", "ran", func(_ *worker, c *call, o *toolcall.Outcome) bool {
		o.Decision.Allowed = false
		return len(c.changes) > 0
	}},
	{"an answer about another path", "fs.read", "answer", func(w *worker, _ *call, o *toolcall.Outcome) bool {
		w.asks.Store(o.Decision.ApprovalID, tool.Facts{Path: "ask/another.txt"})
		return o.Decision.ApprovalID != "" && o.Decision.GrantID == ""
	}},
	{"no answer", "fs.read", "not asked", func(_ *worker, c *call, o *toolcall.Outcome) bool {
		o.Decision.ApprovalID, o.Decision.GrantID = "", ""
		return asksPath(c.judged.Path)
	}},
	{"another echo", "echo", "result", says("hello", "bye")},
	{"another program", "process.run", "program", says("teller-one", "teller-other")},
	{"a forbidden program", "process.run", "forbidden program", says("teller-one", "teller-denied")},
	{"another place", "process.run", "program", says(`\"cwd\":\"/workspace`, `\"cwd\":\"/workspace/sealed`)},
	{"another operand", "process.run", "operand", says(public+"-", public+"-9")},
	{"another program of a line", "shell.run", "program", says("teller-one", "teller-other")},
	{"a forbidden program of a line", "shell.run", "forbidden program", says("teller-one", "teller-denied")},
	{"another operand of a line", "shell.run", "operand", says(public+"-", public+"-9")},
}

// TestJudge: the judge detects each kind of violation. Every lie is about a real call.
func TestJudge(t *testing.T) {
	t.Parallel()
	f := &fuzz{seed: seed(t), time: searchLimit}
	var mu sync.Mutex
	seen := map[string]bool{}
	f.spoil = func(w *worker, c *call, o *toolcall.Outcome) {
		if o.Report.Outcome != tool.Succeeded {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, l := range lies {
			if l.tool != c.tool || seen[l.name] {
				continue
			}
			told := *o
			told.Report.Result = slices.Clone(o.Report.Result)
			changes := c.changes
			if l.tell(w, c, &told) {
				w.verdict(c, &told, nil, func(kind, _ string) {
					if kind == l.kind {
						seen[l.name] = true
					}
				})
			}
			c.changes = changes
		}
		if !slices.ContainsFunc(lies, func(l lie) bool { return !seen[l.name] && slices.Contains(f.tools, l.tool) }) {
			f.stop()
		}
	}
	f.run(t)
	for _, l := range lies {
		if !seen[l.name] && slices.Contains(f.tools, l.tool) {
			t.Errorf("%s of %s: not seen as %q; seen are %q", l.name, l.tool, l.kind, slices.Sorted(maps.Keys(seen)))
		}
	}
}
