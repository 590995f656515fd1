package bubblewrap

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/egress/secret"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/jail/jailtest"
)

const injectedValue = "s3cr3t-Value/of+the=key"

// injected returns a shell script with the value in a variable, and in a file that a second
// variable names.
func injected(t testing.TB, root, script string) sandbox.Spec {
	t.Helper()
	s := jailtest.Shell(t, root, script)
	s.Injected = []sandbox.Injected{{Env: "KEY", Value: []byte(injectedValue)}, {Env: "KEY_FILE", File: "key.txt", Value: []byte(injectedValue)}}
	s.Scrub = must.Get(secret.NewValues(secret.Value{Secret: []byte(injectedValue), Shown: "<the key>"}))(t).Scrub
	return s
}

// unscrubbed is the control, which returns the unmodified output of the program.
func unscrubbed(r io.Reader) io.Reader { return r }

// spellings are the ways in which the program writes the value; dd writes it byte by byte.
const spellings = `printf %s "$KEY"; echo; cat "$KEY_FILE"; echo; printf %s "$KEY" | base64 -w0; echo; printf %s "$KEY" | od -An -v -tx1 | tr -d ' \n'; echo
printf %s "$KEY" | od -An -v -tx1 | tr -d '\n' | tr ' ' '%'; echo; cat "$KEY_FILE" | dd bs=1 status=none >&2`

func spelled(text string) (found []string) {
	percent := strings.Builder{}
	for _, c := range []byte(injectedValue) {
		fmt.Fprintf(&percent, "%%%02x", c)
	}
	for _, form := range []string{
		injectedValue, base64.StdEncoding.EncodeToString([]byte(injectedValue)), hex.EncodeToString([]byte(injectedValue)), percent.String(),
	} {
		if strings.Contains(text, form) {
			found = append(found, form)
		}
	}
	return found
}

// TestInjectedSecret: the program has the value in its variable and in its private file in
// memory. Its output does not contain the value.
func TestInjectedSecret(t *testing.T) {
	t.Parallel()
	r, root := newTestRunner(t), jailtest.Workspace(t)
	const here = `[ "$KEY" = "$(cat "$KEY_FILE")" ] && echo "$KEY_FILE $(stat -c %a,%u "$KEY_FILE") $(stat -f -c %T "$KEY_FILE")"`
	if got, want := jailtest.Output(t, r, injected(t, root, here)), sandbox.SecretFile("key.txt")+" 400,1000 tmpfs\n"; got != want {
		t.Errorf("inside %q, want %q", got, want)
	}
	var streamed bytes.Buffer
	s := injected(t, root, spellings)
	s.Output = func(_ string, chunk []byte) { streamed.Write(chunk) }
	report := jailtest.Run(t, r, s)
	all := streamed.String() + string(report.Stdout.Head) + string(report.Stderr.Head)
	if found := spelled(all); found != nil || strings.Count(all, "<the key>") != 12 {
		t.Errorf("%q is in\n%s", found, all)
	}
	s.Scrub = unscrubbed
	if report = jailtest.Run(t, r, s); len(spelled(string(report.Stdout.Head))) != 4 || string(report.Stderr.Head) != injectedValue {
		t.Errorf("the control wrote\n%s%s", report.Stdout.Head, report.Stderr.Head)
	}
	next := jailtest.Shell(t, root, `ls -A ~; env | grep KEY`)
	if report = jailtest.Run(t, r, next); len(report.Stdout.Head) > 0 {
		t.Errorf("the next program finds %s", report.Stdout.Head)
	}
}

// TestInjectedSecretIsInNoCommandLine: while the program runs, no process has the value in its
// arguments, and no file of the daemon contains it.
func TestInjectedSecretIsInNoCommandLine(t *testing.T) {
	t.Parallel()
	dir, root := t.TempDir(), jailtest.Workspace(t)
	r := newConfiguredRunner(t, testConfig(dir))
	s := injected(t, root, `echo ready; while [ ! -e go ]; do sleep 0.01; done; test -s "$KEY_FILE"`)
	var once sync.Once
	seen := 0
	s.Output = func(string, []byte) {
		once.Do(func() {
			lines := must.Get(filepath.Glob("/proc/[0-9]*/cmdline"))(t)
			for _, name := range lines {
				line, _ := os.ReadFile(name) // the process may have ended meanwhile
				seen += bytes.Count(line, []byte("while [ ! -e go ]"))
				if bytes.Contains(line, []byte(injectedValue)) {
					t.Errorf("%s: %q", name, line)
				}
			}
			wantNoSecret(t, dir)
			jailtest.WriteFile(t, filepath.Join(root, "go"), "", 0o644)
		})
	}
	report := jailtest.Run(t, r, s)
	if report.ExitCode == nil || *report.ExitCode != 0 || seen == 0 {
		t.Errorf("exit %v, seen %d times: %s", report.ExitCode, seen, report.Stderr.Head)
	}
	wantNoSecret(t, dir)
}

func wantNoSecret(t testing.TB, dir string) {
	t.Helper()
	must.Do(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(name)
		if bytes.Contains(text, []byte(injectedValue)) {
			t.Errorf("%s holds the value", name)
		}
		return err
	}))
}

// TestInjectedSecretRefused: injections without scrubbing, duplicates and invalid places are
// refused. No error and no printed spec contains the value.
func TestInjectedSecretRefused(t *testing.T) {
	t.Parallel()
	r, root := newTestRunner(t), jailtest.Workspace(t)
	value := []byte(injectedValue)
	for name, change := range map[string]func(*sandbox.Spec){
		"not scrubbed":   func(s *sandbox.Spec) { s.Scrub = nil },
		"steers":         func(s *sandbox.Spec) { s.Injected[0].Env = "LD_PRELOAD" },
		"of the sandbox": func(s *sandbox.Spec) { s.Injected[0].Env = "HOME" },
		"set twice":      func(s *sandbox.Spec) { s.Env = []string{"KEY=other"} },
		"nowhere":        func(s *sandbox.Spec) { s.Injected[0].Env = "" },
		"not text":       func(s *sandbox.Spec) { s.Injected[0].Value = []byte("\xff" + injectedValue) },
		"two files":      func(s *sandbox.Spec) { s.Injected[0] = sandbox.Injected{File: "key.txt", Value: value} },
		"above":          func(s *sandbox.Spec) { s.Injected[0] = sandbox.Injected{File: "..", Value: value} },
		"below":          func(s *sandbox.Spec) { s.Injected[0] = sandbox.Injected{File: "a/b", Value: value} },
	} {
		s := injected(t, root, "true")
		change(&s)
		_, err := r.Run(t.Context(), s)
		if reason.Of(err) != reason.InvalidInput || strings.Contains(err.Error(), injectedValue) {
			t.Errorf("%s: %v", name, err)
		}
		if text := fmt.Sprintf("%v %+v %#v", s, s, s.Injected); strings.Contains(text, injectedValue) || strings.Contains(text, fmt.Sprint(value)) {
			t.Errorf("%s: %s", name, text)
		}
	}
}
