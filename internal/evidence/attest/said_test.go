package attest_test

import (
	"reflect"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/attest"
)

// TestStatementOfAnEnvelope: the statement that the notary keeps equals the statement in the
// envelope's text, even where that differs from the notary's input.
func TestStatementOfAnEnvelope(t *testing.T) {
	t.Parallel()
	n := newNotary(t, newAuthority(t))
	for name, change := range map[string]func(*attest.Execution){
		"as it is": func(*attest.Execution) {},
		"little": func(x *attest.Execution) {
			x.Report = tool.Report{Outcome: tool.Failed, Executor: tool.ExecutorInfo{Name: tool.Builtin}}
		},
		"redacted":      func(x *attest.Execution) { x.Report.Executor.Backend = "ghp_" + strings.Repeat("aB3", 12) },
		"no UTF-8":      func(x *attest.Execution) { x.Report.Executor.Backend = "b\xffc" },
		"a replacement": func(x *attest.Execution) { x.Report.Executor.Backend = "b\uFFFDc" },
	} {
		x := execution()
		change(&x)
		env := must.Get(n.Sign(t.Context(), x))(t)
		got, want := must.Get(env.Statement())(t), must.Get(attest.Read(env.JSON))(t)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: it says\n%+v\nand its text\n%+v", name, got, want)
		}
		stored := attest.Envelope{ID: env.ID, JSON: env.JSON, SHA256: env.SHA256}
		if got := must.Get(stored.Statement())(t); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: stored, it says\n%+v\nand its text\n%+v", name, got, want)
		}
	}
	if _, err := (attest.Envelope{JSON: []byte("{}")}).Statement(); err == nil {
		t.Error("an envelope that is none has a statement")
	}
}
