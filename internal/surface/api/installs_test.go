package api_test

import (
	"os"
	"path/filepath"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/canonical"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

func (c *client) installs() palyrav1connect.InstallServiceClient {
	return palyrav1connect.NewInstallServiceClient(c.http, c.w.url)
}

// TestInstalled: an owner registers a file and gets its entries' changed state. Agents and
// members without the permission can neither register files nor read entries.
func TestInstalled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := filepath.Join(t.TempDir(), "settings.json")
	must.Do(t, os.WriteFile(path, []byte(`{"a": {"b": 1}}`), 0o600))
	req := &palyrav1.RegisterInstalledRequest{
		InstallationId: "01JZ8Q4T2M0000000000000000", Agent: "claude-code", Scope: "user", Transport: "http",
		Entries: []*palyrav1.InstalledEntry{{Path: path, Format: "json", Keys: []string{"a"}, Digest: canonical.Digest([]byte(`{"b":1}`))}},
	}
	made := must.Get(w.alice.installs().RegisterInstalled(t.Context(), req))(t).GetInstallation()
	if made.GetRegisteredBy() != "user:alice" || made.GetEntries()[0].GetState() != "intact" {
		t.Errorf("registered %v", made)
	}
	must.Do(t, os.WriteFile(path, []byte(`{"a": {"b": 2}}`), 0o600))
	list := must.Get(w.alice.installs().ListInstalled(t.Context(), &palyrav1.ListInstalledRequest{}))(t).GetInstallations()
	if len(list) != 1 || list[0].GetEntries()[0].GetState() != "changed" || list[0].GetEntries()[0].GetChangedAt() == nil {
		t.Errorf("listed %v", list)
	}
	remove := &palyrav1.RemoveInstalledRequest{InstallationId: req.GetInstallationId()}
	token := w.showing("Bearer " + w.alice.create(&palyrav1.CreateTokenRequest{Principal: "agent:coder", Scopes: []string{"tool.call"}}).GetText())
	for name, c := range map[string]*client{"an agent": w.coder, "an auditor": w.eve, "an agent's token": token} {
		_, register := c.installs().RegisterInstalled(t.Context(), req)
		_, list := c.installs().ListInstalled(t.Context(), &palyrav1.ListInstalledRequest{})
		_, removed := c.installs().RemoveInstalled(t.Context(), remove)
		for what, err := range map[string]error{"registers": register, "lists": list, "removes": removed} {
			wantError(t, name+" "+what, err, reason.PermissionDenied)
		}
	}
	if !must.Get(w.alice.installs().RemoveInstalled(t.Context(), remove))(t).GetRemoved() {
		t.Error("nothing was removed")
	}
}
