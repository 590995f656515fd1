package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/egress/secret"
)

// reasonHeader is a header of the responses that the gateway itself creates. Its value is the
// reason in the record of the connection.
const reasonHeader = "Palyra-Reason"

// refusal is a response that the gateway itself creates.
type refusal struct {
	status int
	why    string
	text   string
	// recorded reports that the refusal is already in the record.
	recorded bool
}

func (r *refusal) Error() string { return r.text }

// refused returns the refusal of a request to a target. The detail describes the correct form; it
// may be empty.
func refused(t egress.Target, why, detail string, args ...any) *refusal {
	text := sentence(t, why)
	if detail != "" {
		text = strings.TrimSpace(text + " " + fmt.Sprintf(detail, args...))
	}
	return &refusal{status: http.StatusForbidden, why: why, text: text}
}

// sentence describes the refusal in the words used by the rest of the gateway.
func sentence(t egress.Target, why string) string {
	c := tool.Connection{Host: t.Host.String(), Port: int(t.Port), Verdict: egress.VerdictDenied, Reason: why}
	if t.Host.IsZero() {
		c.Host = "the proxy"
	}
	return egress.Explain(c, nil)
}

// refusals records and answers the refused requests of a connection.
type refusals struct {
	record func(t egress.Target, why string)
	// tap is the client's connection, nil for HTTP/2.
	tap *tap
}

// refuse records the refusal of a request unless it is already recorded, and sends it to the
// client.
func (s refusals) refuse(w http.ResponseWriter, t egress.Target, err error) {
	no := outcome(t, err)
	if own(err) {
		s.record(t, no.why)
	}
	s.answer(w, no)
}

// fail is refuse for a request that was already being forwarded. It does not record a placeholder
// in the body, because the type alarmed has recorded it.
func (s refusals) fail(w http.ResponseWriter, t egress.Target, err error) {
	no := outcome(t, err)
	if own(err) && secret.Word(err) == "" {
		s.record(t, no.why)
	}
	s.answer(w, no)
}

// own reports whether an error originates in this package or in package secret and is not
// recorded. Errors of Connect and Allow are already recorded.
func own(err error) bool {
	var no *refusal
	return errors.As(err, &no) && !no.recorded || secret.Word(err) != ""
}

// outcome converts an error to the refusal sent to the client. Errors not known to be safe are
// replaced: they may contain addresses of the gateway's network.
func outcome(t egress.Target, err error) *refusal {
	var no *refusal
	if errors.As(err, &no) {
		return no
	}
	var e *reason.Error
	if errors.As(err, &e) {
		status := http.StatusBadGateway
		if e.Code == reason.EgressDenied || e.Code == reason.HostInvalid || e.Code == reason.BudgetExceeded {
			status = http.StatusForbidden
		}
		if why := e.Fields["reason"]; why != "" || status == http.StatusForbidden {
			return &refusal{status: status, why: why, text: sentences(e.Message, e.Remedy)}
		}
	}
	what := "closed the connection without a valid HTTP response"
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		what = "did not answer in time"
	}
	return &refusal{status: http.StatusBadGateway, text: fmt.Sprintf("%s %s.", t, what)}
}

// sentences joins the error and the next step.
func sentences(what, remedy string) string {
	if what = strings.TrimSpace(what); what != "" && !strings.HasSuffix(what, ".") {
		what += "."
	}
	return strings.TrimSpace(what + " " + remedy)
}

// answer writes the response. The connection is closed after a refusal; an HTTP/2 connection is
// closed after its other requests have ended.
func (s refusals) answer(w http.ResponseWriter, no *refusal) {
	if s.tap != nil {
		s.tap.end()
	}
	h := w.Header()
	clear(h)
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Connection", "close")
	if no.why != "" {
		h.Set(reasonHeader, no.why)
	}
	w.WriteHeader(no.status)
	_, _ = io.WriteString(w, no.text+"\n") // the client may have disconnected
}

// drainBody gives an HTTP/2 client that is still sending time to read a refusal. A client may
// drop the answer if its stream is reset with unread data.
func drainBody(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor != 2 {
		return // with HTTP/1, tap does the same
	}
	c := http.NewResponseController(w)
	if c.Flush() == nil && c.SetReadDeadline(time.Now().Add(drainTime)) == nil {
		_, _ = io.CopyN(io.Discard, r.Body, drainLimit) // any error ends it
	}
}

// Limits on the data read and discarded from a refused HTTP/2 stream.
const (
	drainTime  = time.Second
	drainLimit = 8 << 20
)

// RefusalOf returns the HTTP/1.1 answer to a client for an error of Connect or Allow. The
// connection ends after it.
func RefusalOf(err error) []byte { return outcome(egress.Target{}, err).raw() }

func (r *refusal) raw() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n",
		r.status, http.StatusText(r.status), len(r.text)+1)
	if r.why != "" {
		fmt.Fprintf(&b, "%s: %s\r\n", reasonHeader, r.why)
	}
	fmt.Fprintf(&b, "\r\n%s\n", r.text)
	return b.Bytes()
}

// refuseRaw records a request refused by package http itself, and returns the answer to the client.
func (f Front) refuseRaw(why, detail string) []byte {
	f.Refuse(f.Target, why)
	return refused(f.Target, why, "%s", detail).raw()
}
