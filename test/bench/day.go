//go:build linux

package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
)

// day holds the calls of a working day and the project that they are about.
//
//go:embed all:day
var day embed.FS

// dayCall is one call of the day, a line of day.jsonl.
type dayCall struct {
	// Sitting numbers the periods in which the agent worked without a long break; Task names the
	// work.
	Sitting int             `json:"sitting"`
	Task    string          `json:"task"`
	Tool    string          `json:"tool"`
	Input   json.RawMessage `json:"input"`
	// Answer is the answer of the person: allowed once or for the session.
	Answer string `json:"answer"`
}

// pagePlace is the placeholder for the address of the one page that is read.
const pagePlace = "PAGE"

func readDay() ([]dayCall, error) {
	text, err := day.ReadFile("day/day.jsonl")
	if err != nil {
		return nil, err
	}
	var calls []dayCall
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		var c dayCall
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return nil, fmt.Errorf("line %d of the day: %w", len(calls)+1, err)
		}
		calls = append(calls, c)
	}
	return calls, nil
}

// daySettings are the settings of a laptop. Eight hours are replayed in one minute, so limits per
// second or minute are higher; all other limits have their defaults.
const daySettings = `state_dir = %q
[listen]
api = "127.0.0.1:0"
metrics = "127.0.0.1:0"
console = ""
[policy]
dir = %q
[[workspaces]]
name = "default"
path = %q
[process_runner]
allow_interpreters = true
[http]
allowed_hosts = [%q]
[approvals]
max_created_per_minute_per_run = 1000
max_created_per_minute_per_principal = 1000
[rate_limits.decide]
per_second = 1000
burst = 1000
[rate_limits.tool_call]
per_second = 1000
burst = 1000
%s
`

// took is the result of one call.
type took struct {
	dayCall
	// time excludes the time of the person, who answers immediately.
	time    time.Duration
	asked   int
	refused string
	failed  string
}

// replayDay makes the calls of the day sequentially, as an agent with its own credential, and gives
// the recorded answers.
func replayDay(ctx context.Context, o options, stdout, stderr io.Writer) (err error) {
	calls, err := readDay()
	if err != nil {
		return err
	}
	b, err := newBench(o, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close(ctx)) }()
	page, closePage, err := servePage()
	if err != nil {
		return err
	}
	defer closePage()
	g, err := b.laptop(ctx, page)
	if err != nil {
		return err
	}
	if _, err := g.start(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.stop()) }()
	person, err := g.operator()
	if err != nil {
		return err
	}
	agent, err := g.add("coder", "--role", "agent", "--owner", "local")
	if err != nil {
		return err
	}
	r := replay{person: person, agent: agent, page: "http://" + page + "/", pause: o.pause}
	list, err := r.all(ctx, calls)
	if err != nil {
		return err
	}
	return printDay(stdout, list)
}

// servePage serves the one page that the agent reads.
func servePage() (address string, stop func(), err error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{ReadHeaderTimeout: patience, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "<title>json</title><p>How to read what was written.\n")
	})}
	go func() { _ = server.Serve(listener) }()
	return listener.Addr().String(), func() { _ = server.Close() }, nil
}

// laptop returns a daemon with the policies of a laptop and the project.
func (b *bench) laptop(ctx context.Context, page string) (*gateway, error) {
	g, err := b.emptyGateway()
	if err != nil {
		return nil, err
	}
	var more []byte
	if b.settings != "" {
		if more, err = os.ReadFile(b.settings); err != nil {
			return nil, err
		}
	}
	text := fmt.Sprintf(daySettings, g.state(), g.policies(), g.workspace(), page, more)
	if err := os.WriteFile(g.config(), []byte(text), 0o600); err != nil {
		return nil, err
	}
	// The policies come from the build under test.
	cmd := exec.CommandContext(ctx, filepath.Join(filepath.Dir(g.program), "palyra"), "policy", "init", "--profile", "laptop", g.policies())
	cmd.Env = g.environment()
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("palyra policy init: %w: %s", err, bytes.TrimSpace(text))
	}
	return g, makeProject(ctx, g.workspace())
}

// makeProject copies the project and makes it a repository with one commit.
func makeProject(ctx context.Context, dir string) error {
	files, err := fs.Sub(day, "day/project")
	if err != nil {
		return err
	}
	if err := os.CopyFS(dir, files); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"}, {"config", "user.name", "coder"}, {"config", "user.email", "coder@example.org"}, {"add", "."}, {"commit", "-q", "-m", "first version"},
	} {
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Dir = dir
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1"}
		if text, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("git %s: %w: %s", args[0], err, bytes.TrimSpace(text))
		}
	}
	return nil
}

