//go:build linux

package attack

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"palyra/internal/call/policy/profile"
	"palyra/internal/core/must"
)

// factRow is an attack on the facts that policy receives. In an attack on the facts of a call,
// policy judges one file and the call reads or writes another. Other attacks are on the facts
// about the caller.
type factRow struct {
	id, variant string
	// policies forbid the canary; lifted are the policies of the control.
	policies, lifted string
	// attack returns what the attacker saw or did. If late is false, which is the control, the
	// attacker makes the change before policy judges.
	attack func(g *gateway, late bool) string
}

const (
	readingAsks = `
@id("reading-asks") forbid(principal, action in [Action::"tool.execute/fs.read", Action::"tool.execute/fs.search"], resource) unless { context.approval.granted };`
	secretForbidden = `
@id("no-secret") forbid(principal, action in Action::"tool.execute", resource) when { context has path_folded && context.path_folded like "*secret*" };`
	readForbidden = `
@id("no-secret") forbid(principal, action == Action::"tool.execute/fs.read", resource) when { context has path_folded && context.path_folded like "*secret*" };`
	noWriteAfterRead = unattended + `
@id("no-write-after-read") forbid(principal, action == Action::"tool.execute/fs.write", resource) when { context.session.tools_used.contains("fs.read") };`
	nothingAllowed = `
@id("nothing") forbid(principal, action in Action::"tool.execute", resource);`
	writingAsks = `
@id("writing-asks") forbid(principal, action == Action::"tool.execute/fs.write", resource) unless { context.approval.granted };`
)

func factRows() []factRow {
	laptop := profile.All()[0].Files()[0].Text
	byLinks := strings.ReplaceAll(laptop, "context.hard_links > 1", "context.hard_links > 99")
	byPath := strings.ReplaceAll(laptop, "path_folded", "path")
	return slices.Concat(questionRows(), reducedRows(), ownershipRows(), innerRows(), argumentRows(), disclosureRows(), elsewhereRows(), spellingRows(), joinRows(), metaRows(), revocationRows(), streamRows(), configurationRows(), strangerRows(), []factRow{
		{"GW-08", "secret file in capitals", laptop, byPath, func(g *gateway, _ bool) string {
			g.file("config/.ENV", canary)
			return g.reads("config/.ENV")
		}},
		{"GW-09", "another name of a secret", laptop, byLinks, func(g *gateway, _ bool) string {
			g.write(filepath.Join(g.Dir, "outside"), canary)
			must.Do(g.T, os.Link(filepath.Join(g.Dir, "outside"), filepath.Join(g.Workspace, "notes.txt")))
			return g.reads("notes.txt")
		}},
		{"GW-10", "link turned while a read waits", readingAsks + secretForbidden, readingAsks, func(g *gateway, late bool) string {
			g.linked()
			return g.swapLinkDuringApproval(late, "call", "fs.read", "path=link")
		}},
		{"GW-10", "link turned while a search waits", readingAsks + secretForbidden, readingAsks, func(g *gateway, late bool) string {
			g.linked()
			return g.swapLinkDuringApproval(late, "call", "fs.search", "path=link", "pattern=canary")
		}},
		{"GW-10", "directory turned while a write waits", secretForbidden, "", func(g *gateway, late bool) string {
			g.file("dir/plain", "")
			g.file("secret/plain", "")
			g.turn("dir", "link")
			r := g.swapLinkDuringApproval(late, "call", "fs.write", "path=link/made", "content=evil")
			return r + strings.ReplaceAll(g.Read("secret/made"), "evil", canary)
		}},
		{"GW-10", "exact grant for another file", readingAsks, readingAsks, func(g *gateway, late bool) string {
			g.linked()
			if !late {
				g.turn("secret.txt", "link")
			}
			call := g.begin("call", "fs.read", "path=link")
			if a, ok := call.Asked(); ok {
				g.answer(a, "--allow", "timeboxed", "--for", "1h", "--match", "exact")
			}
			call.wait()
			g.turn("secret.txt", "link")
			return g.reads("link")
		}},
		{"GW-10", "link that flips in a loop", secretForbidden, "", func(g *gateway, _ bool) string {
			g.linked()
			return g.flipping(func() string { return g.reads("link") })
		}},
		{"GW-11", "search finds what may not be read", readForbidden, "", func(g *gateway, _ bool) string {
			g.file("a/secret.txt", canary+"\n")
			return g.palyra("call", "fs.search", "pattern=palyra", "-o", "json").Out
		}},
		{"GW-11", "list gives the size of what may not be read", readForbidden, "", func(g *gateway, _ bool) string {
			g.file("secret.txt", strings.Repeat("x", 4321))
			return strings.ReplaceAll(g.palyra("call", "fs.list", "-o", "json").Out, "4321", canary)
		}},
		{"GW-11", "directory that flips while it is searched", secretForbidden, "", func(g *gateway, _ bool) string {
			for i := range 50 {
				g.file(fmt.Sprintf("secret/%02d", i), canary+"\n")
				g.file(fmt.Sprintf("plain/%02d", i), "plain\n")
			}
			g.turn("plain", "link")
			return g.flipping(func() string { return g.palyra("call", "fs.search", "path=link", "pattern=canary", "-o", "json").Out })
		}},
		{"GW-12", "label that forgets what was read", noWriteAfterRead, noWriteAfterRead, func(g *gateway, late bool) string {
			g.file("plain.txt", "plain\n")
			g.palyra("call", "fs.read", "path=plain.txt", "--run", "one", "--session", "one")
			if !late { // a person may end a session, a label may not
				g.palyra("sessions", "end", strings.TrimSpace(g.palyra("sessions", "list", "-o", "name").Out), "--reason", "it is over")
			}
			g.palyra("call", "fs.write", "path=made", "content="+canary, "--run", "two", "--session", "two")
			return g.Read("made")
		}},
		{"GW-12", "call that waits while its session reads", noWriteAfterRead + writingAsks, noWriteAfterRead + writingAsks, func(g *gateway, late bool) string {
			g.file("plain.txt", "plain\n")
			call := g.begin("call", "fs.write", "path=made", "content="+canary)
			if a, ok := call.Asked(); ok {
				if late {
					g.palyra("call", "fs.read", "path=plain.txt")
				}
				g.answer(a, "--allow", "once")
			}
			call.wait()
			return g.Read("made")
		}},
		{"GW-13", "what was denied, spelled otherwise", readingAsks, readingAsks, func(g *gateway, late bool) string {
			g.linked()
			g.reads("plain.txt")
			other := map[bool]string{true: "./plain.txt", false: "secret.txt"}[late]
			call := g.begin("call", "fs.read", "path="+other, "--run", "another")
			if a, asked := call.Asked(); asked {
				g.answer(a, "--deny", "--reason", "no")
				return canary // a person was asked
			}
			return call.wait().Out
		}},
		{"GW2-01", "failed patch, all tools denied", nothingAllowed, "", func(g *gateway, _ bool) string {
			return g.patchWrongly("call")
		}},
		{"GW2-01", "failed patch, reading denied", readForbidden, "", func(g *gateway, _ bool) string {
			return g.patchWrongly("call")
		}},
		{"GW2-01", "dry run of a failed patch", nothingAllowed, "", func(g *gateway, _ bool) string {
			return g.patchWrongly("call", "--dry-run")
		}},
		{"GW2-02", "existence of a file by fs.write", nothingAllowed, "", func(g *gateway, _ bool) string {
			g.file("there.txt", "x")
			return g.compareOutput(func(path string) []string {
				return []string{"call", "--dry-run", "fs.write", "path=" + path, "content=x"}
			})
		}},
		{"GW2-02", "target of a link by fs.list", nothingAllowed, "", func(g *gateway, _ bool) string {
			g.turn(g.Dir, "there.txt")
			return g.compareOutput(func(path string) []string { return []string{"call", "fs.list", "path=" + path} })
		}},
	})
}

