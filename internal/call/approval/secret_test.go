package approval_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra/internal/call/approval"
	"palyra/internal/call/approval/approvaltest"
	"palyra/internal/core/must"
)

func TestSecretsAreNotInTheRecord(t *testing.T) {
	t.Parallel()
	d := approvaltest.NewDesk(t)
	_, rec := waiting(t, d, func(a *approval.Ask) {
		a.Proposal.Tool.SecretPaths = []string{"/token"}
		a.Proposal.Input = json.RawMessage(`{"token":"hunter2","url":"x"}`)
		a.Plan.Binding.Arguments = a.Proposal.Input
		a.Plan.Binding.Argv = []string{"curl", "-H", "Authorization: Bearer hunter2hunter2hunter2"}
		a.Request = json.RawMessage(`{"args":{"token":"hunter2"}}`)
	})
	stored := must.Get(d.Records.Get(t.Context(), rec.ID))(t)
	line, err := stored.Line()
	if err != nil || bytes.Contains(line, []byte("hunter2")) {
		t.Errorf("the secret is in the record: %s, %v", line, err)
	}
	if !slices.Equal(stored.Prompt.Redacted, []string{"/token"}) {
		t.Errorf("redacted %v", stored.Prompt.Redacted)
	}
	// The judge receives the full request, and the digest covers the real call.
	if string(stored.Request) != `{"args":{"token":"hunter2"}}` {
		t.Errorf("request %s", stored.Request)
	}
}

// key has the form of an AWS access key. It represents an undeclared secret.
const key = "AKIAIOSFODNN7EXAMPLE"

// formless is a secret without a known form.
const formless = "hunter2-hunter2"

// writesKey turns the ask into one that writes a file with a key in it. The key occurs in every
// place that a tool can fill.
func writesKey(a *approval.Ask) {
	a.Proposal.Tool.Name, a.Plan.Binding.Tool = "fs.write", "fs.write"
	a.Proposal.Input = json.RawMessage(`{"content":"id = ` + key + `\n","` + key + `":1,"path":".env"}`)
	b := &a.Plan.Binding
	b.Arguments = a.Proposal.Input
	b.Argv, b.Environment, b.Egress = []string{"--id=" + key}, []string{"ID=" + key}, []string{"allow", key + ".example:443"}
	b.Cwd, b.Executable.Path, b.Operands[0].Path = "default:"+key, "/bin/"+key, key
	a.Plan.Subject = "fs.write:default:" + key
	a.Plan.Preview.Summary = "Write id = " + key + " to .env."
	a.Plan.Preview.Diff = "--- a/.env\n+++ b/.env\n@@ -0,0 +1 @@\n+id = " + key + "\n"
	a.Plan.Preview.Notes = []string{key + " is new"}
	a.Request = json.RawMessage(`{"args":` + string(a.Proposal.Input) + `}`)
}

// leaks returns the places where the key is readable.
func leaks(t *testing.T, d *approvaltest.Desk, shown approval.Record) []string {
	t.Helper()
	var where []string
	look := func(place string, value any) {
		text := must.Get(json.Marshal(value))(t)
		if bytes.Contains(text, []byte(key)) || bytes.Contains(text, []byte(formless)) {
			where = append(where, place)
		}
	}
	list, _, err := d.Records.List(t.Context(), approval.Filter{})
	look("list", list)
	stored, getErr := d.Records.Get(t.Context(), shown.ID)
	look("record", stored)
	look("observer", shown)
	_, exportErr := d.Records.Export(t.Context(), approval.Filter{}, whole, func(line []byte) error { look("export", string(line)); return nil })
	ended := errors.New("seen")
	watchErr := d.Records.Watch(t.Context(), 0, nil, func(r approval.Record) error { look("watch", r); return ended })
	if err := errors.Join(err, getErr, exportErr); err != nil || !errors.Is(watchErr, ended) {
		t.Fatal(err, watchErr)
	}
	for _, e := range d.Store.Events() {
		look(string(e.Code), e.Payload)
	}
	grants, _, err := d.Grants.List(t.Context(), approval.GrantFilter{})
	if look("grants", grants); err != nil {
		t.Fatal(err)
	}
	return where
}

func TestKeysAreRedacted(t *testing.T) {
	t.Parallel()
	d := approvaltest.NewDesk(t)
	p, rec := waiting(t, d, writesKey)
	decide(t, d, alice, rec.ID, approval.Ballot{Allow: true, Scope: approval.Timeboxed, TTL: time.Hour, Match: approval.MatchSubject})
	out := <-p.Done
	must.Do(t, errors.Join(out.Err, d.Requests.Consume(t.Context(), out.Answer)))
	// A second ask makes the prompt display the difference from the last one.
	_, rec = waiting(t, d, writesKey, func(a *approval.Ask) { a.Plan.Binding.Cwd = "default:other/" + key })
	if where := leaks(t, d, rec); len(where) > 0 {
		t.Errorf("the key is in %v", where)
	}
	if got := rec.Prompt.Diff; !strings.HasSuffix(got, "+id = [redacted]\n") {
		t.Errorf("diff %q", got)
	}
	if !slices.ContainsFunc(rec.Prompt.Notes, func(n string) bool { return strings.Contains(n, "looks like a secret") }) {
		t.Errorf("the notes do not say that something is hidden: %q", rec.Prompt.Notes)
	}
	if len(rec.Prompt.Differs) != 1 || rec.Prompt.Differs[0].Field != "cwd" {
		t.Errorf("differs %v", rec.Prompt.Differs)
	}
	// A prompt without a secret has no such note.
	_, plain := waiting(t, d)
	if len(plain.Prompt.Notes) != 0 {
		t.Errorf("notes of a call without a secret: %q", plain.Prompt.Notes)
	}
}

