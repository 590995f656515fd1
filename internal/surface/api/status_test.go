package api_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/must"
)

// TestStatusWithoutHost: an agent gets the gateway's health, and no information about its host.
// Control: an operator gets both.
func TestStatusWithoutHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.gateway.set(hostPlace + " cannot be written")
	replies := func(c *client) (list []proto.Message) {
		list = append(list, must.Get(c.status().GetStatus(t.Context(), &palyrav1.GetStatusRequest{}))(t))
		if spaces, err := palyrav1connect.NewWorkspaceServiceClient(c.http, w.url).ListWorkspaces(t.Context(), &palyrav1.ListWorkspacesRequest{}); err == nil {
			list = append(list, spaces)
		}
		return list
	}
	for _, reply := range replies(w.coder) {
		if text := string(must.Get(protojson.Marshal(reply))(t)); strings.Contains(text, hostPlace) || !strings.Contains(text, `"default"`) {
			t.Errorf("an agent got %s", text)
		}
	}
	status := replies(w.coder)[0].(*palyrav1.GetStatusResponse)
	if status.GetReady() || len(status.GetProblems()) != 1 || !status.GetSandbox().GetAvailable() || status.GetCaller().GetPrincipal() != "agent:coder" {
		t.Errorf("an agent got %v", status)
	}
	if text := string(must.Get(protojson.Marshal(replies(w.bob)[0]))(t)); strings.Count(text, hostPlace) < 11 {
		t.Errorf("an operator got %s", text)
	}
}
