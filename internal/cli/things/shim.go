package things

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
)

const (
	// mostMessage is the largest message in bytes, in either direction.
	mostMessage = 16 << 20
	// stateless is the first revision without sessions.
	stateless = "2026-07-28"
	// endTime is the timeout for ending the session.
	endTime = 5 * time.Second
	// The codes of local errors (JSON-RPC 2.0, section 5.1).
	parseError, unreachable = -32700, -32000
)

// shim forwards messages between a client on standard input and output and the gateway. It inspects
// only the parts that the HTTP transport needs.
type shim struct {
	http     *http.Client
	endpoint string
	limit    string

	writing sync.Mutex
	out     io.Writer

	// beginning is held while a session is restarted.
	beginning sync.Mutex

	mu sync.Mutex
	// session and revision are set for clients with sessions. begun is the client's first message,
	// which restarts the session after a restart of the gateway.
	session, revision string
	begun             []byte
	// cancels has functions that end the requests of a client without sessions, by request id.
	cancels map[string]context.CancelFunc
	sending sync.WaitGroup
}

func newShim(client *http.Client, endpoint string, out io.Writer) *shim {
	return &shim{http: client, endpoint: endpoint, out: out, cancels: make(map[string]context.CancelFunc)}
}

// message has the members of a message that the transport needs.
type message struct {
	text   []byte
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string          `json:"name"`
		URI       string          `json:"uri"`
		TaskID    string          `json:"taskId"`
		RequestID json.RawMessage `json:"requestId"`
		Meta      struct {
			Revision string `json:"io.modelcontextprotocol/protocolVersion"`
		} `json:"_meta"`
	} `json:"params"`
}

// serve carries messages until the client closes its end, or ctx ends.
func (s *shim) serve(ctx context.Context, in io.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines := make(chan []byte)
	failed := make(chan error, 1)
	go func() { failed <- read(ctx, in, lines) }()
	defer s.end(cancel)
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return err
		case line := <-lines:
			s.take(ctx, line)
		}
	}
}

// read sends the client's lines to a channel.
func read(ctx context.Context, in io.Reader, lines chan<- []byte) error {
	r := bufio.NewScanner(in)
	r.Buffer(make([]byte, 64<<10), mostMessage)
	for r.Scan() {
		if len(bytes.TrimSpace(r.Bytes())) == 0 {
			continue
		}
		select {
		case lines <- bytes.Clone(r.Bytes()):
		case <-ctx.Done():
			return nil
		}
	}
	if errors.Is(r.Err(), bufio.ErrTooLong) {
		return reason.Errorf(reason.InputTooLarge, "a message of the client has more than %d bytes", mostMessage)
	}
	return r.Err()
}

// take forwards one message. Requests are sent concurrently, the others in order.
func (s *shim) take(ctx context.Context, line []byte) {
	m := message{text: line}
	if err := canonical.Read(line, &m); err != nil {
		s.fail(json.RawMessage("null"), parseError, "the message is not a JSON-RPC message")
		return
	}
	switch {
	case m.Method == "notifications/cancelled" && s.cancel(m.Params.RequestID):
	case m.Method == "initialize":
		s.mu.Lock()
		s.begun, s.session, s.revision = line, "", ""
		s.mu.Unlock()
		s.send(ctx, m)
	case len(m.ID) > 0 && m.Method != "":
		ctx, cancel := context.WithCancel(ctx)
		if m.Params.Meta.Revision >= stateless {
			s.mu.Lock()
			s.cancels[string(m.ID)] = cancel
			s.mu.Unlock()
		}
		s.sending.Go(func() {
			defer cancel()
			s.send(ctx, m)
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.cancels, string(m.ID))
		})
	default:
		s.send(ctx, m)
		if m.Method == "notifications/initialized" {
			s.sending.Go(func() { s.listen(ctx) })
		}
	}
}

