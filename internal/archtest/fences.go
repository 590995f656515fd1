package archtest

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
)

// Executors are the packages that run calls. Dispatch reaches them only
// through values that gateway hands it.
var Executors = []string{
	"internal/exec/builtin",
	"internal/exec/sandbox/jail",
	"internal/exec/sandbox/process",
	"internal/exec/sandbox/bubblewrap",
	"internal/exec/sandbox/seatbelt",
	"internal/exec/sandbox/jobobject",
	"internal/exec/sandbox/ladder",
	"internal/exec/wasm",
	"internal/exec/upstream",
	"internal/exec/upstream/packages",
}

// plain are packages below an executor that run nothing: data, and the forms of messages.
var plain = []string{
	"internal/exec/upstream/declared", "internal/exec/upstream/oauth", "internal/exec/wasm/guest", "internal/exec/wasm/module", "internal/exec/wasm/wire",
}

// isExecutor reports whether a package runs calls.
func isExecutor(dir string) bool { return inAny(dir, Executors) && !inAny(dir, plain) }

// parts are executors that others are made of.
var parts = map[string][]string{
	"internal/exec/sandbox/jail":       {"internal/exec/sandbox/process", "internal/exec/sandbox/bubblewrap", "internal/exec/wasm"},
	"internal/exec/sandbox/bubblewrap": {"internal/exec/sandbox/ladder"},
	"internal/exec/sandbox/process":    {"internal/exec/sandbox/ladder"},
	"internal/exec/sandbox/seatbelt":   {"internal/exec/sandbox/ladder"},
	"internal/exec/sandbox/jobobject":  {"internal/exec/sandbox/ladder"},
}

// reachers may reach an executor, directly or through other packages.
var reachers = map[string]string{
	"internal/gateway": "it builds the executors and hands them to dispatch",
	"cmd/palyrad":      "it calls gateway",
	"test":             "end-to-end tests run the whole daemon",
}

// CheckExecutors finds packages that can reach an executor though they are
// not gateway or its main. Executors may import their own parts.
func CheckExecutors(t *Tree) []Finding {
	var out []Finding
	for _, p := range t.Sorted() {
		if mayReach(p.Dir) || isExecutor(p.Dir) || testSupport(p.Dir) {
			continue
		}
		if chain := reach(t, p.Dir); chain != nil {
			out = append(out, Finding{p.Dir, fmt.Sprintf(
				"reaches an executor: %s; only gateway may, so that no call runs without a permit", strings.Join(chain, " > "))})
		}
	}
	for _, p := range t.Sorted() {
		out = append(out, crossings(p)...)
	}
	return out
}

// crossings finds executors that import other executors.
func crossings(p *Package) []Finding {
	var out []Finding
	for _, base := range Executors {
		if !within(p.Dir, base) {
			continue
		}
		for _, imported := range p.Imports() {
			dir, ok := own(imported)
			if ok && isExecutor(dir) && !within(dir, base) && !slices.Contains(parts[dir], base) {
				out = append(out, Finding{p.Dir, "imports the executor " + dir + "; an executor runs what it is given and calls no other"})
			}
		}
	}
	return out
}

func mayReach(dir string) bool {
	for base := range reachers {
		if within(dir, base) {
			return true
		}
	}
	return false
}

// reach returns a chain of imports from dir to an executor, or nil.
func reach(t *Tree, dir string) []string {
	type step struct {
		dir   string
		chain []string
	}
	seen := map[string]bool{dir: true}
	for queue := []step{{dir, []string{dir}}}; len(queue) > 0; queue = queue[1:] {
		p := t.Packages[queue[0].dir]
		if p == nil {
			continue
		}
		for _, imported := range p.Imports() {
			next, ok := own(imported)
			if !ok || seen[next] {
				continue
			}
			chain := append(slices.Clone(queue[0].chain), next)
			if isExecutor(next) {
				return chain
			}
			seen[next] = true
			queue = append(queue, step{next, chain})
		}
	}
	return nil
}

// Home says which folders may import a module.
type Home struct {
	Modules []string
	Rooms   []string
	Why     string
}

