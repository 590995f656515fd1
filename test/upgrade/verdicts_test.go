//go:build linux

package upgrade

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/must"
	"palyra/test/upgrade/upgradetest"
)

// recorded has the verdicts of the policies of a release's documents and profiles about the
// calls below: verdicts.json.
type recorded struct {
	Policies []source `json:"policies"`
	// Verdicts is indexed by policy and call.
	Verdicts map[string]map[string]verdict `json:"verdicts"`
}

// source is a policy that a user may have copied.
type source struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// verdict is a verdict as palyra displays it.
type verdict struct {
	Verdict     string   `json:"verdict"`
	Reason      string   `json:"reason,omitempty"`
	Missing     string   `json:"missing,omitempty"`
	Determining []string `json:"determining,omitempty"`
	// Refused is the code of the error if the policies could not be evaluated.
	Refused string `json:"refused,omitempty"`
}

// documented finds the policies in the documents and profiles of a release.
func documented(t *testing.T, repository string) []source {
	t.Helper()
	list := []source{{Name: "none"}}
	for _, name := range must.Get(filepath.Glob(filepath.Join(repository, "docs", "*.md")))(t) {
		rest := string(must.Get(os.ReadFile(name))(t))
		for n := 1; ; n++ {
			_, after, found := strings.Cut(rest, "\n```cedar\n")
			if !found {
				break
			}
			text, below, _ := strings.Cut(after, "\n```")
			list, rest = append(list, source{fmt.Sprintf("%s %d", filepath.Base(name), n), text + "\n"}), below
		}
	}
	profiles := profilesOf(t, repository)
	must.Do(t, filepath.WalkDir(profiles, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".cedar" {
			list = append(list, source{"profile " + strings.TrimPrefix(path, profiles+"/"), string(must.Get(os.ReadFile(path))(t))})
		}
		return err
	}))
	if len(list) < 20 {
		t.Fatalf("only %d policies in %s", len(list), repository)
	}
	return list
}

// profilesOf returns the directory of the profiles in the sources of a release, which may have
// a different package layout.
func profilesOf(t *testing.T, repository string) string {
	t.Helper()
	for _, dir := range []string{"internal/call/policy", "internal/policy"} {
		profiles := filepath.Join(repository, dir, "profile", "profiles")
		if _, err := os.Stat(profiles); err == nil {
			return profiles
		}
	}
	t.Fatalf("there are no profiles in %s", repository)
	return ""
}

// described are the evaluated calls, each without votes, with one vote and with two.
var described = map[string]*palyrav1.CallDescription{
	"git status": program(`["git","status"]`, `"egress":{"mode":"strict"},"exec":{"basename":"git","origin":"system","arg1":"status","line":"git status"}`),
	"git push":   program(`["git","push"]`, `"egress":{"mode":"strict"},"exec":{"basename":"git","origin":"system","arg1":"push","line":"git push"}`),
	"npm test":   program(`["npm","test"]`, `"egress":{"mode":"strict"},"exec":{"basename":"npm-cli.js","origin":"system","arg1":"test","line":"npm test"}`),
	"own":        program(`["./x"]`, `"egress":{"mode":"strict"},"exec":{"basename":"x","origin":"workspace","in_workspace":true,"line":"./x"}`),
	"make":       program(`["make"]`, `"egress":{"mode":"strict"},"exec":{"basename":"make","origin":"system","line":"make"},"workspace_mode":"direct"`),
	"reaches":    program(`["npm","install"]`, `"exec":{"basename":"npm-cli.js","origin":"system","arg1":"install","line":"npm install"},"egress":{"mode":"strict","hosts":["registry.npmjs.org:443"]}`),
	"pastes":     program(`["curl"]`, `"exec":{"basename":"curl","origin":"system","line":"curl"},"egress":{"mode":"strict","hosts":["paste.example.com:443"]}`),
	"tainted":    program(`["git","status"]`, `"egress":{"mode":"strict"},"exec":{"basename":"git","origin":"system","arg1":"status","line":"git status"},"session":{"tainted":true}`),
	"src":        {Tool: "process.run", FactsJson: []byte(`{"workspace":"default","changes":{"top":["src"]}}`)},
	"infra":      {Tool: "process.run", FactsJson: []byte(`{"workspace":"default","changes":{"top":["infra","src"]}}`)},
	"failed":     {Tool: "process.run", FactsJson: []byte(`{"workspace":"default","exit_code":1,"changes":{"top":["src"]}}`)},
	"protected":  {Tool: "process.run", FactsJson: []byte(`{"workspace":"default","changes":{"top":[".git"],"protected":[".git/hooks/pre-commit"],"classes":["git"]}}`)},
	"read":       {Tool: "fs.read", InputJson: []byte(`{"path":"a.txt"}`), FactsJson: []byte(`{"path":"a.txt","path_folded":"a.txt","hard_links":1}`)},
	"secret":     {Tool: "fs.read", InputJson: []byte(`{"path":"secrets/.ENV"}`), FactsJson: []byte(`{"path":"secrets/.ENV","path_folded":"secrets/.env","hard_links":1}`)},
	"links":      {Tool: "fs.read", InputJson: []byte(`{"path":"b.txt"}`), FactsJson: []byte(`{"path":"b.txt","path_folded":"b.txt","hard_links":2}`)},
	"write":      {Tool: "fs.write", InputJson: []byte(`{"path":"src/a.go","content":"x"}`), FactsJson: []byte(`{"path":"src/a.go","path_folded":"src/a.go"}`)},
	"write mod":  {Tool: "fs.write", InputJson: []byte(`{"path":"go.mod","content":"x"}`), FactsJson: []byte(`{"path":"go.mod","path_folded":"go.mod"}`)},
	"fetch":      {Tool: "http.fetch", InputJson: []byte(`{"url":"https://example.com/"}`), FactsJson: []byte(`{"host":"example.com"}`)},
	"echo":       {Tool: "echo", InputJson: []byte(`{"text":"x"}`)},
}

