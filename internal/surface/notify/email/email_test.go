package email_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"math/big"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"strings"
	"testing"
	"time"

	"palyra/internal/call/approval"
	"palyra/internal/call/approval/approvaltest"
	"palyra/internal/core/must"
	"palyra/internal/egress"
	"palyra/internal/surface/notify"
	"palyra/internal/surface/notify/email"
	"palyra/internal/surface/notify/notifytest"
)

// server is a small mail server.
type server struct {
	t     *testing.T
	l     net.Listener
	cert  tls.Certificate
	roots *x509.CertPool
	// implicit starts TLS with the first byte; noTLS disables TLS; refuse is the response to RCPT.
	implicit, noTLS bool
	refuse          string
	got             chan received
}

type received struct {
	from, login string
	to          []string
	over        bool
	text        string
}

func newServer(t *testing.T, change func(*server)) *server {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	of := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true,
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, of, of, key.Public(), key))(t)
	s := &server{t: t, cert: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, roots: x509.NewCertPool(), got: make(chan received, 10)}
	s.roots.AddCert(must.Get(x509.ParseCertificate(der))(t))
	if change != nil {
		change(s)
	}
	s.l = must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = s.l.Close() })
	go func() {
		for {
			conn, err := s.l.Accept()
			if err != nil {
				return
			}
			go s.serve(conn)
		}
	}()
	return s
}

// serve implements the required part of SMTP (RFC 5321).
func (s *server) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	var m received
	if s.implicit {
		conn, m.over = tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{s.cert}}), true
	}
	in := bufio.NewReader(conn)
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(conn, format+"\r\n", args...) }
	say("220 mail.test ESMTP")
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		verb, rest, _ := strings.Cut(strings.TrimRight(line, "\r\n"), " ")
		switch strings.ToUpper(verb) {
		case "EHLO":
			say("250-mail.test")
			if !m.over && !s.noTLS {
				say("250-STARTTLS")
			}
			say("250-AUTH PLAIN")
			say("250 8BITMIME")
		case "STARTTLS":
			say("220 go on")
			conn, m.over = tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{s.cert}}), true
			in = bufio.NewReader(conn)
		case "AUTH":
			text, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(rest, "PLAIN "))
			m.login = string(text)
			say("235 welcome")
		case "MAIL":
			m.from = rest
			say("250 ok")
		case "RCPT":
			if s.refuse != "" {
				say("%s", s.refuse)
				continue
			}
			m.to = append(m.to, rest)
			say("250 ok")
		case "DATA":
			say("354 go on")
			var b strings.Builder
			for {
				l, err := in.ReadString('\n')
				if err != nil {
					return
				}
				if l == ".\r\n" {
					break
				}
				b.WriteString(strings.TrimPrefix(l, "."))
			}
			m.text = b.String()
			say("250 taken")
			s.got <- m
		case "QUIT":
			say("221 bye")
			return
		default:
			say("502 what?")
		}
	}
}

func (s *server) sender(change func(*email.Config)) *email.Sender {
	rules := must.Get(egress.ParseRules([]string{s.l.Addr().String()}))(s.t)
	dialer := &egress.Dialer{Rules: egress.Rules{Allow: rules}}
	c := email.Config{
		Gateway: "gateway.test", Server: s.l.Addr().String(), TLS: email.StartTLS, From: "Palyra <palyra@example.org>", To: []string{"a@example.org", "b@example.org"},
		Username: "palyra", Secret: "vault://global/smtp", Dial: dialer.DialContext, Roots: s.roots,
		Lend: func(context.Context, string, string, string) ([]byte, func(), error) {
			return []byte("s3cret\n"), func() {}, nil
		},
	}
	if change != nil {
		change(&c)
	}
	return email.New(c)
}

