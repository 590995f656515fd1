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

// OwnServer is the name that `palyra` gives its own MCP server in the configuration of agents. The
// name proves nothing: any project can give its server the same name.
const OwnServer = "palyra"

// Arrive returns the announcement of a call that arrives at the gateway's own MCP server, with
// the approvers' answer. The agent's hook made the announcement. callID is the client's id of
// the call, name the tool's name on the wire. Arrive returns nil for a call that must be
// decided separately. One announcement is valid for one call of the same agent, with the same
// id, tool and arguments. The answer counts only for the contents that the named files had at
// the announcement. The server's name is irrelevant, because the arrival of the call proves
// that the server is the gateway's own.
func (s *Service) Arrive(caller access.Caller, callID, name string, input []byte) *call.PriorAnswer {
	if callID == "" {
		return nil
	}
	if len(input) == 0 {
		input = []byte("{}")
	}
	digest := digestOf(input)
	var found *visit
	several := false
	s.visits.each(func(id visitID, v *visit) {
		if id.callID == callID && id.principal == caller.Principal && v.announces(name, digest) {
			several = several || found != nil && found != v
			found = v
		}
	})
	if found == nil || several {
		return nil // of two calls with the same id, neither can be identified
	}
	return found.arrive()
}

// announced returns the digest that a call of an MCP server would have if the server is the
// gateway's own.
func (s *Service) announced(ctx context.Context, caller access.Caller, m *Message) string {
	name, ok := calledTool(m)
	if !ok || s.Announced == nil {
		return ""
	}
	return s.Announced(ctx, caller, name, inputOf(m))
}

// announce records the digest of the announced call.
func (v *visit) announce(digest string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.announced = digest
}

// calledTool returns the tool name in a call of an MCP server.
func calledTool(m *Message) (name string, ok bool) {
	rest, ok := strings.CutPrefix(m.Tool, mcpPrefix)
	_, name, both := strings.Cut(rest, "__")
	return name, ok && both
}

// inputOf returns the arguments of a call of an MCP server.
func inputOf(m *Message) []byte {
	if len(m.Input) == 0 {
		return []byte("{}")
	}
	return m.Input
}

// announces reports whether a visit belongs to this call of an MCP server.
func (v *visit) announces(name, digest string) bool {
	of, ok := calledTool(v.msg)
	return ok && of == name && digest != "" && digestOf(inputOf(v.msg)) == digest && v.hasBegun() && !closed(v.ended)
}

// arrive records the arrival of the call. Only the first arrival returns the answer.
func (v *visit) arrive() *call.PriorAnswer {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.arrived || v.reported {
		return nil
	}
	v.arrived = true
	return &call.PriorAnswer{Proposal: v.proposal, Answer: v.answer, CallDigest: v.announced}
}

// missed reports whether a call that the agent reported for the gateway's own server never arrived
// there.
func (v *visit) missed() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return !v.arrived && strings.HasPrefix(v.msg.Tool, mcpPrefix+OwnServer+"__")
}

// unjoined records that another server has the name of the gateway's own server.
func (s *Service) unjoined(ctx context.Context, a *Agent, sub call.Submission, said statement, v *visit) {
	s.mu.Lock()
	s.counts.Unjoined++
	s.counts.LastAlarm = time.Now().UTC()
	s.mu.Unlock()
	s.Log.WarnContext(ctx, "an agent called a server with the name of the gateway's own, and no call arrived", slog.String("alarm", "unjoined"),
		slog.String("agent", a.Name), slog.String("tool", v.msg.Tool), slog.String("proposal", v.id()))
	if _, err := s.Past.Sight(ctx, call.Sighting{
		Submission: sub, Code: event.Unjoined, Call: v.id(), Agent: a.Name, InputSHA256: said.digest, DecidedSHA256: v.decided(),
		Message: "the agent reported a call of the gateway's own MCP server, which did not receive it",
	}); err != nil {
		s.Log.ErrorContext(ctx, "recording a call that did not arrive failed", slog.String("error", err.Error()))
	}
}
