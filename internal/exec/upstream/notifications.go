package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// Notifications of a call are forwarded where they are read, not by the library. The library
// completes a call as soon as it reads the answer, even while earlier notifications are still
// queued. Queued notifications would then have no recipient.

// calls are the calls in progress on an instance, by progress token.
type calls struct {
	mu   sync.Mutex
	list map[string]tool.Call
}

// add adds a call until remove is called.
func (cs *calls) add(token string, c tool.Call) (remove func()) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.list[token] = c
	return func() {
		cs.mu.Lock()
		defer cs.mu.Unlock()
		delete(cs.list, token)
	}
}

// only returns the call in progress if there is exactly one.
func (cs *calls) only() (tool.Call, bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if len(cs.list) != 1 {
		return tool.Call{}, false
	}
	for _, c := range cs.list {
		return c, true
	}
	return tool.Call{}, false
}

// forward forwards a notification to its call. It reports whether the notification is of a kind
// that belongs to a call.
func (cs *calls) forward(ctx context.Context, method string, params json.RawMessage) bool {
	switch method {
	case "notifications/progress":
		var p mcp.ProgressNotificationParams
		if canonical.Read(params, &p) == nil {
			cs.progressed(&p)
		}
	case "notifications/message":
		var p mcp.LoggingMessageParams
		if canonical.Read(params, &p) == nil {
			cs.logged(ctx, &p)
		}
	default:
		return false
	}
	return true
}

// progressed forwards progress to its call. It drops progress of an unknown call.
func (cs *calls) progressed(p *mcp.ProgressNotificationParams) {
	token, ok := p.ProgressToken.(string)
	if !ok {
		return
	}
	cs.mu.Lock()
	call := cs.list[token]
	cs.mu.Unlock()
	if call.Peer.Progress != nil {
		call.Peer.Progress(tool.Progress{Done: p.Progress, Total: p.Total, Message: clean(p.Message, 1000)})
	}
}

type callKey struct{}

// logged forwards a log line of the server to the call on whose stream it came. Without such a
// stream it goes to the only call in progress, if there is exactly one.
func (cs *calls) logged(ctx context.Context, p *mcp.LoggingMessageParams) {
	c, ok := ctx.Value(callKey{}).(tool.Call)
	if !ok {
		c, ok = cs.only()
	}
	if !ok || c.Peer.Log == nil || c.Peer.LogLevel == "" {
		return
	}
	data, err := json.Marshal(p.Data)
	if err != nil || len(data) > mostText {
		return
	}
	c.Peer.Log(tool.LogLine{Level: string(p.Level), Logger: clean(p.Logger, 200), Data: data})
}

// inspectingTransport is the transport of a server over HTTP. It inspects the messages of streams.
type inspectingTransport struct {
	next   http.RoundTripper
	calls  *calls
	remote *remote
}

// RoundTrip implements http.RoundTripper.
func (o inspectingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := o.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if response.StatusCode >= http.StatusBadRequest {
		o.remote.refusal.Store(int32(response.StatusCode))
	}
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	switch kind {
	case "application/json":
		response.Body, err = wholeMessage(response.Body)
	case "text/event-stream":
		ctx := r.Context()
		response.Body = &inspectedStream{ReadCloser: response.Body, onMessage: func(message []byte) ([]byte, error) { return o.inspect(ctx, message) }, old: func() { o.remote.oldTransport.Store(true) }}
	}
	if err != nil {
		return nil, err
	}
	return response, nil
}

// inspect validates a message of a stream, forwards a notification, and returns the message for the
// library.
func (o inspectingTransport) inspect(ctx context.Context, message []byte) ([]byte, error) {
	if err := exactly(message); err != nil {
		return nil, err
	}
	if mayNotify(message) {
		m, err := decode(message)
		if request, is := m.(*jsonrpc.Request); err == nil && is && !request.IsCall() {
			o.calls.forward(ctx, request.Method, request.Params)
		}
	}
	return wrapContent(message), nil
}

// mayNotify reports whether a message may be a notification. It recognizes most answers without
// decoding them twice. "method" can be written with JSON escapes, so a backslash counts as a
// match.
func mayNotify(message []byte) bool {
	return bytes.Contains(message, []byte(`"method"`)) || bytes.Contains(message, []byte(`\u`))
}

// inspectedStream is an event stream whose messages are inspected before its reader receives them.
type inspectedStream struct {
	io.ReadCloser
	// onMessage returns the message for the reader.
	onMessage func(message []byte) ([]byte, error)
	// old is called at the first event of the old transport.
	old  func()
	line []byte
	data []byte
	// event is the part of the current event that was read, and fields its lines without data.
	event, fields []byte
	// ready holds the bytes that can be read.
	ready []byte
	// over is the end of the stream; fault is the error that stopped reading.
	over, fault error
}

// Read implements io.Reader. It returns whole events. A refused message ends the stream, and the
// reader receives no part of it.
func (l *inspectedStream) Read(p []byte) (int, error) {
	for len(l.ready) == 0 {
		switch {
		case l.fault != nil:
			return 0, l.fault
		case l.over != nil:
			return 0, l.over
		case len(p) == 0:
			return 0, nil
		}
		var n int
		n, l.over = l.ReadCloser.Read(p)
		l.take(p[:n])
		if l.over != nil && l.fault == nil {
			l.ready, l.event = append(l.ready, l.event...), nil
		}
	}
	n := copy(p, l.ready)
	l.ready = l.ready[n:]
	return n, nil
}

// take processes the next part of the stream.
func (l *inspectedStream) take(rest []byte) {
	for len(rest) > 0 && l.fault == nil {
		part, more, ended := bytes.Cut(rest, []byte("\n"))
		l.event = append(l.event, rest[:len(rest)-len(more)]...)
		l.line = append(l.line, part...)
		if rest = more; len(l.event) > mostMessage+mostFields {
			l.fault = reason.Errorf(reason.UpstreamUnavailable, "the upstream server sent an event of more than %d bytes", mostMessage)
			return
		}
		if ended {
			l.end(bytes.TrimSuffix(l.line, []byte("\r")))
			l.line = l.line[:0]
		}
	}
}

// mostFields is the maximum size of an event without its data.
const mostFields = 64 << 10

// finish completes an event and makes it readable.
func (l *inspectedStream) finish() {
	if len(l.data) > 0 {
		message, err := l.onMessage(l.data)
		if err != nil {
			l.fault = err
			return
		}
		if !bytes.Equal(message, l.data) {
			l.event = fmt.Appendf(l.fields, "data: %s\n\n", message)
		}
	}
	l.ready = append(l.ready, l.event...)
	l.event, l.fields, l.data = l.event[:0], nil, l.data[:0]
}

// end completes a line. An empty line ends an event.
func (l *inspectedStream) end(line []byte) {
	if len(line) == 0 {
		l.finish()
		return
	}
	if announcesEndpoint(line) {
		l.old()
		l.fault = errOldTransport
		return
	}
	data, is := bytes.CutPrefix(line, []byte("data:"))
	if !is {
		l.fields = append(append(l.fields, line...), '\n')
		return
	}
	if len(l.data)+len(data) <= mostMessage {
		if len(l.data) > 0 {
			l.data = append(l.data, '\n')
		}
		l.data = append(l.data, bytes.TrimPrefix(data, []byte(" "))...)
	}
}
