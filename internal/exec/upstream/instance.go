package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/egress/secret"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/upstream/declared"
)

// How long things may take that nobody sees.
const (
	connectTime = 30 * time.Second
	lookTime    = 30 * time.Second
	// graceTime is how long a program may go on when its input has ended.
	graceTime = 2 * time.Second
)

// instance is one connection to an upstream server: a process in a sandbox, or a
// session over HTTP.
type instance struct {
	// id is in attestations.
	id     string
	server declared.Server
	// owner is whose it is, zero for one that is shared.
	owner access.Principal
	// startedBy is whose call started it.
	startedBy access.Principal
	// made is what it was made of; another call for other things gets another.
	made string

	session *mcp.ClientSession
	till    till

	// Of a process:
	pipe     *pipe
	underway sandbox.Underway
	stderr   tail
	stop     context.CancelCauseFunc
	// ended is closed when the process is gone and final, failed are set.
	ended  chan struct{}
	final  sandbox.Report
	failed error
	// handed is what it got of the vault.
	handed *handed

	// Of a session over HTTP:
	exchange    *secret.Exchange
	connections *egress.ConnectionLog
	// listen opens a further session, for what the server says between calls.
	listen func(context.Context) (*mcp.ClientSession, error)

	// refusal is the status of the last answer that was an error, and oldTransport that
	// the server speaks the transport of 2024.
	refusal      atomic.Int32
	oldTransport atomic.Bool

	watching watching

	mu sync.Mutex
	// strayLine is the first line of a log among the messages of a process.
	strayLine string
	// calls are those under way, by progress token.
	calls map[string]*running
	// active counts them; used is when the last of them ended.
	active int
	used   time.Time
	// seen says that what the server says of itself was compared with what was
	// approved.
	seen bool
	// logs is from which level on the server logs, "" for what it likes.
	logs string
	// over says that no more calls may come; retired, that the last one ends it.
	over, retired bool
	// discarded says that nothing of it is looked at any more, but by calls under way.
	discarded bool
}

// running is one call on an instance.
type running struct {
	call tool.Call
}

// till hands out the secrets of the calls that are under way, and none between them.
type till struct {
	mu    sync.Mutex
	loans []*loan
}

// loan is what one call brings.
type loan struct{ secrets []egress.Secret }

// Secret implements egress.SecretSource. The call that came last counts.
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
	return nil, reason.Errorf(reason.NotFound, "the secret %s is lent to nobody now: no call of the server is under way", name)
}

// open lends what a call brings until closed is called.
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

// tail keeps the end of what a program wrote to its standard error.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const mostTail = 2048

func (t *tail) add(chunk []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, chunk...)
	if n := len(t.text); n > mostTail {
		t.text = append([]byte{}, t.text[n-mostTail:]...)
	}
}

// last is its last lines in one, for a message.
func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Fields(strings.ToValidUTF8(string(t.text), "\ufffd"))
	return clean(strings.Join(lines, " "), 500)
}

// unavailable says why an instance is of no use.
func (in *instance) unavailable(err error) *reason.Error {
	var known *reason.Error
	if errors.Is(err, errOldTransport) {
		return reason.Errorf(reason.UpstreamUnavailable, "%s%w", failedPrefix(in.server.Name), errOldTransport).WithRemedy("%s", errOldTransport.Remedy).WithField("server", in.server.Name)
	}
	if errors.As(err, &known) && known.Code != reason.Internal {
		return known
	}
	text := clean(strings.TrimSpace(err.Error()), 300)
	if why := in.cause(); why != "" {
		text = why
	}
	failed := reason.Errorf(reason.UpstreamUnavailable, "%s%s", failedPrefix(in.server.Name), text).WithField("server", in.server.Name)
	if remedy := in.remedy(); remedy != "" {
		return failed.WithRemedy("%s", remedy)
	}
	return failed
}

// late is the error of a server that did not answer in time, with what it wrote instead.
func (in *instance) late(why error) error {
	line := in.wroteStray()
	var known *reason.Error
	if line == "" || !errors.As(why, &known) {
		return why
	}
	return reason.Errorf(known.Code, "%s; %s", known.Message, line).WithRemedy(logRemedy, in.server.Name)
}

// The exit codes by which shells, env and the sandbox say that a program is not there, or is
// not one.
const (
	notExecutable = 126
	notFound      = 127
)

