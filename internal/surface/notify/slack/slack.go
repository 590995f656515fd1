// Package slack posts notices into a channel of Slack, and takes votes there by socket
// mode, so that Slack needs no way in. Who votes is known by team and user id alone, which
// an admin maps to a member.
package slack

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"palyra/internal/surface/notify"
)

// Config is which channel of which app.
type Config struct {
	// API is the Web API, without a slash at the end.
	API     string
	Channel string
	// AppToken and BotToken are names in the vault.
	AppToken, BotToken string
	// Lend lends a secret for one request (lend.Desk).
	Lend func(ctx context.Context, name, run, purpose string) (value []byte, end func(), err error)
	// Dial connects to Slack and to nothing else.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Voter casts votes; nil takes none, and no message has buttons.
	Voter *notify.Voter
	Log   *slog.Logger
	// Roots are those of the system when nil.
	Roots *x509.CertPool
	// Pause is the shortest between two connections; 0 is a second.
	Pause time.Duration
}

// Channel is a target in Slack.
type Channel struct {
	use  Config
	http *http.Client
	// socket has no timeout: the connection stays.
	socket *http.Client

	mu     sync.Mutex
	status string
}

var (
	_ notify.Changer = (*Channel)(nil)
	_ notify.Runner  = (*Channel)(nil)
)

// answerTime bounds a request to the Web API.
const answerTime = 15 * time.Second

// New returns a channel. Nothing is sent, and nothing connected, before it is used.
func New(c Config) *Channel {
	if c.Pause == 0 {
		c.Pause = time.Second
	}
	over := func() *http.Transport {
		return &http.Transport{
			DialContext: c.Dial, TLSClientConfig: &tls.Config{RootCAs: c.Roots, MinVersion: tls.VersionTLS12}, TLSHandshakeTimeout: answerTime,
			ResponseHeaderTimeout: answerTime, MaxResponseHeaderBytes: 64 << 10, MaxIdleConnsPerHost: 2, IdleConnTimeout: 30 * time.Second,
		}
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	s := &Channel{
		use: c, http: &http.Client{Transport: over(), CheckRedirect: stay, Timeout: answerTime}, socket: &http.Client{Transport: over(), CheckRedirect: stay},
	}
	if c.Voter == nil {
		s.status = "posts only"
	} else {
		s.status = "not connected"
	}
	return s
}

// Changes implements notify.Changer: a message that asked says what became of it.
func (s *Channel) Changes() bool { return true }

// Status implements notify.Runner.
func (s *Channel) Status() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

func (s *Channel) say(status string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = status
}

// Send posts a message, or changes the one that asked.
func (s *Channel) Send(ctx context.Context, m notify.Message) (ref string, err error) {
	d := m.Describe()
	post := message{Channel: s.use.Channel, Text: escape(d.Text), Blocks: s.blocks(m, d), Parse: "none"}
	method := "chat.postMessage"
	if channel, ts, ok := strings.Cut(m.Ref, "/"); ok {
		method, post.Channel, post.TS = "chat.update", channel, ts
	}
	var got struct {
		Channel string `json:"channel"`
		TS      string `json:"ts"`
	}
	if err := s.call(ctx, method, s.use.BotToken, m.ID, post, &got); err != nil {
		return "", err
	}
	return got.Channel + "/" + got.TS, nil
}