// cancel ends the HTTP request of a client without sessions, which cancels it at the gateway.
func (s *shim) cancel(id json.RawMessage) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	cancel, ok := s.cancels[string(id)]
	if ok {
		cancel()
	}
	return ok
}

// send posts a message and writes the response.
func (s *shim) send(ctx context.Context, m message) {
	for again := false; ; again = true {
		used := s.current()
		res, err := s.post(ctx, m)
		if err != nil {
			s.lost(ctx, m, err)
			return
		}
		if res.StatusCode == http.StatusNotFound && !again && m.Method != "initialize" && s.beginAgain(ctx, m, used) {
			_ = res.Body.Close()
			continue
		}
		s.answer(ctx, m, res)
		return
	}
}

func (s *shim) current() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.session
}

func (s *shim) post(ctx context.Context, m message) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.endpoint, bytes.NewReader(m.text))
	if err != nil {
		return nil, err
	}
	s.address(r, m.Params.Meta.Revision)
	r.Header.Set("Content-Type", "application/json")
	if m.Params.Meta.Revision >= stateless {
		r.Header.Set("Mcp-Method", m.Method)
		for _, name := range []string{m.Params.Name, m.Params.URI, m.Params.TaskID} {
			if name != "" {
				r.Header.Set("Mcp-Name", name)
				break
			}
		}
	}
	return s.http.Do(r)
}

// address sets the headers of every request.
func (s *shim) address(r *http.Request, revision string) {
	r.Header.Set("Accept", "application/json, text/event-stream")
	if s.limit != "" {
		r.Header.Set("Palyra-Call-Limit", s.limit)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if revision == "" {
		revision = s.revision
		if s.session != "" {
			r.Header.Set("Mcp-Session-Id", s.session)
		}
	}
	if revision != "" {
		r.Header.Set("MCP-Protocol-Version", revision)
	}
}

// answer writes the response to a request.
func (s *shim) answer(ctx context.Context, m message, res *http.Response) {
	defer func() { _ = res.Body.Close() }()
	if m.Method == "initialize" && res.Header.Get("Mcp-Session-Id") != "" {
		s.mu.Lock()
		s.session = res.Header.Get("Mcp-Session-Id")
		s.mu.Unlock()
	}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		answered, err := s.events(res.Body)
		if !answered && ctx.Err() == nil {
			s.lost(ctx, m, err)
		}
		return
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, mostMessage))
	switch {
	case err != nil:
		s.lost(ctx, m, err)
	case bytes.Contains(body, []byte(`"jsonrpc"`)):
		s.write(body)
	case res.StatusCode >= http.StatusBadRequest:
		s.refused(m, res, body)
	}
}

// events writes the messages of a stream, and reports whether the answer to a request
// was among them.
func (s *shim) events(body io.Reader) (answered bool, err error) {
	r := bufio.NewScanner(body)
	r.Buffer(make([]byte, 64<<10), mostMessage)
	var data []string
	for r.Scan() {
		line := r.Text()
		if value, ok := strings.CutPrefix(line, "data:"); ok {
			data = append(data, strings.TrimPrefix(value, " "))
			continue
		}
		if line != "" || len(data) == 0 {
			continue
		}
		text := []byte(strings.Join(data, "\n"))
		data = nil
		answered = s.write(text) || answered
	}
	return answered, r.Err()
}

// write forwards a message to the client as one line, and reports whether it answers a request. It
// stores the start of a session.
func (s *shim) write(text []byte) (answers bool) {
	var m struct {
		Method string          `json:"method"`
		ID     json.RawMessage `json:"id"`
		Result struct {
			Revision string `json:"protocolVersion"`
		} `json:"result"`
	}
	var line bytes.Buffer
	if canonical.Read(text, &m) != nil || json.Compact(&line, text) != nil {
		return false
	}
	if m.Result.Revision != "" {
		s.mu.Lock()
		s.revision = m.Result.Revision
		s.mu.Unlock()
	}
	line.WriteByte('\n')
	s.writing.Lock()
	defer s.writing.Unlock()
	_, _ = s.out.Write(line.Bytes()) // a disconnected client also closes its other end
	return m.Method == "" && len(m.ID) > 0
}

