package archtest

import (
	"go/ast"
	"maps"
	"slices"
	"strings"
)

// dialHomes may connect to a host by themselves, each with its reason. Whatever
// a call or a program reaches goes through egress.Dialer.
var dialHomes = map[string]string{
	"internal/egress/dialer.go":          "the one dial function: it resolves once, judges every address, and records",
	"internal/run/model":                 "a provider is asked by the gateway itself, at an endpoint of the operator's",
	"internal/identity/login":            "the identity provider is asked by the gateway itself, at an address of the operator's, by no call",
	"internal/cli":                       "the CLI connects to its gateway",
	"internal/surface/hook/client":       "the hook of an agent talks to palyrad on its socket",
	"internal/surface/api/client.go":     "`palyrad operator add` talks to a running palyrad",
	"internal/core/bus":                  "the desktop is asked over the socket of its bus, by no call",
	"internal/exec/sandbox/cgroup/scope": "systemd is asked for a scope over the socket of its bus, by no call",
	"internal/exec/sandbox/seatbelt":     "the backend's examination connects to a listener of its own",
}

// connectors are the names by which code connects without
// being handed a connection.
var connectors = map[string][]string{
	"net":        {"Dial", "DialTimeout", "DialTCP", "DialUDP", "DialIP", "DialUnix", "Dialer"},
	"crypto/tls": {"Dial", "DialWithDialer", "Dialer"},
	"github.com/godbus/dbus/v5": {
		"Connect", "ConnectSessionBus", "ConnectSystemBus", "Dial", "DialHandler",
		"SessionBus", "SessionBusPrivate", "SessionBusPrivateHandler", "SessionBusPrivateNoAutoStartup", "SystemBus", "SystemBusPrivate", "SystemBusPrivateHandler",
	},
	"net/http": {"Get", "Head", "Post", "PostForm", "DefaultClient", "DefaultTransport"},
}

// CheckDials finds places beside dialHomes that connect to a host.
func CheckDials(t *Tree) []Finding {
	var out []Finding
	t.forEachFile(false, func(p *Package, f *File) {
		if within(p.Dir, "test") || mayDial(p.Dir, f.Path) {
			return
		}
		local := dialNames(f)
		ast.Inspect(f.Syntax, func(n ast.Node) bool {
			e, ok := n.(ast.Expr)
			if ok && local[typeName(e)] || dialsByItself(f, n) {
				out = append(out, Finding{t.at(n), "connects to a host; only " + strings.Join(slices.Sorted(maps.Keys(dialHomes)), ", ") +
					" may, so that no connection of a call goes unjudged and unrecorded"})
			}
			return true
		})
	})
	return out
}

func mayDial(dir, file string) bool {
	for base := range dialHomes {
		if within(dir, base) || file == base {
			return true
		}
	}
	return false
}

// dialNames are the connectors under the names that a file has for their
// packages, as "net.Dial".
func dialNames(f *File) map[string]bool {
	names := make(map[string]bool)
	for imported, list := range connectors {
		if alias := localName(f, imported); alias != "" {
			for _, name := range list {
				names[alias+"."+name] = true
			}
		}
	}
	return names
}

// dialsByItself reports whether n is an http.Transport that nobody gave a dial
// function, or an http.Client without a transport.
func dialsByItself(f *File, n ast.Node) bool {
	literal, ok := n.(*ast.CompositeLit)
	alias := localName(f, "net/http")
	if !ok || alias == "" {
		return false
	}
	switch typeName(literal.Type) {
	case alias + ".Transport":
		return !sets(literal, "DialContext")
	case alias + ".Client":
		return !sets(literal, "Transport")
	}
	return false
}

func sets(literal *ast.CompositeLit, field string) bool {
	return slices.ContainsFunc(literal.Elts, func(e ast.Expr) bool {
		pair, ok := e.(*ast.KeyValueExpr)
		if !ok {
			return false
		}
		key, ok := pair.Key.(*ast.Ident)
		return ok && key.Name == field
	})
}
