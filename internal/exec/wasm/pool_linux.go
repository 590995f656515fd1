package wasm

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"time"

	"palyra/internal/core/limit"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/jail"
	"palyra/internal/exec/wasm/guest"
	"palyra/internal/exec/wasm/wire"
)

// take removes and returns a matching idle worker, nil if no worker matches.
func (r *Runner) take(right func(*worker) bool) *worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := len(r.idle) - 1; i >= 0; i-- {
		w := r.idle[i]
		if !right(w) || !w.alive() {
			continue
		}
		r.idle = slices.Delete(r.idle, i, i+1)
		return w
	}
	return nil
}

// room reports whether the limits of a worker are sufficient for a call.
func (w *worker) room(l guest.Limits) bool {
	return w.may.memory >= l.MemoryBytes+workerMemory && w.may.cpu >= workerTime(l)
}

// ready starts spare workers, because starting a worker dominates the duration of a call
// without an idle worker. Spare workers have run no guest and have no owner. ready does not
// block, and drops its errors: the next call that needs a worker reports them.
func (r *Runner) ready() {
	if r.use.Limits == (guest.Limits{}) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	there := r.starting
	for _, w := range r.idle {
		if w.owner == "" {
			there++
		}
	}
	for ; there < spares && !r.closed; there++ {
		r.starting++
		r.processes.Go(func() {
			w, err := r.launch(context.Background(), running("", r.use.Limits))
			r.mu.Lock()
			r.starting--
			r.mu.Unlock()
			if err == nil {
				r.keep(w)
			}
		})
	}
}

// keep stores a worker for the next call of its principal. If the pool is full, it ends the
// worker that was idle for the longest time.
func (r *Runner) keep(w *worker) {
	r.mu.Lock()
	w.idle = time.Now()
	r.idle = append(r.idle, w)
	var end []*worker
	if r.closed {
		end, r.idle = r.idle, nil
	} else if len(r.idle) > r.use.Workers+spares {
		end, r.idle = r.idle[:1:1], slices.Clone(r.idle[1:])
	}
	if r.sweeper == nil && !r.closed {
		r.sweeper = time.AfterFunc(idleTime, r.sweep)
	}
	r.mu.Unlock()
	for _, w := range end {
		r.processes.Go(w.kill) // the caller has its result and need not wait
	}
}

// sweep ends workers that were idle for too long.
func (r *Runner) sweep() {
	r.mu.Lock()
	var end []*worker
	r.idle = slices.DeleteFunc(r.idle, func(w *worker) bool {
		old := time.Since(w.idle) >= idleTime || !w.alive()
		if old {
			end = append(end, w)
		}
		return old
	})
	r.sweeper = nil
	if len(r.idle) > 0 && !r.closed {
		r.sweeper = time.AfterFunc(idleTime, r.sweep)
	}
	r.mu.Unlock()
	for _, w := range end {
		w.kill()
	}
}

// installer compiles the modules of skills at their installation, for no caller.
var installer = limit.Who{Owner: "(install)", Principal: "(install)"}

// Prepare compiles a module, so that no call waits for it. It returns at once for a compiled
// module.
func (r *Runner) Prepare(ctx context.Context, m guest.Module) error {
	_, _, err := r.code(ctx, m, r.nameOf(m), installer)
	if err == nil {
		r.ready()
	}
	return err
}

// code returns a module's compiled code from memory, from the directory, or from a worker that
// compiles it. Concurrent callers wait for one compilation, in the turn of the first of them. The
// end of a caller's context does not stop the compilation. spent is the processor time of a
// compiler that ran in the turn of this caller.
func (r *Runner) code(ctx context.Context, m guest.Module, name codeName, who limit.Who) (file *os.File, spent time.Duration, err error) {
	c, began, err := r.compilation(name)
	if err != nil {
		return nil, 0, err
	}
	mine := false
	if !began && !c.stored(ctx, r, name) {
		if mine, err = r.compileInTurn(ctx, c, m, name, who); err != nil {
			return nil, 0, err
		}
	}
	select {
	case <-c.done:
		if mine {
			spent = c.cpu
		}
		return c.file, spent, c.err
	case <-ctx.Done():
		return nil, 0, left(ctx)
	}
}

// compilation returns the code of a module or the place of its compilation. A caller for whom it
// has not begun MUST call stored, and compileInTurn if the code is not stored.
func (r *Runner) compilation(name codeName) (c *compiling, began bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, false, closing()
	}
	c = r.compiled[name]
	if c == nil {
		c = &compiling{done: make(chan struct{})}
		r.compiled[name] = c
		r.dropOne(name)
	}
	if !c.began {
		c.waiting++
	}
	return c, c.began, nil
}

// stored reads the code of a module from the directory, once for all callers, and reports whether it
// is there. It needs no turn, because it compiles nothing.
func (c *compiling) stored(ctx context.Context, r *Runner, name codeName) bool {
	c.look.Do(func() {
		file, err := r.codes.read(name)
		if err != nil {
			r.use.Log.WarnContext(ctx, "compiled code is not usable, and is compiled again", slog.String("file", r.codes.path(name)), slog.String("error", err.Error()))
		}
		if file == nil {
			return
		}
		r.mu.Lock()
		c.began, c.file = true, file
		r.mu.Unlock()
		close(c.done)
	})
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// compileInTurn waits for the turn of a caller and then starts the compilation, unless that of
// another caller comes first. It returns when the compilation has started, and reports whether it
// runs in the turn of this caller.
func (r *Runner) compileInTurn(ctx context.Context, c *compiling, m guest.Module, name codeName, who limit.Who) (mine bool, err error) {
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-c.done:
			stop()
		case <-waiting.Done():
		}
	}()
	leave, err := r.compiles.Enter(waiting, who)
	r.mu.Lock()
	defer r.mu.Unlock()
	c.waiting--
	switch {
	case c.began:
		if err == nil {
			leave()
		}
		return false, nil
	case err == nil && !r.closed:
		c.began = true
		r.processes.Go(func() {
			defer leave()
			r.finish(context.WithoutCancel(ctx), c, m, name, who)
		})
		return true, nil
	case err == nil:
		leave()
		return false, closing()
	case c.waiting == 0 && r.compiled[name] == c:
		delete(r.compiled, name)
	}
	return false, notInTurn(ctx, err)
}

