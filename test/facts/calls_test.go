//go:build linux

package facts

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	toolcall "palyra/internal/call"
	"palyra/internal/call/approval"
)

// worker makes calls sequentially in its own workspace.
type worker struct {
	*session
	name  string
	tree  *tree
	tools []string
	// votes waits for the voters of the calls in progress.
	votes sync.WaitGroup
	calls int
	// last is the previous call.
	last *call
}

// patience is the timeout of one call.
const patience = 2 * time.Minute

// work makes calls until ctx ends.
func (w *worker) work(ctx context.Context) {
	for ctx.Err() == nil {
		c := w.next()
		limited, cancel := context.WithTimeout(context.WithValue(context.Background(), callKey{}, c), patience)
		outcome, err := w.gateway.pipeline.Call(limited, toolcall.Submission{Caller: agent(w.name), Tool: c.tool, Input: c.input}, func(e toolcall.Event) { w.observe(limited, c, e) })
		w.votes.Wait()
		cancel()
		w.judge(c, &outcome, err)
		w.last = c
	}
}

func (w *worker) observe(ctx context.Context, c *call, e toolcall.Event) {
	switch {
	case e.Proposed != nil:
		w.hooks.at(ctx, checked)
	case e.Asked != nil:
		rec := *e.Asked
		c.mu.Lock()
		w.asks.LoadOrStore(rec.ID, c.asking)
		c.mu.Unlock()
		w.votes.Go(func() { w.vote(ctx, c, rec) })
	}
}

// vote waits for a moment, in which the workspace changes, and then votes. A vote on an
// approval that is already decided, for the same call of another worker, has no effect.
func (w *worker) vote(ctx context.Context, c *call, rec approval.Record) {
	w.tree.mu.Lock()
	thought, ballot := time.Duration(w.tree.rng.IntN(1000))*time.Microsecond, w.ballot()
	w.tree.mu.Unlock()
	<-time.After(thought)
	w.hooks.at(ctx, asked)
	ballot.ShownDigest = rec.CallDigest
	after, err := w.gateway.desk.Votes.Decide(ctx, person, rec.ID, ballot)
	if err == nil && after.GrantID != "" {
		about, _ := w.asks.Load(rec.ID)
		w.grants.Store(after.GrantID, about)
		c.minted = true
	}
}

func (w *worker) ballot() approval.Ballot {
	short := time.Duration(20+w.tree.rng.IntN(500)) * time.Millisecond
	switch w.tree.rng.IntN(10) {
	case 0:
		return approval.Ballot{Reason: "no"}
	case 1:
		return approval.Ballot{Allow: true, Scope: approval.Timeboxed, TTL: short, Match: approval.MatchExact}
	case 2:
		return approval.Ballot{Allow: true, Scope: approval.Timeboxed, TTL: short, Match: approval.MatchSubject}
	}
	return approval.Ballot{Allow: true}
}

// next returns a call of some tool, and prepares the workspace so that the call may be allowed.
// Changes between the call's stages then affect it.
func (w *worker) next() *call {
	t := w.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	w.calls++
	if w.last != nil && w.last.minted {
		// The call repeats the last one while its grant is valid.
		c := &call{worker: w, tool: w.last.tool, input: w.last.input, ws: w.last.ws, aim: w.last.aim, writes: w.last.writes, aimed: true}
		t.open(c.aim)
		return c
	}
	c := &call{worker: w, tool: w.tools[w.calls%len(w.tools)], ws: w.name, flips: t.rng.IntN(8) == 0, aimed: t.rng.IntN(2) == 0}
	if runsPrograms(c.tool) { // so that enough of these calls reach their commit
		c.aimed, c.flips = t.rng.IntN(5) == 0, t.rng.IntN(3) == 0
	}
	if !t.dirs["open"] && t.rng.IntN(4) != 0 {
		t.dirLink()
	}
	input := makers[c.tool](w, c)
	if _, ok := input["workspace"]; ok && t.rng.IntN(100) == 0 {
		c.ws, input["workspace"], c.aim = "vault", "vault", ""
	}
	text, err := json.Marshal(input)
	must(err)
	c.input = text
	if c.tool != "fs.patch" && t.rng.IntN(4) != 0 {
		t.open(c.aim)
	}
	return c
}

