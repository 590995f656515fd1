package modeltest

import (
	"io"
	"net/http"
	"path"
	"strings"

	"palyra/internal/run/model"
)

// Fixture is one response of a Server.
type Fixture struct {
	status int
	header http.Header
	body   string
	// file and turn are other sources of the body.
	file string
	turn *model.Turn
	end  func(r *http.Request, s *Server)
}

// File plays testdata/<anthropic or openai>/<name>.sse.
func File(name string) Fixture { return Fixture{file: name} }

// Turn plays a turn, in the server's wire format. A zero Usage is replaced by small
// counts.
func Turn(turn model.Turn) Fixture { return Fixture{turn: &turn} }

// Raw plays the text of a stream.
func Raw(text string) Fixture { return Fixture{body: text} }

// Status responds with an error; body "" is the API's own body. Headers are pairs of name and
// value.
func Status(status int, body string, headers ...string) Fixture {
	f := Fixture{status: status, body: body, header: make(http.Header)}
	for i := 0; i+1 < len(headers); i += 2 {
		f.header.Set(headers[i], headers[i+1])
	}
	return f
}

// Broken ends the response by breaking the connection.
func (f Fixture) Broken() Fixture {
	f.end = func(*http.Request, *Server) { panic(http.ErrAbortHandler) }
	return f
}

// Stalled leaves the response open until the client disconnects.
func (f Fixture) Stalled() Fixture {
	f.end = func(r *http.Request, s *Server) {
		s.stalling <- struct{}{}
		<-r.Context().Done()
		s.gone <- struct{}{}
	}
	return f
}

func (f Fixture) play(w http.ResponseWriter, r *http.Request, s *Server) {
	for name := range f.header {
		w.Header().Set(name, f.header.Get(name))
	}
	if f.status != 0 && f.status != http.StatusOK {
		if f.body == "" {
			f.body = s.api.failure(kindOf(f.status), http.StatusText(f.status))
		}
		reply(w, f.status, f.body)
		return
	}
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "text/event-stream")
	}
	for event := range strings.SplitAfterSeq(f.text(s), "\n\n") {
		_, _ = io.WriteString(w, event)
		_ = http.NewResponseController(w).Flush()
	}
	if f.end != nil {
		f.end(r, s)
	}
}

// text returns the body as events.
func (f Fixture) text(s *Server) string {
	switch {
	case f.turn != nil:
		return s.api.stream(*f.turn)
	case f.file != "":
		text, err := recorded.ReadFile(path.Join("testdata", s.api.name, f.file+".sse"))
		if err != nil {
			s.t.Errorf("modeltest: %v", err)
		}
		return string(text)
	}
	return f.body
}

// kindOf returns the type that the APIs give to errors of a status.
func kindOf(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case 529:
		return "overloaded_error"
	}
	if status >= http.StatusInternalServerError {
		return "api_error"
	}
	return "invalid_request_error"
}

// pieces splits text into parts of n runes, like deltas.
func pieces(text string, n int) []string {
	var out []string
	for runes := []rune(text); len(runes) > 0; {
		n = min(n, len(runes))
		out = append(out, string(runes[:n]))
		runes = runes[n:]
	}
	return out
}

// wire returns the providers' name of a tool.
func wire(tool string) string {
	return model.NewNames(model.Request{Tools: []model.Tool{{Name: tool}}}).Wire(tool)
}
