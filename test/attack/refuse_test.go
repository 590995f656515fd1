//go:build linux

package attack

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/test/process"
)

// record stores the outcome of a row that has its own test.
func record(t *testing.T, name string, attack, control bool, detail string) {
	t.Helper()
	o := outcome{denied, failed}
	if attack {
		o.Attack = escaped
		t.Errorf("ESCAPE: %s", detail)
	}
	if control {
		o.Control = succeeded
	} else {
		t.Errorf("the control did not succeed: %s", detail)
	}
	results.record(name, o)
}

// TestPolicyThatCannotBeRead: palyrad runs no call if it cannot load its policy.
func TestPolicyThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for variant, spoil := range map[string]func(g *gateway) error{
		"policy invalid": func(g *gateway) error {
			return os.WriteFile(filepath.Join(g.Policies, "20.cedar"), []byte("permit(principal, action, resource"), 0o600)
		},
		"policy unreadable": func(g *gateway) error {
			return os.Symlink("20.cedar", filepath.Join(g.Policies, "20.cedar"))
		},
		"policy directory missing": func(g *gateway) error { return os.Rename(g.Policies, g.Policies+"-gone") },
	} {
		t.Run(strings.ReplaceAll(variant, " ", "_"), func(t *testing.T) {
			g := newGateway(t, unattended)
			must.Do(t, spoil(g))
			ready := g.start()
			ran := ready && g.run("touch", "ran").Code == 0 || exists(filepath.Join(g.Workspace, "ran"))
			text := g.Log().String()
			// Control: the same call runs with a valid policy.
			fine := newGateway(t, unattended)
			fine.mustStart()
			r := fine.run("touch", "ran")
			record(t, "GW-01 "+variant, ran, r.Code == 0 && exists(filepath.Join(fine.Workspace, "ran")), text+r.Err)
		})
	}
}

// TestSandboxMissing: a program never runs without a sandbox.
func TestSandboxMissing(t *testing.T) {
	t.Parallel()
	bare := must.Get(withoutHelper())(t)
	for variant, start := range map[string]func(g *gateway){
		"helper missing": func(g *gateway) { g.Program = bare; g.mustStart() },
		"bubblewrap does not run": func(g *gateway) {
			// The gateway runs in its own mount namespace, where bubblewrap is an empty file.
			own := []string{g.Dir, filepath.Dir(g.Program)}
			g.mustStart(process.OwnRoot(g.T, own, "--dev-bind", "/dev/null", must.Get(exec.LookPath("bwrap"))(g.T))...)
		},
	} {
		t.Run(strings.ReplaceAll(variant, " ", "_"), func(t *testing.T) {
			g := newGateway(t, unattended)
			start(g)
			r := g.run("touch", "ran")
			ran := r.Code == 0 || exists(filepath.Join(g.Workspace, "ran"))
			if !strings.Contains(r.Err, "SANDBOX_UNAVAILABLE") {
				t.Errorf("the refusal does not say why: %s", r.Err)
			}
			fine := newGateway(t, unattended)
			fine.mustStart()
			c := fine.run("touch", "ran")
			record(t, "GW-01 "+variant, ran, c.Code == 0 && exists(filepath.Join(fine.Workspace, "ran")), r.Err+c.Err)
		})
	}
}

// TestChangedAfterApproval: only the approved call runs.
func TestChangedAfterApproval(t *testing.T) {
	t.Parallel()
	const script = "open('ran', 'w').write('%s')\n"
	write := func(g *gateway, word string) {
		g.file("s.py", strings.ReplaceAll(script, "%s", word))
		g.file("tool", "#!/usr/bin/python3\n"+strings.ReplaceAll(script, "%s", word))
		must.Do(g.T, os.Chmod(filepath.Join(g.Workspace, "tool"), 0o755))
	}
	for variant, argv := range map[string][]string{"script": {"python3", "s.py"}, "program": {"./tool"}} {
		t.Run(variant, func(t *testing.T) {
			g := newGateway(t, "")
			g.mustStart()
			// try changes the file before the approval request, or after it.
			try := func(late bool) string {
				_ = os.Remove(filepath.Join(g.Workspace, "ran"))
				write(g, "approved")
				if !late {
					write(g, "evil")
				}
				call := g.begin("call", "process.run", "argv="+list(argv))
				a, ok := call.Asked()
				if !ok {
					t.Fatalf("nobody was asked: %s", call.wait().Err)
				}
				if late {
					write(g, "evil")
				}
				g.answer(a, "--allow", "once")
				r := call.wait()
				return g.Read("ran") + r.Err
			}
			attack, control := try(true), try(false)
			record(t, "GW-03 "+variant+" changed after approval", strings.HasPrefix(attack, "evil"), strings.HasPrefix(control, "evil"), attack+control)
		})
	}
	t.Run("arguments", func(t *testing.T) {
		g := newGateway(t, "")
		g.mustStart()
		call := g.begin("call", "process.run", `argv=["touch","good"]`)
		a, _ := call.Asked()
		// The answer to one call must not release another.
		other := g.begin("call", "process.run", `argv=["touch","evil"]`)
		b, _ := other.Asked()
		g.answer(process.Ask{ID: b.ID, Digest: a.Digest}, "--allow", "once")
		g.answer(a, "--allow", "once")
		first := call.wait()
		evil := exists(filepath.Join(g.Workspace, "evil"))
		g.answer(b, "--allow", "once")
		second := other.wait()
		record(t, "GW-03 arguments changed after approval", evil, exists(filepath.Join(g.Workspace, "evil")), first.Err+second.Err)
	})
}