// open points the first element of a path to a place from which policy permits reads.
func (t *tree) open(name string) {
	switch {
	case strings.HasPrefix(name, "doors/f"):
		link := name[:len("doors/f0")]
		if files := t.of(public); t.links[link] != "" && len(files) > 0 {
			t.symlink("../"+t.pick(files), link)
		}
	case strings.HasPrefix(name, "doors/d"):
		t.symlink("../open", name[:len("doors/d0")])
	case strings.HasPrefix(name, "bin/link"):
		t.symlink(t.pick([]string{"run", "other"}), "bin/link")
	}
}

// makers maps each tool to a function that creates its input.
var makers = map[string]func(*worker, *call) map[string]any{
	"echo":  echo,
	"sleep": sleep,
	// The tool takes no input, and the test has no secrets.
	"secrets.list": func(*worker, *call) map[string]any { return map[string]any{} },
	"http.fetch":   fetch,
	"fs.read":      read,
	"fs.list":      list,
	"fs.search":    search,
	"fs.write":     write,
	"fs.patch":     patch,
	"process.run":  run,
	"shell.run":    shellLine,
}

func (t *tree) oneOf(list ...string) string { return t.pick(list) }

func echo(w *worker, _ *call) map[string]any {
	return map[string]any{"text": w.tree.oneOf("ask", "hello")}
}

func sleep(w *worker, _ *call) map[string]any {
	return map[string]any{"duration_ms": w.tree.rng.IntN(2)}
}

func fetch(w *worker, _ *call) map[string]any {
	return map[string]any{"url": w.gateway.url, "method": w.tree.oneOf("GET", "HEAD")}
}

// file returns a path that a call may name.
func (t *tree) file() string {
	switch t.rng.IntN(4) {
	case 0:
		return t.oneOf("doors/f0", "doors/f1", "doors/f2")
	case 1:
		return t.oneOf("doors/d0/", "doors/d1/", "open/") + t.oneOf("a.txt", "b.txt", "c.txt")
	case 2:
		return t.oneOf("ask/a.txt", "ask/b.txt")
	}
	if list := t.of(public, written, sealed); len(list) > 0 {
		return t.pick(list)
	}
	return "open/a.txt"
}

func (t *tree) place() string {
	return t.oneOf(".", "open", "ask", "ask", "ask", "sealed", "doors/d0", "doors/d1", "doors/d0", "doors/d1", "mixed", "out")
}

func read(w *worker, c *call) map[string]any {
	c.aim = w.tree.file()
	return map[string]any{"path": c.aim, "workspace": c.ws}
}

func list(w *worker, c *call) map[string]any {
	c.aim = w.tree.place()
	return map[string]any{"path": c.aim, "workspace": c.ws, "depth": 1 + w.tree.rng.IntN(3), "hidden": true}
}

func search(w *worker, c *call) map[string]any {
	c.aim = w.tree.place()
	if w.tree.rng.IntN(2) == 0 {
		c.aim = w.tree.file()
	}
	return map[string]any{"path": c.aim, "workspace": c.ws, "pattern": "^[A-Z]+-[0-9]+-[0-9]+$", "max_matches": 1000, "hidden": true}
}

// content returns new text for a call to write.
func (w *worker) content(c *call) string {
	w.tree.n++
	c.writes = fmt.Sprintf("%s-%d-%d", written, w.tree.worker, w.tree.n)
	return c.writes + "\n"
}

