//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"palyra/internal/core/event"
	"palyra/internal/identity/ca"
)

// consoleSettings are the default settings, including caps and rate limits, with a longer time to
// answer.
const consoleSettings = `state_dir = %q
vault.backend = "file"
[listen]
api = "127.0.0.1:0"
metrics = "127.0.0.1:0"
console = "127.0.0.1:0"
[policy]
dir = %q
[[workspaces]]
name = "default"
path = %q
[approvals]
default_timeout = "6h"
`

// consoleGoals are the goals of docs/performance.md for the console. The file that Playwright's
// project speed writes has the figures under these names.
var consoleGoals = []struct {
	figure, what, unit string
	limit              limit
}{
	{"first_load", "first load of the inbox, as transferred", "KiB", atMost(250)},
	{"idle", "longest frame while idle: the machine's share", "ms", limit{}},
	{"inbox_scroll", "longest frame, inbox: scrolling", "ms", atMost(100)},
	{"inbox_scroll_task", "longest task, inbox: scrolling", "ms", atMost(100)},
	{"inbox_filter", "longest frame, inbox: filtering", "ms", atMost(100)},
	{"inbox_filter_task", "longest task, inbox: filtering", "ms", atMost(100)},
	{"inbox_filtered", "inbox: from a filter to its rows, p95", "ms", limit{}},
	{"journal_scroll", "longest frame, journal: scrolling", "ms", atMost(100)},
	{"journal_scroll_task", "longest task, journal: scrolling", "ms", atMost(100)},
	{"journal_filter", "longest frame, journal: filtering", "ms", atMost(100)},
	{"journal_filter_task", "longest task, journal: filtering", "ms", atMost(100)},
	{"journal_filtered", "journal: from a filter to its rows, p95", "ms", limit{}},
	{"ask_p50", "a new ask: from its proposal to the screen, p50", "ms", limit{}},
	{"ask_p95", "a new ask: from its proposal to the screen, p95", "ms", atMost(100)},
	{"echo_p50", "a decision: from the click to its echo, p50", "ms", limit{}},
	{"echo_p95", "a decision: from the click to its echo, p95", "ms", atMost(100)},
	{"verify", "verification in the browser", "events/s", atLeast(20_000)},
	{"verify_cpu", "processor time of the browser for one event", "us", limit{}},
}

// consoleSpeed is goal 27: the console in Chromium, with the highest number of pending approvals
// and a long journal. Playwright drives the browser, in web/e2e.
func consoleSpeed(ctx context.Context, b *bench) (_ []*line, err error) {
	if b.quick {
		return nil, errors.New("-quick starts no browser")
	}
	if _, err := os.Stat(filepath.Join(b.web, "node_modules", ".bin", "playwright")); err != nil {
		return nil, fmt.Errorf("the console's tests are not installed (%w); run `make deps-bench`", err)
	}
	g, err := b.consoleGateway(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.stop()) }()
	asking := &asks{}
	waiting, cancel := context.WithCancel(ctx)
	defer func() { cancel(); asking.calls.Wait() }()
	if err := asking.many(waiting, b, g); err != nil {
		return nil, err
	}
	newcomer, err := g.agent("newcomer")
	if err != nil {
		return nil, err
	}
	asker, stop, err := asking.serve(waiting, newcomer)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	lines := make([]*line, len(consoleGoals))
	for i, goal := range consoleGoals {
		lines[i] = &line{goal: "27", what: goal.what, unit: goal.unit, limit: goal.limit}
	}
	// One round: each figure is one of many samples, and has no floor to alternate with.
	figures, err := b.drive(ctx, g, asker)
	if err != nil {
		return nil, err
	}
	for i, goal := range consoleGoals {
		figure, measured := figures[goal.figure]
		if !measured {
			return nil, fmt.Errorf("the browser measured no %s", goal.figure)
		}
		lines[i].add(0, figure)
	}
	return lines, nil
}