// finish compiles a module until Close.
func (r *Runner) finish(ctx context.Context, c *compiling, m guest.Module, name codeName, who limit.Who) {
	defer close(c.done)
	making, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-r.closing:
			stop()
		case <-making.Done():
		}
	}()
	c.file, c.cpu, c.err = r.make(making, m, name, who)
	// An error of the module itself is cached and not retried.
	if c.err != nil && reason.Of(c.err) != reason.InvalidInput && !errors.Is(c.err, errSlow) {
		r.forget(name)
	}
}

// notInTurn returns the error of a call whose turn did not come.
func notInTurn(ctx context.Context, err error) error {
	var full *limit.Full
	if !errors.As(err, &full) {
		return left(ctx)
	}
	return reason.Errorf(reason.RateLimited, "%s are already waiting for other guests to end; try again in %s",
		text.Plural(full.Waiting, "call"), full.RetryAfter.Round(time.Second)).WithField("retry_after", full.RetryAfter.String()).
		WithRemedy("Try again later, or ask the operator to raise wasm_runtime.max_concurrent.")
}

// left returns the error of a call that was cancelled before its guest ran.
func left(ctx context.Context) error {
	return reason.Errorf(reason.Cancelled, "the call was cancelled before its guest ran").WithCause(context.Cause(ctx))
}

// dropOne drops an arbitrary compiled module if too many are in memory. The code can be read
// again from the directory. The caller MUST hold r.mu.
func (r *Runner) dropOne(but codeName) {
	if len(r.compiled) <= keptCodes {
		return
	}
	for name, c := range r.compiled {
		select {
		case <-c.done:
			if name != but {
				delete(r.compiled, name) // the garbage collector closes its file
				return
			}
		default:
		}
	}
}

// forget removes the code of a module, so that it is compiled again.
func (r *Runner) forget(name codeName) {
	r.mu.Lock()
	delete(r.compiled, name)
	r.mu.Unlock()
	if err := r.codes.remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		r.use.Log.Warn("removing compiled code failed", slog.String("error", err.Error()))
	}
}

// make compiles a module and stores its code.
func (r *Runner) make(ctx context.Context, m guest.Module, name codeName, who limit.Who) (file *os.File, cpu time.Duration, err error) {
	code, cpu, err := r.compile(ctx, m, who)
	if err != nil {
		return nil, cpu, err
	}
	if err := r.codes.write(name, code); err != nil {
		r.use.Log.WarnContext(ctx, "storing compiled code failed", slog.String("error", err.Error()))
	}
	file, err = jail.DataFile("wasm-code", code)
	return file, cpu, err
}

// compileCPU is the processor time that a compiler may use for one module. compileWall is how long
// it may take on a busy machine.
const (
	compileCPU  = 10 * time.Second
	compileWall = 5 * time.Minute
)

// compile uses a separate worker for each module, so that a compromised worker affects only that
// module. It returns the processor time of the worker, also after an error.
func (r *Runner) compile(ctx context.Context, m guest.Module, who limit.Who) (code []byte, cpu time.Duration, err error) {
	w, err := r.launch(ctx, job{word: "compile", owner: who.Principal, memory: compileMemory, space: compileSpace, cpu: r.use.CompileCPU})
	if err != nil {
		return nil, 0, err
	}
	defer func() { cpu = w.report.Usage.CPU }()
	if err := w.write(wire.Compile, m.Features, m.Bytes); err != nil {
		return nil, 0, w.lost("it did not accept the module", err)
	}
	f, err := w.read(ctx, wire.MaxBody, compileWall)
	if err != nil {
		return nil, 0, r.uncompiled(w, err)
	}
	defer w.kill()
	if trouble, err := wire.As[wire.Trouble](f, wire.Failed); err == nil {
		return nil, 0, reason.Errorf(reason.InvalidInput, "the module is not valid: %s", firstLine(trouble.Problem)).
			WithRemedy("Rebuild the module: its structure is valid, but its code is not.")
	}
	if _, err := wire.As[wire.Trouble](f, wire.Compiled); err != nil {
		return nil, 0, w.lost("it did not compile the module", err)
	}
	return f.Body, 0, nil
}

// errSlow reports a module whose compilation takes too much processor time.
var errSlow = errors.New("the compiler used all of its processor time")

// uncompiled returns the error of a compiler that sent no code.
func (r *Runner) uncompiled(w *worker, err error) *reason.Error {
	lost := w.lost("it did not compile the module", err)
	if w.report.Quota != sandbox.QuotaCPU {
		return lost
	}
	return reason.Errorf(reason.QuotaExceeded, "cpu: compiling the module takes more than %s of processor time", r.use.CompileCPU).
		WithCause(errSlow).WithRemedy("Split the module, or build it with less inlining.")
}