// patchWrongly sends a patch that conflicts with a secret file and returns the whole output.
func (g *gateway) patchWrongly(call ...string) string {
	g.file("secret.txt", canary+"\n")
	r := g.palyra(append(call, "fs.patch", "patch=--- a/secret.txt\n+++ b/secret.txt\n@@ -1 +1 @@\n-x\n+y\n")...)
	return r.Out + r.Err
}

// compareOutput returns the canary if the output for an existing file differs from the output
// for a missing file.
func (g *gateway) compareOutput(call func(path string) []string) string {
	output := func(path string) string {
		r := g.palyra(call(path)...)
		return idForm.ReplaceAllString(strings.ReplaceAll(r.Out+r.Err, path, "FILE"), "ID")
	}
	if output("there.txt") != output("other.txt") {
		return canary
	}
	return ""
}

// idForm matches identifiers and digests, which differ between calls.
var idForm = regexp.MustCompile(`[0-9A-HJKMNP-TV-Z]{26}|[0-9a-f]{64}`)

func (g *gateway) reads(path string) string {
	call := g.begin("call", "fs.read", "path="+path)
	if a, asked := call.Asked(); asked {
		g.answer(a, "--deny", "--reason", "no")
	}
	return call.wait().Out
}

// linked creates a plain file, a secret file and a link to the plain file.
func (g *gateway) linked() {
	g.file("plain.txt", "plain\n")
	g.file("secret.txt", canary+"\n")
	g.turn("plain.txt", "link")
}

// turn atomically redirects a link of the workspace.
func (g *gateway) turn(target, link string) {
	full := filepath.Join(g.Workspace, link)
	must.Check(g.T, errors.Join(os.Symlink(target, full+".new"), os.Rename(full+".new", full)))
}

// swapLinkDuringApproval redirects the link to the secret once approval is requested, or
// before; the request is then approved.
func (g *gateway) swapLinkDuringApproval(late bool, args ...string) string {
	target, _ := os.Readlink(filepath.Join(g.Workspace, "link"))
	turn := func() { g.turn(map[string]string{"plain.txt": "secret.txt", "dir": "secret"}[target], "link") }
	if !late {
		turn()
	}
	call := g.begin(args...)
	if a, ok := call.Asked(); ok {
		if late {
			turn()
		}
		g.answer(a, "--allow", "once")
	}
	return call.wait().Out
}

// flipping makes calls while the link alternates between a readable and a forbidden file, until
// a call shows the canary or the attempts are used up.
func (g *gateway) flipping(call func() string) string {
	plain, _ := os.Readlink(filepath.Join(g.Workspace, "link"))
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

// TestFactsCannotBeForged: no attack on the facts of a call reaches data that policy forbids.
// Control: without the policy, the same attack reaches the data.
func TestFactsCannotBeForged(t *testing.T) {
	t.Parallel()
	rows := factRows()
	if places.root {
		rows = append(rows, otherUserRows()...)
	}
	for _, r := range rows {
		t.Run(strings.ReplaceAll(r.id+" "+r.variant, " ", "_"), func(t *testing.T) {
			t.Parallel()
			try := func(policies string, late bool) string {
				g := newGateway(t, policies)
				g.mustStart()
				return r.attack(g, late)
			}
			attack, control := try(r.policies, true), try(r.lifted, false)
			record(t, r.id+" "+r.variant, strings.Contains(attack, canary), strings.Contains(control, canary), attack+"; control: "+control)
		})
	}
}