// TestMail: an approval request arrives over TLS, as plain text, with only the allowed details
// of the call, and without injected headers.
func TestMail(t *testing.T) {
	t.Parallel()
	for name, implicit := range map[string]bool{email.StartTLS: false, email.Implicit: true} {
		t.Run(name, func(t *testing.T) {
			s, w := newServer(t, func(s *server) { s.implicit = implicit }), notifytest.New(t)
			w.Start(notify.Target{
				Name: "mail", Type: notify.Email, MinSeverity: "low", Include: notify.IncludeFull,
				Sender: s.sender(func(c *email.Config) { c.TLS = name }),
			})
			w.Ask(func(a *approval.Ask) {
				a.Plan.Preview.Summary = "Run make.\r\nBcc: eve@example.org\r\n\u202eevil\x1b[2J"
				a.Plan.Binding.Argv = []string{"make", "\u202etxt.exe"}
				a.Prompt.RequesterReason = "OPS-1\nstate: allowed\u202e\x1b[2J"
			})
			got := s.next(w)
			if !got.over || got.login != "\x00palyra\x00s3cret" || got.from != "FROM:<palyra@example.org> BODY=8BITMIME" || len(got.to) != 2 {
				t.Errorf("received %+v", got)
			}
			m := must.Get(mail.ReadMessage(strings.NewReader(got.text)))(t)
			if m.Header.Get("Bcc") != "" || m.Header.Get("Auto-Submitted") != "auto-generated" {
				t.Errorf("headers %v", m.Header)
			}
			subject := must.Get(new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject")))(t)
			if subject != "[palyra] medium: A call is waiting for an approval." {
				t.Errorf("subject %q", subject)
			}
			var b strings.Builder
			must.Get(bufio.NewReader(quotedprintable.NewReader(m.Body)).WriteTo(&b))(t)
			text := strings.ReplaceAll(b.String(), "\r\n", "\n")
			if strings.ContainsAny(text, "\u202e\x1b") || !strings.Contains(text, `> make`) || !strings.Contains(text, `\u{202e}`) || !strings.Contains(text, "reason by the requester:\n> OPS-1") || strings.Contains(text, "\nstate: allowed") || !strings.Contains(text, "https://gateway.test/approvals/") {
				t.Errorf("text %s", text)
			}
			if d := w.Ended("mail", notify.ApprovalAsked); d.State != notify.Delivered {
				t.Errorf("kept %+v", d)
			}
		})
	}
}

// TestNoTLS: a server without TLS, or with an untrusted certificate, receives neither the password
// nor a mail. Control: TestMail.
func TestNoTLS(t *testing.T) {
	t.Parallel()
	plain := newServer(t, func(s *server) { s.noTLS = true })
	strange := newServer(t, nil)
	for name, s := range map[string]*email.Sender{
		"no STARTTLS":         plain.sender(nil),
		"another certificate": strange.sender(func(c *email.Config) { c.Roots = x509.NewCertPool() }),
	} {
		if _, err := s.Send(t.Context(), notify.Message{ID: "x"}); err == nil {
			t.Errorf("%s: sent", name)
		}
	}
	if len(plain.got)+len(strange.got) != 0 {
		t.Error("something arrived")
	}
}

// TestRefused: a permanent error ends the delivery, and a temporary one is retried. A send to a
// server that does not respond ends with its context.
func TestRefused(t *testing.T) {
	t.Parallel()
	w := notifytest.New(t)
	never, later := newServer(t, func(s *server) { s.refuse = "550 no such user" }), newServer(t, func(s *server) { s.refuse = "450 later" })
	w.Start(
		notify.Target{Name: "never", Type: notify.Email, MinSeverity: "low", Sender: never.sender(nil)},
		notify.Target{Name: "later", Type: notify.Email, MinSeverity: "low", Sender: later.sender(nil)},
	)
	w.Ask()
	if d := w.Ended("never", notify.ApprovalAsked); d.State != notify.Failed || !strings.Contains(d.Problem, "550") {
		t.Errorf("kept %+v", d)
	}
	w.UntilStored(func() bool {
		list := must.Get(w.Store.Deliveries(t.Context(), notify.Filter{Target: "later", Size: 1}))(t)
		return list[0].State == notify.Queued && list[0].Attempts == 1
	})
	mute := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer mute.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := never.sender(func(c *email.Config) {
			c.Server = mute.Addr().String()
			c.Dial = (&egress.Dialer{Rules: egress.Rules{Allow: must.Get(egress.ParseRules([]string{c.Server}))(t)}}).DialContext
		}).Send(ctx, notify.Message{ID: "x"})
		ended <- err
	}()
	conn := must.Get(mute.Accept())(t)
	defer conn.Close()
	cancel()
	if err := <-ended; err == nil {
		t.Error("a mute server took the mail")
	}
}

// TestAnsweredRequestIsNotSent: a notice of an approval that is already decided is not sent.
func TestAnsweredRequestIsNotSent(t *testing.T) {
	t.Parallel()
	w, s := notifytest.New(t), newServer(t, nil)
	rec := w.Ask()
	target := notify.Target{Name: "mail", Type: notify.Email, MinSeverity: "low", Events: []notify.Kind{notify.ApprovalAsked}, Sender: s.sender(nil)}
	asked := w.Journal.Head().Seq
	must.Do(t, w.Store.QueueDeliveries(t.Context(), asked, []notify.Delivery{{
		ID: "01JNA3Q0G0DE11VERY00000001", Target: "mail", Seq: asked, Kind: notify.ApprovalAsked, Severity: "medium", Approval: rec.ID, State: notify.Queued,
		QueuedAt: time.Now().UTC().Truncate(time.Microsecond), NextAt: time.Now().UTC().Truncate(time.Microsecond),
	}}, nil))
	must.Get(w.Desk.Votes.Decide(t.Context(), approvaltest.Caller("ann"), rec.ID, approval.Ballot{Reason: "no"}))(t)
	w.Start(target)
	if d := w.Ended("mail", notify.ApprovalAsked); d.State != notify.Superseded || len(s.got) != 0 {
		t.Errorf("kept %+v", d)
	}
}

// next returns the next mail, or fails the test.
func (s *server) next(w *notifytest.World) received {
	s.t.Helper()
	select {
	case m := <-s.got:
		return m
	case <-time.After(must.Patience):
		list := must.Get(w.Store.Deliveries(context.Background(), notify.Filter{Size: 10}))(s.t)
		s.t.Fatalf("no mail arrives: %+v", list)
		return received{}
	}
}
