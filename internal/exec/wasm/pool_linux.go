package wasm

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"time"

	"palyra/internal/core/reason"
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

// Prepare compiles a module, so that no call waits for it. It returns at once for a compiled
// module.
func (r *Runner) Prepare(ctx context.Context, m guest.Module) error {
	_, err := r.code(ctx, m, r.nameOf(m))
	if err == nil {
		r.ready()
	}
	return err
}

// code returns a module's compiled code from memory, from the directory, or from a worker that
// compiles it. Concurrent callers wait for one compilation. The end of a caller's context does
// not stop the compilation.
func (r *Runner) code(ctx context.Context, m guest.Module, name codeName) (*os.File, error) {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil, reason.Errorf(reason.Cancelled, "palyrad is shutting down")
	}
	c, there := r.compiled[name]
	if !there {
		c = &compiling{done: make(chan struct{})}
		r.compiled[name] = c
		r.dropOne(name)
		r.processes.Go(func() {
			defer close(c.done)
			making, stop := context.WithCancel(context.WithoutCancel(ctx))
			defer stop()
			go func() {
				select {
				case <-r.closing:
					stop()
				case <-making.Done():
				}
			}()
			// An error of the module itself is cached and not retried.
			if c.file, c.err = r.make(making, m, name); c.err != nil && reason.Of(c.err) != reason.InvalidInput {
				r.forget(name)
			}
		})
	}
	r.mu.Unlock()
	select {
	case <-c.done:
		return c.file, c.err
	case <-ctx.Done():
		return nil, left(ctx)
	}
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

func (r *Runner) make(ctx context.Context, m guest.Module, name codeName) (*os.File, error) {
	file, err := r.codes.read(name)
	if file != nil {
		return file, nil
	}
	if err != nil {
		r.use.Log.WarnContext(ctx, "compiled code is not usable, and is compiled again", slog.String("file", r.codes.path(name)), slog.String("error", err.Error()))
	}
	code, err := r.compile(ctx, m)
	if err != nil {
		return nil, err
	}
	if err := r.codes.write(name, code); err != nil {
		r.use.Log.WarnContext(ctx, "storing compiled code failed", slog.String("error", err.Error()))
	}
	return jail.DataFile("wasm-code", code)
}

// compileTime is the timeout for compiling one module.
const compileTime = 5 * time.Minute

// compile uses a separate worker for each module, so that a compromised worker affects only that
// module.
func (r *Runner) compile(ctx context.Context, m guest.Module) ([]byte, error) {
	select {
	case r.compiles <- struct{}{}:
		defer func() { <-r.compiles }()
	case <-ctx.Done():
		return nil, left(ctx)
	}
	w, err := r.launch(ctx, job{word: "compile", owner: "(compile)", memory: compileMemory, space: compileSpace, cpu: compileTime})
	if err != nil {
		return nil, err
	}
	if err := w.write(wire.Compile, m.Features, m.Bytes); err != nil {
		return nil, w.lost("it did not accept the module", err)
	}
	f, err := w.read(ctx, wire.MaxBody, compileTime)
	if err != nil {
		return nil, w.lost("it did not compile the module", err)
	}
	if trouble, err := wire.As[wire.Trouble](f, wire.Failed); err == nil {
		w.kill()
		return nil, reason.Errorf(reason.InvalidInput, "the module is not valid: %s", firstLine(trouble.Problem)).
			WithRemedy("Rebuild the module: its structure is valid, but its code is not.")
	}
	if _, err := wire.As[wire.Trouble](f, wire.Compiled); err != nil {
		return nil, w.lost("it did not compile the module", err)
	}
	w.kill()
	return f.Body, nil
}
