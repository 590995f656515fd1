package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// What a server tells of a call is passed on where it is read, and not by the library:
// that answers a call when it reads the answer, even if what the server said before is
// still waiting for its turn. Then nobody would be there to hear it any more.

// heard passes a notification on to the call that it is of. It reports whether it was
// one of those that are.
func (in *instance) heard(ctx context.Context, method string, params json.RawMessage) bool {
	switch method {
	case "notifications/progress":
		var p mcp.ProgressNotificationParams
		if canonical.Read(params, &p) == nil {
			in.progressed(&p)
		}
	case "notifications/message":
		var p mcp.LoggingMessageParams
		if canonical.Read(params, &p) == nil {
			in.logged(ctx, &p)
		}
	default:
		return false
	}
	return true
}

// progressed passes progress on to the call that it is of. Progress of no call, or of
// another, goes nowhere.
func (in *instance) progressed(p *mcp.ProgressNotificationParams) {
	token, ok := p.ProgressToken.(string)
	if !ok {
		return
	}
	in.mu.Lock()
	call := in.calls[token]
	in.mu.Unlock()
	if call != nil && call.call.Peer.Progress != nil {
		call.call.Peer.Progress(tool.Progress{Done: p.Progress, Total: p.Total, Message: clean(p.Message, 1000)})
	}
}

type callKey struct{}

// logged passes a line of the server's log on to the call on whose stream it came, or
// else to the one under way, if it is one.
func (in *instance) logged(ctx context.Context, p *mcp.LoggingMessageParams) {
	c, ok := ctx.Value(callKey{}).(tool.Call)
	if !ok {
		c, ok = in.only()
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

// overheard is the way to a server over HTTP, whose streams are listened to.
type overheard struct {
	next http.RoundTripper
	in   *instance
}

// RoundTrip implements http.RoundTripper.
func (o overheard) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := o.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if response.StatusCode >= http.StatusBadRequest {
		o.in.refusal.Store(int32(response.StatusCode))
	}
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	switch kind {
	case "application/json":
		response.Body, err = wholeMessage(response.Body)
	case "text/event-stream":
		ctx := r.Context()
		response.Body = &listening{ReadCloser: response.Body, heard: func(message []byte) ([]byte, error) { return o.hear(ctx, message) }, old: func() { o.in.oldTransport.Store(true) }}
	}
	if err != nil {
		return nil, err
	}
	return response, nil
}

// hear checks a message of a stream, passes a notification on, and returns the message for the
// library.
func (o overheard) hear(ctx context.Context, message []byte) ([]byte, error) {
	if err := exactly(message); err != nil {
		return nil, err
	}
	if mayNotify(message) {
		m, err := decode(message)
		if request, is := m.(*jsonrpc.Request); err == nil && is && !request.IsCall() {
			o.in.heard(ctx, request.Method, request.Params)
		}
	}
	return wrapContent(message), nil
}

// mayNotify reports whether a message may be a notification. Of most it can be told that
// they are answers without decoding them once more; "method" can be written with escapes.
func mayNotify(message []byte) bool {
	return bytes.Contains(message, []byte(`"method"`)) || bytes.Contains(message, []byte(`\u`))
}

// listening is a stream of events whose messages are heard before who reads gets them.
type listening struct {
	io.ReadCloser
	// heard returns the message that who reads gets.
	heard func(message []byte) ([]byte, error)
	// old is called at the event of the old transport.
	old  func()
	line []byte
	data []byte
	// event is what was read of the event under way, and fields its lines without data.
	event, fields []byte
	// ready is what may be read.
	ready []byte
	// over is the end of the stream, fault why nothing more is read.
	over, fault error
}

// Read implements io.Reader. It returns whole events. A message that is refused ends the
// stream, and its reader gets nothing of it.
func (l *listening) Read(p []byte) (int, error) {
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

// take takes a part of the stream.
func (l *listening) take(rest []byte) {
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

// mostFields bounds what an event has beside its data.
const mostFields = 64 << 10

// finish ends an event, and has it be read.
func (l *listening) finish() {
	if len(l.data) > 0 {
		message, err := l.heard(l.data)
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

// end takes a line. An empty one ends an event.
func (l *listening) end(line []byte) {
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
