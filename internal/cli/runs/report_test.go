package runs_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"google.golang.org/protobuf/proto"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/clitest"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
)

// evil is text with markup for every field that a model can set.
const evil = "</pre></td></title></style><script>fetch('http://evil.test')</script><img src=x onerror=alert(1)><a href=javascript:1>x</a><!--\u202eelbisivni\u200b\x1b[2J {{.Style}}"

// reported returns a world with a run whose texts are all hostile.
func reported(t *testing.T, tamper, elsewhere bool) *clitest.World {
	t.Helper()
	w := clitest.NewWorld(t)
	j := w.Journaled()
	envelope := j.Envelopes[j.Attested(t, `{}`)]
	text, seq := slices.Clone(envelope.JSON), int64(1)
	for must.Get(j.Log.Prove(t.Context(), seq))(t).Event.Code != event.Attested || !holdsText(t, j, seq, envelope.ID) {
		seq++
	}
	if elsewhere {
		seq--
	}
	if tamper {
		at := strings.Index(string(text), `"sig":"`) + 10
		text[at] ^= 1
	}
	v := proto.CloneOf(clitest.SomeApproval())
	v.State = palyrav1.ApprovalState_APPROVAL_STATE_ALLOWED
	v.Prompt.Summary, v.Prompt.ArgumentsJson = evil, must.Get(json.Marshal(map[string]string{"patch": evil}))(t)
	v.Votes = []*palyrav1.ApprovalVote{{User: "user:ada", Allow: true, Surface: "cli", Reason: evil, ShownDigest: v.GetCallDigest()}}
	w.Gateway.Approvals[v.GetApprovalId()] = v
	w.Gateway.Runs.Script = func(r *clitest.Run) {
		r.Turn(evil, [3]string{"A", evil, string(v.Prompt.ArgumentsJson)})
		r.Propose("A", evil)
		decision := clitest.Allowed()
		d := decision.GetDecision()
		d.ApprovalId, d.Message = v.GetApprovalId(), evil
		d.Determining = []*palyrav1.Determining{{PolicyId: "team.ask", File: "10-team.cedar", Line: 3, Effect: "permit", Reason: evil}}
		r.Call("A", decision)
		r.Call("A", clitest.Finished("succeeded", "", `{}`))
		r.Call("A", &palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_Attestation{Attestation: &palyrav1.ToolAttestation{
			AttestationId: envelope.ID, EnvelopeJson: text, JournalSeq: seq,
		}}})
		r.Turn(evil)
	}
	w.Want(w.Run("run", evil), 0)
	return w
}

func holdsText(t *testing.T, j *clitest.Journal, seq int64, text string) bool {
	return strings.Contains(string(must.Get(j.Log.Prove(t.Context(), seq))(t).Event.Payload), text)
}

// A gateway that returns another event for an attestation is detected.
func TestReportOfAnotherEvent(t *testing.T) {
	t.Parallel()
	w := reported(t, false, true)
	r := w.Run("runs", "report", clitest.RunID)
	if r.Code != 8 || !strings.Contains(r.Out, "which is not the attestation of call 1") {
		t.Errorf("exit code %d: %s\n%s", r.Code, r.Err, r.Out)
	}
}

// dangers returns the elements and attributes of a page that run, fetch or hide something.
func dangers(t *testing.T, page string) (list []string) {
	t.Helper()
	for n := range must.Get(html.Parse(strings.NewReader(page)))(t).Descendants() {
		if n.Type == html.CommentNode {
			list = append(list, "a comment")
		}
		if n.Type != html.ElementNode {
			continue
		}
		if slices.Contains([]string{"script", "img", "a", "link", "iframe", "object", "embed", "base", "form", "svg", "math", "video", "audio", "input"}, n.Data) {
			list = append(list, n.Data)
		}
		for _, at := range n.Attr {
			if strings.HasPrefix(at.Key, "on") || at.Key == "style" || at.Key == "src" || at.Key == "href" || at.Key == "http-equiv" && at.Val != "Content-Security-Policy" {
				list = append(list, n.Data+" "+at.Key)
			}
		}
	}
	for _, r := range page {
		if r != '\n' && (r < ' ' || r == 0x7f || r >= 0x200b && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069) {
			list = append(list, "an unseen character")
		}
	}
	return list
}

func elements(t *testing.T, page, name string) (list []*html.Node) {
	t.Helper()
	for n := range must.Get(html.Parse(strings.NewReader(page)))(t).Descendants() {
		if n.Type == html.ElementNode && n.Data == name {
			list = append(list, n)
		}
	}
	return list
}

