package wasm

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"palyra/internal/core/limit"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/wasm/guest"
	"palyra/internal/exec/wasm/module"
	"palyra/internal/exec/wasm/wire"
)

// Limits of the pool.
const (
	// defaultWorkers is the number of workers that run at once. The same number is kept idle for
	// the next calls of their principals, for at most idleTime. With fewer idle workers,
	// concurrent calls would start new ones each time.
	defaultWorkers = 16
	idleTime       = time.Minute
	// spares is the number of spare workers for any principal, kept for at most idleTime after
	// the last call that needed one.
	spares = 2
	// compilers is the number of concurrent compilations: each may use compileMemory. One owner
	// holds at most compilersEach, so that slow modules of one never block those of others.
	compilers     = 2
	compilersEach = 1
	// mostWaiting is the maximum number of calls that wait for a worker, and for a compiler.
	mostWaiting = 1024
	// keptCodes is the number of compiled modules in memory.
	keptCodes = 64
)

// Runner runs guests. It is safe for concurrent use.
type Runner struct {
	use     Config
	program command.Program
	codes   codes
	empty   string
	// toolchains mount the worker program in the sandbox if it is outside of the system
	// directories.
	toolchains []command.Toolchain
	// slots limits the calls in progress, compiles the compilations. Their callers take turns.
	slots, compiles *limit.Queue
	// closing is closed by Close, which ends the compilations.
	closing chan struct{}
	// processes tracks the goroutines of workers and compilations.
	processes sync.WaitGroup

	mu sync.Mutex
	// idle are the idle workers; workers without an owner are spare. starting counts the spare
	// workers that are being started.
	idle     []*worker
	starting int
	compiled map[codeName]*compiling
	closed   bool
	sweeper  *time.Timer
}

// compiling is one module's code, or its compilation. Concurrent callers wait for it.
type compiling struct {
	// began reports that the turn of a caller has come; waiting is the number of callers who wait
	// for that. Runner.mu guards both.
	began   bool
	waiting int
	// look reads the directory once, before any caller waits.
	look sync.Once
	done chan struct{}
	file *os.File
	err  error
	// cpu is the processor time of the compiler.
	cpu time.Duration
}

// Open returns a Runner. It starts no worker. Its errors name the missing parts.
func Open(c Config) (*Runner, error) {
	if c.Sandbox == nil {
		return nil, unavailable("Tier C, in which the WASM worker runs, is not available on this machine")
	}
	c.Workers, c.CompileCPU = cmp.Or(c.Workers, defaultWorkers), cmp.Or(c.CompileCPU, compileCPU)
	program, err := command.ResolveExecutable(c.Worker, nil)
	if err != nil {
		return nil, unavailable("the WASM worker %s cannot be used", c.Worker).WithCause(err)
	}
	r := &Runner{use: c, program: program, empty: filepath.Join(c.Dir, "empty"), slots: limit.NewQueue(c.Workers, mostWaiting), compiles: limit.NewSharedQueue(compilers, mostWaiting, compilersEach), closing: make(chan struct{}), compiled: map[codeName]*compiling{}}
	r.codes.dir = filepath.Join(c.Dir, "code")
	for _, dir := range []string{c.Dir, r.empty, r.codes.dir} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, reason.Errorf(reason.SandboxUnavailable, "creating the directory of compiled modules: %w", err)
		}
	}
	if r.codes.key, err = readKey(filepath.Join(c.Dir, "mac.key")); err != nil {
		return nil, reason.Errorf(reason.SandboxUnavailable, "reading the key of compiled modules: %w", err)
	}
	if err := r.show(); err != nil {
		return nil, err
	}
	return r, nil
}

// show makes a worker program outside of the system directories visible in the sandbox. It
// copies the program to a separate directory, which the sandbox mounts.
func (r *Runner) show() error {
	if command.OfSystem(filepath.Dir(r.program.Path)) {
		return nil
	}
	text, err := os.ReadFile(r.program.Path)
	if err != nil {
		return unavailable("the WASM worker cannot be read").WithCause(err)
	}
	if r.program.SHA256 != fmt.Sprintf("sha256:%x", sha256.Sum256(text)) {
		return reason.Errorf(reason.BindingMismatch, "the WASM worker changed while palyrad started").WithRemedy("Start palyrad again.")
	}
	dir := filepath.Join(r.use.Dir, "program")
	name := filepath.Join(dir, Worker)
	if err = os.RemoveAll(dir); err == nil {
		err = os.Mkdir(dir, 0o755)
	}
	if err == nil {
		err = os.WriteFile(name, text, 0o755) //nolint:gosec // the sandbox's user runs it
	}
	if err != nil {
		return unavailable("the WASM worker cannot be copied to the directory for its sandbox").WithCause(err)
	}
	r.program.Path = name
	r.toolchains = []command.Toolchain{{Name: Worker, Dirs: []string{dir}}}
	return nil
}