func program(argv, facts string) *palyrav1.CallDescription {
	return &palyrav1.CallDescription{
		Tool: "process.run", InputJson: []byte(`{"argv":` + argv + `}`),
		FactsJson: []byte(`{"sandbox":{"tier":"c"},` + facts + `}`),
	}
}

// judgedAt is the time of the described calls, for policies that use the time.
var judgedAt = time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)

// verdicts requests the verdict about each call under each policy from a gateway.
func verdicts(g *gateway, policies []source) map[string]map[string]verdict {
	g.T.Helper()
	local := g.as("local")
	all := map[string]map[string]verdict{}
	for _, p := range policies {
		all[p.Name] = map[string]verdict{}
		for name, description := range described {
			for votes := range 3 {
				call := proto.CloneOf(description)
				call.Principal, call.At = "user:dev", timestamppb.New(judgedAt)
				for _, user := range []string{"bob", "eve"}[:votes] {
					call.Votes = append(call.Votes, &palyrav1.DescribedVote{User: user, Surface: "cli", Paired: true})
				}
				req := &palyrav1.SimulatePolicyRequest{Call: call, Replace: true}
				if p.Text != "" {
					req.Sources = []*palyrav1.PolicySource{{Name: "own.cedar", Text: p.Text}}
				}
				all[p.Name][fmt.Sprintf("%s, %d votes", name, votes)] = local.verdict(req)
			}
		}
	}
	return all
}

func (c *client) verdict(req *palyrav1.SimulatePolicyRequest) verdict {
	res, err := c.policies.SimulatePolicy(c.g.T.Context(), req)
	if err != nil && req.GetSources() != nil {
		return verdict{Refused: code(err).String()}
	}
	must.Do(c.g.T, err)
	e := res.GetExplanation()
	v := verdict{Verdict: e.GetVerdict(), Reason: e.GetReason(), Missing: e.GetMissing()}
	for _, p := range e.GetPolicies() {
		if p.GetDetermining() {
			v.Determining = append(v.Determining, p.GetPolicyId())
		}
	}
	slices.Sort(v.Determining)
	return v
}

// changedSince gives the reason for each verdict that differs from a release's, by the name of
// the release's archive and "policy: call".
var changedSince = map[string]map[string]string{}

// TestVerdictsAreTheSame: every policy of the documents and profiles of an older release has
// the same verdicts, or changedSince has the reason for the difference.
func TestVerdictsAreTheSame(t *testing.T) {
	t.Parallel()
	for _, archive := range archives(t) {
		t.Run(named(archive), func(t *testing.T) {
			t.Parallel()
			dir, _ := upgradetest.Unpack(t, archive)
			was := readJSON[recorded](t, filepath.Join(dir, "verdicts.json"))
			g := newGateway(t, programs, dir)
			g.Start()
			is := verdicts(g, was.Policies)
			why := changedSince[named(archive)]
			for what, how := range differences(was.Verdicts, is) {
				if why[what] == "" {
					t.Errorf("%s: %s", what, how)
				}
			}
			for what := range why {
				if differences(was.Verdicts, is)[what] == "" {
					t.Errorf("%s is what it was, and changedSince says why not", what)
				}
			}
			checkControl(t, was.Verdicts)
		})
	}
}

// checkControl is the control: the calls produce all kinds of verdicts, and a changed verdict
// is found.
func checkControl(t *testing.T, was map[string]map[string]verdict) {
	t.Helper()
	kinds := map[string]int{}
	for _, calls := range was {
		for call, v := range calls {
			kinds[v.Verdict]++
			other := v
			other.Determining = append(slices.Clone(v.Determining), "another")
			if len(differences(map[string]map[string]verdict{"p": {call: v}}, map[string]map[string]verdict{"p": {call: other}})) != 1 {
				t.Fatalf("%s: another policy that decides is not found", call)
			}
		}
	}
	if kinds["allow"] < 50 || kinds["ask"] < 50 || kinds["deny"] < 50 {
		t.Errorf("the calls show little: %v", kinds)
	}
}

// differences are indexed by "policy: call".
func differences(was, is map[string]map[string]verdict) map[string]string {
	found := map[string]string{}
	for policy, calls := range was {
		for call, before := range calls {
			if after, judged := is[policy][call]; !judged || !reflect.DeepEqual(before, after) {
				found[policy+": "+call] = fmt.Sprintf("was %+v and is %+v", before, after)
			}
		}
	}
	return found
}
