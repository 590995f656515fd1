// Package email sends notices by SMTP (RFC 5321), over TLS. Nothing is decided by mail.
package email

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"net/smtp"
	"net/textproto"
	"strings"
	"time"

	"palyra/internal/core/text"
	"palyra/internal/surface/notify"
)

// How a server is spoken to.
const (
	// StartTLS begins in the clear and goes on in TLS, or not at all (RFC 3207).
	StartTLS = "starttls"
	// Implicit is TLS from the first byte (RFC 8314).
	Implicit = "implicit"
	// None is for a server on this very machine.
	None = "none"
)

// Config is where mail is handed in, and for whom it is.
type Config struct {
	Gateway string
	// Server is host:port.
	Server string
	TLS    string
	From   string
	To     []string
	// Username and Secret, the name of the password in the vault, log in; "" does not.
	Username, Secret string
	// Lend lends a secret for one delivery (lend.Desk).
	Lend func(ctx context.Context, name, run, purpose string) (value []byte, end func(), err error)
	// Dial connects to the server and to nothing else.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Roots are those of the system when nil.
	Roots *x509.CertPool
	Now   func() time.Time
}

// Sender sends to one list of people.
type Sender struct{ use Config }

var _ notify.Sender = (*Sender)(nil)

// New returns a sender.
func New(c Config) *Sender {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Sender{c}
}

// Send hands a mail in.
func (s *Sender) Send(ctx context.Context, m notify.Message) (ref string, err error) {
	text, err := s.write(m)
	if err != nil {
		return "", notify.ForGood(err)
	}
	conn, err := s.use.Dial(ctx, "tcp", s.use.Server)
	if err != nil {
		return "", fmt.Errorf("connecting: %w", err)
	}
	// The library knows no context: what ends it ends the connection.
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	defer conn.Close()
	if err := s.hand(ctx, conn, m.ID, text); err != nil {
		return "", graded(err)
	}
	return "", nil
}

// hand speaks SMTP.
func (s *Sender) hand(ctx context.Context, conn net.Conn, id string, text []byte) error {
	host, _, err := net.SplitHostPort(s.use.Server)
	if err != nil {
		return err
	}
	over := &tls.Config{ServerName: host, RootCAs: s.use.Roots, MinVersion: tls.VersionTLS12}
	if s.use.TLS == Implicit {
		conn = tls.Client(conn, over)
	}
	c, err := smtp.NewClient(conn, host)
	if err != nil {
		return fmt.Errorf("greeting: %w", err)
	}
	defer func() { _ = c.Close() }() // after Quit there is nothing to close
	if s.use.TLS == StartTLS {
		if ok, _ := c.Extension("STARTTLS"); !ok {
			return errors.New("the server offers no STARTTLS, and nothing is sent in the clear")
		}
		if err := c.StartTLS(over); err != nil {
			return fmt.Errorf("beginning TLS: %w", err)
		}
	}
	if err := s.login(ctx, c, host, id); err != nil {
		return err
	}
	if err := c.Mail(bare(s.use.From)); err != nil {
		return fmt.Errorf("the sender: %w", err)
	}
	for _, to := range s.use.To {
		if err := c.Rcpt(bare(to)); err != nil {
			return fmt.Errorf("the recipient: %w", err)
		}
	}
	w, err := c.Data()
	if err != nil {
		return fmt.Errorf("the mail: %w", err)
	}
	if _, err := w.Write(text); err != nil {
		return fmt.Errorf("the mail: %w", err)
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("the mail: %w", err)
	}
	_ = c.Quit() // it is taken already
	return nil
}

// login shows user and password. The library sends none over a connection without TLS to
// another machine.
func (s *Sender) login(ctx context.Context, c *smtp.Client, host, id string) error {
	if s.use.Username == "" {
		return nil
	}
	value, end, err := s.use.Lend(ctx, s.use.Secret, id, "login at "+host)
	if err != nil {
		return fmt.Errorf("the secret %s: %w", s.use.Secret, err)
	}
	defer end()
	defer clear(value)
	if err := c.Auth(smtp.PlainAuth("", s.use.Username, strings.TrimRight(string(value), "\r\n"), host)); err != nil {
		return fmt.Errorf("logging in: %w", err)
	}
	return nil
}

// graded says whether there is another try: a server that says no for good is believed
// (RFC 5321, section 4.2.1), but for a login, whose password may be replaced.
func graded(err error) error {
	var said *textproto.Error
	if errors.As(err, &said) && said.Code >= 500 && said.Code != 530 && said.Code != 535 {
		return notify.ForGood(err)
	}
	return err
}

// bare is the address of a mailbox alone. The configuration was checked to have one.
func bare(text string) string {
	if a, err := mail.ParseAddress(text); err == nil {
		return a.Address
	}
	return text
}

// write writes a mail (RFC 5322): plain text, nothing else.
func (s *Sender) write(m notify.Message) ([]byte, error) {
	d := m.Describe()
	var b bytes.Buffer
	header := func(name, value string) { fmt.Fprintf(&b, "%s: %s\r\n", name, line(value)) }
	header("From", s.use.From)
	header("To", strings.Join(s.use.To, ", "))
	header("Subject", mime.QEncoding.Encode("utf-8", subject(d)))
	header("Date", s.use.Now().Format(time.RFC1123Z))
	header("Message-ID", "<"+m.ID+"@"+line(s.use.Gateway)+">")
	header("Auto-Submitted", "auto-generated") // RFC 3834: no vacation answers to it
	header("MIME-Version", "1.0")
	header("Content-Type", "text/plain; charset=utf-8")
	header("Content-Transfer-Encoding", "quoted-printable")
	b.WriteString("\r\n")
	w := quotedprintable.NewWriter(&b)
	if _, err := w.Write([]byte(strings.ReplaceAll(notify.Text(d), "\n", "\r\n"))); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// mostSubject bounds a subject, in bytes.
const mostSubject = 160

func subject(d notify.Description) string {
	return text.Ellipsis(line("[palyra] "+d.Severity+": "+d.Text), mostSubject)
}

// line is a text without ends of lines, so that none of it becomes a header.
func line(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\r' || r == '\n' || r == 0 {
			return ' '
		}
		return r
	}, text)
}
