package hook

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"palyra/internal/call"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
)

// OwnServer is the name that `palyra` gives its own MCP server in the configuration of
// agents. A name is no proof: any project can give its server the same.
const OwnServer = "palyra"

// Arrive is asked about each call that comes to the gateway's own MCP server: whether
// an agent's hook announced it, and people were asked then. callID is what the client
// calls it, name the tool by its name on the wire. It returns nil for a call that has
// to be decided by itself. One announcement is good for one call: of the same agent,
// with the same id, tool and arguments; and what people said counts only for the bytes of
// the files that it named then. The name of the server is of no matter; that
// the call arrives here is the proof of which server it was.
func (s *Service) Arrive(caller access.Caller, callID, name string, input []byte) *call.Vouch {
	if callID == "" {
		return nil
	}
	if len(input) == 0 {
		input = []byte("{}")
	}
	digest := digestOf(input)
	s.mu.Lock()
	defer s.mu.Unlock()
	var found *visit
	for id, v := range s.visits {
		if id.callID != callID || id.principal != caller.Principal || !v.announces(name, digest) {
			continue
		}
		if found != nil && found != v {
			return nil // two calls of one name: neither is known to be this one
		}
		found = v
	}
	if found == nil {
		return nil
	}
	return found.arrive()
}

// announced is the digest of the call that a call of an MCP server would be if that server
// were the gateway's own.
func (s *Service) announced(ctx context.Context, caller access.Caller, m *Message) string {
	name, ok := calledTool(m)
	if !ok || s.Announced == nil {
		return ""
	}
	return s.Announced(ctx, caller, name, inputOf(m))
}

// announce notes the digest of the call that is announced.
func (v *visit) announce(digest string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.announced = digest
}

// calledTool is the name of the tool in a call of an MCP server.
func calledTool(m *Message) (name string, ok bool) {
	rest, ok := strings.CutPrefix(m.Tool, mcpPrefix)
	_, name, both := strings.Cut(rest, "__")
	return name, ok && both
}

// inputOf are the arguments of a call of an MCP server.
func inputOf(m *Message) []byte {
	if len(m.Input) == 0 {
		return []byte("{}")
	}
	return m.Input
}

// announces reports whether a visit is about this call of an MCP server.
func (v *visit) announces(name, digest string) bool {
	of, ok := calledTool(v.msg)
	return ok && of == name && digest != "" && digestOf(inputOf(v.msg)) == digest && v.hasBegun() && !closed(v.ended)
}

// arrive notes that the call came, the first time.
func (v *visit) arrive() *call.Vouch {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.arrived || v.reported {
		return nil
	}
	v.arrived = true
	return &call.Vouch{Proposal: v.proposal, Answer: v.answer, CallDigest: v.announced}
}

// missed reports whether a call that the agent says it made to the gateway's own server
// never came there.
func (v *visit) missed() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return !v.arrived && strings.HasPrefix(v.msg.Tool, mcpPrefix+OwnServer+"__")
}

// unjoined writes down that a server has the name of the gateway's own and is another.
func (s *Service) unjoined(ctx context.Context, a *Agent, sub call.Submission, said statement, v *visit) {
	s.mu.Lock()
	s.counts.Unjoined++
	s.counts.LastAlarm = time.Now().UTC()
	s.mu.Unlock()
	s.Log.WarnContext(ctx, "an agent called a server with the name of the gateway's own, and no call arrived", slog.String("alarm", "unjoined"),
		slog.String("agent", a.Name), slog.String("tool", v.msg.Tool), slog.String("proposal", v.id()))
	if _, err := s.Past.Sight(ctx, call.Sighting{
		Submission: sub, Code: event.Unjoined, Call: v.id(), Agent: a.Name, InputSHA256: said.digest, DecidedSHA256: v.decided(),
		Message: "the agent says that it called the gateway's own MCP server, and no such call arrived there",
	}); err != nil {
		s.Log.ErrorContext(ctx, "a call that did not arrive cannot be written down", slog.String("error", err.Error()))
	}
}
