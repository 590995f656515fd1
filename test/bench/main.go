//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := runCommand(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// runCommand selects the role of this process: the harness, or one of the processes that the harness
// starts, so that client and server do not share a scheduler.
func runCommand(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	if len(args) > 0 {
		switch args[0] {
		case echoServer:
			return serveEcho(ctx, args[1:], stdin, stdout)
		case loadClient:
			return load(ctx, args[1:])
		case byteServer:
			return serveBytes(ctx, stdin, stdout)
		case byteClient:
			return measureBytes(args[1:], stdout)
		}
	}
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	if o.day {
		return replayDay(ctx, o, stdout, stderr)
	}
	if o.profile != "" {
		return profiles(ctx, o, stdout, stderr)
	}
	return measure(ctx, o, stdout, stderr)
}

// options are the flags.
type options struct {
	run     *regexp.Regexp
	rounds  int
	json    string
	quick   bool
	dir     string
	palyrad string
	// web is the folder of the console's sources, whose tests drive the browser.
	web     string
	profile string
	// beside is the number of parallel clients while a profile is taken.
	beside int
	day    bool
	// settings is a TOML file for the day's daemon, and pause the time between two sittings.
	settings string
	pause    time.Duration
	// events and asks are sizes that can be reduced for a quick run; calls can be raised for a more
	// exact one.
	events, asks, calls int
}

func parse(args []string, stderr io.Writer) (options, error) {
	o := options{}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	run := flags.String("run", ".", "measure the goals, or profile the loads, whose name matches the `regexp`")
	flags.IntVar(&o.rounds, "rounds", 5, "how many times floor and product take turns")
	flags.StringVar(&o.json, "json", filepath.Join("bin", "bench.json"), "write the table to `file`; empty writes none")
	flags.BoolVar(&o.quick, "quick", false, "tiny sizes: shows that the harness works, measures nothing")
	flags.StringVar(&o.dir, "dir", "bin", "make the temporary files below `directory`, which must be on a disk")
	flags.StringVar(&o.palyrad, "palyrad", filepath.Join("bin", "palyrad"), "the `program` to measure")
	flags.StringVar(&o.web, "web", "web", "the `folder` of the console's sources, whose tests drive a browser")
	flags.IntVar(&o.events, "events", full.events, "how many events a long journal has")
	flags.IntVar(&o.asks, "asks", full.asks, "how many asks of each of the 100 agents wait in the console")
	flags.StringVar(&o.profile, "profile", "", "instead of measuring, profile a daemon under load into `directory`")
	flags.IntVar(&o.beside, "beside", 4, "with -profile, how many clients call at once")
	flags.IntVar(&o.calls, "calls", full.load, "with -profile, how many calls they make together")
	flags.BoolVar(&o.day, "day", false, "instead of measuring, replay the recorded day of an agent")
	flags.StringVar(&o.settings, "settings", "", "with -day, add the settings of `file` to those of the daemon")
	flags.DurationVar(&o.pause, "pause", 0, "with -day, how long the agent is away between two sittings")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if o.rounds < 1 {
		return o, errors.New("-rounds must be at least 1")
	}
	if o.events < 1 || o.asks < 1 || o.calls < 1 || o.beside < 1 {
		return o, errors.New("-events, -asks, -calls and -beside must be at least 1")
	}
	var err error
	if o.run, err = regexp.Compile(*run); err != nil {
		return o, fmt.Errorf("-run: %w", err)
	}
	if o.dir, err = filepath.Abs(o.dir); err != nil {
		return o, err
	}
	o.palyrad, err = filepath.Abs(o.palyrad)
	return o, err
}

// measure runs the selected benchmarks sequentially, and reports.
func measure(ctx context.Context, o options, stdout, stderr io.Writer) (err error) {
	b, err := newBench(o, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close(ctx)) }()
	r := report{Machine: machineOf(o.dir), Rounds: o.rounds, Quick: o.quick}
	b.say("load averages of 1, 5 and 15 minutes: %s, on %d CPUs; other work makes the figures worse", r.Machine.Load, r.Machine.CPUs)
	for _, m := range benchmarks {
		if !o.run.MatchString(m.name) {
			continue
		}
		b.say("measuring %s", m.name)
		lines, err := m.run(ctx, b)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			r.Lines = append(r.Lines, unmeasured(m.name, err))
			continue
		}
		for _, l := range lines {
			r.Lines = append(r.Lines, l.row())
		}
	}
	if err := r.print(stdout); err != nil {
		return err
	}
	if o.json == "" {
		return nil
	}
	return r.write(o.json)
}

// benchmark measures one goal of docs/performance.md.
type benchmark struct {
	// name starts with the goal's number; -run matches it.
	name string
	run  func(context.Context, *bench) ([]*line, error)
}

