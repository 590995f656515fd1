package calls_test

import (
	"context"
	"strings"
	"testing"

	"palyra/internal/cli/clitest"
	"palyra/internal/cli/printer"
)

// TestWatch: rows are printed as they arrive, and an interrupt ends the command with exit code
// 0.
func TestWatch(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Populate()
	ctx, cancel := context.WithCancel(context.Background())
	watch := clitest.NewWatcher("01APPROVA00000000000000000")
	go func() { <-watch.Seen; cancel() }()
	r := w.Within(ctx, printer.Streams{Out: watch}, "approvals", "watch", "-o", "name")
	w.Want(r, 0)
	if r.Out != clitest.ApprovalID+"\n01APPROVA00000000000000000\n" {
		t.Errorf("%q", r.Out)
	}
}

func TestExportApprovals(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	r := w.Run("approvals", "export", "--format", "json")
	w.Want(r, 0)
	if !strings.HasSuffix(r.Out, `"format":"EXPORT_FORMAT_JSON"}`+"\n") {
		t.Error(r.Out)
	}
	if r := w.Run("approvals", "export", "--format", "csv"); !strings.Contains(r.Out, "EXPORT_FORMAT_CSV") {
		t.Error(r.Out)
	}
	w.Want(w.Run("approvals", "export", "--format", "xml"), 2)
}

func TestIDs(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Populate()
	for _, c := range []struct {
		id   string
		code int
		says string
	}{
		{clitest.ApprovalID, 0, ""},
		{strings.ToLower(clitest.ApprovalID), 0, ""},
		{"01approva1", 0, ""},
		{"01APPROVA", 2, "2 approvals begin with it"},
		{"01APP", 2, "is not the id of any approval"},
		{"01APP/", 2, "is not the id of any approval"},
		{"01ZZZZZZ", 1, "no approval has an id that begins with"},
	} {
		if r := w.Run("approvals", "show", c.id); r.Code != c.code || !strings.Contains(r.Err, c.says) {
			t.Errorf("%s: exit code %d: %s", c.id, r.Code, r.Err)
		}
	}
	w.Want(w.Run("grants", "revoke", "01grant"), 0)
}
