//go:build linux

package attack

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/exec/upstream/packages/packagestest"
)

// upstreamAttack is an attack by an upstream server, which is an installed package. Both
// functions return the attacker's result; mark derives from it whether the attack succeeded.
type upstreamAttack struct {
	id, variant, mark string
	attack, control   func(u *upstreamWorld) string
}

// upstreamRows are MCP-01 to MCP-06: attacks by an upstream server's program on the packages,
// hosts and secrets of another server, and on its own package.
func upstreamRows() []row {
	var rows []row
	for _, a := range upstreamAttacks() {
		rows = append(rows, row{id: a.id, variant: a.variant, source: "packages of upstream servers"})
	}
	return rows
}

// upstreamWorld is a gateway with two servers of the same package. Server one attacks and may
// reach only good; server two may reach evil and use the secret for good.
type upstreamWorld struct {
	*vaultWorld
}

const servers = `@id("servers")
@reason("the servers of these tests are their own")
@waives("approval: the servers are the test's own")
permit(principal, action in Action::"tool.execute", resource)
when { context.egress.mode == "strict" && (resource.name like "one/*" || resource.name like "two/*" || resource.name == "package.install") };
`

func newUpstreamWorld(t *testing.T) *upstreamWorld {
	t.Helper()
	v := newVaultWorld(t)
	v.end(syscall.SIGINT)
	v.write(filepath.Join(v.Policies, "20.cedar"), servers)
	v.mustStart()
	registry := packagestest.New(t)
	registry.PutProbe("1.0.0")
	for name, flags := range map[string][]string{"one": {"--host", at(v.good)}, "two": {"--host", at(v.good) + "," + at(v.plain), "--secret", "vault://global/api"}} {
		args := append([]string{"mcp", "add", name, "--registry", registry.URL}, flags...)
		if r := v.palyra(append(args, "--", "npx", "-y", "@probe/server")...); r.Code != 0 || strings.Contains(r.Out, "problem") {
			t.Fatalf("adding %s: %s%s", name, r.Out, r.Err)
		}
	}
	return &upstreamWorld{v}
}

// server returns the path of a server's program, in its prefix.
func (u *upstreamWorld) server(name string) string {
	u.T.Helper()
	found, err := filepath.Glob(filepath.Join(u.State, "packages", "installed", name, "*", "node_modules", "@probe", "server", "server.mjs"))
	if err != nil || len(found) != 1 {
		u.T.Fatalf("the program of %s: %v, %v", name, found, err)
	}
	return found[0]
}

// ask calls a tool of a server.
func (u *upstreamWorld) ask(server, tool, a, b string) string {
	u.T.Helper()
	return output(u.palyra("call", server+"/"+tool, "--input", u.arguments(a, b)))
}

func (u *upstreamWorld) arguments(a, b string) string {
	return string(must.Get(json.Marshal(map[string]string{"a": a, "b": b}))(u.T))
}

