//go:build linux

package e2e

import (
	"bufio"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/must"
)

// posted is a request that a webhook receiver got.
type posted struct {
	id, at, signature string
	body              []byte
}

// signedBy verifies a signature according to Standard Webhooks.
func (p posted) signedBy(key []byte) bool {
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", p.id, p.at, p.body)
	return slices.Contains(strings.Fields(p.signature), "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}

// mailServer accepts mail by SMTP (RFC 5321), only over TLS.
func mailServer(t *testing.T, cert tls.Certificate) (address string, mails chan string) {
	t.Helper()
	mails = make(chan string, 8)
	l := must.Get(tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}}))(t)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go takeMail(conn, mails)
		}
	}()
	return l.Addr().String(), mails
}

func takeMail(conn net.Conn, mails chan<- string) {
	defer func() { _ = conn.Close() }()
	in, text, inText := bufio.NewReader(conn), strings.Builder{}, false
	say := func(line string) { _, _ = io.WriteString(conn, line+"\r\n") }
	say("220 mail.test ESMTP")
	for {
		line, err := in.ReadString('\n')
		verb, _, _ := strings.Cut(strings.ToUpper(strings.TrimSpace(line)), " ")
		switch {
		case err != nil:
			return
		case inText && line == ".\r\n":
			inText = false
			mails <- text.String()
			say("250 taken")
		case inText:
			text.WriteString(line)
		case verb == "EHLO":
			say("250-mail.test")
			say("250 8BITMIME")
		case verb == "DATA":
			inText = true
			say("354 go on")
		case verb == "QUIT":
			say("221 bye")
			return
		default:
			say("250 ok")
		}
	}
}

// next waits for the next item that a server received.
func next[T any](t *testing.T, what string, got <-chan T) T {
	t.Helper()
	return must.Receive(t, what, got)
}

// TestNotifications: a pending approval is announced by a signed webhook and by mail. The
// webhook is retried with the same id if its receiver fails. The journal has the result of each
// notification, and `palyra notify test` reports whether a target is reachable.
func TestNotifications(t *testing.T) {
	t.Parallel()
	hooks, fails := make(chan posted, 16), make(chan bool, 16)
	receiver := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		select {
		case <-fails:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
		}
		hooks <- posted{r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp"), r.Header.Get("webhook-signature"), body}
	}))
	t.Cleanup(receiver.Close)
	smtp, mails := mailServer(t, receiver.TLS.Certificates[0])
	g := newGateway(t, fmt.Sprintf(`[[notify]]
name = "ops"
type = "webhook"
url = "%s/palyra"
secrets = ["vault://global/ops"]
include = "summary"
events = ["approval_asked", "approval_decided"]
[[notify]]
name = "mail"
type = "email"
smtp = %q
tls = "implicit"
from = "palyra@example.org"
to = ["ops@example.org"]
events = ["approval_asked"]
`, receiver.URL, smtp))
	roots := filepath.Join(g.Dir, "roots.pem")
	g.write(roots, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: receiver.Certificate().Raw})))
	g.Env = append(g.Env, "SSL_CERT_FILE="+roots, "SSL_CERT_DIR="+filepath.Join(g.Dir, "none"))
	g.policy("10-why.cedar", `@id("why") @ask_reason("Which ticket?") forbid(principal, action == Action::"tool.execute/fs.write", resource) unless { context.approval.granted };`)
	g.Start()
	local, key := g.local(), []byte("a key of thirty-two bytes, no less")
	local.keep("vault://global/ops", "whsec_"+base64.StdEncoding.EncodeToString(key))

	local.ok("notify", "test", "ops")
	if p := next(t, "test", hooks); !p.signedBy(key) || p.signedBy([]byte("another")) || !strings.Contains(string(p.body), `"type":"palyra.test"`) {
		t.Errorf("the test is %+v, %s", p, p.body)
	}
	local.ok("notify", "test", "mail")
	next(t, "mail", mails)

	fails <- true
	call := local.begin("call", "fs.write", "path=b.txt", "content=new", "--reason", "OPS-7")
	asked := call.asked()
	first, second := next(t, "webhook", hooks), next(t, "webhook again", hooks)
	if first.id != second.id || !first.signedBy(key) || !second.signedBy(key) {
		t.Errorf("tried as %s and again as %s", first.id, second.id)
	}
	var told struct {
		Type string `json:"type"`
		Data struct {
			Approval struct {
				ID     string `json:"approval_id"`
				Digest string `json:"call_digest"`
				Reason string `json:"requester_reason"`
			} `json:"approval"`
		} `json:"data"`
	}
	must.Do(t, json.Unmarshal(second.body, &told))
	if a := told.Data.Approval; told.Type != "palyra.approval_asked" || a.ID != asked.ID || a.Digest != asked.Digest || a.Reason != "OPS-7" {
		t.Errorf("told %s", second.body)
	}
	if text := next(t, "mail", mails); !strings.Contains(text, asked.ID) || strings.Contains(text, "OPS-7") { // include = "none"
		t.Errorf("mailed %s", text)
	}
	local.allow(asked).Want(t, 0)
	call.wait().Want(t, 0)
	if p := next(t, "webhook of the answer", hooks); !p.signedBy(key) || !strings.Contains(string(p.body), `"palyra.approval_decided"`) {
		t.Errorf("of the answer: %s", p.body)
	}

	type ended struct {
		Target     string `json:"target"`
		Kind       string `json:"kind"`
		State      string `json:"state"`
		Attempts   int    `json:"attempts"`
		ApprovalID string `json:"approval_id"`
	}
	want := []ended{{"mail", "approval_asked", "delivered", 1, asked.ID}, {"ops", "approval_asked", "delivered", 2, asked.ID}, {"ops", "approval_decided", "delivered", 1, asked.ID}}
	must.Eventually(t, "the deliveries are in the journal", func() (bool, string) {
		var got []ended
		for _, e := range local.events("PAL-N100") {
			if one := decode[ended](t, string(e.Payload)); one.ApprovalID != "" {
				got = append(got, one)
			}
		}
		return len(got) == len(want) && !slices.ContainsFunc(want, func(e ended) bool { return !slices.Contains(got, e) }), fmt.Sprintf("%+v", got)
	})
	local.ok("journal", "verify")

	// The test of an unreachable target fails.
	receiver.Close()
	if r := local.run("notify", "test", "ops"); r.Code == 0 {
		t.Errorf("a receiver that is away: %s%s", r.Out, r.Err)
	}
}
