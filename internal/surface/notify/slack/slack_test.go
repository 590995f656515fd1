package slack_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"palyra/internal/call/approval"
	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/egress"
	"palyra/internal/surface/notify"
	"palyra/internal/surface/notify/notifytest"
	"palyra/internal/surface/notify/slack"
)

type object = map[string]any

// workspace is a small Slack server with the Web API and socket mode.
type workspace struct {
	t      *testing.T
	server *httptest.Server
	calls  chan call
	socket chan *websocket.Conn
	acks   chan string

	mu    sync.Mutex
	users map[string]object
}

type call struct {
	method string
	body   object
}

func newWorkspace(t *testing.T) *workspace {
	s := &workspace{t: t, calls: make(chan call, 100), socket: make(chan *websocket.Conn, 10), acks: make(chan string, 100), users: map[string]object{}}
	s.server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.server.Close)
	for _, id := range []string{"UANN", "UEVE"} {
		s.users[id] = object{"id": id, "team_id": "TOWN"}
	}
	return s
}

func (s *workspace) serve(w http.ResponseWriter, r *http.Request) {
	method := strings.TrimPrefix(r.URL.Path, "/api/")
	if r.URL.Path == "/socket" {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		_ = conn.Write(r.Context(), websocket.MessageText, []byte(`{"type":"hello"}`))
		s.socket <- conn
		for {
			_, text, err := conn.Read(context.Background())
			if err != nil {
				return
			}
			var ack struct {
				ID string `json:"envelope_id"`
			}
			_ = json.Unmarshal(text, &ack)
			s.acks <- ack.ID
		}
	}
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	want := "xoxb-bot"
	if method == "apps.connections.open" {
		want = "xapp-app"
	}
	answer := object{"ok": true}
	var body object
	_ = json.NewDecoder(r.Body).Decode(&body)
	switch {
	case token != want:
		answer = object{"ok": false, "error": "invalid_auth"}
	case method == "auth.test":
		answer["team_id"] = "TOWN"
	case method == "apps.connections.open":
		answer["url"] = "ws" + strings.TrimPrefix(s.server.URL, "http") + "/socket?ticket=secret"
	case method == "users.info":
		s.mu.Lock()
		answer["user"] = s.users[r.URL.Query().Get("user")]
		s.mu.Unlock()
		if answer["user"] == nil {
			answer = object{"ok": false, "error": "user_not_found"}
		}
	case method == "chat.postMessage", method == "chat.update":
		answer["channel"], answer["ts"] = "COPS", "1700000000.000100"
	}
	if method != "auth.test" && method != "apps.connections.open" && method != "users.info" {
		s.calls <- call{method, body}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

func (s *workspace) next(method string) object {
	s.t.Helper()
	c := must.Receive(s.t, method, s.calls)
	if c.method != method {
		s.t.Fatalf("%s was called, want %s: %v", c.method, method, c.body)
	}
	return c.body
}

// click sends an action of a user in the channel.
func (s *workspace) click(conn *websocket.Conn, team, user, action, value string) {
	s.t.Helper()
	s.act(conn, object{
		"type": "block_actions", "user": object{"id": user, "team_id": team}, "team": object{"id": "TOWN"}, "channel": object{"id": "COPS"}, "trigger_id": "trigger",
		"actions": []object{{"action_id": action, "value": value}},
	})
}

func (s *workspace) act(conn *websocket.Conn, payload object) {
	s.t.Helper()
	text := must.Get(json.Marshal(object{"type": "interactive", "envelope_id": "e1", "payload": payload}))(s.t)
	must.Do(s.t, conn.Write(s.t.Context(), websocket.MessageText, text))
	must.Receive(s.t, "an acknowledgement", s.acks)
}

func (s *workspace) target(w *notifytest.World, decide bool) notify.Target {
	rules := must.Get(egress.ParseRules([]string{strings.TrimPrefix(s.server.URL, "http://")}))(s.t)
	dialer := &egress.Dialer{Rules: egress.Rules{Allow: rules}}
	c := slack.Config{
		API: s.server.URL + "/api", Channel: "COPS", AppToken: "app", BotToken: "bot", Dial: dialer.DialContext, Log: slog.New(slog.DiscardHandler), Pause: time.Millisecond,
		Lend: func(_ context.Context, name, _, _ string) ([]byte, func(), error) {
			return []byte(map[string]string{"app": "xapp-app\n", "bot": "xoxb-bot"}[name]), func() {}, nil
		},
	}
	if decide {
		c.Voter = w.Voter()
	}
	return notify.Target{Name: "team", Type: notify.Slack, MinSeverity: "low", Events: []notify.Kind{notify.ApprovalAsked}, Include: notify.IncludeFull, Sender: slack.New(c)}
}

// buttons returns the actions of a message.
func buttons(message object) (list []string) {
	blocks, _ := message["blocks"].([]any)
	for _, b := range blocks {
		if b := b.(object); b["type"] == "actions" {
			for _, e := range b["elements"].([]any) {
				list = append(list, e.(object)["action_id"].(string))
			}
		}
	}
	return list
}

// hostile is text of a model that attempts to use markup in the channel.
const hostile = "<!channel> <@U123> *now* <https://evil.test|ok> :tada: \u202egnp.exe\x1b[2J `x` &lt;"

// literal fails the test if hostile is in a field that Slack interprets. Only the text of a
// preformatted element is safe.
func literal(t *testing.T, v any, inside bool) (found bool) {
	t.Helper()
	switch v := v.(type) {
	case object:
		inside = v["type"] == "rich_text_preformatted" || inside && v["type"] == "text"
		for _, one := range v {
			found = literal(t, one, inside) || found
		}
	case []any:
		for _, one := range v {
			found = literal(t, one, inside) || found
		}
	case string:
		if strings.Contains(v, "channel>") || strings.Contains(v, "evil.test") {
			if found = true; !inside {
				t.Errorf("markup in %q", v)
			}
			if strings.ContainsAny(v, "\u202e\x1b") {
				t.Errorf("invisible characters in %q", v)
			}
		}
	}
	return found
}

func hostileAsk(a *approval.Ask) {
	a.Plan.Preview.Summary = hostile
	a.Plan.Binding.Argv = []string{"make", hostile}
	a.Proposal.Tool.Title = hostile
	a.Prompt.RequesterReason = "OPS-7 " + hostile
}

// TestAnswer: a mapped member votes with a button. The vote has the surface slack and no
// presence. The message is updated with the result, also after a vote on another surface.
func TestAnswer(t *testing.T) {
	t.Parallel()
	w, s := notifytest.New(t), newWorkspace(t)
	w.Maps("TOWN", "UANN", access.User("ann"))
	w.Start(s.target(w, true))
	conn := <-s.socket
	rec := w.Ask(hostileAsk)
	m := s.next("chat.postMessage")
	if got := strings.Join(buttons(m), " "); got != "palyra_allow palyra_deny palyra_open" || m["parse"] != "none" {
		t.Errorf("buttons %s of %v", got, m)
	}
	if !literal(t, m, false) || !strings.Contains(fmt.Sprint(m), "reason by the requester:\n> OPS-7 ") {
		t.Errorf("the call or the requester's reason is missing: %v", m)
	}
	// The digest of the message must match the pending call.
	s.click(conn, "TOWN", "UANN", "palyra_allow", rec.ID+"/sha256:other")
	if tell := s.next("chat.postEphemeral"); !strings.Contains(tell["text"].(string), "digest") {
		t.Errorf("the user received %v", tell)
	}
	s.click(conn, "TOWN", "UANN", "palyra_allow", rec.ID+"/"+rec.CallDigest)
	changed := s.next("chat.update")
	if changed["ts"] != "1700000000.000100" || strings.Contains(strings.Join(buttons(changed), " "), "palyra_allow") || !strings.Contains(changed["text"].(string), "allowed by user:ann") {
		t.Errorf("changed to %v", changed)
	}
	now := must.Get(w.Desk.Records.Get(t.Context(), rec.ID))(t)
	if v := now.Votes[0]; now.State != approval.Allowed || v.User != access.User("ann") || v.Surface != access.SurfaceSlack || v.Paired || v.Present || !w.Users.Live(v.Device) {
		t.Errorf("the vote is %+v", v)
	}
	// A denial has the reason from the dialog. A vote on another surface updates the message as
	// well.
	other := w.Ask(func(a *approval.Ask) { a.Plan.Binding.Argv = []string{"make", "b"} })
	s.next("chat.postMessage")
	s.click(conn, "TOWN", "UANN", "palyra_deny", other.ID+"/"+other.CallDigest)
	view := s.next("views.open")["view"].(object)
	s.act(conn, object{
		"type": "view_submission", "user": object{"id": "UANN", "team_id": "TOWN"}, "team": object{"id": "TOWN"},
		"view": object{"callback_id": view["callback_id"], "private_metadata": view["private_metadata"], "state": object{"values": object{"reason": object{"reason": object{"value": "not today"}}}}},
	})
	s.next("chat.update")
	if now := must.Get(w.Desk.Records.Get(t.Context(), other.ID))(t); now.State != approval.Denied || now.Note != "not today" {
		t.Errorf("%+v", now)
	}
	// After Unmap the user cannot vote, and earlier votes no longer count.
	must.Get(w.Users.Unmap(t.Context(), access.Caller{Principal: access.User("ada")}, "TOWN", "UANN"))(t)
	if w.Users.Live(now.Votes[0].Device) {
		t.Error("the mapping still exists")
	}
	// A closed connection is replaced.
	must.Do(t, conn.Write(t.Context(), websocket.MessageText, []byte(`{"type":"disconnect"}`)))
	<-s.socket
}

// TestStrangers: guests, users of other workspaces, bots, unmapped users and members who may
// not act cannot vote. Control: TestAnswer.
func TestStrangers(t *testing.T) {
	t.Parallel()
	w, s := notifytest.New(t), newWorkspace(t)
	w.Maps("TOWN", "UANN", access.User("ann"))
	w.Members[access.User("old")] = access.Member{Principal: access.User("old"), Roles: []access.Role{access.RoleOperator}, Disabled: true}
	w.Maps("TOWN", "UOLD", access.User("old"))
	w.Maps("TELSE", "UFAR", access.User("ann"))
	s.users["UOLD"] = object{"id": "UOLD", "team_id": "TOWN"}
	s.users["UFAR"] = object{"id": "UFAR", "team_id": "TELSE", "is_stranger": true}
	w.Start(s.target(w, true))
	conn := <-s.socket
	rec := w.Ask()
	s.next("chat.postMessage")
	for name, c := range map[string]struct {
		team, user string
		is         object
	}{
		"not mapped":             {"TOWN", "UEVE", nil},
		"another workspace":      {"TELSE", "UFAR", nil},
		"claims this workspace":  {"TOWN", "UFAR", nil},
		"a guest":                {"TOWN", "UANN", object{"is_restricted": true}},
		"a guest of one channel": {"TOWN", "UANN", object{"is_ultra_restricted": true}},
		"a stranger":             {"TOWN", "UANN", object{"is_stranger": true}},
		"gone":                   {"TOWN", "UANN", object{"deleted": true}},
		"a bot":                  {"TOWN", "UANN", object{"is_bot": true}},
		"unknown to Slack":       {"TOWN", "UNONE", nil},
		"a disabled member":      {"TOWN", "UOLD", nil},
	} {
		s.mu.Lock()
		s.users["UANN"] = object{"id": "UANN", "team_id": "TOWN"}
		for k, v := range c.is {
			s.users["UANN"][k] = v
		}
		s.mu.Unlock()
		s.click(conn, c.team, c.user, "palyra_allow", rec.ID+"/"+rec.CallDigest)
		s.next("chat.postEphemeral")
		if now := must.Get(w.Desk.Records.Get(t.Context(), rec.ID))(t); now.State != approval.Pending || len(now.Votes) != 0 {
			t.Errorf("%s: %+v", name, now.Votes)
		}
	}
}

// TestNoButtons: votes from Slack are disabled by default. Calls of high or unknown severity,
// and texts that are too long, have only a link, and a forged click is refused.
func TestNoButtons(t *testing.T) {
	t.Parallel()
	w, s := notifytest.New(t), newWorkspace(t)
	w.Maps("TOWN", "UANN", access.User("ann"))
	_, stop := w.Start(s.target(w, false))
	w.Ask()
	if got := buttons(s.next("chat.postMessage")); strings.Join(got, " ") != "palyra_open" || len(s.socket) != 0 {
		t.Errorf("off: buttons %v", got)
	}
	w.Ended("team", notify.ApprovalAsked)
	stop()
	w.Start(s.target(w, true))
	conn := <-s.socket
	for name, change := range map[string]func(*approval.Ask){
		"grave":   func(a *approval.Ask) { a.Severity = "high"; a.Plan.Binding.Argv = []string{"a"} },
		"unknown": func(a *approval.Ask) { a.Severity = "?"; a.Plan.Binding.Argv = []string{"b"} },
		"long":    func(a *approval.Ask) { a.Plan.Binding.Argv = []string{strings.Repeat("word ", 4_000)} },
	} {
		rec := w.Ask(change)
		m := s.next("chat.postMessage")
		if got := buttons(m); strings.Join(got, " ") != "palyra_open" {
			t.Errorf("%s: buttons %v", name, got)
		}
		if name == "long" {
			continue // the message has no button, and the digest is valid
		}
		s.click(conn, "TOWN", "UANN", "palyra_allow", rec.ID+"/"+rec.CallDigest)
		s.next("chat.postEphemeral")
		if now := must.Get(w.Desk.Records.Get(t.Context(), rec.ID))(t); now.State != approval.Pending {
			t.Errorf("%s: %s", name, now.State)
		}
	}
}