// remedy is the next step where the process itself has to be mended, "" where a further
// attempt may do.
func (in *instance) remedy() string {
	if in.pipe == nil {
		return ""
	}
	select {
	case <-in.ended:
		if code := in.final.ExitCode; code != nil && (*code == notFound || *code == notExecutable) {
			return "The program, or one that it starts, does not exist in the sandbox or is not executable: install it, then `palyra mcp refresh " + in.server.Name + "`."
		}
	default:
	}
	if in.wroteStray() != "" {
		return fmt.Sprintf(logRemedy, in.server.Name)
	}
	return ""
}

func failedPrefix(server string) string { return "the upstream server " + server + " failed: " }

// cause is what is known of the end of a process, "" while it runs.
func (in *instance) cause() string {
	if in.pipe == nil {
		return ""
	}
	var parts []string
	if why := in.pipe.why(); why != nil && !errors.Is(why, io.EOF) && !errors.Is(why, io.ErrClosedPipe) {
		parts = append(parts, clean(why.Error(), 300))
	}
	select {
	case <-in.ended:
		switch f := in.final; {
		case f.Quota != "":
			parts = append(parts, "it used up its limit of "+f.Quota)
		case f.ExitCode != nil:
			parts = append(parts, fmt.Sprintf("it ended with exit code %d", *f.ExitCode))
		case len(parts) == 0 && in.failed != nil:
			parts = append(parts, clean(in.failed.Error(), 300))
		}
	default:
		if len(parts) == 0 {
			return ""
		}
	}
	if line := in.wroteStray(); line != "" {
		parts = append(parts, line)
	}
	if said := in.stderr.last(); said != "" {
		parts = append(parts, "it wrote: "+said)
	}
	return strings.Join(parts, "; ")
}

// alive reports whether calls can use it.
func (in *instance) alive() bool {
	in.mu.Lock()
	over := in.over
	in.mu.Unlock()
	return !over && !in.gone()
}

// gone reports whether a process has ended, or what it said ended the conversation.
func (in *instance) gone() bool {
	if in.pipe == nil {
		return false
	}
	select {
	case <-in.ended:
		return true
	default:
		return in.pipe.why() != nil
	}
}

// died reports whether it ended by itself.
func (in *instance) died() bool {
	in.mu.Lock()
	over := in.over
	in.mu.Unlock()
	return !over && in.gone()
}

// wroteSince reports whether a process has written to its copy of the workspace. Where
// that cannot be told, it has.
func (in *instance) wroteSince() bool {
	if in.pipe == nil || in.underway.Wrote == nil {
		return false
	}
	wrote, err := in.underway.Wrote()
	return wrote || err != nil
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

// doubt has no more calls come to a session over HTTP in which something went wrong
// beside the answer of a tool: it may be over.
func (in *instance) doubt(err error) {
	if in.pipe != nil || reason.Of(err) == reason.ToolFailed {
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.over, in.retired = true, true
}

// retire ends the instance when the calls on it have ended.
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

// idleFor reports whether no call was on it for a while.
func (in *instance) idleFor(d time.Duration) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.active == 0 && time.Since(in.used) >= d
}

// discard throws away what a process wrote that is gone, and was not committed.
func (in *instance) discard() {
	if in.pipe == nil {
		return
	}
	<-in.ended
	in.mu.Lock()
	layer := in.final.Layer
	in.final.Layer = nil
	in.discarded = true
	forget := in.active == 0
	in.mu.Unlock()
	if forget {
		in.handed.forget()
	}
	if layer != nil {
		_ = layer.Close() // what is left is removed at the next start
	}
}

// close ends the instance and waits for it: a program gets graceTime to end by itself.
// It may be called several times.
func (in *instance) close(cause error) {
	in.mu.Lock()
	in.over = true
	in.mu.Unlock()
	in.endWatching()
	if in.pipe == nil {
		if in.session != nil {
			_ = in.session.Close()
		}
		in.exchange.Close()
		return
	}
	grace := graceTime
	if why := in.pipe.why(); why != nil && !errors.Is(why, io.EOF) {
		grace = 0 // it broke the rules
	}
	_ = in.pipe.Close()
	if in.ended == nil {
		return // it was never started
	}
	patience := time.NewTimer(grace)
	defer patience.Stop()
	select {
	case <-in.ended:
	case <-patience.C:
		in.stop(cause)
		<-in.ended
	}
	if in.session != nil {
		_ = in.session.Close()
	}
}
