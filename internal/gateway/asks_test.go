package gateway

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/config"
	"palyra/internal/core/must"
)

// asked makes a call, denies its first approval, and returns the number of approval requests.
func asked(t *testing.T, d *running, input map[string]string) (n int) {
	t.Helper()
	text := must.Get(json.Marshal(input))(t)
	stream := must.Get(palyrav1connect.NewGatewayServiceClient(d.client(), d.url()).CallTool(t.Context(), &palyrav1.CallToolRequest{Tool: "fs.write", InputJson: text}))(t)
	defer stream.Close()
	approvals := palyrav1connect.NewApprovalsServiceClient(d.client(), d.url())
	for stream.Receive() {
		a := stream.Msg().GetApprovalRequested().GetApproval()
		if a == nil || n > 0 {
			continue
		}
		n++
		no := &palyrav1.DecideApprovalRequest{ApprovalId: a.GetApprovalId(), ShownDigest: a.GetCallDigest(), Reason: "no"}
		must.Get(approvals.DecideApproval(t.Context(), no))(t)
	}
	return n
}

// TestDenialCoversEquivalentCalls: a denial also covers calls whose path is another form of the
// denied path. The test uses the whole gateway.
func TestDenialCoversEquivalentCalls(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	ws := filepath.Join(t.TempDir(), "ws")
	must.Do(t, os.MkdirAll(filepath.Join(ws, "d"), 0o755))
	cfg.Workspaces = []config.Workspace{{Name: "default", Path: ws}, {Name: "again", Path: ws}}
	d := start(t, cfg)
	if n := asked(t, d, map[string]string{"path": "x", "content": "n"}); n != 1 {
		t.Fatalf("the call was asked %d times", n)
	}
	for _, again := range []map[string]string{
		{"path": "x", "content": "n"}, {"path": "./x", "content": "n"}, {"path": "d/../x", "content": "n"},
		{"path": "x", "content": "n", "workspace": "again"}, {"path": "x", "content_base64": "bg==", "mode": "create"},
	} {
		if asked(t, d, again) != 0 {
			t.Errorf("%v was asked again", again)
		}
	}
	for _, control := range []map[string]string{{"path": "y", "content": "n"}, {"path": "x", "content": "m"}} {
		if asked(t, d, control) != 1 {
			t.Errorf("control: %v was not asked", control)
		}
	}
	d.end()
}
