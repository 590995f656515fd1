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
	// longestPause is the longest wait between two connections.
	longestPause = time.Minute
	// beat is the interval of pings on a connection, and beatTime their timeout.
	beat     = 30 * time.Second
	beatTime = 15 * time.Second
	// mostFrame is the highest size of a frame, in bytes.
	mostFrame = 1 << 20
	// mostWaiting is the highest number of unprocessed user actions.
	mostWaiting = 64
)

// Run receives votes until ctx ends. It reconnects whenever a connection ends.
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
			s.setStatus("not connected: " + err.Error())
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

// envelope is a message of the socket.
type envelope struct {
	Type     string          `json:"type"`
	ID       string          `json:"envelope_id"`
	Payload  json.RawMessage `json:"payload"`
	Reason   string          `json:"reason"`
	Accepted bool            `json:"accepts_response_payload"`
}

// errReconnect is returned when Slack requests a new connection. It is not a failure.
var errReconnect = errors.New("Slack ended the connection") //nolint:staticcheck // a name

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
	go s.pingLoop(ctx, conn, cancel)
	acts := make(chan json.RawMessage, mostWaiting)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for act := range acts {
			s.handleAction(ctx, team, act)
		}
	}()
	defer func() {
		close(acts)
		<-done
	}()
	for {
		err := s.receive(ctx, conn, acts)
		if errors.Is(err, errReconnect) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// team returns the workspace of the app. Users of other workspaces are refused.
func (s *Channel) team(ctx context.Context) (string, error) {
	var who struct {
		TeamID string `json:"team_id"`
	}
	if err := s.call(ctx, "auth.test", s.use.BotToken, ulid.Make().String(), struct{}{}, &who); err != nil {
		return "", err
	}
	if who.TeamID == "" {
		return "", errors.New("auth.test: Slack returned no workspace")
	}
	return who.TeamID, nil
}

// receive reads one envelope and acknowledges it before it is processed, because Slack repeats an
// envelope that is not acknowledged in time.
func (s *Channel) receive(ctx context.Context, conn *websocket.Conn, acts chan<- json.RawMessage) error {
	_, text, err := conn.Read(ctx)
	if err != nil {
		return fmt.Errorf("reading from the socket: %w", err)
	}
	var e envelope
	if canonical.Read(text, &e) != nil {
		return errors.New("reading from the socket: the message is not valid JSON")
	}
	switch e.Type {
	case "hello":
		s.setStatus("connected")
		return nil
	case "disconnect":
		return errReconnect
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
	default: // clicks cannot fill the queue; the message still has its buttons
		s.use.Log.WarnContext(ctx, "too many actions in Slack: one action was ignored")
	}
	return nil
}

// pingLoop pings the connection regularly, and ends it when a ping fails.
func (s *Channel) pingLoop(ctx context.Context, conn *websocket.Conn, end context.CancelFunc) {
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
