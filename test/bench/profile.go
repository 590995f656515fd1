//go:build linux

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"palyra/internal/core/config"
	daemon "palyra/internal/gateway"
	"palyra/internal/identity"
)

// loadClient is the argument that makes this program the client of a profile.
const loadClient = "load"

// profiled are the profiled loads: the work of each of several parallel clients.
var profiled = []struct {
	name string
	work func(ctx context.Context, c *client, times int) error
}{
	{"builtin", callsOf("echo", `{"text":"hello"}`)},
	{"guest", callsOf("wasm.run", guestInput)},
	{"skill", ofSkill},
	{"tier-c", callsOf("process.run", `{"argv":["true"]}`)},
	{"run", talk},
	{"mcp", overMCP},
	{"upstream", ofUpstream},
}

// callsOf makes calls of one tool.
func callsOf(tool, input string) func(context.Context, *client, int) error {
	return func(ctx context.Context, c *client, times int) error {
		return callsTo(times, func() error { return c.call(ctx, tool, input) })
	}
}

// callsTo repeats a function.
func callsTo(times int, do func() error) error {
	for range times {
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}

// overMCP makes calls of echo as an MCP client.
func overMCP(ctx context.Context, c *client, times int) error {
	return callsByMCP(ctx, c, times, "echo")
}

// ofUpstream makes calls of a tool of an upstream server as an MCP client. Each client has its own
// server.
func ofUpstream(ctx context.Context, c *client, times int) (err error) {
	plain, stop, err := plainMCP(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	name := "s" + strings.ToLower(rand.Text()[:10])
	if err := c.addUpstream(ctx, name, plain); err != nil {
		return err
	}
	return callsByMCP(ctx, c, times, name+"_echo")
}

func callsByMCP(ctx context.Context, c *client, times int, name string) error {
	s, err := connectMCP(ctx, c.base+"/mcp", c.http)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	return callsTo(times, func() error { return callMCP(ctx, s, name) })
}

// talk sends messages to an interactive run. The model answers each with a call of echo.
func talk(ctx context.Context, c *client, times int) error {
	v, err := newConversation(ctx, c)
	if err != nil {
		return err
	}
	_, err = v.p50(times)
	return errors.Join(err, v.close())
}

// profiles runs the daemon in this process, because the product has no debug endpoint, and the
// client in another. It writes the profiles of the daemon.
func profiles(ctx context.Context, o options, stdout, stderr io.Writer) (err error) {
	b, err := newBench(o, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close(ctx)) }()
	models, err := b.scripted()
	if err != nil {
		return err
	}
	g, err := b.newGateway(unasked, takesModules+models)
	if err != nil {
		return err
	}
	cfg, _, err := config.Load(config.LoadOptions{Path: g.config(), Env: func(string) string { return "" }})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	running, stop := context.WithCancel(ctx)
	ready := make(chan struct{})
	group.Go(func() error {
		return daemon.Run(running, daemon.Options{
			Config: cfg, Log: slog.New(slog.DiscardHandler), Ready: func(daemon.Addresses) { close(ready) },
		})
	})
	group.Go(func() error {
		defer stop()
		select {
		case <-ready:
			return b.profileAll(ctx, g.bundle(), stdout)
		case <-ctx.Done():
			return nil
		}
	})
	return group.Wait()
}

func (b *bench) profileAll(ctx context.Context, bundle string, stdout io.Writer) error {
	if err := os.MkdirAll(b.profile, 0o750); err != nil {
		return err
	}
	for _, p := range profiled {
		if !b.run.MatchString(p.name) {
			continue
		}
		cpu := filepath.Join(b.profile, p.name+"-cpu.pprof")
		heap := filepath.Join(b.profile, p.name+"-heap.pprof")
		b.say("profiling %s calls", p.name)
		used, err := b.profileLoad(ctx, cpu, heap, bundle, p.name)
		if err != nil {
			return err
		}
		fmt.Fprintf(stdout, "%s: %s\n", p.name, used.each(b.size.load))
		for _, args := range [][]string{{cpu}, {"-sample_index=alloc_space", heap}} {
			if err := top(ctx, stdout, args...); err != nil {
				return err
			}
		}
	}
	return nil
}

// profileLoad writes the CPU profile of a load, and the heap after it.
func (b *bench) profileLoad(ctx context.Context, cpu, heap, bundle, name string) (used usage, err error) {
	self, err := os.Executable()
	if err != nil {
		return used, err
	}
	f, err := os.Create(cpu)
	if err != nil {
		return used, err
	}
	defer f.Close()
	before, err := usageNow()
	if err != nil {
		return used, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return used, err
	}
	cmd := exec.CommandContext(ctx, self, loadClient, bundle, name, strconv.Itoa(b.size.load), strconv.Itoa(b.beside))
	cmd.Stderr = b.log
	err = cmd.Run()
	pprof.StopCPUProfile()
	if err != nil {
		return used, fmt.Errorf("the client of the profile: %w", err)
	}
	after, err := usageNow()
	if err != nil {
		return used, err
	}
	h, err := os.Create(heap)
	if err != nil {
		return used, err
	}
	defer h.Close()
	return after.since(before), pprof.Lookup("heap").WriteTo(h, 0)
}

// usage is the processor time and memory of the daemon. Unlike call times, they do not depend on
// other work on the machine.
type usage struct {
	processor          time.Duration
	bytes, allocations uint64
}

func (u usage) since(before usage) usage {
	return usage{u.processor - before.processor, u.bytes - before.bytes, u.allocations - before.allocations}
}

// each returns the usage per call.
func (u usage) each(calls int) string {
	n := uint64(calls)
	return fmt.Sprintf("%v of processor, %d KiB in %d allocations for each of %d calls", (u.processor / time.Duration(n)).Round(time.Microsecond), u.bytes/n>>10, u.allocations/n, n)
}

func usageNow() (usage, error) {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		return usage{}, err
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{time.Duration(r.Utime.Nano() + r.Stime.Nano()), m.TotalAlloc, m.Mallocs}, nil
}

// top prints the functions with the highest usage.
func top(ctx context.Context, stdout io.Writer, args ...string) error {
	const most = "15"
	cmd := exec.CommandContext(ctx, "go", append([]string{"tool", "pprof", "-top", "-nodecount=" + most}, args...)...)
	text, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("go tool pprof %v: %w", args, err)
	}
	_, err = fmt.Fprintf(stdout, "%s\n%s\n", args[len(args)-1], text)
	return err
}

// load makes calls with several parallel clients.
func load(ctx context.Context, args []string) error {
	if len(args) != 4 {
		return errors.New(loadClient + " needs a bundle, a profile's name, how many calls and how many clients")
	}
	bundle, err := identity.ReadBundle(args[0])
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	beside, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	for _, p := range profiled {
		if p.name != args[1] {
			continue
		}
		c := newClient(bundle, bundle.Address)
		group, ctx := errgroup.WithContext(ctx)
		for range beside {
			group.Go(func() error { return p.work(ctx, c, n/beside) })
		}
		return group.Wait()
	}
	return fmt.Errorf("profile %q not found", args[1])
}
