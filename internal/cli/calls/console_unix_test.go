//go:build unix

package calls_test

import (
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/clitest"
	"palyra/internal/cli/printer"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/identity/passkey"
)

// opener is an xdg-open that records its arguments and the content of the given file.
const opener = "#!/bin/sh\necho \"$@\" > \"$0.args\"\ncat \"$1\" > \"$0.page\"\n"

// noGood are passkeys that are not accepted: one that is not confirmed, and one for another
// name of the console.
var noGood = []passkey.Passkey{{ID: []byte("waits"), RPID: "palyra-test.localhost", Waits: true}, {ID: []byte("lost"), RPID: "elsewhere.localhost"}}

// voted adds a vote from the console to the approval.
func voted(w *clitest.World, by string, allow bool, state palyrav1.ApprovalState) {
	w.Gateway.Mu.Lock()
	defer w.Gateway.Mu.Unlock()
	v := w.Gateway.Approvals[clitest.ApprovalID]
	v.Votes = append(v.Votes, &palyrav1.ApprovalVote{User: by, Allow: allow, Present: true, Surface: "console"})
	v.State = state
}

// TestPresentInTheConsole: without a presence key, the user votes in the console, where the
// page of the approval opens with the vote filled in. Other users cannot read the link, and the
// command prints the result.
//
// Not parallel: it sets PATH of the process, in which the browser is searched.
func TestPresentInTheConsole(t *testing.T) {
	dir := t.TempDir()
	fake := filepath.Join(dir, "xdg-open")
	must.Do(t, os.WriteFile(fake, []byte(opener), 0o755))
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	const allowed, denied, pending = palyrav1.ApprovalState_APPROVAL_STATE_ALLOWED, palyrav1.ApprovalState_APPROVAL_STATE_DENIED, palyrav1.ApprovalState_APPROVAL_STATE_PENDING
	for name, c := range map[string]struct {
		args  []string
		by    string
		allow bool
		state palyrav1.ApprovalState
		exit  int
		says  string
	}{
		"as it was filled in": {nil, "user:ada", true, allowed, 0, "state         allowed"},
		"others are needed":   {nil, "user:ada", true, pending, 0, "state         pending"},
		"otherwise":           {nil, "user:ada", false, denied, 0, "you gave a different answer"},
		"by another user":     {nil, "user:bob", true, allowed, reason.Lookup(reason.ApprovalConflict).Exit, "is already allowed, by another user"},
		"by a printed link":   {[]string{"--no-browser"}, "user:ada", true, allowed, 0, "state         allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			w := clitest.NewWorld(t)
			w.Env["XDG_RUNTIME_DIR"] = filepath.Join(dir, "run")
			w.Gateway.Passkeys = append(slices.Clone(noGood), passkey.Passkey{ID: []byte("counts"), RPID: "palyra-test.localhost"})
			w.Pending()
			w.Gateway.Approvals[clitest.ApprovalID].PresenceWanted = true
			w.Gateway.Approvals[clitest.ApprovalID].Votes = nil
			begun := "opening the approval"
			if c.args != nil {
				begun = "#token="
			}
			watch := clitest.NewWatcher(begun)
			go func() { <-watch.Seen; voted(w, c.by, c.allow, c.state) }()
			r := w.With(printer.Streams{Err: watch}, append(clitest.DecideArgs("--allow", "timeboxed", "--for", "30m", "--match", "exact", "--present"), c.args...)...)
			w.Want(r, c.exit)
			if !strings.Contains(r.Out+r.Err, c.says) || len(w.Gateway.Votes) != 0 {
				t.Errorf("says %s%s after the votes %v", r.Out, r.Err, w.Gateway.Votes)
			}
			link := r.Err
			if c.args == nil {
				args := strings.TrimSpace(string(must.Get(os.ReadFile(fake + ".args"))(t)))
				link = strings.ReplaceAll(string(must.Get(os.ReadFile(fake+".page"))(t)), "&amp;", "&")
				if strings.Contains(args, "T0KEN") || strings.Contains(r.Out+r.Err, "T0KEN") {
					t.Errorf("the link is in %q, %s%s", args, r.Out, r.Err)
				}
				if _, err := os.Stat(args); !os.IsNotExist(err) {
					t.Errorf("the page is still there: %v", err)
				}
			}
			_, fragment, _ := strings.Cut(link, clitest.ConsoleLink+"&")
			fragment, _, _ = strings.Cut(strings.Fields(fragment + " ")[0], `"`)
			said := must.Get(url.ParseQuery(fragment))(t)
			want := `{"approval":"` + clitest.ApprovalID + `","digest":"` + clitest.SomeApproval().GetCallDigest() + `","allow":true,"scope":3,"match":1,"ttl_ms":1800000}`
			if said.Get("to") != "/approvals/"+clitest.ApprovalID || said.Get("answer") != want {
				t.Errorf("the page asks for %v", said)
			}
		})
	}
	w := clitest.NewWorld(t)
	w.Pending()
	w.Want(w.Run(clitest.DecideArgs("--allow", "once", "--no-browser")...), 2)
	// Without a valid passkey the console is not opened.
	w.Gateway.Passkeys = noGood
	if r := w.With(there(""), clitest.DecideArgs("--allow", "once", "--present")...); r.Code != 3 || !strings.Contains(r.Err, "palyra key presence --passphrase") {
		t.Errorf("without a passkey: %d, %s", r.Code, r.Err)
	}
}
