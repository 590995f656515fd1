package upstream

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/egress"
	"palyra/internal/egress/secret"
	"palyra/internal/exec/upstream/declared"
)

// Timeouts of steps that are invisible to users.
const (
	connectTime = 30 * time.Second
	lookTime    = 30 * time.Second
	// graceTime is how long a program may run after its input has ended.
	graceTime = 2 * time.Second
)

// instance is one connection to an upstream server: a process in a sandbox, or a session over
// HTTP.
type instance struct {
	// id identifies the instance in attestations.
	id     string
	server declared.Server
	// owner is the principal that uses the instance, zero for a shared one.
	owner access.Principal
	// startedBy is the principal whose call started it.
	startedBy access.Principal
	// made is the key of its launch; a call with another launch gets another instance.
	made string

	session *mcp.ClientSession
	till    till

	// process is the program, nil for a session over HTTP, and handed holds its vault secrets.
	process *process
	handed  *handed
	remote  remote

	calls    calls
	watching watching

	mu sync.Mutex
	// active counts the calls in progress; used is the time when the last call ended.
	active int
	used   time.Time
	// seen reports that the server's definitions were compared with the approved ones.
	seen bool
	// logs is the current log level of the server, "" for its default.
	logs string
	// over reports that the instance accepts no more calls; retired, that it ends with its last
	// call.
	over, retired bool
	// discarded reports that only calls in progress still use its copy of the workspace.
	discarded bool
}

// remote is the HTTP side of an instance whose server has a URL.
type remote struct {
	exchange    *secret.Exchange
	connections *egress.ConnectionLog
	// refusal is the status of the last error response. oldTransport reports that the server uses
	// the transport of revision 2024-11-05.
	refusal      atomic.Int32
	oldTransport atomic.Bool
}

// till provides the secrets of the calls in progress, and none between calls.
type till struct {
	mu    sync.Mutex
	loans []*loan
}

// loan is the set of secrets lent by one call.
type loan struct{ secrets []egress.Secret }

// Secret implements egress.SecretSource. The most recent call takes precedence.
func (t *till) Secret(ctx context.Context, name string) ([]byte, error) {
	t.mu.Lock()
	loans := slices.Clone(t.loans)
	t.mu.Unlock()
	for _, l := range slices.Backward(loans) {
		for _, s := range l.secrets {
			if s.Name == name && s.Source != nil {
				return s.Source.Secret(ctx, name)
			}
		}
	}
	return nil, reason.Errorf(reason.NotFound, "the secret %s is not lent now: no call of the server is in progress", name)
}

// open lends the secrets of a call until closed is called.
func (t *till) open(lent []egress.Secret) (closed func()) {
	l := &loan{lent}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.loans = append(t.loans, l)
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.loans = slices.DeleteFunc(t.loans, func(o *loan) bool { return o == l })
	}
}

// from returns the secrets with the till as their source.
func (t *till) from(secrets []egress.Secret) []egress.Secret {
	list := slices.Clone(secrets)
	for i := range list {
		list[i].Source = t
	}
	return list
}

// unavailable returns the error that explains why an instance cannot be used.
func (in *instance) unavailable(err error) *reason.Error {
	var known *reason.Error
	if errors.Is(err, errOldTransport) {
		return reason.Errorf(reason.UpstreamUnavailable, "%s%w", failedPrefix(in.server.Name), errOldTransport).WithRemedy("%s", errOldTransport.Remedy).WithField("server", in.server.Name)
	}
	if errors.As(err, &known) && known.Code != reason.Internal {
		return known
	}
	text := clean(strings.TrimSpace(err.Error()), 300)
	if why := in.process.cause(); why != "" {
		text = why
	}
	failed := reason.Errorf(reason.UpstreamUnavailable, "%s%s", failedPrefix(in.server.Name), text).WithField("server", in.server.Name)
	if remedy := in.process.remedy(in.server.Name); remedy != "" {
		return failed.WithRemedy("%s", remedy)
	}
	return failed
}

// late returns the error for a server that did not answer in time. It includes the program's
// other output.
func (in *instance) late(why error) error {
	line := in.process.wroteStray()
	var known *reason.Error
	if line == "" || !errors.As(why, &known) {
		return why
	}
	return reason.Errorf(known.Code, "%s; %s", known.Message, line).WithRemedy(logRemedy, in.server.Name)
}

func failedPrefix(server string) string { return "the upstream server " + server + " failed: " }

// alive reports whether calls can use the instance.
func (in *instance) alive() bool { return in.accepts() && !in.process.gone() }

// died reports whether the instance ended by itself.
func (in *instance) died() bool { return in.accepts() && in.process.gone() }

func (in *instance) accepts() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return !in.over
}

func (in *instance) looked() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.seen
}

// begin and done frame a call.
func (in *instance) begin() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.active++
}

func (in *instance) done() {
	in.mu.Lock()
	in.active--
	in.used = time.Now()
	last := in.retired && in.active == 0
	forget := in.discarded && in.active == 0
	in.mu.Unlock()
	if forget {
		in.handed.forget()
	}
	if last {
		in.close(errIdle)
		in.discard()
	}
}

// doubt stops new calls on a session over HTTP after an error outside of a tool's answer, because
// the session may be over.
func (in *instance) doubt(err error) {
	if in.process != nil || reason.Of(err) == reason.ToolFailed {
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.over, in.retired = true, true
}

// retire ends the instance after its last call in progress.
func (in *instance) retire() {
	in.mu.Lock()
	in.over, in.retired = true, true
	idle := in.active == 0
	in.mu.Unlock()
	if idle {
		in.close(errIdle)
		in.discard()
	}
}

// idleFor reports whether the instance was without calls for at least d.
func (in *instance) idleFor(d time.Duration) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.active == 0 && time.Since(in.used) >= d
}

// discard removes the uncommitted writes of a process that has exited.
func (in *instance) discard() {
	if in.process == nil {
		return
	}
	layer := in.process.takeLayer()
	in.mu.Lock()
	in.discarded = true
	forget := in.active == 0
	in.mu.Unlock()
	if forget {
		in.handed.forget()
	}
	_ = layer.Close() // the next start removes the rest
}

// close ends the instance and waits for it. A program gets graceTime to exit. close may be called
// several times.
func (in *instance) close(cause error) {
	in.mu.Lock()
	in.over = true
	in.mu.Unlock()
	in.watching.end()
	if in.process == nil {
		if in.session != nil {
			_ = in.session.Close()
		}
		in.remote.exchange.Close()
		return
	}
	in.process.end(cause)
	if in.session != nil {
		_ = in.session.Close()
	}
}