// Probe starts a worker and ends it. It returns the worker's engine.
func (r *Runner) Probe(ctx context.Context) (engine string, err error) {
	w, err := r.launch(ctx, running("(probe)", guest.Limits{}))
	if err != nil {
		return "", err
	}
	defer w.kill()
	return w.engine, nil
}

// Close ends every worker and drops the codes in memory.
func (r *Runner) Close() {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		close(r.closing)
	}
	idle := r.idle
	r.idle = nil
	if r.sweeper != nil {
		r.sweeper.Stop()
	}
	for name, c := range r.compiled {
		select {
		case <-c.done:
			if c.file != nil {
				_ = c.file.Close()
			}
		default: // the garbage collector closes its file
		}
		delete(r.compiled, name)
	}
	r.mu.Unlock()
	for _, w := range idle {
		w.kill()
	}
	r.processes.Wait()
}

// running returns the job of a worker for calls with these limits.
func running(owner string, l guest.Limits) job {
	return job{word: "run", owner: owner, memory: l.MemoryBytes + workerMemory, space: instanceSpace, cpu: workerTime(l)}
}

// workerTime is the processor time of a worker over all its calls. The worker is replaced after
// workerSpan, and its last call may use all of the call's own time.
func workerTime(l guest.Limits) time.Duration { return workerSpan + max(l.Wall, 0) + 2*grace }

// Run makes one call. It returns a report even if the guest did not finish.
func (r *Runner) Run(ctx context.Context, c guest.Call) (sandbox.Report, error) {
	if c.Limits.Wall <= 0 || c.Limits.Output <= 0 || c.Limits.Fuel == 0 {
		return sandbox.Report{}, reason.Errorf(reason.Internal, "a guest must have limits")
	}
	// The module is compiled before the call takes a slot, which a slow module must not occupy.
	_, spent, err := r.code(ctx, c.Module, r.nameOf(c.Module), c.Caller)
	if err != nil {
		return sandbox.Report{}, err
	}
	leave, err := r.slots.Enter(ctx, c.Caller)
	if err != nil {
		return sandbox.Report{}, notInTurn(ctx, err)
	}
	defer leave()
	w, err := r.workerFor(ctx, c)
	if err != nil {
		return sandbox.Report{}, err
	}
	first := w.span == 0
	t := talk{worker: w, call: c, report: w.underway.Report}
	t.report.Tier, t.report.Backend, t.report.Started = sandbox.TierA, w.engine+" in "+t.report.Backend, time.Now()
	err = t.run(ctx)
	t.report.Finished = time.Now()
	t.report.Usage.Wall = t.report.Finished.Sub(t.report.Started)
	t.report.Usage.CPU = spent
	w.span += t.report.Usage.Wall
	if t.over || t.spent || w.span > workerSpan {
		w.kill()
	} else {
		r.keep(w)
	}
	if first {
		r.ready()
	}
	return t.report, err
}

func (r *Runner) nameOf(m guest.Module) codeName {
	return sha256.Sum256(fmt.Appendf(nil, "%x %s %+v", m.Digest, r.program.SHA256, m.Features))
}

// loaded identifies the module that a worker has loaded, with its enabled features.
type loaded struct {
	module   [sha256.Size]byte
	features wire.Features
}

// workerFor returns a worker that has loaded the module, for the principal of the call.
func (r *Runner) workerFor(ctx context.Context, c guest.Call) (*worker, error) {
	needs := loaded{c.Module.Digest, c.Module.Features}
	owner := c.Caller.Principal
	if w := r.take(func(w *worker) bool { return w.owner == owner && w.loaded == needs && w.room(c.Limits) }); w != nil {
		return w, nil
	}
	name := r.nameOf(c.Module)
	file, _, err := r.code(ctx, c.Module, name, c.Caller)
	if err != nil {
		return nil, err
	}
	w := r.take(func(w *worker) bool { return w.owner == "" && w.room(c.Limits) })
	if w == nil {
		if w, err = r.launch(ctx, running(owner, c.Limits)); err != nil {
			return nil, err
		}
	}
	w.owner, w.loaded = owner, needs
	if err := w.load(ctx, c.Module.Features, file); err != nil {
		if ctx.Err() == nil {
			r.forget(name)
		}
		return nil, err
	}
	return w, nil
}

