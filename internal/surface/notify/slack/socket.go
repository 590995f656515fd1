package slack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/coder/websocket"
	"github.com/oklog/ulid/v2"

	"palyra/internal/core/canonical"
	"palyra/internal/surface/notify"
)

const (
	// longestPause is the longest between two connections.
	longestPause = time.Minute
	// beat is how often a connection is tried.
	beat     = 30 * time.Second
	beatTime = 15 * time.Second
	// mostFrame bounds a frame, in bytes.
	mostFrame = 1 << 20
	// mostWaiting bounds what people did and nobody has looked at.
	mostWaiting = 64
)

// Run takes votes until ctx ends. It connects again whenever a connection ends.
func (s *Channel) Run(ctx context.Context) error {
	if s.use.Voter == nil {
		return nil
	}
	for wait := s.use.Pause; ; {
		began := time.Now()
		err := s.listen(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the daemon ends, and so does this
		}
		if err != nil {
			s.say("not connected: " + err.Error())
			s.use.Log.WarnContext(ctx, "Slack is not connected", slog.Any("error", err))
		}
		if time.Since(began) > longestPause {
			wait = s.use.Pause
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		wait = min(2*wait, longestPause)
	}
}

// envelope is what comes over the socket.
type envelope struct {
	Type     string          `json:"type"`
	ID       string          `json:"envelope_id"`
	Payload  json.RawMessage `json:"payload"`
	Reason   string          `json:"reason"`
	Accepted bool            `json:"accepts_response_payload"`
}

// errAgain is that Slack wants another connection, which is no failure.
var errAgain = errors.New("Slack ended the connection") //nolint:staticcheck // a name

// listen connects once, and returns when the connection ends.
func (s *Channel) listen(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	team, err := s.team(ctx)
	if err != nil {
		return err
	}
	var at struct {
		URL string `json:"url"`
	}
	if err := s.call(ctx, "apps.connections.open", s.use.AppToken, ulid.Make().String(), struct{}{}, &at); err != nil {
		return err
	}
	conn, _, err := websocket.Dial(ctx, at.URL, &websocket.DialOptions{HTTPClient: s.socket}) //nolint:bodyclose // the library closes it
	if err != nil {
		return errors.New("the socket cannot be opened") // the error holds the ticket of the URL
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(mostFrame)
	go s.keep(ctx, conn, cancel)
	acts := make(chan json.RawMessage, mostWaiting)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for act := range acts {
			s.act(ctx, team, act)
		}
	}()
	defer func() {
		close(acts)
		<-done
	}()
	for {
		err := s.receive(ctx, conn, acts)
		if errors.Is(err, errAgain) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// team is the workspace of the app. A user of another one is a stranger.
func (s *Channel) team(ctx context.Context) (string, error) {
	var who struct {
		TeamID string `json:"team_id"`
	}
	if err := s.call(ctx, "auth.test", s.use.BotToken, ulid.Make().String(), struct{}{}, &who); err != nil {
		return "", err
	}
	if who.TeamID == "" {
		return "", errors.New("auth.test: Slack does not say which workspace it is")
	}
	return who.TeamID, nil
}

// receive takes one envelope and says that it has arrived, before anything is done with
// it: Slack sends it again when it is not told in time.
func (s *Channel) receive(ctx context.Context, conn *websocket.Conn, acts chan<- json.RawMessage) error {
	_, text, err := conn.Read(ctx)
	if err != nil {
		return fmt.Errorf("reading from the socket: %w", err)
	}
	var e envelope
	if canonical.Read(text, &e) != nil {
		return errors.New("what came over the socket is not JSON")
	}
	switch e.Type {
	case "hello":
		s.say("connected")
		return nil
	case "disconnect":
		return errAgain
	}
	if e.ID == "" {
		return nil
	}
	ack, err := json.Marshal(map[string]string{"envelope_id": e.ID})
	if err != nil {
		return err
	}
	if err := conn.Write(ctx, websocket.MessageText, ack); err != nil {
		return fmt.Errorf("writing to the socket: %w", err)
	}
	if e.Type != "interactive" {
		return nil
	}
	select {
	case acts <- e.Payload:
	default: // nobody can click so fast; the message still has its buttons
		s.use.Log.WarnContext(ctx, "more is done in Slack than can be looked at: one act is passed over")
	}
	return nil
}

// keep tries the connection every so often, and ends it when nothing answers.
func (s *Channel) keep(ctx context.Context, conn *websocket.Conn, end context.CancelFunc) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(beat):
		}
		try, cancel := context.WithTimeout(ctx, beatTime)
		err := conn.Ping(try)
		cancel()
		if err != nil {
			end()
			return
		}
	}
}

var _ notify.Sender = (*Channel)(nil)