func write(w *worker, c *call) map[string]any {
	c.aim = w.tree.file()
	if w.tree.rng.IntN(2) == 0 {
		c.aim = w.tree.oneOf("out/w.txt", "out/v.txt", "out/u.txt")
	}
	return map[string]any{"path": c.aim, "workspace": c.ws, "content": w.content(c), "mode": "overwrite"}
}

func patch(w *worker, c *call) map[string]any {
	t := w.tree
	files := t.of(public, written)
	if t.rng.IntN(2) == 0 {
		files = slices.DeleteFunc(files, func(name string) bool { return !strings.HasPrefix(name, "out/") && !asksPath(name) })
	}
	if c.aim = t.pick(files); c.aim == "" {
		c.aim = "open/a.txt"
	}
	line := "nothing"
	if b := t.files[c.aim]; b != nil {
		line = b.label
	}
	if t.rng.IntN(2) == 0 { // through a link, with the same content
		t.symlink("../"+filepath.Dir(c.aim), "doors/d0")
		c.aim = "doors/d0/" + filepath.Base(c.aim)
	}
	text := fmt.Sprintf("--- a/%s\n+++ b/%s\n@@ -1 +1 @@\n-%s\n+%s", c.aim, c.aim, line, w.content(c))
	return map[string]any{"patch": text, "workspace": c.ws}
}

func run(w *worker, c *call) map[string]any {
	input, argv := commandOf(w, c, "bin/link", "bin/link", "bin/link", "bin/link")
	input["argv"] = argv
	return input
}

// shellLine quotes the arguments of process.run as a shell line. The programs that it names are
// operands of the shell.
func shellLine(w *worker, c *call) map[string]any {
	input, argv := commandOf(w, c)
	input["command"], input["shell"] = "'"+strings.Join(argv, "' '")+"'", "sh"
	return input
}

// commandOf returns the input and arguments of a call of the teller program, by one of its
// copies or links to them.
func commandOf(w *worker, c *call, links ...string) (input map[string]any, argv []string) {
	t := w.tree
	input = map[string]any{"workspace": c.ws}
	operand := t.pick(t.of(public, written))
	if operand == "" || t.rng.IntN(2) == 0 {
		operand = t.file()
	}
	c.aim = operand
	exe := t.oneOf(append(links, "bin/run", "bin/run", "bin/run", "bin/other", "bin/other", "bin/denied/run")...)
	if t.rng.IntN(2) == 0 {
		c.aim = exe
	}
	argv = []string{"./" + exe, operand}
	if t.rng.IntN(8) == 0 {
		cwd := t.oneOf("doors/d0", "open", "sealed", "out")
		input["cwd"], argv, c.aim = cwd, []string{"/workspace/" + exe}, cwd
	}
	content := w.content(c)
	if input["cwd"] == nil && t.rng.IntN(4) != 0 {
		argv = append(argv, "--", t.oneOf("out/w.txt", "out/u.txt"), content)
	}
	if t.rng.IntN(2) == 0 {
		input["timeout_ms"] = 30_000
	}
	return input, argv
}

// wordsOf returns the arguments of the program that a call starts.
func wordsOf(c *call) []string {
	var input struct {
		Argv    []string
		Command string
	}
	must(json.Unmarshal(c.input, &input))
	if input.Command != "" {
		return strings.Split(strings.Trim(input.Command, "'"), "' '")
	}
	return input.Argv
}

// session is a gateway with its workers.
type session struct {
	gateway *gateway
	hooks   *hooks
	tally   *tally
	// programs maps the digests of the programs in workspaces to their labels.
	programs map[string]string
	// asks and grants map an approval, or the grant that it created, to the facts in the approval
	// request.
	asks, grants sync.Map
	// violated is called for each violation.
	violated func()
	// spoil, if set, falsifies the outcome of a call.
	spoil func(*worker, *call, *toolcall.Outcome)
}

// generator returns the random source for all choices of one worker.
func generator(seed uint64, round, worker int) *rand.Rand {
	return rand.New(rand.NewPCG(seed, uint64(round)<<32|uint64(worker)))
}