// benchmarks are in the order of the goals, except for the ones that share the big journal.
var benchmarks = []benchmark{
	{"1-governed-call", governedCall},
	{"2-governed-guest", governedGuest},
	{"3-governed-tier-c", governedTierC},
	{"4-tier-c", tierCAlone},
	{"4-exec", sandboxExec},
	{"5-tier-b", tierBAlone},
	{"6-sandbox-runtime", againstRuntime},
	{"6-codex-sandbox", againstCodex},
	{"7-appends-per-second", appendsPerSecond},
	{"8-one-append", oneAppend},
	{"9-policy-decision", policyDecision},
	{"10-guests-per-second", guestsPerSecond},
	{"11-approval-wake", approvalWake},
	{"12-waiting-calls", waitingCalls},
	{"12-approvals-page", approvalsPage},
	{"13-idle-and-start", idleAndStart},
	{"14-journal-verify", journalVerify},
	{"14-attestation-verify", attestationVerify},
	{"16-egress-proxy", egressProxy},
	{"19-start", programStart},
	{"19-sizes", programSizes},
	{"20-rate-limit", rateLimitCheck},
	{"21-token", tokenCheck},
	{"22-pairing", pairingCost},
	{"23-handshake", handshakes},
	{"24-secrets", secretsCost},
	{"25-mcp-call", mcpCall},
	{"26-hooks", hooks},
	{"27-console", consoleSpeed},
}

// bench is the state that benchmarks share.
type bench struct {
	options
	size sizes
	dir  string
	log  io.Writer
	big  *bigJournal
}

func newBench(o options, log io.Writer) (*bench, error) {
	if err := os.MkdirAll(o.dir, 0o750); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(o.dir, "bench-")
	if err != nil {
		return nil, err
	}
	b := &bench{options: o, size: full, dir: dir, log: log}
	b.size.events, b.size.asks, b.size.load = o.events, o.asks, o.calls
	if o.quick {
		b.size = tiny
	}
	return b, nil
}

func (b *bench) close(ctx context.Context) error {
	var err error
	if b.big != nil {
		err = b.big.close(context.WithoutCancel(ctx))
	}
	return errors.Join(err, os.RemoveAll(b.dir))
}

func (b *bench) say(format string, args ...any) { fmt.Fprintf(b.log, "bench: "+format+"\n", args...) }

// path creates a directory below the harness' own.
func (b *bench) path(name string) (string, error) { return os.MkdirTemp(b.dir, name+"-") }

// each runs the rounds sequentially.
func (b *bench) each(ctx context.Context, round func() error) error {
	for range b.rounds {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := round(); err != nil {
			return err
		}
	}
	return nil
}

// sizes are the amounts of work of one round.
type sizes struct {
	// calls, appends and waits are the numbers of latency samples.
	calls, sandboxes, appends, waits int
	// peers is the number of runs of another sandbox.
	peers int
	// refill is the time for a pool to prepare the next sandbox.
	refill time.Duration
	// throughput is the number of parallel appends.
	throughput int
	// floor is the number of appends that measure the rate of fdatasync.
	floor int
	// events is the size of the big journal.
	events int
	// policies are the sizes of the larger and the largest set; decisions is the number of
	// decisions.
	policies  [2]int
	decisions int
	// checks is the number of requests of a rate limiter.
	checks int
	// principals is the number of principals, and waiting the total number of their waiting calls.
	principals, waiting int
	// agents is the number of agents, and asks the number of unanswered questions of each agent.
	agents, asks int
	// records is the number of approvals, and pages the number of listed pages.
	records, pages int
	// envelopes is the number of verified envelopes.
	envelopes int
	// load is the number of calls of a profile.
	load int
	// bytes is the size of one transfer; connections are made sequentially.
	bytes, connections int
	// settle is the time for a daemon to finish its work after a start.
	settle time.Duration
}

var (
	full = sizes{
		calls: 300, sandboxes: 60, appends: 300, waits: 100, throughput: 20_000, floor: 400, events: 1_000_000,
		policies: [2]int{1000, 10_000}, decisions: 2000, checks: 1_000_000, principals: 10, waiting: 2000, agents: 100, asks: 100,
		records: 100_000, pages: 200, envelopes: 3000, load: 4000, bytes: 1 << 30, connections: 500,
		settle: 2 * time.Second, peers: 10, refill: 25 * time.Millisecond,
	}
	tiny = sizes{
		calls: 3, sandboxes: 2, appends: 5, waits: 2, throughput: 300, floor: 5, events: 3000,
		policies: [2]int{20, 40}, decisions: 5, checks: 50, principals: 2, waiting: 6,
		records: 300, pages: 3, envelopes: 5, load: 8, bytes: 1 << 20, connections: 3,
		settle: 10 * time.Millisecond, peers: 1, refill: time.Millisecond,
	}
)
