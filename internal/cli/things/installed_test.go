package things_test

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/clitest"
	"palyra/internal/core/canonical"
	"palyra/internal/core/must"
)

// someKey is a public key in base64.
var someKey = base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))

// TestGoldenSkills compares the output of every listing and page in every format.
func TestGoldenSkills(t *testing.T) {
	t.Parallel()
	packed := packageOf(t, 3)
	clitest.Golden(t, map[string][]string{
		"skills_list":       {"skills", "list"},
		"skills_show":       {"skills", "show", clitest.SkillName},
		"skills_show_old":   {"skills", "show", clitest.SkillName + "@1.0.0"},
		"skills_install":    {"skills", "install", packed, "--yes", "--key-id", clitest.SkillKey},
		"skills_quarantine": {"skills", "quarantine", clitest.SkillName, "--reason", "odd answers"},
		"skills_trust_list": {"skills", "trust", "list"},
		"skills_trust_add":  {"skills", "trust", "add", "example.org", someKey},
	})
}

// packageOf returns the path of a file with that size, which the fake gateway accepts as a
// package.
func packageOf(t *testing.T, size int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.palyra-skill")
	must.Do(t, os.WriteFile(path, bytes.Repeat([]byte("abc"), size/3+1)[:size], 0o600))
	return path
}

// TestInstall: no skill is installed before the displayed manifest is confirmed. An unknown key
// also requires a comparison of its fingerprint.
func TestInstall(t *testing.T) {
	t.Parallel()
	other := "SHA256:" + strings.Repeat("A", 43)
	for _, test := range []struct {
		name  string
		is    clitest.Skills
		typed string
		flags []string
		code  int
		wants []string
	}{
		{"yes to a new publisher", clitest.Skills{}, "y\n", nil, 0, []string{"who is new", clitest.SkillKey, "Is this the key of example.org", "requests to every host", "by value", "1048576 bytes", "the real time", "real randomness", "200000000 of fuel", "SKILL_SECRET_READ", "nothing"}},
		{"no", clitest.Skills{}, "n\n", nil, 1, []string{"nothing was changed"}},
		{"yes to an update", clitest.Skills{KnownPublisher: true, Update: true}, "y\n", nil, 0, []string{"notebook 1.1.0", "asks for more", "Install this?"}},
		{"no terminal", clitest.Skills{}, "", nil, 2, []string{"requires a terminal", "--yes --key-id " + clitest.SkillKey}},
		{"no terminal, known publisher", clitest.Skills{KnownPublisher: true}, "", nil, 2, []string{"--yes`"}},
		{"a new publisher whose key was not compared", clitest.Skills{}, "", []string{"--yes"}, 2, []string{"was not compared", clitest.SkillKey, "--key-id"}},
		{"a known one", clitest.Skills{KnownPublisher: true}, "", []string{"--yes"}, 0, []string{"notebook 1.2.0"}},
		{"the key that the publisher published", clitest.Skills{}, "", []string{"--yes", "--key-id", clitest.SkillKey}, 0, []string{"notebook 1.2.0"}},
		{"another key", clitest.Skills{KnownPublisher: true}, "", []string{"--yes", "--key-id", other}, 8, []string{"and not by " + other}},
		{"one that cannot be installed", clitest.Skills{KnownPublisher: true, Problem: "it is an older version"}, "", []string{"--yes"}, 8, []string{"it is an older version", "Get it anew."}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w, packed := clitest.NewWorld(t), packageOf(t, 5)
			w.Gateway.Skills = test.is
			args := append([]string{"skills", "install", packed}, test.flags...)
			r := w.Run(args...)
			if test.typed != "" {
				r = w.With(clitest.Typing(test.typed), args...)
			}
			w.Want(r, test.code)
			for _, want := range test.wants {
				if !strings.Contains(r.Out+r.Err, want) {
					t.Errorf("%s%s\nlacks %q", r.Out, r.Err, want)
				}
			}
			if strings.Contains(r.Out+r.Err, "\x1b[2J") {
				t.Error("a text of the publisher acts on the terminal")
			}
			if done := clitest.Requests[*palyrav1.InstallSkillRequest](w); (len(done) == 1) != (test.code == 0) {
				t.Errorf("installed %v", done)
			}
		})
	}
}

// TestParts: a package is uploaded completely in any number of parts.
func TestParts(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	for _, size := range []int{1, 1 << 20, 1<<20 + 1, 5<<20 - 3} {
		packed := packageOf(t, size)
		w.Want(w.Run("skills", "install", packed, "--yes", "--key-id", clitest.SkillKey), 0)
		data := must.Get(os.ReadFile(packed))(t)
		if got := w.Gateway.Skills.Staged[canonical.Digest(data)]; !bytes.Equal(got, data) {
			t.Errorf("%d bytes came of %d", len(got), size)
		}
	}
}

func TestStatusAndTrust(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	empty := packageOf(t, 0)
	w.Cases("", clitest.Cases{
		{"quarantined", []string{"skills", "quarantine", clitest.SkillName, "--reason", "odd"}, 0, "quarantined"},
		{"disabled", []string{"skills", "disable", clitest.SkillName + "@1.1.0"}, 0, "disabled"},
		{"enabled", []string{"skills", "enable", clitest.SkillName + "@1.1.0"}, 0, "active"},
		{"no such skill", []string{"skills", "show", "other"}, 1, "skill other not found"},
		{"removed", []string{"skills", "remove", clitest.SkillName, "--yes"}, 0, "1.1.0, 1.0.0"},
		{"removed unasked", []string{"skills", "remove", clitest.SkillName}, 2, "--yes"},
		{"trusted", []string{"skills", "trust", "add", "example.org", someKey}, 0, "named"},
		{"no key", []string{"skills", "trust", "add", "example.org", "c2hvcnQ="}, 2, "is not a valid public key"},
		{"distrusted", []string{"skills", "trust", "remove", "example.org"}, 0, "1 version quarantined"},
		{"no file", []string{"skills", "install", filepath.Join(t.TempDir(), "nowhere")}, 2, "reading the package"},
		{"an empty file", []string{"skills", "install", empty}, 2, "the file is empty"},
	})
	asked := clitest.Requests[*palyrav1.SetSkillStatusRequest](w)
	if len(asked) != 3 || asked[0].GetVersion() != "" || asked[0].GetReason() != "odd" || asked[0].GetStatus() != palyrav1.SkillStatus_SKILL_STATUS_QUARANTINED ||
		asked[1].GetVersion() != "1.1.0" || asked[1].GetStatus() != palyrav1.SkillStatus_SKILL_STATUS_DISABLED || asked[2].GetStatus() != palyrav1.SkillStatus_SKILL_STATUS_ACTIVE {
		t.Errorf("asked %v", asked)
	}
	if got := clitest.Requests[*palyrav1.RemoveSkillRequest](w); len(got) != 1 || got[0].GetVersion() != "" {
		t.Errorf("removed %v", got)
	}
	if got := clitest.Requests[*palyrav1.TrustPublisherRequest](w); len(got) != 1 || len(got[0].GetPublicKey()) != 32 {
		t.Errorf("trusted %v", got)
	}
}
