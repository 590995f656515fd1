//go:build linux

package attack

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"palyra/internal/policy"
)

// factRow is an attack on what policy was told of a call: what it judges is one
// file, what is read or written is to be another.
type factRow struct {
	id, variant string
	// policies forbid the canary; the control is made under lifted.
	policies, lifted string
	// attack returns what the attacker saw or did.
	attack func(*gateway) string
}

const (
	readingAsks = `
@id("reading-asks") forbid(principal, action in [Action::"tool.execute/fs.read", Action::"tool.execute/fs.search"], resource) unless { context.approval.granted };`
	secretForbidden = `
@id("no-secret") forbid(principal, action in Action::"tool.execute", resource) when { context has path_folded && context.path_folded like "*secret*" };`
	readForbidden = `
@id("no-secret") forbid(principal, action == Action::"tool.execute/fs.read", resource) when { context has path_folded && context.path_folded like "*secret*" };`
)

func factRows() []factRow {
	laptop := policy.Profiles()[0].Files[0].Text
	byLinks := strings.ReplaceAll(laptop, "context.hard_links > 1", "context.hard_links > 99")
	byPath := strings.ReplaceAll(laptop, "path_folded", "path")
	return []factRow{
		{"GW-08", "secret file in capitals", laptop, byPath, func(g *gateway) string {
			g.file("config/.ENV", canary)
			return g.reads("config/.ENV")
		}},
		{"GW-09", "another name of a secret", laptop, byLinks, func(g *gateway) string {
			g.write(filepath.Join(g.dir, "outside"), canary)
			if err := os.Link(filepath.Join(g.dir, "outside"), filepath.Join(g.workspace, "notes.txt")); err != nil {
				g.t.Fatal(err)
			}
			return g.reads("notes.txt")
		}},
		{"GW-10", "link turned while a read waits", readingAsks + secretForbidden, readingAsks, func(g *gateway) string {
			g.linked()
			return g.turnedWhileItWaits("call", "fs.read", "path=link")
		}},
		{"GW-10", "link turned while a search waits", readingAsks + secretForbidden, readingAsks, func(g *gateway) string {
			g.linked()
			return g.turnedWhileItWaits("call", "fs.search", "path=link", "pattern=canary")
		}},
		{"GW-10", "directory turned while a write waits", secretForbidden, "", func(g *gateway) string {
			g.file("dir/plain", "")
			g.file("secret/plain", "")
			g.turn("dir", "link")
			r := g.turnedWhileItWaits("call", "fs.write", "path=link/made", "content=evil")
			return r + strings.ReplaceAll(g.read("secret/made"), "evil", canary)
		}},
		{"GW-10", "exact grant for another file", readingAsks, "", func(g *gateway) string {
			g.linked()
			call := g.begin("call", "fs.read", "path=link")
			if a, ok := call.asked(); ok {
				g.answer(a, "--allow", "timeboxed", "--for", "1h", "--match", "exact")
			}
			call.wait()
			g.turn("secret.txt", "link")
			second := g.begin("call", "fs.read", "path=link")
			if a, ok := second.asked(); ok {
				g.answer(a, "--deny")
			}
			return second.wait().out
		}},
		{"GW-10", "link that flips in a loop", secretForbidden, "", func(g *gateway) string {
			g.linked()
			return g.flipping(func() string { return g.reads("link") })
		}},
		{"GW-11", "search finds what may not be read", readForbidden, "", func(g *gateway) string {
			g.file("a/secret.txt", canary+"\n")
			return g.palyra("call", "fs.search", "pattern=palyra", "-o", "json").out
		}},
		{"GW-11", "list gives the size of what may not be read", readForbidden, "", func(g *gateway) string {
			g.file("secret.txt", strings.Repeat("x", 4321))
			return strings.ReplaceAll(g.palyra("call", "fs.list", "-o", "json").out, "4321", canary)
		}},
		{"GW-11", "directory that flips while it is searched", secretForbidden, "", func(g *gateway) string {
			for i := range 50 {
				g.file(fmt.Sprintf("secret/%02d", i), canary+"\n")
				g.file(fmt.Sprintf("plain/%02d", i), "plain\n")
			}
			g.turn("plain", "link")
			return g.flipping(func() string { return g.palyra("call", "fs.search", "path=link", "pattern=canary", "-o", "json").out })
		}},
	}
}

