package gateway

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/must"
)

// The acts of a device on the gateway are listed with the device: policies, ceilings and
// freezes. A change of the members produces a new set of the same policies, which is not listed
// as a change of policies.
func TestDeviceActsOnTheGateway(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Policy.Dir = t.TempDir()
	d := start(t, cfg)
	defer d.end()
	status := palyrav1connect.NewStatusServiceClient(d.client(), d.url())
	policies := palyrav1connect.NewPolicyServiceClient(d.client(), d.url())
	was := d.status().GetPolicyVersion()
	must.Do(t, os.WriteFile(filepath.Join(cfg.Policy.Dir, "more.cedar"), []byte("@id(\"more\")\n@reason(\"no\")\nforbid(principal, action == Action::\"tool.execute/fs.write\", resource);\n"), 0o600))
	must.Get(policies.ReloadPolicy(t.Context(), &palyrav1.ReloadPolicyRequest{}))(t)
	now := d.status().GetPolicyVersion()
	must.Get(policies.ActivatePolicy(t.Context(), &palyrav1.ActivatePolicyRequest{Version: was}))(t)
	must.Get(policies.ReloadPolicy(t.Context(), &palyrav1.ReloadPolicyRequest{}))(t)
	must.Get(palyrav1connect.NewAccessReviewServiceClient(d.client(), d.url()).SetCeiling(t.Context(), &palyrav1.SetCeilingRequest{Name: "channel:ops", Allowed: true}))(t)
	must.Get(status.Freeze(t.Context(), &palyrav1.FreezeRequest{}))(t)
	must.Get(status.Thaw(t.Context(), &palyrav1.ThawRequest{}))(t)

	res := must.Get(palyrav1connect.NewDeviceServiceClient(d.client(), d.url()).ListDeviceActs(t.Context(), &palyrav1.ListDeviceActsRequest{
		DeviceId: d.status().GetCaller().GetDeviceId(), PageSize: 5, // without the first reload: the gateway may have read the file before
	}))(t)
	var got []string
	for _, act := range res.GetActs() {
		got = append(got, strings.Join([]string{act.GetCode(), act.GetSummary(), act.GetUndo()}, "; "))
	}
	want := []string{
		"PAL-P103; ended a freeze; palyra freeze",
		"PAL-P102; froze the gateway; palyra thaw",
		"PAL-P111; admitted channel:ops by a ceiling; palyra access forbid channel:ops",
		"PAL-P100; put the policies " + now + " in force; palyra policy activate " + was,
		"PAL-P100; put the policies " + was + " in force; palyra policy activate " + now,
	}
	if !slices.Equal(got, want) {
		t.Errorf("listed are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
