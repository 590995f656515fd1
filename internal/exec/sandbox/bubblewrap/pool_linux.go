package bubblewrap

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/inside"
	"palyra/internal/exec/sandbox/jail"
)

const (
	// preparedFor is how long a prepared sandbox waits for a call.
	preparedFor = time.Minute
	// quiet is the idle time before a sandbox is prepared, because the work after a run, up to
	// the reply, has priority.
	quiet = 5 * time.Millisecond
)

// pool keeps sandboxes that were prepared before a call. Each serves at most one call, of the
// kind and the owner that it was built for.
type pool struct {
	most  int
	build func(sandbox.Spec) (*jail.Cell, error)
	// after is time.After; tests replace it.
	after func(time.Duration) <-chan time.Time

	mu      sync.Mutex
	members []*member // oldest first
	running int
	// idle is closed when no run is in progress.
	idle    chan struct{}
	closed  bool
	keepers sync.WaitGroup
	failed  []error
}

// member is one sandbox. Its keeper builds it and ends it unless a call takes it.
type member struct {
	key string
	// begun is set when the keeper starts to build the sandbox, and stays set.
	begun bool
	cell  *jail.Cell // nil while it is built
	// built is closed when cell is set or building has failed. over is closed when the member has
	// left the pool.
	built, over chan struct{}
}

// key identifies the parameters of a sandbox at build time. The identity of the root
// distinguishes a workspace from another one at the same path.
func key(s sandbox.Spec, root inside.Identity) string {
	l := s.Limits
	var hosts []string
	if s.Network != nil {
		hosts = s.Network.Lines()
	}
	return fmt.Sprintf("%#v", []any{
		s.Owner, s.WorkspaceRoot, root, s.WorkspaceName, s.Workspace, s.Protected, s.Egress, s.Caches, s.Toolchains, s.Author, s.HostPath,
		l.CPU, l.Memory, l.Processes, l.Tmp, l.Disk, l.Files, s.Network != nil, hosts,
	})
}

// serves reports whether sandboxes for such calls are prepared. In mode Direct they are not,
// because the existing protected paths, which must be pinned, are known only at the call.
func (p *pool) serves(s sandbox.Spec) bool { return p.most > 0 && s.Workspace != sandbox.Direct }

// take returns a prepared sandbox for a call, or nil. It waits for a sandbox under construction,
// because building another would not be faster.
func (p *pool) take(key string) *jail.Cell {
	p.mu.Lock()
	i := slices.IndexFunc(p.members, func(m *member) bool { return m.key == key })
	if i < 0 {
		p.mu.Unlock()
		return nil
	}
	m := p.members[i]
	p.members = slices.Delete(p.members, i, i+1)
	if !m.begun {
		close(m.over)
		p.mu.Unlock()
		return nil
	}
	p.mu.Unlock()
	<-m.built
	// The keeper closes a cell that no longer waits for a call.
	p.mu.Lock()
	defer p.mu.Unlock()
	cell := m.cell
	if cell != nil && cell.Processes.Waiting() {
		m.cell = nil
	} else {
		cell = nil
	}
	close(m.over)
	return cell
}

// begin and end mark the start and the end of a call. After the end of a call, a sandbox is
// prepared for the next similar call as soon as no run is in progress.
func (p *pool) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == 0 {
		p.idle = make(chan struct{})
	}
	p.running++
}

func (p *pool) end(key string, s sandbox.Spec) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running--
	if p.running == 0 {
		close(p.idle)
	}
	if p.closed || !p.serves(s) || slices.ContainsFunc(p.members, func(m *member) bool { return m.key == key }) {
		return
	}
	if len(p.members) == p.most {
		p.drop(0)
	}
	s.Argv, s.Env, s.Stdin, s.Operands, s.Output = nil, nil, nil, nil, nil // these belong to one call only
	s.Injected, s.Scrub = nil, nil
	m := &member{key: key, built: make(chan struct{}), over: make(chan struct{})}
	p.members = append(p.members, m)
	p.keepers.Go(func() { p.keep(m, s) })
}

// drop removes and ends a member. The caller MUST hold the lock.
func (p *pool) drop(i int) {
	close(p.members[i].over)
	p.members = slices.Delete(p.members, i, i+1)
}

// keep builds a member and ends it if no call takes it in time.
func (p *pool) keep(m *member, s sandbox.Spec) {
	if !p.await(m) {
		close(m.built)
		return
	}
	cell, err := p.build(s)
	p.mu.Lock()
	m.cell = cell
	p.mu.Unlock()
	close(m.built)
	if err == nil {
		select {
		case <-m.over:
		case <-p.after(preparedFor):
		}
	}
	p.mu.Lock()
	if i := slices.Index(p.members, m); i >= 0 {
		p.drop(i)
	}
	p.mu.Unlock()
	<-m.over
	p.mu.Lock()
	cell = m.cell
	p.mu.Unlock()
	if cell == nil {
		return
	}
	if err := cell.Close(); err != nil {
		p.mu.Lock()
		p.failed = append(p.failed, err)
		p.mu.Unlock()
	}
}

// await returns true after an idle period, and false if the member ends before.
func (p *pool) await(m *member) bool {
	for {
		p.mu.Lock()
		idle := p.idle
		p.mu.Unlock()
		select {
		case <-m.over:
			return false
		case <-idle:
		}
		select {
		case <-m.over:
			return false
		case <-p.after(quiet):
		}
		if p.start(m) {
			return true
		}
	}
}

// start begins a member unless a run is in progress or the member has ended.
func (p *pool) start(m *member) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	m.begun = p.running == 0 && slices.Contains(p.members, m)
	return m.begun
}

// empty ends all members, including those under construction.
func (p *pool) empty() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.members) > 0 {
		p.drop(0)
	}
}

// close empties the pool permanently and returns the errors of closing its sandboxes.
func (p *pool) close() []error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.empty()
	p.keepers.Wait()
	return p.failed
}
