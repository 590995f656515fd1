// Package slack posts notices to a Slack channel, and receives votes from it by socket mode, so
// that Slack needs no inbound connection. Voters are identified only by team and user id, which an
// admin maps to a member.
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

// Config is the configuration of an app and its channel.
type Config struct {
	// API is the URL of the Web API, without a trailing slash.
	API     string
	Channel string
	// AppToken and BotToken are names in the vault.
	AppToken, BotToken string
	// Lend lends a secret for one request (lend.Desk).
	Lend func(ctx context.Context, name, run, purpose string) (value []byte, end func(), err error)
	// Dial MUST connect only to Slack.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Voter casts votes. If it is nil, messages have no buttons.
	Voter *notify.Voter
	Log   *slog.Logger
	// Roots are the trusted CAs; nil means the CAs of the system.
	Roots *x509.CertPool
	// Pause is the shortest wait between two connections; 0 means one second.
	Pause time.Duration
}

// Channel is a target in Slack.
type Channel struct {
	use  Config
	http *http.Client
	// socket is a client without a timeout, because the connection stays open.
	socket *http.Client

	mu     sync.Mutex
	status string
}

var (
	_ notify.Changer = (*Channel)(nil)
	_ notify.Runner  = (*Channel)(nil)
)

// answerTime is the timeout of a request to the Web API.
const answerTime = 15 * time.Second

// New returns a channel. It opens no connection.
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

// Changes implements notify.Changer: the message with a question is updated with the result.
func (s *Channel) Changes() bool { return true }

// Status implements notify.Runner.
func (s *Channel) Status() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

func (s *Channel) setStatus(status string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = status
}

// Send posts a message, or updates the message with the question.
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
