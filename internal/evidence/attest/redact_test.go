package attest_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/attest"
)

// TestSignedWithoutKeys: text in the form of a key is redacted before it is signed. A later
// redaction of the envelope would break its signature.
func TestSignedWithoutKeys(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	n := newNotary(t, a)
	key := "ghp_" + strings.Repeat("aB3", 12)
	x := execution()
	x.Operands[0].Path = "notes/" + key
	env := must.Get(n.Sign(t.Context(), x))(t)
	var signed struct {
		Payload string `json:"payload"`
	}
	must.Do(t, json.Unmarshal(env.JSON, &signed))
	payload := string(must.Get(base64.StdEncoding.DecodeString(signed.Payload))(t))
	if strings.Contains(payload, key) || !strings.Contains(payload, "notes/"+tool.Redaction) {
		t.Errorf("signed is %s", payload)
	}
	kept, found, err := tool.Redact(env.JSON, nil)
	if err != nil || string(kept) != string(env.JSON) || len(found) > 0 {
		t.Errorf("a journal redacts %v of the envelope: %v", found, err)
	}
	if _, err := attest.Verify(env.JSON, n.KeySet()); err != nil {
		t.Error(err)
	}
}
