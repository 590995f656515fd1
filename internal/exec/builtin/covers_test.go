package builtin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/egress"
)

// TestGrantsOfPrograms: the description of a grant for a program includes the reach that the
// operator's rules permit. For programs that run arbitrary code, a grant covers only the exact
// call.
func TestGrantsOfPrograms(t *testing.T) {
	t.Parallel()
	b, _, bin := processBench(t, func(c *Config) { c.Process.AllowInterpreters = new(true) })
	must.Do(t, os.WriteFile(filepath.Join(bin, "python3"), []byte("\x7fELFpython3"), 0o755))
	must.Do(t, os.WriteFile(filepath.Join(bin, "find"), []byte("\x7fELFfind"), 0o755))
	b.write("tool", "\x7fELFown")
	must.Do(t, os.Chmod(filepath.Join(b.dir, "tool"), 0o755))
	for argv0, why := range map[string]string{
		"git": "", "python3": "python3 runs any code that it is given", "find": "find starts any program that it is given",
		"./tool": "./tool is a file of the workspace, which may be another by then",
	} {
		plan := must.Get(b.plan("process.run", object{"argv": []string{argv0, "help"}}))(t)
		if plan.ExactOnly != why {
			t.Errorf("%s: %q, want %q", argv0, plan.ExactOnly, why)
		}
	}
	want := "any git command, any arguments but those that start other programs, without variables that may change what runs, in workspace default"
	if plan := must.Get(b.plan("process.run", object{"argv": []string{"git", "status"}}))(t); plan.SubjectCovers != want {
		t.Errorf("offline: %q", plan.SubjectCovers)
	}
	// The grant of a call without network also covers calls with network.
	open, _, _ := processBench(t, func(c *Config) { c.Process.Egress = egress.Preflight })
	plan := must.Get(open.plan("process.run", object{"argv": []string{"git", "status"}, "hosts": []string{}}))(t)
	if !strings.HasPrefix(plan.SubjectCovers, want+", with the network") {
		t.Errorf("with a network: %q", plan.SubjectCovers)
	}
}

// TestMoreThanTheLine: policy and approvers receive the fact that a call sets variables which
// may change the executed code, or that its program starts another one. Grants cover only the
// exact call.
func TestMoreThanTheLine(t *testing.T) {
	t.Parallel()
	b, _, bin := processBench(t, nil)
	must.Do(t, os.WriteFile(filepath.Join(bin, "tar"), []byte("\x7fELFtar"), 0o755))
	b.write("eg/HEAD", "ref: refs/heads/main\n")
	b.write("eg/objects/a", "")
	for name, c := range map[string]struct {
		tool        string
		in          object
		env, starts string
		only, note  string
	}{
		"control": {"process.run", object{"argv": []string{"git", "status"}}, "", "", "", ""},
		"listed":  {"process.run", object{"argv": []string{"git", "status"}, "env": object{"LANG": "C", "CI": "1"}}, "", "", "", ""},
		"variables": {"process.run", object{"argv": []string{"git", "status"}, "env": object{"OPENSSL_CONF": "./a b", "GOROOT": "c", "CI": "1"}}, "GOROOT OPENSSL_CONF", "",
			"it sets GOROOT, OPENSSL_CONF, which may change what runs", "The call sets variables that may change what runs: GOROOT=c 'OPENSSL_CONF=./a b'."},
		"value":  {"process.run", object{"argv": []string{"git", "status"}, "env": object{"LANG": "/a"}}, "LANG", "", "it sets LANG, which may change what runs", "LANG=/a."},
		"secret": {"process.run", object{"argv": []string{"git", "status"}, "env": object{"KEY": "ghp_" + strings.Repeat("a1B2", 9)}}, "KEY", "", "it sets KEY, which may change what runs", "KEY=[redacted]"},
		"inner":  {"process.run", object{"argv": []string{"git", "bisect", "run", "./a"}}, "", "./a a", "its arguments start other programs: ./a, a", "The arguments have the program start ./a, a."},
		"tar": {"process.run", object{"argv": []string{"tar", "--to-command=./a", "-xf", "b"}}, "", "?", "its arguments start other programs: some that are not known",
			"The arguments have the program start some that are not known."},
		"other repository":         {"process.run", object{"argv": []string{"git", "-C", "eg", "status"}}, "", "?", "its arguments start other programs: some that are not known", "start some that are not known."},
		"line in other repository": {"shell.run", object{"command": "cd eg && git status"}, "", "?", "bash starts any program that it is given", "start some that are not known."},
		"line":                     {"shell.run", object{"command": "A=b git status", "env": object{"GOROOT": "c"}}, "A GOROOT", "", "bash starts any program that it is given", "The line sets variables that may change what runs: A."},
		"plain line":               {"shell.run", object{"command": "LC_ALL=C git status"}, "", "", "bash starts any program that it is given", ""},
		"unknown line":             {"shell.run", object{"command": "export $A; git status"}, "?", "", "bash starts any program that it is given", "may change what runs: some that are not known."},
	} {
		plan := must.Get(b.plan(c.tool, c.in))(t)
		exec := plan.Facts.Exec
		if strings.Join(exec.Env, " ") != c.env || strings.Join(exec.Starts, " ") != c.starts || plan.ExactOnly != c.only {
			t.Errorf("%s: env %q, starts %q, only %q", name, exec.Env, exec.Starts, plan.ExactOnly)
		}
		notes := strings.Join(plan.Preview.Notes, "\n")
		if !strings.Contains(notes, c.note) || c.note == "" && strings.Contains(notes, "may change what runs") {
			t.Errorf("%s: the notes are\n%s", name, notes)
		}
		if _, pairs, _ := strings.Cut(strings.TrimSuffix(c.note, "."), "runs: "); strings.HasPrefix(c.note, "The call sets") && !strings.HasSuffix(plan.Preview.Summary, ", setting "+pairs) {
			t.Errorf("%s: the summary is %q", name, plan.Preview.Summary)
		}
		if strings.Contains(notes+plan.Preview.Summary, "ghp_") {
			t.Errorf("%s: a key is shown in %q", name, plan.Preview.Summary)
		}
	}
}

// TestGrantsOfFiles: the description names the files, or their number if there are too many.
func TestGrantsOfFiles(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.write("src/a.go", "x")
	if plan := must.Get(b.plan("fs.read", object{"path": "src/../src/a.go"}))(t); plan.SubjectCovers != "any fs.read of src/a.go in workspace default" {
		t.Errorf("reading: %q", plan.SubjectCovers)
	}
	if plan := must.Get(b.plan("fs.write", object{"path": "src/a.go", "content": "y", "mode": "overwrite"}))(t); plan.SubjectCovers != "any change that fs.write makes to src/a.go in workspace default" {
		t.Errorf("writing: %q", plan.SubjectCovers)
	}
	if got := namedOrCounted([]string{strings.Repeat("a", 150), strings.Repeat("b", 150)}); got != "exactly these 2 files" {
		t.Errorf("many: %q", got)
	}
}