// TestForgedAttestation: the output of a program is not evidence about itself.
func TestForgedAttestation(t *testing.T) {
	t.Parallel()
	g := newGateway(t, unattended)
	g.mustStart()
	g.file("real.txt", "x")
	if r := g.run("cat", "real.txt"); r.Code != 0 {
		t.Fatal(r.Err)
	}
	real, verified := g.attested()
	sum := sha256.Sum256([]byte("x"))
	control := verified && strings.Contains(real, hex.EncodeToString(sum[:]))
	// The program prints a complete attestation, fails, and reports success.
	g.file("forge.py", "import sys\nprint(open('forged.json').read())\nsys.exit(3)\n")
	g.file("forged.json", strings.ReplaceAll(real, "succeeded", "forged"))
	r := g.run("python3", "forge.py")
	text, verified := g.attested()
	attack := !verified || strings.Contains(text, "forged") || !strings.Contains(text, `"exit_code": 3`) && !strings.Contains(text, `"exit_code":3`)
	record(t, "GW-04 output that forges an attestation", attack, control, r.Out+text)
}

// TestFileToolsStayInside: every file tool enforces the same boundary. The control widens the
// workspace by one directory, which removes the boundary, and calls the same paths.
func TestFileToolsStayInside(t *testing.T) {
	t.Parallel()
	// try calls a tool in a workspace that is the directory "work" or its parent. The canary is
	// next to "work".
	try := func(t *testing.T, wide bool, args []string) (changed string, r process.Result) {
		g := newGateway(t, unattended)
		world := filepath.Join(g.Dir, "world")
		g.write(filepath.Join(world, "canary"), canary+"\n")
		g.write(filepath.Join(world, "work/inside"), "inside\n")
		must.Do(t, errors.Join(os.Symlink("../canary", filepath.Join(world, "work/link")), os.Symlink("..", filepath.Join(world, "work/up"))))
		root, prefix := filepath.Join(world, "work"), ""
		if wide {
			root, prefix = world, "work/"
		}
		g.write(g.Config, strings.Replace(read(t, g.Config), g.Workspace, root, 1))
		g.mustStart()
		before := must.Get(snapshot(world))(t)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "@/", prefix)
		}
		r = g.palyra(append([]string{"call"}, args...)...)
		after := must.Get(snapshot(world))(t)
		return differences(before, after), r
	}
	const patch = "patch=--- a/@/up/canary\n+++ b/@/up/canary\n@@ -1 +1 @@\n-palyra-canary\n+evil\n"
	for _, c := range []struct {
		variant string
		args    []string
	}{
		{"fs.read through a link", []string{"fs.read", "path=@/link"}},
		{"fs.read through a parent", []string{"fs.read", "path=@/../canary"}},
		{"fs.list", []string{"fs.list", "path=@/up"}},
		{"fs.search", []string{"fs.search", "path=@/up", "pattern=palyra-canary"}},
		{"fs.write through a link", []string{"fs.write", "path=@/up/made", "content=evil"}},
		{"fs.patch", []string{"fs.patch", patch}},
		{"process.run cwd", []string{"process.run", `argv=["cat","canary"]`, "cwd=@/up"}},
	} {
		t.Run(strings.ReplaceAll(c.variant, " ", "_"), func(t *testing.T) {
			t.Parallel()
			changed, r := try(t, false, append([]string{}, c.args...))
			attack := r.Code == 0 || changed != "" || strings.Contains(r.Out, canary)
			widened, control := try(t, true, append([]string{}, c.args...))
			record(t, "GW-05 "+c.variant, attack, control.Code == 0 && (widened != "" || strings.Contains(control.Out, "canary")),
				r.Out+r.Err+changed+"; control: "+control.Out+control.Err)
		})
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text := must.Get(os.ReadFile(name))(t)
	return string(text)
}

func parse(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}

// TestEscapeSequences: the output of a program cannot control a viewer's terminal.
func TestEscapeSequences(t *testing.T) {
	t.Parallel()
	const title = "\x1b]0;evil\x07\x1b[2J"
	g := newGateway(t, unattended)
	g.mustStart()
	g.file("esc.txt", title+"\n")
	master, slave, err := newTerminal()
	must.Do(t, err)
	defer master.Close()
	screen := process.NewOutput()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		buffer := make([]byte, 4096)
		for {
			n, err := master.Read(buffer)
			if err != nil {
				return // the other end is closed
			}
			_, _ = screen.Write(buffer[:n])
		}
	}()
	cmd := g.command("call", "process.run", `argv=["cat","esc.txt"]`)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	failed := process.Run(cmd)
	slave.Close()
	<-drained
	if failed != nil {
		t.Fatalf("%v: %s", failed, screen)
	}
	// Control: output that goes to a program instead of a terminal keeps the exact bytes.
	handed := g.run("cat", "esc.txt")
	var content struct {
		Stdout struct{ Content string }
	}
	parse(t, handed.Out, &content)
	record(t, "RES-05 escape sequences", strings.Contains(screen.String(), "\x1b]0;") || strings.Contains(screen.String(), "\x1b[2J"),
		strings.Contains(content.Stdout.Content, title), screen.String()+handed.Out)
}