// free runs the same program as palyrad's user, outside of any sandbox.
func (u *upstreamWorld) free(tool, a, b string) string {
	u.T.Helper()
	cmd := exec.CommandContext(u.T.Context(), "node", u.server("one"))
	cmd.Stdin = strings.NewReader(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`+"\n", tool, u.arguments(a, b)))
	text, _ := cmd.CombinedOutput()
	return string(text)
}

// changed modifies the program of a server, as palyrad's user could, and returns a function
// that restores it.
func (u *upstreamWorld) changed(name string) (back func()) {
	u.T.Helper()
	program := u.server(name)
	was := must.Get(os.ReadFile(program))(u.T)
	u.write(program, strings.Replace(string(was), `"written"`, `"something else"`, 1))
	return func() {
		u.write(program, string(was))
		u.palyra("mcp", "refresh", name) // retry at once
	}
}

func upstreamAttacks() []upstreamAttack {
	authorized := func(server string) func(u *upstreamWorld) string {
		return func(u *upstreamWorld) string {
			// seen is the placeholder that two has for its secret, whichever server sends it.
			seen := regexp.MustCompile(`palyra-sec-[A-Za-z0-9~_.-]+`).FindString(u.ask("two", "variables", "", ""))
			if seen == "" {
				u.T.Error("two has no placeholder")
			}
			return u.ask(server, "authorize", at(u.good), "Bearer "+seen) + u.give()
		}
	}
	return []upstreamAttack{
		{"MCP-01", "prefix of another server, read", "readline.createInterface",
			func(u *upstreamWorld) string { return u.ask("one", "read", u.server("two"), "") },
			func(u *upstreamWorld) string { return u.ask("two", "read", u.server("two"), "") }},
		{"MCP-01", "prefixes of other servers, listed", "two",
			func(u *upstreamWorld) string {
				return strings.ReplaceAll(u.ask("one", "list", filepath.Join(u.State, "packages", "installed"), ""), "one/list", "")
			},
			func(u *upstreamWorld) string {
				return u.free("list", filepath.Join(u.State, "packages", "installed"), "")
			}},
		{"MCP-02", "own prefix, written to", `"written"`,
			func(u *upstreamWorld) string { return marked(u.ask("one", "write", u.server("one")+".new", "x")) },
			func(u *upstreamWorld) string {
				defer os.Remove(u.server("one") + ".new")
				return marked(u.free("write", u.server("one")+".new", "x"))
			}},
		{"MCP-02", "own program, replaced", `"written"`,
			func(u *upstreamWorld) string { return marked(u.ask("one", "write", u.server("one"), "x")) },
			func(u *upstreamWorld) string {
				was := read(u.T, u.server("one"))
				defer u.write(u.server("one"), was)
				return marked(u.free("write", u.server("one"), "x"))
			}},
		{"MCP-03", "program that was changed, started", "something else",
			func(u *upstreamWorld) string {
				defer u.changed("one")()
				// A running instance was started from the approved program; the next start would use the
				// modified one.
				u.end(syscall.SIGINT)
				u.mustStart()
				return u.ask("one", "write", "/tmp/x", "x")
			},
			func(u *upstreamWorld) string {
				defer u.changed("one")()
				return u.free("write", filepath.Join(u.Dir, "x"), "x")
			}},
		{"MCP-04", "host of another server", "HTTP/1.1 200",
			func(u *upstreamWorld) string { return u.reach("one") },
			func(u *upstreamWorld) string { return u.reach("two") }},
		{"MCP-05", "placeholder of another server's secret", "",
			authorized("one"), authorized("two")},
		{"MCP-06", "variables, secrets among them", "OF_PALYRAD",
			func(u *upstreamWorld) string { return u.ask("one", "variables", "", "") },
			func(u *upstreamWorld) string {
				return string(must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/environ", neighbor(u.T, u.Env))))(u.T))
			}},
	}
}

// marked returns an answer without the arguments of the call.
func marked(answer string) string {
	if strings.Contains(answer, `"text":"written"`) || strings.Contains(answer, `"text": "written"`) || strings.TrimSpace(answer) == "written" {
		return `"written"`
	}
	return answer
}

// reach connects a server to a host that only server two may reach.
func (u *upstreamWorld) reach(server string) string {
	host, port, _ := strings.Cut(at(u.plain), ":")
	return u.ask(server, "connect", host, port)
}

// TestUpstreamServers tries the upstream attacks on the whole product. The attacks share one
// gateway, so they run one after the other.
func TestUpstreamServers(t *testing.T) {
	t.Parallel()
	u := newUpstreamWorld(t)
	for _, r := range upstreamAttacks() {
		mark := r.mark
		if mark == "" {
			mark = u.value
		}
		u.give() // discard the output of earlier rows
		attack := r.attack(u)
		control := r.control(u)
		record(t, r.id+" "+r.variant, strings.Contains(attack, mark), strings.Contains(control, mark), attack+"; control: "+control)
	}
}
