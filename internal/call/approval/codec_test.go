package approval_test

import (
	"testing"

	"palyra/internal/call/approval"
	"palyra/internal/core/must"
)

// TestSealed: prompts with file content are sealed in the store, also in a question about the
// gateway that has a workspace. Decoding only the outline of a record preserves this.
func TestSealed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		subject   approval.SubjectType
		workspace string
		sealed    bool
	}{
		{approval.SubjectTool, "", true},
		{approval.SubjectGatewayChange, "", false},
		{approval.SubjectDevicePairing, "", false},
		{approval.SubjectGatewayChange, "default", true},
	} {
		r := approval.Record{SubjectType: c.subject, Prompt: approval.Prompt{Workspace: c.workspace, Diff: "+secret"}}
		if r.Sealed() != c.sealed {
			t.Errorf("%s of workspace %q: sealed %t", c.subject, c.workspace, r.Sealed())
		}
		text, err := approval.EncodeOutline(r)
		must.Do(t, err)
		outline, err := approval.DecodeRecord(text, nil)
		if err != nil || outline.Sealed() != c.sealed || outline.Prompt.Diff != "" {
			t.Errorf("%s of workspace %q, its outline: sealed %t, %q, %v", c.subject, c.workspace, outline.Sealed(), outline.Prompt.Diff, err)
		}
	}
}