// consoleGateway returns a gateway with the state of a long operation: its journal is full of
// signed events of many sessions.
func (b *bench) consoleGateway(ctx context.Context) (*gateway, error) {
	g, err := b.emptyGateway()
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf(consoleSettings, g.state(), g.policies(), g.workspace())
	if err := os.WriteFile(g.config(), []byte(text), 0o600); err != nil {
		return nil, err
	}
	if _, err := g.start(); err != nil { // creates the state directory
		return nil, err
	}
	if err := g.stop(); err != nil {
		return nil, err
	}
	b.say("building a journal of %d events of many sessions", b.size.events)
	authority, _, err := ca.Open(filepath.Join(g.state(), "ca"), ca.Options{})
	if err != nil {
		return nil, err
	}
	k, err := keysOf(authority)
	if err != nil {
		return nil, err
	}
	s, err := openStore(ctx, filepath.Join(g.state(), "palyra.db"), k)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(s.fill(ctx, b.size.events, worked), s.db.Close(ctx)); err != nil {
		return nil, err
	}
	_, err = g.start()
	return g, err
}

// worked returns the nth event of a journal in which 50 agents work in sessions of 10 runs with 20
// calls each. Policy denies the calls, because allowed calls would be open. One call in a hundred
// is refused before the decision.
func worked(n int) event.Draft {
	call := n / 3
	digest := fmt.Sprintf("sha256:%064x", call)
	d := event.Draft{Subject: ulidOf(call), Run: ulidOf(call / 20), Session: ulidOf(call / 200), Actor: fmt.Sprintf("agent:worker-%d", call/200%50)}
	switch n % 3 {
	case 0:
		d.Code, d.Payload = event.Proposed, fmt.Appendf(nil, `{"arguments":{"content":"line %d\nand another one\n","mode":"overwrite","path":"src/part-%d/file.go"},"call_digest":%q,"surface":"cli","tool":"fs.write","tool_definition_digest":%q}`, n, call%400, digest, digest)
	case 1:
		d.Code, d.Payload = event.Evaluated, fmt.Appendf(nil, `{"determining":[{"effect":"forbid","file":"20-tools.cedar","line":41,"policy":"tools.write"},{"effect":"forbid","file":"20-tools.cedar","line":77,"policy":"tools.workspace"}],"facts":{"bytes":%d,"inside":true,"new":false,"path":"src/part-%d/file.go"},"verdict":{"effect":"deny","grant_id":"","policy_version":"1","snapshot_digest":%q}}`, n%4000, call%400, digest)
	default:
		d.Code, d.Payload = event.Decided, fmt.Appendf(nil, `{"allowed":false,"approvals":[],"call_digest":%q,"decision_id":%q,"grants":[%q],"reason":"DENIED_BY_POLICY","remedy":"Ask an operator for a policy that permits it."}`, digest, ulidOf(n), ulidOf(call/20))
		if call%100 == 99 {
			d.Code = event.Refused
		}
	}
	return d
}

// ulidOf returns an id that encodes a number.
func ulidOf(n int) string { return fmt.Sprintf("01JD%022d", n) }

// drive runs Playwright's project once, and returns the figures.
func (b *bench) drive(ctx context.Context, g *gateway, asker string) (map[string]float64, error) {
	b.say("driving Chromium")
	out := filepath.Join(g.dir, "console.json")
	cmd := exec.CommandContext(ctx, "npm", "--prefix", b.web, "run", "--silent", "speed")
	cmd.Env = append(os.Environ(), "PALYRA_BIN="+filepath.Dir(b.palyrad), "PALYRA_SPEED_GATEWAY="+g.dir, "PALYRA_SPEED_OUT="+out,
		"PALYRA_SPEED_ASKER="+asker, fmt.Sprintf("PALYRA_SPEED_ASKS=%d", b.size.agents*b.size.asks))
	cmd.Stdout, cmd.Stderr = b.log, b.log
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("driving Chromium: %w", err)
	}
	written, err := os.ReadFile(out)
	if err != nil {
		return nil, err
	}
	figures := make(map[string]float64)
	return figures, json.Unmarshal(written, &figures)
}