// Homes gives each heavy or dangerous dependency its place. An empty list of
// rooms bans the module.
var Homes = []Home{
	{
		Modules: []string{"github.com/cedar-policy/cedar-go"},
		Rooms:   []string{"internal/call/policy"},
		Why:     "one decision language, one engine, and one place to mend when its unstable packages change",
	},
	{
		Modules: []string{"connectrpc.com"},
		Rooms:   []string{"internal/surface/api", "internal/gateway/presencehost", "internal/cli", "gen", "test"},
		Why:     "the wire stops at the surface",
	},
	{
		Modules: []string{"github.com/modelcontextprotocol/go-sdk"},
		Rooms:   []string{"internal/surface/mcp", "internal/exec/upstream", "test"},
		Why:     "the protocol and its SDK stop there",
	},
	{
		Modules: []string{"github.com/anthropics/anthropic-sdk-go"},
		Rooms:   []string{"internal/run/model/anthropic"},
		Why:     "a model is asked through model.Provider; the wire format and its SDK stop there",
	},
	{
		Modules: []string{"github.com/openai/openai-go"},
		Rooms:   []string{"internal/run/model/openai"},
		Why:     "a model is asked through model.Provider; the wire format and its SDK stop there",
	},
	{
		Modules: []string{"github.com/coreos/go-oidc", "github.com/go-jose/go-jose", "golang.org/x/oauth2"},
		Rooms:   []string{"internal/identity/login", "internal/exec/upstream/oauth"},
		Why:     "the identity provider's tokens are read in one place and go no further; the command never sees them",
	},
	{
		Modules: []string{"google.golang.org/grpc"},
		Why:     "connect speaks gRPC; one message of grpc-go links all of it, and the health check is generated in gen/grpc",
	},
	{
		Modules: []string{"buf.build/go/protovalidate"},
		Why:     "it links CEL and a parser generator; internal/surface/api/check checks the same rules, and its tests compare the two",
	},
	{
		Modules: []string{"text/template", "html/template"},
		Why:     "it finds methods by name, so that the linker keeps every method of every type: 10 MB of palyra. Text is written by functions, and HTML through html.EscapeString",
	},
	{
		Modules: []string{"mvdan.cc/sh"},
		Rooms:   []string{"internal/exec/program/shellwords"},
		Why:     "it reads shells and could run them; what it read leaves its room as words, and nothing else of it is used",
	},
	{
		Modules: []string{"database/sql", "zombiezen.com/go/sqlite", "modernc.org/sqlite"},
		Rooms:   []string{"internal/store/sqlite"},
		Why:     "one writer, one set of migrations; the rooms see interfaces",
	},
	{
		Modules: []string{"github.com/bytecodealliance/wasmtime-go"},
		Rooms:   []string{"cmd/palyra-wasm", "test/wasm"},
		Why:     "the WASM engine counts as hostile and needs cgo: it lives in a worker in a sandbox, never in palyrad",
	},
	{
		Modules: []string{"github.com/tetratelabs/wazero"},
		Why:     "it has no fuel; the engine is wasmtime",
	},
	{
		Modules: []string{"golang.org/x/sys", "syscall"},
		Rooms:   []string{"internal/exec/sandbox", "internal/exec/wasm", "internal/exec/builtin", "internal/egress", "internal/exec/workspace", "internal/core/statedir/keyfile", "internal/core/filelock", "internal/core/trusted", "internal/identity/tpm", "internal/vault/kek/dpapi", "internal/ops/localsocket", "internal/agent/edit", "internal/agent/watch", "internal/core/config", "internal/gateway", "internal/gateway/doctor", "internal/core/statedir", "internal/core/reason", "internal/cli", "internal/store/sqlite", "cmd/palyra-init", "cmd/palyra-wasm", "cmd/palyrad", "cmd/palyra", "internal/surface/hook/client", "test"},
		Why:     "raw system calls belong where isolation and file access are built, where key files are guarded, where a socket says whose process connects, where signals are caught, and, for two numbers of errors, where the next step is found",
	},
	{
		Modules: []string{"os/exec"},
		Rooms:   []string{"internal/exec/sandbox", "internal/cli/calls/desktop", "internal/cli/browser", "internal/cli/setup/install", "internal/cli/setup/service", "internal/cli/calls", "internal/exec/skill/workshop", "cmd/palyra-init", "test"},
		Why:     "a program that is started anywhere else is a second way to run a tool; the CLI's notifications are one fixed program of macOS, a page is shown by the system's own opener, what it installs asks Codex, tries a hook, and speaks to the service manager of the person who typed the command, and an edit of arguments opens the editor of that person, and skills are built by the Go toolchain of theirs",
	},
	{
		Modules: []string{"github.com/google/go-tpm"},
		Rooms:   []string{"internal/identity/tpm"},
		Why:     "what a TPM is told, and over which sessions, is decided in one place",
	},
	{
		Modules: []string{"github.com/godbus/dbus"},
		Rooms:   []string{"internal/core/bus", "internal/cli/calls/desktop", "internal/vault/keyring", "test"},
		Why:     "its own way to connect reaches hosts and starts programs; internal/core/bus connects to sockets of this machine",
	},
	{
		Modules: []string{"github.com/zalando/go-keyring"},
		Rooms:   []string{"internal/vault/keyring"},
		Why:     "keyrings are asked in one place",
	},
	{
		Modules: []string{"github.com/landlock-lsm/go-landlock", "golang.org/x/net/bpf"},
		Rooms:   []string{"internal/exec/sandbox", "cmd/palyra-init"},
		Why:     "isolation is built in one place",
	},
	{
		Modules: []string{Module + "/internal/egress/proxy"},
		Rooms:   []string{"internal/exec/sandbox", "internal/egress/proxy", "test"},
		Why:     "connections are carried for a sandbox alone, which holds the program to them",
	},
	{
		Modules: []string{
			Module + "/internal/egress/web", Module + "/internal/egress/proxy/dns", Module + "/internal/egress/proxy/hello", Module + "/internal/egress/proxy/socks",
		},
		Rooms: []string{"internal/egress/proxy", "test"},
		Why:   "the legs meet in the session alone, so that none of them can go around its checks and its budget",
	},
	{
		Modules: []string{"unsafe"},
		Rooms:   []string{"internal/exec/sandbox", "internal/vault/kek/dpapi", "internal/store/sqlite/walbatch", "cmd/palyra-init", "test/attack/probe"},
		Why:     "only system calls without a wrapper need it, those whose answer the system has allocated, and SQLite's C in Go, whose pointers are numbers",
	},
	{
		Modules: []string{"plugin", "C"},
		Why:     "palyrad is pure Go",
	},
}

