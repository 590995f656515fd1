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

// reasonHeader holds, in answers of the gateway itself, the word that the
// record of the connection has.
const reasonHeader = "Palyra-Reason"

// refusal is an answer of the gateway's own.
type refusal struct {
	status int
	why    string
	text   string
}

func (r *refusal) Error() string { return r.text }

// refused is a refusal of a request to a target. The detail says what would be
// right; it may be empty.
func refused(t egress.Target, why, detail string, args ...any) *refusal {
	text := sentence(t, why)
	if detail != "" {
		text = strings.TrimSpace(text + " " + fmt.Sprintf(detail, args...))
	}
	return &refusal{http.StatusForbidden, why, text}
}

// sentence says what was refused, in the words that the rest of the gateway
// has for it.
func sentence(t egress.Target, why string) string {
	c := tool.Connection{Host: t.Host.String(), Port: int(t.Port), Verdict: egress.VerdictDenied, Reason: why}
	if t.Host.IsZero() {
		c.Host = "the proxy"
	}
	return egress.Explain(c, nil)
}

// refuse records why a request goes no further, unless that is on record, and
// says so to the client.
func (b *bridge) refuse(w http.ResponseWriter, t egress.Target, err error) {
	no := outcome(t, err)
	if own(err) {
		b.front.Refuse(t, no.why)
	}
	b.answer(w, no)
}

// fail is refuse for a request that was on its way. A placeholder in its body
// is on record (alarmed).
func (b *bridge) fail(w http.ResponseWriter, t egress.Target, err error) {
	no := outcome(t, err)
	if own(err) && secret.Word(err) == "" {
		b.front.Refuse(t, no.why)
	}
	b.answer(w, no)
}

// own reports whether an error is one of this package's or of the secrets',
// and not one of Connect or Allow, which are on record.
func own(err error) bool {
	var no *refusal
	return errors.As(err, &no) || secret.Word(err) != ""
}

// outcome is what an error means to the client. What is not known to be fit for
// a program is not told: it may hold addresses of the gateway's network.
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
			return &refusal{status, why, sentences(e.Message, e.Remedy)}
		}
	}
	what := "broke the connection off, or did not answer in HTTP"
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		what = "did not answer in time"
	}
	return &refusal{http.StatusBadGateway, "", fmt.Sprintf("%s %s.", t, what)}
}

// sentences joins what happened and what to do.
func sentences(what, remedy string) string {
	if what = strings.TrimSpace(what); what != "" && !strings.HasSuffix(what, ".") {
		what += "."
	}
	return strings.TrimSpace(what + " " + remedy)
}

// answer writes the answer. The connection ends after a refusal; with HTTP/2,
// after the other requests that it carries.
func (b *bridge) answer(w http.ResponseWriter, no *refusal) {
	if b.tap != nil {
		b.tap.end()
	}
	h := w.Header()
	clear(h)
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Connection", "close")
	if no.why != "" {
		h.Set(reasonHeader, no.why)
	}
	w.WriteHeader(no.status)
	_, _ = io.WriteString(w, no.text+"\n") // who has gone is not told
}

// hearOut lets a client of HTTP/2 read a refusal while it still sends: one whose
// stream is reset with something unread in it may drop the answer.
func (b *bridge) hearOut(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor != 2 {
		return // tap sees to it
	}
	c := http.NewResponseController(w)
	if c.Flush() == nil && c.SetReadDeadline(time.Now().Add(streamFarewell)) == nil {
		_, _ = io.CopyN(io.Discard, r.Body, mostStreamFarewell) // whatever ends it
	}
}

// What a refused stream of HTTP/2 may say yet, unheard.
const (
	streamFarewell     = time.Second
	mostStreamFarewell = 8 << 20
)

// RefusalOf returns what a client is told of an error of Connect or Allow, as an
// HTTP/1.1 answer that goes over the wire, after which its connection ends.
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

// refuseRaw records what package http refuses by itself, and returns what the
// client is told.
func (b *bridge) refuseRaw(why, detail string) []byte {
	b.front.Refuse(b.front.Target, why)
	return refused(b.front.Target, why, "%s", detail).raw()
}
