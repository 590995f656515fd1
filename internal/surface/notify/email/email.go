// Package email sends notices by SMTP (RFC 5321), over TLS. Approvals cannot be answered by mail.
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

// The transport security of a connection.
const (
	// StartTLS starts in plain text and requires the upgrade to TLS (RFC 3207).
	StartTLS = "starttls"
	// Implicit is TLS from the first byte (RFC 8314).
	Implicit = "implicit"
	// None is only for a server on the same machine.
	None = "none"
)

// Config is the configuration of a mail server and the recipients.
type Config struct {
	Gateway string
	// Server is host:port.
	Server string
	TLS    string
	From   string
	To     []string
	// Username and Secret are for the login. Secret is the name of the password in the vault. An
	// empty Username disables the login.
	Username, Secret string
	// Lend lends a secret for one delivery (lend.Desk).
	Lend func(ctx context.Context, name, run, purpose string) (value []byte, end func(), err error)
	// Dial MUST connect only to the server.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Roots are the trusted CAs; nil means the CAs of the system.
	Roots *x509.CertPool
	Now   func() time.Time
}

// Sender sends to one list of recipients.
type Sender struct{ use Config }

var _ notify.Sender = (*Sender)(nil)

// New returns a sender.
func New(c Config) *Sender {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Sender{c}
}

// Send sends a mail.
func (s *Sender) Send(ctx context.Context, m notify.Message) (ref string, err error) {
	text, err := s.write(m)
	if err != nil {
		return "", notify.Permanent(err)
	}
	conn, err := s.use.Dial(ctx, "tcp", s.use.Server)
	if err != nil {
		return "", fmt.Errorf("connecting: %w", err)
	}
	// net/smtp does not support contexts, so the end of ctx closes the connection.
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	defer conn.Close()
	if err := s.transmit(ctx, conn, m.ID, text); err != nil {
		return "", classify(err)
	}
	return "", nil
}

// transmit sends a mail over a connection by SMTP.
func (s *Sender) transmit(ctx context.Context, conn net.Conn, id string, text []byte) error {
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
	defer func() { _ = c.Close() }() // fails harmlessly after Quit
	if s.use.TLS == StartTLS {
		if ok, _ := c.Extension("STARTTLS"); !ok {
			return errors.New("the server does not support STARTTLS, and mail is not sent without TLS")
		}
		if err := c.StartTLS(over); err != nil {
			return fmt.Errorf("starting TLS: %w", err)
		}
	}
	if err := s.login(ctx, c, host, id); err != nil {
		return err
	}
	if err := c.Mail(mailboxAddress(s.use.From)); err != nil {
		return fmt.Errorf("sending the sender: %w", err)
	}
	for _, to := range s.use.To {
		if err := c.Rcpt(mailboxAddress(to)); err != nil {
			return fmt.Errorf("sending the recipient: %w", err)
		}
	}
	w, err := c.Data()
	if err != nil {
		return fmt.Errorf("sending the mail: %w", err)
	}
	if _, err := w.Write(text); err != nil {
		return fmt.Errorf("sending the mail: %w", err)
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("sending the mail: %w", err)
	}
	_ = c.Quit() // the server has already accepted the mail
	return nil
}

// login authenticates. net/smtp sends no password without TLS, except to the same machine.
func (s *Sender) login(ctx context.Context, c *smtp.Client, host, id string) error {
	if s.use.Username == "" {
		return nil
	}
	value, end, err := s.use.Lend(ctx, s.use.Secret, id, "login at "+host)
	if err != nil {
		return fmt.Errorf("reading the secret %s: %w", s.use.Secret, err)
	}
	defer end()
	defer clear(value)
	if err := c.Auth(smtp.PlainAuth("", s.use.Username, strings.TrimRight(string(value), "\r\n"), host)); err != nil {
		return fmt.Errorf("logging in: %w", err)
	}
	return nil
}

// classify marks permanent errors of the server (RFC 5321, section 4.2.1), after which no further
// attempt is made. Errors of the login are not permanent, because the password can be replaced.
func classify(err error) error {
	var protocolError *textproto.Error
	if errors.As(err, &protocolError) && protocolError.Code >= 500 && protocolError.Code != 530 && protocolError.Code != 535 {
		return notify.Permanent(err)
	}
	return err
}

// mailboxAddress returns the address of a mailbox without the name. The configuration is already
// validated.
func mailboxAddress(text string) string {
	if a, err := mail.ParseAddress(text); err == nil {
		return a.Address
	}
	return text
}

// write returns a mail (RFC 5322) in plain text.
func (s *Sender) write(m notify.Message) ([]byte, error) {
	d := m.Describe()
	var b bytes.Buffer
	header := func(name, value string) { fmt.Fprintf(&b, "%s: %s\r\n", name, line(value)) }
	header("From", s.use.From)
	header("To", strings.Join(s.use.To, ", "))
	header("Subject", mime.QEncoding.Encode("utf-8", subject(d)))
	header("Date", s.use.Now().Format(time.RFC1123Z))
	header("Message-ID", "<"+m.ID+"@"+line(s.use.Gateway)+">")
	header("Auto-Submitted", "auto-generated") // suppresses automatic replies (RFC 3834)
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

// mostSubject is the highest length of a subject, in bytes.
const mostSubject = 160

func subject(d notify.Description) string {
	return text.Ellipsis(line("[palyra] "+d.Severity+": "+d.Text), mostSubject)
}

// line replaces line ends, to prevent header injection.
func line(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\r' || r == '\n' || r == 0 {
			return ' '
		}
		return r
	}, text)
}