// Text of a model never becomes markup of the page. Control: the same text without escaping.
func TestReportIsInert(t *testing.T) {
	t.Parallel()
	w := reported(t, false, false)
	r := w.Run("runs", "report", clitest.RunID)
	w.Want(r, 0)
	if found := dangers(t, r.Out); len(found) > 0 {
		t.Errorf("the report has %q", found)
	}
	for _, want := range []string{"script", "img", "a", "img onerror", "an unseen character"} {
		if found := dangers(t, "<pre>"+evil); !slices.Contains(found, want) {
			t.Errorf("the control has no %s: %q", want, found)
		}
	}
	if strings.Count(r.Out, "&lt;script&gt;") < 6 || !strings.Contains(r.Out, `\u{202e}`) || !strings.Contains(r.Out, `{{.Style}}`) {
		t.Errorf("hostile text is not shown as it is:\n%s", r.Out)
	}
}

// The page's content security policy permits only its own style.
func TestReportHasItsOwnPolicy(t *testing.T) {
	t.Parallel()
	w := reported(t, false, false)
	page := w.Run("runs", "report", clitest.RunID, "-o", "html").Out
	styles := elements(t, page, "style")
	if len(styles) != 1 || !strings.Contains(styles[0].FirstChild.Data, "@media print") {
		t.Fatalf("%d styles", len(styles))
	}
	sum := sha256.Sum256([]byte(styles[0].FirstChild.Data))
	want := "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'"
	found := false
	for _, n := range elements(t, page, "meta") {
		for _, at := range n.Attr {
			found = found || at.Key == "content" && at.Val == want
		}
	}
	if !found {
		t.Errorf("no policy %s in %s", want, page[:800])
	}
}

// The report has the evidence, verified, and the commands that verify it.
func TestReportHasTheEvidence(t *testing.T) {
	t.Parallel()
	w := reported(t, false, false)
	path := filepath.Join(w.Home, "run.html")
	w.Want(w.Run("runs", "report", clitest.RunID, "--out", path), 0)
	page := string(must.Get(os.ReadFile(path))(t))
	clitest.InOrder(t, page, []string{
		"permit team.ask (10-team.cedar:3)", "Approval " + clitest.ApprovalID, "yes", "user:ada", "verified, signed by", "digest of arguments", "(PAL-X100) is in the signed journal, verified",
		"What verifies it", "palyra journal verify journal.ndjson --keys keys.json", "palyra attest show ", "palyra journal prove ",
	})
	if strings.Contains(page, "Does not verify") {
		t.Error(page)
	}
	if r := w.Run("runs", "report", clitest.RunID, "--out", path); r.Code != 2 {
		t.Errorf("a file that exists: %d", r.Code)
	}
	w.Want(w.Run("runs", "report", clitest.RunID, "-o", "yaml"), 2)
	var doc struct {
		Kind  string
		Calls []struct {
			Approvals   []struct{ Votes []struct{ User string } }
			Attestation struct {
				Verified bool
				Digests  map[string]string
			}
			Inclusion struct{ Seq int64 }
		}
		NotVerified []string `json:"not_verified"`
	}
	must.Do(t, json.Unmarshal([]byte(w.Run("runs", "report", clitest.RunID, "-o", "json").Out), &doc))
	if c := doc.Calls[0]; doc.Kind != "RunReport" || len(c.Approvals) != 1 || c.Approvals[0].Votes[0].User != "user:ada" || !c.Attestation.Verified || c.Attestation.Digests["result"] == "" || c.Inclusion.Seq == 0 {
		t.Errorf("%+v", doc)
	}
}

// A changed attestation is reported as such, and the command fails.
func TestReportOfATamperedAttestation(t *testing.T) {
	t.Parallel()
	w := reported(t, true, false)
	r := w.Run("runs", "report", clitest.RunID)
	if r.Code != 8 || !strings.Contains(r.Out, "Does not verify") || !strings.Contains(r.Out, "not verified") || strings.Contains(r.Out, "digest of arguments") || strings.Contains(r.Out, "PAL-X100) is in the signed") {
		t.Errorf("exit code %d: %s\n%s", r.Code, r.Err, r.Out)
	}
}

// Missing evidence is named in the report.
func TestReportNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	w := reported(t, false, false)
	clear(w.Gateway.Approvals)
	r := w.Run("runs", "report", clitest.RunID)
	w.Want(r, 0)
	if !strings.Contains(r.Out, "Not in this report") || !strings.Contains(r.Out, "approval "+clitest.ApprovalID+" of call 1") {
		t.Error(r.Out)
	}
}
