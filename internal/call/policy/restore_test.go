package policy_test

import (
	"strings"
	"testing"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/access"
	"palyra/internal/core/config"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

// A set that is rebuilt from its inputs is identical to the original.
func TestRestore(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]policytest.Options{
		"defaults": {},
		"everything": {
			Policies: "// a comment\n@id(\"p\") forbid(principal, action, resource) when { context.present };", TwoUsers: true,
			Roles: []access.Role{"security"}, Workspaces: []string{"other"}, Surfaces: []access.Surface{access.SurfaceCLI}, NoPresence: true,
			Snapshot: policy.Snapshot{
				AllowedTools: []string{"fs.read"}, AllowedPrincipals: []access.Principal{policytest.Alice}, AllowedChannels: []string{"ops"},
				WASM:         &policy.WASMRuntime{WASMRuntime: config.WASMRuntime{FuelBudget: 7}, Skills: &config.Skills{AllowWildcards: true}},
				ActiveSkills: []string{"s"}, AllowSensitiveTools: true, Workspaces: []config.Workspace{{Name: "other", Path: "/srv"}},
			},
			Members: []access.Member{{Principal: access.User("eve"), Roles: []access.Role{"security"}, Disabled: true}},
		},
		"empty lists": {Snapshot: policy.Snapshot{AllowedTools: []string{}, AllowedPrincipals: []access.Principal{}}},
	} {
		t.Run(name, func(t *testing.T) {
			set := policytest.Set(t, o)
			inputs := must.Get(set.Inputs())(t)
			again := must.Get(policy.Restore(inputs, set.SnapshotDigest()))(t)
			if again.Version() != set.Version() || again.SnapshotDigest() != set.SnapshotDigest() {
				t.Errorf("version %s and snapshot %s, want %s and %s", again.Version(), again.SnapshotDigest(), set.Version(), set.SnapshotDigest())
			}
			r := policytest.Request("process.run", `{"argv":["make"]}`)
			if got, want := again.Evaluate(r, nil), set.Evaluate(r, nil); got.Effect() != want.Effect() || len(got.Determining()) != len(want.Determining()) {
				t.Errorf("the restored set says %s, the first %s", got.Effect(), want.Effect())
			}
		})
	}
}

// Inputs that result in a different set are refused, because that set would not explain the
// original decision.
func TestRestoreRefusesAnotherSet(t *testing.T) {
	t.Parallel()
	set := policytest.Set(t, policytest.Options{Policies: `@id("p") forbid(principal, action, resource) when { context.present };`})
	inputs := must.Get(set.Inputs())(t)
	for name, change := range map[string][2]string{
		"a policy":  {`when { context.present }`, `when { context.paired }`},
		"a member":  {`"user:alice"`, `"user:alina"`},
		"a default": {`ceiling.channel`, `ceiling.chanel`},
		"a setting": {`"allow_sensitive_tools":false`, `"allow_sensitive_tools":true`},
		"the form":  {`palyra.policy-inputs/v1`, `palyra.policy-inputs/v2`},
		"no policy": {`forbid(principal`, `forbid(principle`},
	} {
		changed := strings.ReplaceAll(string(inputs), change[0], change[1])
		if changed == string(inputs) {
			t.Fatalf("%s: nothing was changed", name)
		}
		if _, err := policy.Restore([]byte(changed), set.SnapshotDigest()); reason.Of(err) != reason.VerificationFailed {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := policy.Restore([]byte("{"), set.SnapshotDigest()); err == nil {
		t.Error("half a document was restored")
	}
}
