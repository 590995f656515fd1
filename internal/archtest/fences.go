package archtest

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
)

// Executors are the packages that run calls. Dispatch uses them only through values from gateway.
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

// plain lists the packages below an executor that do not run calls: they define data or message
// formats.
var plain = []string{
	"internal/exec/upstream/declared", "internal/exec/upstream/oauth", "internal/exec/wasm/guest", "internal/exec/wasm/module", "internal/exec/wasm/wire",
}

// isExecutor reports whether a package runs calls.
func isExecutor(dir string) bool { return inAny(dir, Executors) && !inAny(dir, plain) }

// parts maps an executor to the executors that use it as a part.
var parts = map[string][]string{
	"internal/exec/sandbox/jail":       {"internal/exec/sandbox/process", "internal/exec/sandbox/bubblewrap", "internal/exec/wasm"},
	"internal/exec/sandbox/bubblewrap": {"internal/exec/sandbox/ladder"},
	"internal/exec/sandbox/process":    {"internal/exec/sandbox/ladder"},
	"internal/exec/sandbox/seatbelt":   {"internal/exec/sandbox/ladder"},
	"internal/exec/sandbox/jobobject":  {"internal/exec/sandbox/ladder"},
}

// reachers lists the packages that may import an executor, directly or through other packages, each
// with its reason.
var reachers = map[string]string{
	"internal/gateway":  "it creates the executors and passes them to dispatch",
	"cmd/palyrad":       "it calls gateway",
	"scripts/reference": "it prints the help of palyrad",
	"test":              "end-to-end tests run the whole daemon",
}

// CheckExecutors finds packages other than gateway and its main that can reach an executor.
// Executors may import their own parts.
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
				out = append(out, Finding{p.Dir, "imports the executor " + dir + "; an executor runs its own calls and does not use another executor"})
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

// Home lists the directories that may import a module.
type Home struct {
	Modules []string
	Rooms   []string
	Why     string
}