// replay is a day in progress.
type replay struct {
	person, agent *client
	page          string
	pause         time.Duration
}

func (r *replay) all(ctx context.Context, calls []dayCall) ([]took, error) {
	var list []took
	for i, c := range calls {
		if i > 0 && c.Sitting != calls[i-1].Sitting && r.pause > 0 {
			select {
			case <-time.After(r.pause):
			case <-ctx.Done():
			}
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		one, err := r.one(ctx, c)
		if err != nil {
			return nil, fmt.Errorf("call %d, %s: %w", i+1, c.Tool, err)
		}
		list = append(list, one)
	}
	return list, nil
}

// one makes a call. A denied or failed call is a result; an error ends the day.
func (r *replay) one(ctx context.Context, c dayCall) (took, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	result := took{dayCall: c}
	started := time.Now()
	input := bytes.ReplaceAll(c.Input, []byte(`"`+pagePlace+`"`), []byte(`"`+r.page+`"`))
	stream, err := r.agent.gateway.CallTool(ctx, &palyrav1.CallToolRequest{
		Tool: c.Tool, InputJson: input, Session: fmt.Sprintf("sitting-%d", c.Sitting), Run: c.Task,
	})
	if err != nil {
		return result, err
	}
	defer func() { _ = stream.Close() }()
	for stream.Receive() {
		m := stream.Msg()
		switch {
		case m.GetApprovalRequested() != nil:
			result.asked++
			if err := r.answer(ctx, m.GetApprovalRequested().GetApproval(), c.Answer); err != nil {
				return result, err
			}
		case m.GetDecision() != nil && !m.GetDecision().GetAllowed():
			result.refused = m.GetDecision().GetReason() + " " + m.GetDecision().GetMessage()
		case m.GetResult() != nil && m.GetResult().GetOutcome() != "succeeded":
			result.failed = m.GetResult().GetOutcome() + " " + m.GetResult().GetReason() + " " + m.GetResult().GetMessage()
		}
	}
	if err := stream.Err(); err != nil {
		if ctx.Err() != nil {
			return result, err
		}
		result.refused = err.Error()
	}
	result.time = time.Since(started)
	return result, nil
}

func (r *replay) answer(ctx context.Context, a *palyrav1.Approval, choice string) error {
	vote := &palyrav1.DecideApprovalRequest{ApprovalId: a.GetApprovalId(), Allow: true, ShownDigest: a.GetCallDigest()}
	if choice == "session" {
		vote.Scope, vote.Match = palyrav1.ApprovalScope_APPROVAL_SCOPE_SESSION, palyrav1.GrantMatch_GRANT_MATCH_SUBJECT
	}
	_, err := r.person.approvals.DecideApproval(ctx, vote)
	return err
}

// printDay prints a row for each tool and one for all, followed by the differences from the
// recorded day.
func printDay(out io.Writer, list []took) error {
	byTool := map[string][]took{"all": list}
	for _, t := range list {
		byTool[t.Tool] = append(byTool[t.Tool], t)
	}
	// Flush returns the error of a failed write.
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(table, "tool\tcalls\tquestions\trefused\tfailed\tmedian ms\tp95 ms\t")
	for _, name := range slices.SortedFunc(maps.Keys(byTool), allLast) {
		var times []float64
		var asked, refused, failed int
		for _, t := range byTool[name] {
			times = append(times, float64(t.time.Microseconds())/1000)
			asked += t.asked
			refused += count(t.refused)
			failed += count(t.failed)
		}
		_, _ = fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%.1f\t%.1f\t\n", name, len(times), asked, refused, failed, median(times), percentile(times, 95))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for i, t := range list {
		if why := t.refused + t.failed; why != "" {
			fmt.Fprintf(out, "call %d, %s %s: %s\n", i+1, t.Tool, t.Input, strings.TrimSpace(why))
		}
	}
	return nil
}

func allLast(a, b string) int { return cmp.Or(isAll(a)-isAll(b), strings.Compare(a, b)) }

func isAll(name string) int {
	if name == "all" {
		return 1
	}
	return 0
}

// count is 1 for a non-empty text, else 0.
func count(text string) int { return min(len(text), 1) }