// Negative control: a secret without a known form is not redacted, and leaks finds it.
func TestLeakCheckFindsLeaks(t *testing.T) {
	t.Parallel()
	d := approvaltest.NewDesk(t)
	_, rec := waiting(t, d, func(a *approval.Ask) {
		writesKey(a)
		a.Plan.Preview.Summary = "Write " + formless + " to .env."
	})
	want := []string{"list", "record", "observer", "export", "watch", "PAL-A100"}
	if got := leaks(t, d, rec); !slices.Equal(got, want) {
		t.Errorf("seen in %v, want %v", got, want)
	}
}

// A prompt that was changed after NewPrompt is redacted by the desk.
func TestDeskRedactsPrompts(t *testing.T) {
	t.Parallel()
	d := approvaltest.NewDesk(t)
	ask := approvaltest.Ask(t)
	ask.Prompt.Summary = "with " + key
	ask.Prompt.Why = []approval.Cause{{PolicyID: "p", Condition: `when { context.args.id == "` + key + `" }`}}
	p := approvaltest.Resolve(d.Desk, ask)
	rec := <-p.Records
	if where := leaks(t, d, rec); len(where) > 0 {
		t.Errorf("the key is in %v", where)
	}
}

// A subject that contains a key is stored without it and still distinguishes calls.
func TestSubjectWithKey(t *testing.T) {
	t.Parallel()
	d := approvaltest.NewDesk(t)
	subject := func(k string) func(*approval.Ask) {
		return func(a *approval.Ask) { otherArguments(a); a.Plan.Subject = "http.fetch:" + k }
	}
	mintGrant(t, d, approval.Ballot{Allow: true, Scope: approval.Session, Match: approval.MatchSubject}, subject(key))
	again := func(a *approval.Ask) { subject(key)(a); a.Plan.Binding.Cwd = "default:sub" }
	if !found(t, d, approvaltest.Ask(t, again)) {
		t.Error("the grant does not cover its own subject")
	}
	if found(t, d, approvaltest.Ask(t, subject("AKIAIOSFODNN7EXAMPLF"))) {
		t.Error("the grant covers a subject with another key")
	}
}

// Every closed record has lost its request, which contains the plaintext arguments.
func TestClosedRecordHasNoRequest(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for state, end := range map[approval.State]func(*approvaltest.Desk, approval.Answer, string) error{
		approval.Consumed: func(d *approvaltest.Desk, a approval.Answer, _ string) error { return d.Requests.Consume(ctx, a) },
		approval.Revoked: func(d *approvaltest.Desk, _ approval.Answer, id string) error {
			_, err := d.Records.Revoke(ctx, alice, id, "")
			return err
		},
		approval.Expired: func(d *approvaltest.Desk, _ approval.Answer, _ string) error { return d.Records.MarkRunsGone(ctx) },
	} {
		d := approvaltest.NewDesk(t)
		a := allowed(t, d, yes)
		if rec := wantState(t, d.Desk, a.ApprovalID(), approval.Allowed); len(rec.Request) == 0 {
			t.Error("an allowed record has lost its request")
		}
		must.Do(t, end(d, a, a.ApprovalID()))
		if rec := wantState(t, d.Desk, a.ApprovalID(), state); rec.Request != nil {
			t.Errorf("%s: the request is still there: %s", state, rec.Request)
		}
	}
	for state, end := range map[approval.State]func(*approvaltest.Desk, string) error{
		approval.Denied: func(d *approvaltest.Desk, id string) error {
			_, err := d.Votes.Decide(ctx, alice, id, no)
			return err
		},
		approval.Cancelled: func(d *approvaltest.Desk, id string) error {
			_, err := d.Records.Cancel(ctx, alice, id, "")
			return err
		},
	} {
		d := approvaltest.NewDesk(t)
		_, rec := waiting(t, d)
		if rec := wantState(t, d.Desk, rec.ID, approval.Pending); len(rec.Request) == 0 {
			t.Error("a pending record has no request")
		}
		must.Do(t, end(d, rec.ID))
		if rec := wantState(t, d.Desk, rec.ID, state); rec.Request != nil {
			t.Errorf("%s: the request is still there: %s", state, rec.Request)
		}
	}
}