// Homes lists the permitted importers of each heavy or dangerous dependency. An empty list of rooms
// bans the module.
var Homes = []Home{
	{
		Modules: []string{"github.com/cedar-policy/cedar-go"},
		Rooms:   []string{"internal/call/policy"},
		Why:     "one decision language and one engine, so that a change of its unstable packages affects one place",
	},
	{
		Modules: []string{"connectrpc.com"},
		Rooms:   []string{"internal/surface/api", "internal/gateway/presencehost", "internal/cli", "internal/core/rpc", "gen", "test"},
		Why:     "only the surface and its clients use the wire format; the generated code of both runs on internal/core/rpc",
	},
	{
		Modules: []string{"github.com/modelcontextprotocol/go-sdk"},
		Rooms:   []string{"internal/surface/mcp", "internal/exec/upstream", "test"},
		Why:     "only these packages use the protocol and its SDK",
	},
	{
		Modules: []string{"github.com/anthropics/anthropic-sdk-go", "github.com/openai/openai-go"},
		Why:     "palyrad needs one request and its events of each API. Anthropic's SDK links 5 MB with OpenTelemetry, and OpenAI's 20 MB. internal/run/model implements both requests",
	},
	{
		Modules: []string{"github.com/coreos/go-oidc", "github.com/go-jose/go-jose", "golang.org/x/oauth2"},
		Rooms:   []string{"internal/identity/login", "internal/exec/upstream/oauth"},
		Why:     "the tokens of the identity provider stay in the packages that read them; the CLI never receives them",
	},
	{
		Modules: []string{"google.golang.org/grpc"},
		Why:     "connect implements gRPC; one message of grpc-go links all of grpc-go, and the health check is generated in gen/grpc",
	},
	{
		Modules: []string{"buf.build/go/protovalidate"},
		Why:     "it links CEL and a parser generator; internal/surface/api/check checks the same rules, and its tests compare the two",
	},
	{
		Modules: []string{"text/template", "html/template"},
		Why:     "it finds methods by name, so that the linker keeps every method of every type: 10 MB of palyra. Write text with functions, and HTML with html.EscapeString",
	},
	{
		Modules: []string{"mvdan.cc/sh"},
		Rooms:   []string{"internal/exec/program/shellwords"},
		Why:     "the module parses shell commands and could run them; shellwords uses only its parser and returns words",
	},
	{
		Modules: []string{"database/sql", "zombiezen.com/go/sqlite", "modernc.org/sqlite"},
		Rooms:   []string{"internal/store/sqlite"},
		Why:     "one writer and one set of migrations; other rooms use interfaces",
	},
	{
		Modules: []string{"github.com/bytecodealliance/wasmtime-go"},
		Rooms:   []string{"cmd/palyra-wasm", "test/wasm"},
		Why:     "the WASM engine counts as hostile and needs cgo: it runs in a worker in a sandbox, never in palyrad",
	},
	{
		Modules: []string{"github.com/tetratelabs/wazero"},
		Why:     "it has no fuel; the engine is wasmtime",
	},
	{
		Modules: []string{"golang.org/x/sys", "syscall"},
		Rooms:   []string{"internal/exec/sandbox", "internal/exec/wasm", "internal/exec/builtin", "internal/exec/program/command", "internal/egress", "internal/exec/workspace", "internal/core/statedir/keyfile", "internal/core/filelock", "internal/core/trusted", "internal/identity/tpm", "internal/vault/kek/dpapi", "internal/ops/localsocket", "internal/agent/edit", "internal/agent/watch", "internal/core/config", "internal/gateway", "internal/gateway/doctor", "internal/core/statedir", "internal/core/reason", "internal/cli", "internal/store/sqlite", "cmd/palyra-init", "cmd/palyra-wasm", "cmd/palyrad", "cmd/palyra", "internal/surface/hook/client", "test"},
		Why:     "raw system calls are for isolation, file access, the protection of key files, the peer credentials of sockets, signals, and, in core/reason, two error numbers for which it has a remedy",
	},
	{
		Modules: []string{"os/exec"},
		Rooms:   []string{"internal/exec/sandbox", "internal/cli/calls/desktop", "internal/cli/browser", "internal/cli/setup/install", "internal/cli/setup/service", "internal/cli/calls", "internal/exec/skill/workshop", "cmd/palyra-init", "test"},
		Why:     "a program that is started anywhere else is a second way to run a tool. The CLI starts only: one fixed program of macOS for notifications, the system's opener for pages, Codex, a hook to test, and the user's service manager for installations, the user's editor for arguments, and the user's Go toolchain for skills",
	},
	{
		Modules: []string{"github.com/google/go-tpm"},
		Rooms:   []string{"internal/identity/tpm"},
		Why:     "one package decides which commands a TPM receives, and over which sessions",
	},
	{
		Modules: []string{"github.com/godbus/dbus"},
		Rooms:   []string{"internal/core/bus", "internal/cli/calls/desktop", "internal/exec/sandbox/cgroup/scope", "internal/vault/keyring", "test"},
		Why:     "its own connect functions can reach hosts and start programs; internal/core/bus connects only to sockets of this machine",
	},
	{
		Modules: []string{"github.com/zalando/go-keyring"},
		Rooms:   []string{"internal/vault/keyring"},
		Why:     "one package accesses keyrings",
	},
	{
		Modules: []string{"github.com/landlock-lsm/go-landlock", "golang.org/x/net/bpf"},
		Rooms:   []string{"internal/exec/sandbox", "cmd/palyra-init"},
		Why:     "only the sandbox implements isolation",
	},
	{
		Modules: []string{Module + "/internal/egress/proxy"},
		Rooms:   []string{"internal/exec/sandbox", "internal/egress/proxy", "test"},
		Why:     "only a sandbox uses the proxy, because it restricts its program to the proxy's connections",
	},
	{
		Modules: []string{
			Module + "/internal/egress/web", Module + "/internal/egress/proxy/dns", Module + "/internal/egress/proxy/hello", Module + "/internal/egress/proxy/socks",
		},
		Rooms: []string{"internal/egress/proxy", "test"},
		Why:   "only the proxy session combines the protocols, so that none of them can bypass its checks and its budget",
	},
	{
		Modules: []string{"unsafe"},
		Rooms:   []string{"internal/exec/sandbox", "internal/vault/kek/dpapi", "internal/store/sqlite/walbatch", "cmd/palyra-init", "test/attack/probe"},
		Why:     "it is needed only for system calls without a wrapper, for system calls that return memory allocated by the system, and for SQLite's C code in Go, whose pointers are numbers",
	},
	{
		Modules: []string{"plugin", "C"},
		Why:     "palyrad is pure Go",
	},
}

// CheckHomes finds imports of a module outside its home, in hand-written and generated files,
// except tests.
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
		return "no package"
	}
	return strings.Join(h.Rooms, ", ")
}

// CheckPermits finds code outside package decision that creates a decision.Permit, more than one
// such place inside the package, and calls of decision.Mint outside the pipeline.
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
				out = append(out, Finding{t.at(n), "calls decision.Mint; only the pipeline may, because it has made the decision durable"})
			}
			if !makes(n, name) {
				return true
			}
			where := Finding{t.at(n), "creates a decision.Permit; only decision.Mint may, in one place"}
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

// CheckUnguarded finds code that changes the gateway without the approval of a second person. Only
// the commands for a stopped gateway and packages for tests may do so.
func CheckUnguarded(t *Tree) []Finding {
	const home, offline = "internal/core/change", "internal/gateway/offline.go"
	var out []Finding
	t.forEachFile(false, func(p *Package, f *File) {
		alias := localName(f, Module+"/"+home)
		if alias == "" || f.Path == offline || strings.HasSuffix(p.Dir, "test") {
			return
		}
		ast.Inspect(f.Syntax, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && typeName(s) == alias+".Unguarded" {
				out = append(out, Finding{t.at(n), "permits changes that require two people; only " + offline + " and tests may"})
			}
			return true
		})
	})
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

// localName returns the name of an import in a file, or "" if the file does not import it.
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
