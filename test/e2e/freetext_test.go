//go:build linux

package e2e

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/test/process"
)

// keyed returns a text that contains a key in a well-known format, unique to one place.
func keyed(place string) string {
	return "ghp_" + strings.Repeat("aB3", 12) + strings.Map(func(r rune) rune {
		if r < 'a' || r > 'z' {
			return -1
		}
		return r
	}, place)
}

// TestKeysInTextsAreNotKept puts a key into every text that people and clients send. No state,
// log or answer of palyrad contains the keys. The rest of a sentence that contained a key is
// kept.
func TestKeysInTextsAreNotKept(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.policy("10.cedar", waived)
	g.Start()
	c := g.local()
	var answers []process.Result
	do := func(code int, args ...string) process.Result {
		r := c.run(args...)
		r.Want(t, code)
		answers = append(answers, r)
		return r
	}
	const refused = 2

	// A vote, a cancelled call and a freeze take sentences.
	denied := c.begin("call", "fs.write", "path=new-a.txt", "content=new")
	do(0, denied.asked().Decide("--deny", "--reason", "vote x"+keyed("vote"))...)
	answers = append(answers, denied.wait())
	cancelled := c.begin("call", "fs.write", "path=new-b.txt", "content=new")
	do(0, "approvals", "cancel", cancelled.asked().ID, "--reason", "cancel KEY="+keyed("cancel"))
	answers = append(answers, cancelled.wait())
	do(0, "members", "add", "carol", "--role", "auditor", "--yes", "--out", filepath.Join(g.Dir, "carol"))
	do(0, "members", "disable", "user:carol", "--yes", "--reason", "member "+base64.StdEncoding.EncodeToString([]byte("it was "+keyed("base64"))))
	do(0, "freeze", "--reason", "freeze _"+keyed("freeze"))
	do(0, "thaw")

	// These are the texts of a call. A retry with the same key is the same call.
	first := do(0, "call", "echo", "text=hi", "--idempotency-key", keyed("idempotency"), "-o", "ndjson")
	again := do(0, "call", "echo", "text=hi", "--idempotency-key", keyed("idempotency"), "-o", "ndjson")
	if a, b := attestationIn(t, first.Out), attestationIn(t, again.Out); a != b {
		t.Errorf("the retry has the attestation %s, the call %s", b, a)
	}
	other := do(0, "call", "echo", "text=hi", "--idempotency-key", keyed("another"), "-o", "ndjson")
	if a, b := attestationIn(t, first.Out), attestationIn(t, other.Out); a == b {
		t.Errorf("another key has the attestation of the first, %s", a)
	}

	// Names that contain a key are refused.
	do(refused, "call", "echo", "text=hi", "--session", keyed("session"))
	do(refused, "call", "echo", "text=hi", "--run", keyed("run"))
	do(refused, "call", "echo", "text=hi", "--channel", keyed("channel"))
	do(refused, "call", keyed("tool"), "text=hi")
	do(refused, "tokens", "create", keyed("token"), "--scope", "tool.list")

	// The argument is an encoded file that contains a key.
	do(0, "call", "process.run", `argv=["wc","-c"]`, "stdin_base64="+base64.StdEncoding.EncodeToString([]byte("x"+keyed("stdin"))))

	do(0, "journal", "list", "--limit", "0", "-o", "ndjson")
	look := func(when string) {
		t.Helper()
		for place, text := range everything(t, g, answers) {
			for _, form := range []string{keyed(""), base64.RawStdEncoding.EncodeToString([]byte(keyed("")))} {
				if at := bytes.Index(text, []byte(form)); at >= 0 {
					t.Errorf("%s: a key stands in %s: %q", when, place, text[max(0, at-80):min(len(text), at+60)])
				}
			}
		}
	}
	look("running")
	g.Stop()
	look("stopped")
	// Control: the sentences and calls are stored, with placeholders for their keys.
	all := bytes.Join(func() (list [][]byte) {
		for _, text := range everything(t, g, answers) {
			list = append(list, text)
		}
		return list
	}(), nil)
	for _, kept := range []string{"vote x[redacted]", "cancel KEY=[redacted]", "member aXQgd2Fz", "freeze _[redacted]"} {
		if !bytes.Contains(all, []byte(kept)) {
			t.Errorf("%q is kept nowhere", kept)
		}
	}
}

// everything returns palyrad's state and log, and the answers.
func everything(t *testing.T, g *gateway, answers []process.Result) map[string][]byte {
	t.Helper()
	texts := map[string][]byte{"the log": []byte(g.Log().String())}
	for _, a := range answers {
		name := "the answer to " + strings.Join(a.Args, " ")
		texts[name] = append(texts[name], a.Out+a.Err...)
	}
	must.Do(t, filepath.WalkDir(g.State, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrPermission) && isOverlayWorkDir(d) || errors.Is(err, fs.ErrNotExist) && path != g.State {
			return nil // a sandbox started or ended during the walk
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if texts[path] = text; errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}))
	return texts
}

// isOverlayWorkDir reports whether an entry is the private directory of overlayfs below its
// workdir. It has mode 000, so that only root can read it, and exists as long as the sandbox.
func isOverlayWorkDir(d fs.DirEntry) bool {
	info, err := d.Info()
	return err == nil && d.IsDir() && d.Name() == "work" && info.Mode().Perm() == 0
}
