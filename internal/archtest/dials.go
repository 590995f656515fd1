package archtest

import (
	"go/ast"
	"maps"
	"slices"
	"strings"
)

// dialHomes may connect to a host directly, each with its reason. Connections of calls and programs
// use egress.Dialer.
var dialHomes = map[string]string{
	"internal/egress/dialer.go":      "the only dial function of calls: it resolves a name once, checks every address, and records the connection",
	"internal/run/model":             "the gateway itself connects to a provider, at an endpoint that the operator configured",
	"internal/identity/login":        "the gateway itself connects to the identity provider, at an address that the operator configured, and not for a call",
	"internal/cli":                   "the CLI connects to its gateway",
	"internal/surface/hook/client":   "the hook of an agent connects to the socket of palyrad",
	"internal/surface/api/client.go": "`palyrad operator add` connects to a running palyrad",
	"internal/core/bus":              "it connects to the bus socket of the desktop or of systemd, and not for a call",
	"internal/exec/sandbox/seatbelt": "the probe of the backend connects to its own listener",
}

// connectors are the functions that open a connection.
var connectors = map[string][]string{
	"net":        {"Dial", "DialTimeout", "DialTCP", "DialUDP", "DialIP", "DialUnix", "Dialer"},
	"crypto/tls": {"Dial", "DialWithDialer", "Dialer"},
	"github.com/godbus/dbus/v5": {
		"Connect", "ConnectSessionBus", "ConnectSystemBus", "Dial", "DialHandler",
		"SessionBus", "SessionBusPrivate", "SessionBusPrivateHandler", "SessionBusPrivateNoAutoStartup", "SystemBus", "SystemBusPrivate", "SystemBusPrivateHandler",
	},
	"net/http": {"Get", "Head", "Post", "PostForm", "DefaultClient", "DefaultTransport"},
}

// CheckDials finds code outside dialHomes that connects to a host.
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
					" may, so that every connection of a call is checked and recorded"})
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

// dialNames returns the connectors under the names that a file uses for their packages, such as
// "net.Dial".
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

// dialsByItself reports whether n is an http.Transport without a dial function, or an http.Client
// without a transport.
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