func (g *gateway) reads(path string) string {
	call := g.begin("call", "fs.read", "path="+path)
	if a, asked := call.asked(); asked {
		g.answer(a, "--deny")
	}
	return call.wait().out
}

// linked makes a plain file, a secret one and a link to the first.
func (g *gateway) linked() {
	g.file("plain.txt", "plain\n")
	g.file("secret.txt", canary+"\n")
	g.turn("plain.txt", "link")
}

// turn makes a link of the workspace lead elsewhere, at one moment.
func (g *gateway) turn(target, link string) {
	full := filepath.Join(g.workspace, link)
	if err := errors.Join(os.Symlink(target, full+".new"), os.Rename(full+".new", full)); err != nil {
		g.t.Error(err)
	}
}

// turnedWhileItWaits turns the link to the secret once somebody is asked, who
// then says yes. Where nobody is asked, because the call may not run or need not
// wait, it returns what the call gave.
func (g *gateway) turnedWhileItWaits(args ...string) string {
	call := g.begin(args...)
	if a, ok := call.asked(); ok {
		target, _ := os.Readlink(filepath.Join(g.workspace, "link"))
		g.turn(map[string]string{"plain.txt": "secret.txt", "dir": "secret"}[target], "link")
		g.answer(a, "--allow", "once")
	}
	return call.wait().out
}

// flipping makes calls while the link flips between what may be read and what
// may not, until one shows the canary or there were enough.
func (g *gateway) flipping(call func() string) string {
	plain, _ := os.Readlink(filepath.Join(g.workspace, "link"))
	secret := strings.NewReplacer("plain", "secret").Replace(plain)
	var flips sync.WaitGroup
	end := make(chan struct{})
	flips.Go(func() {
		for {
			select {
			case <-end:
				return
			default:
				g.turn(secret, "link")
				g.turn(plain, "link")
			}
		}
	})
	defer flips.Wait()
	defer close(end)
	var out string
	for range 40 {
		if out = call(); strings.Contains(out, canary) {
			break
		}
	}
	return out
}

// TestWhatIsJudgedIsWhatRuns: no attack on the facts of a call gets at what
// policy forbids. The control is the same attack where policy does not forbid
// it: what it is after is there to be had.
func TestWhatIsJudgedIsWhatRuns(t *testing.T) {
	t.Parallel()
	for _, r := range factRows() {
		t.Run(strings.ReplaceAll(r.id+" "+r.variant, " ", "_"), func(t *testing.T) {
			t.Parallel()
			try := func(policies string) string {
				g := newGateway(t, policies)
				g.mustStart()
				return r.attack(g)
			}
			attack, control := try(r.policies), ""
			if r.variant == "exact grant for another file" {
				control = granted(t, r.policies)
			} else {
				control = try(r.lifted)
			}
			record(t, r.id+" "+r.variant, strings.Contains(attack, canary), strings.Contains(control, canary), attack+"; control: "+control)
		})
	}
}

// granted is the control of the row about a grant: for the file that it is for,
// it needs nobody.
func granted(t *testing.T, policies string) string {
	g := newGateway(t, policies)
	g.mustStart()
	g.linked()
	g.turn("secret.txt", "link")
	call := g.begin("call", "fs.read", "path=link")
	if a, ok := call.asked(); ok {
		g.answer(a, "--allow", "timeboxed", "--for", "1h", "--match", "exact")
	}
	call.wait()
	second := g.begin("call", "fs.read", "path=link")
	if _, asked := second.asked(); asked {
		return "asked again"
	}
	return second.wait().out
}