// CheckHomes finds imports of a module outside its home, in hand-written and
// generated files but not in tests.
func CheckHomes(t *Tree) []Finding {
	var out []Finding
	for _, p := range t.Sorted() {
		if testSupport(p.Dir) {
			continue
		}
		for _, f := range p.Files {
			if f.Test || f.Generated {
				continue
			}
			for _, imported := range f.Imports {
				if h, ok := strays(p.Dir, imported); ok {
					out = append(out, Finding{f.Path, fmt.Sprintf("imports %s, which belongs to %s: %s", imported, h.place(), h.Why)})
				}
			}
		}
	}
	return out
}

func strays(dir, imported string) (Home, bool) {
	for _, h := range Homes {
		for _, m := range h.Modules {
			if within(imported, m) && !inAny(dir, h.Rooms) {
				return h, true
			}
		}
	}
	return Home{}, false
}

func (h Home) place() string {
	if len(h.Rooms) == 0 {
		return "no room"
	}
	return strings.Join(h.Rooms, ", ")
}

// CheckPermits finds places that make a decision.Permit outside package
// decision, more than one place inside it, and whoever has one minted but the
// pipeline.
func CheckPermits(t *Tree) []Finding {
	const home = "internal/call/decision"
	var out, minted []Finding
	t.forEachFile(false, func(p *Package, f *File) {
		name := "Permit"
		if p.Dir != home {
			alias := localName(f, Module+"/"+home)
			if alias == "" {
				return
			}
			name = alias + ".Permit"
		}
		mint := strings.TrimSuffix(name, "Permit") + "Mint"
		ast.Inspect(f.Syntax, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && typeName(s) == mint && p.Dir != "internal/call" {
				out = append(out, Finding{t.at(n), "has a permit minted; only the pipeline may, which has made the decision durable"})
			}
			if !makes(n, name) {
				return true
			}
			where := Finding{t.at(n), "makes a decision.Permit; only decision.Mint may, in one place"}
			if p.Dir == home {
				minted = append(minted, where)
			} else {
				out = append(out, where)
			}
			return true
		})
	})
	if len(minted) > 1 {
		out = append(out, minted...)
	}
	return out
}

// makes reports whether n creates a value of the named type: a composite
// literal, new(T), or a variable or field that holds T rather than *T.
func makes(n ast.Node, name string) bool {
	switch n := n.(type) {
	case *ast.CompositeLit:
		return typeName(n.Type) == name
	case *ast.CallExpr:
		id, ok := n.Fun.(*ast.Ident)
		return ok && id.Name == "new" && len(n.Args) == 1 && typeName(n.Args[0]) == name
	case *ast.ValueSpec:
		return typeName(n.Type) == name
	}
	return false
}

func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		if id, ok := e.X.(*ast.Ident); ok {
			return id.Name + "." + e.Sel.Name
		}
	}
	return ""
}

// localName is the name under which a file knows an import, "" when it does
// not import it.
func localName(f *File, imported string) string {
	for _, spec := range f.Syntax.Imports {
		if strings.Trim(spec.Path.Value, `"`) != imported {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		if number, ok := strings.CutPrefix(path.Base(imported), "v"); ok && strings.Trim(number, "0123456789") == "" {
			return path.Base(path.Dir(imported))
		}
		return path.Base(imported)
	}
	return ""
}