func (w *worker) load(ctx context.Context, on wire.Features, code *os.File) error {
	if err := w.pass(wire.Load, on, code); err != nil {
		return w.lost("it did not load a module", err)
	}
	f, err := w.read(ctx, 0, greetingTime)
	if err != nil {
		return w.lost("it did not load a module", err)
	}
	if trouble, err := wire.As[wire.Trouble](f, wire.Failed); err == nil {
		w.kill()
		return reason.Errorf(reason.ToolFailed, "the compiled module cannot be loaded: %s", firstLine(trouble.Problem))
	}
	if _, err := wire.As[wire.Trouble](f, wire.Loaded); err != nil {
		return w.lost("it did not load a module", err)
	}
	return nil
}

// talk is one call in progress.
type talk struct {
	worker *worker
	call   guest.Call
	// report is the worker's isolation and the result of the call.
	report sandbox.Report
	// over reports that the worker was or must be killed. spent reports that it must not be
	// reused.
	over, spent bool
}

func (t *talk) run(ctx context.Context) error {
	l := t.call.Limits
	order := wire.Order{
		ABI: t.call.Module.Kind == module.ABI, Tool: t.call.Tool, Fuel: l.Fuel, MemoryBytes: l.MemoryBytes, TableElements: l.TableElements,
		Output: l.Output, WallMillis: l.Wall.Milliseconds(), Seed: t.call.Seed[:], Clock: t.call.Clock, Random: t.call.Random,
	}
	if err := t.worker.write(wire.Call, order, t.call.Input); err != nil {
		return t.lost(err)
	}
	release, err := t.worker.hurry(ctx, l.Wall+grace)
	if err != nil {
		return t.lost(err)
	}
	defer func() { t.over = !release() || t.over }()
	for {
		f, err := t.worker.next(ctx, max(maxQuestion, 2*l.Output))
		if err != nil {
			return t.lost(err)
		}
		if f.Kind == wire.Done {
			return t.done(f)
		}
		if err := t.answer(ctx, f); err != nil {
			return err
		}
	}
}

func (t *talk) lost(err error) error {
	t.over = true
	return t.worker.lost("it did not finish the call", err)
}

func (t *talk) done(f wire.Frame) error {
	end, err := wire.As[wire.End](f, wire.Done)
	l := t.call.Limits
	if err == nil && (end.Result < 0 || end.Result > len(f.Body) || end.Result > l.Output || len(f.Body)-end.Result > l.Output || end.Fuel > l.Fuel) {
		err = errors.New("the end of a call is malformed")
	}
	ended, known := verdict(end, l)
	if err == nil && !known {
		err = fmt.Errorf("the outcome %q is unknown", end.Outcome)
	}
	if err != nil {
		return t.lost(err)
	}
	t.report.Stdout.Head, t.report.Stderr.Head = f.Body[:end.Result:end.Result], f.Body[end.Result:]
	t.report.Usage.Fuel, t.report.Usage.PeakMemory = int64(end.Fuel), end.MemoryBytes
	for _, use := range []tool.GrantUse{{Kind: "clock", Name: "clock", Uses: end.Clock}, {Kind: "random", Name: "random", Uses: end.Random}} {
		if use.Uses > 0 {
			t.report.Grants = append(t.report.Grants, use)
		}
	}
	return ended
}

// maxQuestion is the maximum size of the body of a request: two pieces of 4 MiB.
const maxQuestion = 8 << 20

// answer passes a request of the guest to the call's host. An unknown function means that the
// worker is compromised.
func (t *talk) answer(ctx context.Context, f wire.Frame) error {
	q, err := wire.As[wire.Question](f, wire.Ask)
	if err == nil && (q.First < 0 || q.First > len(f.Body) || len(q.Numbers) > 2) {
		err = errors.New("a request is malformed")
	}
	if _, there := module.Functions[module.Capabilities][q.Function]; err == nil && !there {
		err = fmt.Errorf("the function %q does not exist", q.Function)
	}
	if err != nil {
		return t.lost(err)
	}
	a := guest.Answer{Value: -1}
	if t.call.Host != nil {
		if a, err = t.call.Host.Answer(ctx, q.Function, q.Numbers, f.Body[:q.First], f.Body[q.First:]); err != nil {
			t.over = true
			t.worker.kill()
			return err
		}
	}
	t.spent = t.spent || a.Spent
	if err := t.worker.write(wire.Answer, wire.Reply{Value: a.Value}, a.Result); err != nil {
		return t.lost(err)
	}
	return nil
}
