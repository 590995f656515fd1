package approval_test

import (
	"strings"
	"testing"

	"palyra/internal/call/approval"
	"palyra/internal/call/approval/approvaltest"
	"palyra/internal/core/must"
	"palyra/internal/core/text"
)

func TestVisible(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"plain é 漢字 🙂\n\tok":    "plain é 漢字 🙂\n\tok",
		"a\u202eb\u2066c":       `a\u{202e}b\u{2066}c`,
		"zero\u200bwidth\ufeff": `zero\u{200b}width\u{feff}`,
		"\x1b[31mred\x00\r":     `\u{1b}[31mred\u{0}\u{d}`,
		"tag\U000e0041":         `tag\u{e0041}`,
		"sep\u2028\u0085":       `sep\u{2028}\u{85}`,
		"bad\xffbytes":          `bad\x{ff}bytes`,
		"fill\u3164er":          `fill\u{3164}er`,
	} {
		if got := text.Visible(content); got != want {
			t.Errorf("Visible(%q) = %q, want %q", content, got, want)
		}
	}
}

func FuzzVisible(f *testing.F) {
	f.Add("a\u202e\xff\x1b")
	f.Fuzz(func(t *testing.T, content string) {
		got := text.Visible(content)
		if again := text.Visible(got); again != got {
			t.Errorf("%q still hides something: %q", got, again)
		}
	})
}

func TestPromptShowsEverything(t *testing.T) {
	t.Parallel()
	d := approvaltest.NewDesk(t)
	before := allowed(t, d, yes)
	must.Do(t, d.Requests.Consume(t.Context(), before))
	long := strings.Repeat("x", 200_000)
	_, rec := waiting(t, d, otherArguments, func(a *approval.Ask) {
		a.Proposal.Input = []byte(`{"argv":["make","install"],"long":"` + long + `"}`)
		a.Plan.Binding.Arguments = a.Proposal.Input
		a.Plan.Preview.Summary, a.Plan.Preview.Diff = "evil\u202esummary", "+line\x1b[2K"
	})
	p := rec.Prompt
	if p.Title != "Run a program" || p.Severity != "medium" || p.Runs.Executable.Path != "/usr/bin/make" || p.Runs.Tier != "c" {
		t.Errorf("prompt %+v", p.Runs)
	}
	if !strings.Contains(string(p.Arguments), long) {
		t.Error("the arguments are cut")
	}
	if p.Summary != `evil\u{202e}summary` || p.Diff != `+line\u{1b}[2K` {
		t.Errorf("summary %q, diff %q", p.Summary, p.Diff)
	}
	if !p.LastAllowed || len(p.Differs) != 2 || p.Differs[0].Field != "arguments" || p.Differs[1].Field != "argv" {
		t.Errorf("differs %v", p.Differs)
	}
	if len(p.Scopes) != 7 || p.Scopes[6].Permission != approval.PermissionGrantBroad || !strings.Contains(p.Scopes[0].Matcher, rec.CallDigest) {
		t.Errorf("scopes %+v", p.Scopes)
	}
	if rec.SubjectType != approval.SubjectTool || rec.SubjectID != "process.run:/usr/bin/make@default" {
		t.Errorf("subject %s %s", rec.SubjectType, rec.SubjectID)
	}
}
