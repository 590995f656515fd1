package people_test

import (
	"strings"
	"testing"

	"palyra/internal/cli/clitest"
	"palyra/internal/cli/printer"
)

// TestIrreversibleOperations: an irreversible operation requires --yes without a terminal, and
// the answer y on one.
func TestIrreversibleOperations(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"devices", "revoke", "01DEVICE000000000000000000"}, {"members", "remove", "claude"}} {
		revoked := func(w *clitest.World) bool {
			return len(w.Gateway.ChangedMembers) > 0 || w.Gateway.Grants["01GRANT0000000000000000000"].GetRevokedAt() != nil || w.Gateway.Devices[0].GetRevokedAt() != nil
		}
		for _, c := range []struct {
			s    printer.Streams
			args []string
			code int
			done bool
		}{
			{printer.Streams{}, nil, 2, false},
			{clitest.Typing("n\n"), nil, 1, false},
			{clitest.Typing("\n"), nil, 1, false},
			{clitest.Typing("y\n"), nil, 0, true},
			{printer.Streams{}, []string{"--yes"}, 0, true},
			{clitest.Typing("y\n"), []string{"--no-input"}, 2, false},
		} {
			w := clitest.NewWorld(t)
			w.Populate()
			r := w.With(c.s, append(append([]string{}, args...), c.args...)...)
			w.Want(r, c.code)
			if revoked(w) != c.done {
				t.Errorf("%v %v: done %v, want %v", args, c.args, revoked(w), c.done)
			}
		}
	}
}

// A revocation that takes a permission from a member names the loss and requires a second
// confirmation, also with --yes.
func TestLossIsNamedFirst(t *testing.T) {
	t.Parallel()
	const loss = "user:eve can then answer no approval any more"
	for _, c := range []struct {
		s    printer.Streams
		args []string
		code int
		done bool
	}{
		{clitest.Typing("y\nn\n"), nil, 1, false},
		{clitest.Typing("y\n\n"), nil, 1, false},
		{clitest.Typing("y\ny\n"), nil, 0, true},
		{printer.Streams{}, []string{"--yes"}, 0, true},
	} {
		w := clitest.NewWorld(t)
		w.Populate()
		w.Gateway.Loss = loss
		r := w.With(c.s, append([]string{"devices", "revoke", "01DEVICE000000000000000000"}, c.args...)...)
		w.Want(r, c.code)
		if !strings.Contains(r.Err, "warning: "+loss) {
			t.Errorf("the loss is not named: %s", r.Err)
		}
		if done := w.Gateway.Devices[0].GetRevokedAt() != nil; done != c.done {
			t.Errorf("%v: done %v, want %v", c.args, done, c.done)
		}
	}
}

// A change of a member that causes a loss names the loss and requires a confirmation; without a
// terminal it requires --yes.
func TestLossOfMembersIsNamedFirst(t *testing.T) {
	t.Parallel()
	const loss = "user:ada can then answer no approval any more"
	for _, args := range [][]string{
		{"members", "roles", "ada", "--remove", "owner", "--add", "auditor"}, {"members", "disable", "ada"}, {"members", "enable", "ada"},
	} {
		for _, c := range []struct {
			s    printer.Streams
			args []string
			code int
		}{
			{printer.Streams{}, nil, 2},
			{clitest.Typing("n\n"), nil, 1},
			{clitest.Typing("y\n"), nil, 0},
			{printer.Streams{}, []string{"--yes"}, 0},
		} {
			w := clitest.NewWorld(t)
			w.Gateway.Loss = loss
			r := w.With(c.s, append(append([]string{}, args...), c.args...)...)
			w.Want(r, c.code)
			if !strings.Contains(r.Err, loss) {
				t.Errorf("%v: the loss is not named: %s", args, r.Err)
			}
		}
	}
}

func TestMembersMistakes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"members", "roles", "ada"}, 2, "--add ROLE"},
		{[]string{"members", "add", "eve"}, 2, "--role operator"},
		{[]string{"members", "show", "mallory"}, 1, "members list --all"},
		{[]string{"members", "disable", "mallory"}, 1, "the member mallory does not exist"},
	} {
		w := clitest.NewWorld(t)
		r := w.Run(c.args...)
		w.Want(r, c.code)
		if !strings.Contains(r.Err, c.says) {
			t.Errorf("%v says %s", c.args, r.Err)
		}
	}
}

// The status of a gateway whose sandboxes fail is degraded, with the reason.
func TestDegraded(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Gateway.Degraded = []string{"programs cannot run: /dev/null is a regular file"}
	r := w.Run("status")
	w.Want(r, 0)
	for _, text := range []string{"state         degraded", "programs cannot run: /dev/null is a regular file"} {
		if !strings.Contains(r.Out, text) {
			t.Errorf("%q is not said:\n%s", text, r.Out)
		}
	}
}

func TestConfigMistakes(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Config("max_cals_per_run = 7\n")
	r := w.Run("freeze")
	w.Want(r, 0)
	if !strings.Contains(r.Err, "palyra config check") || strings.Count(r.Err, "\n") != 1 {
		t.Error(r.Err)
	}
	// The client's settings in the file apply, also if other settings in it are invalid.
	w.Config("max_cals_per_run = 7\n[client]\naddress = \"" + clitest.ClosedAddress + "\"\n")
	w.Want(w.Run("status"), 6)
	w.Config("[client]\nadress = \"127.0.0.1:1\"\n")
	w.Want(w.Run("status"), 2)
}
