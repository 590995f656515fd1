package cli

import (
	"strings"
	"testing"
)

func TestWorkspaceUndo(t *testing.T) {
	w := newWorld(t)
	w.populate()
	for _, test := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"by the beginning of the id", []string{"undo", changeSetID[:8], "--reason", "wrong"}, 0, "undoes"},
		{"in the workspace named", []string{"undo", changeSetID, "-w", "demo"}, 0, "undoes"},
		{"in another workspace", []string{"undo", changeSetID, "-w", "docs"}, 1, "no change set"},
		{"unknown", []string{"undo", "01UNKN0WN00000000000000000"}, 1, "no change set"},
		{"no id at all", []string{"undo", "../x"}, 2, "not the id"},
		{"show hides nothing", []string{"show", changeSetID}, 0, "protected: runner"},
		{"changes of one", []string{"changes", "docs"}, 0, "no change sets are kept"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := w.run(append([]string{"workspace"}, test.args...)...)
			if r.code != test.code || !strings.Contains(r.out+r.err, test.want) {
				t.Errorf("exit %d, want %d with %q:\n%s%s", r.code, test.code, test.want, r.out, r.err)
			}
			if strings.Contains(r.out, "\x1b[2J") {
				t.Error("a control sequence of a diff reached the terminal")
			}
		})
	}
	if got := len(w.gateway.undone); got != 2 || w.gateway.undone[0].GetReason() != "wrong" {
		t.Errorf("%d were undone: %v", got, w.gateway.undone)
	}
}