// beginAgain restarts the session at a gateway that does not have it, because the gateway was
// restarted or the session was idle for too long.
func (s *shim) beginAgain(ctx context.Context, m message, used string) bool {
	s.beginning.Lock()
	defer s.beginning.Unlock()
	s.mu.Lock()
	begun, session := s.begun, s.session
	if session == used {
		s.session = ""
	}
	s.mu.Unlock()
	switch {
	case begun == nil || used == "" || m.Params.Meta.Revision != "":
		return false
	case session != used:
		return session != "" // another message restarted it
	}
	res, err := s.post(ctx, message{text: begun, Method: "initialize"})
	if err != nil {
		return false
	}
	defer func() { _ = res.Body.Close() }()
	if _, err := io.Copy(io.Discard, io.LimitReader(res.Body, mostMessage)); err != nil || res.StatusCode != http.StatusOK {
		return false
	}
	s.mu.Lock()
	s.session = res.Header.Get("Mcp-Session-Id")
	s.mu.Unlock()
	if res, err = s.post(ctx, message{text: []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)}); err != nil {
		return false
	}
	_ = res.Body.Close()
	s.sending.Go(func() { s.listen(ctx) })
	return true
}

// listen forwards messages that the gateway initiates, as long as it sends them.
func (s *shim) listen(ctx context.Context) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.endpoint, nil)
	if err != nil {
		return
	}
	s.address(r, "")
	res, err := s.http.Do(r)
	if err != nil {
		return // the next request reports that the gateway is unreachable
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode == http.StatusOK {
		_, _ = s.events(res.Body)
	}
}

// lost answers a request that the gateway did not answer.
func (s *shim) lost(ctx context.Context, m message, err error) {
	if ctx.Err() != nil || len(m.ID) == 0 || m.Method == "" {
		return
	}
	text := "the connection to the gateway was lost; repeat the call"
	if err != nil {
		text = "the gateway cannot be reached: " + err.Error() + "; start it with `palyrad`"
	}
	s.fail(m.ID, unreachable, text)
}

// refused answers a request that the gateway refused in the shape of its API.
func (s *shim) refused(m message, res *http.Response, body []byte) {
	if len(m.ID) == 0 || m.Method == "" {
		return
	}
	var why struct {
		Message string `json:"message"`
		Details []struct {
			Debug struct {
				Reason   string            `json:"reason"`
				Metadata map[string]string `json:"metadata"`
			} `json:"debug"`
		} `json:"details"`
	}
	text := res.Status
	if json.Unmarshal(body, &why) == nil && why.Message != "" {
		text = why.Message
		for _, d := range why.Details {
			if d.Debug.Reason != "" {
				text = d.Debug.Reason + ": " + why.Message + ". " + d.Debug.Metadata["remedy"]
				break
			}
		}
	} else if len(body) > 0 && len(body) < 500 {
		text += ": " + strings.TrimSpace(string(body))
	}
	s.fail(m.ID, unreachable, text)
}

// fail answers a request with an error of the shim's own.
func (s *shim) fail(id json.RawMessage, code int, text string) {
	answer, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": code, "message": text}})
	if err == nil {
		s.write(answer)
	}
}

// end ends the session at the gateway.
func (s *shim) end(cancel context.CancelFunc) {
	cancel()
	s.sending.Wait()
	s.mu.Lock()
	session := s.session
	s.mu.Unlock()
	if session == "" {
		return
	}
	ctx, done := context.WithTimeout(context.Background(), endTime)
	defer done()
	r, err := http.NewRequestWithContext(ctx, http.MethodDelete, s.endpoint, nil)
	if err != nil {
		return
	}
	s.address(r, "")
	if res, err := s.http.Do(r); err == nil {
		_ = res.Body.Close()
	}
}
