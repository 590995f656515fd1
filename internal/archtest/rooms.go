package archtest

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Room is a directory of the map in CONTRIBUTING.md. A directory below it belongs to it
// unless it is listed itself.
type Room struct {
	Dir string
	// Layer orders the rooms: imports go from a higher layer to a lower one. Packages of one
	// directory with a layer may import each other without a cycle.
	Layer int
	// Only, if not nil, lists all directories that this one may import, including their
	// subdirectories.
	Only []string
	// Never lists directories that this one may not import even if the layers allow it.
	Never []string
	// Why is the reason, which a finding prints.
	Why string
}

// none is an Only list that allows nothing.
var none = []string{}

// These are the layers, in the order in which a call passes them, from outside to inside.
const (
	layerMain = 100 - 5*iota
	layerGateway
	layerCLI
	layerStore
	layerSurface
	layerOps
	layerRun
	layerAgent
	layerCall // exec has the same rank
	layerIdentity
	layerVault
	layerEgress
	layerEvidence
	layerCore
	layerWire
)

const (
	whyCommands = "a family of commands does not depend on another: shared code is a package of its own, or belongs to the printer or the client"
	whyProtocol = "a protocol does not depend on another: shared code is in call or in surface/resume"
	whyLeaf     = "a leaf: every package may import it"
)

// families are the packages of commands; none of them imports another.
var families = []string{
	"internal/cli/calls", "internal/cli/evidence", "internal/cli/people", "internal/cli/policy", "internal/cli/runs",
	"internal/cli/setup", "internal/cli/things", "internal/cli/tui",
}

// protocols are the directories of the protocols of callers; none of them imports another.
var protocols = []string{"internal/surface/api", "internal/surface/authzen", "internal/surface/hook", "internal/surface/mcp"}

// Rooms is the map: one rule for each directory below internal, and one for each package with fewer
// permitted imports than its directory. A package outside all rooms fails the build.
var Rooms = slices.Concat([]Room{
	{Dir: "cmd/palyrad", Layer: layerMain, Only: []string{"internal/gateway", "internal/core/config", "internal/core/version", "internal/core/reason"}, Why: "the main function of the daemon reads flags and calls gateway.Run; code beyond that could not be tested"},
	{Dir: "cmd/palyra", Layer: layerMain, Only: []string{"internal/cli", "internal/core/version"}, Why: "the main function of the CLI only calls cli, so that testscript can run the same code"},
	{Dir: "cmd/palyra-hook", Layer: layerMain, Only: []string{"internal/surface/hook/client"}, Why: "it starts before every call of an agent, and every linked package delays the call"},
	{Dir: "cmd/palyra-wasm", Layer: layerMain, Only: []string{"internal/exec/wasm/module", "internal/exec/wasm/wire"}, Why: "the worker counts as hostile: of palyrad, it links only the messages that it exchanges with it"},
	{Dir: "cmd/palyra-init", Layer: layerMain, Only: []string{"internal/exec/sandbox/inside"}, Why: "the helper runs inside the sandbox: every linked package is attack surface"},

	{Dir: "internal/gateway", Layer: layerGateway, Why: "it builds and runs the daemon, and is the only package that may import all others"},
	{Dir: "internal/gateway/presencehost", Layer: layerGateway, Why: "a command with the authority of the gateway's host uses the API of a running palyrad, and the state directory of a stopped one"},
	{Dir: "internal/cli", Layer: layerCLI, Why: "the CLI is a client: every API client can do what it can do"},
	{Dir: "internal/store", Layer: layerStore, Why: "stores implement interfaces that the packages below declare; those packages do not import the stores"},
	{Dir: "internal/surface", Layer: layerSurface, Why: "a protocol proposes calls to the pipeline and does not bypass it"},
	{Dir: "internal/ops", Layer: layerOps, Why: "the administration of an installation does not decide calls"},
	{Dir: "internal/run", Layer: layerRun, Why: "the model loop sends every tool call through the pipeline; surfaces and stores serve it"},
	{Dir: "internal/agent", Layer: layerAgent, Why: "finding, editing and watching the settings of other vendors' agents does not involve calls"},
	{Dir: "internal/call", Layer: layerCall, Why: "decisions do not depend on the executor that runs the call"},
	{Dir: "internal/exec", Layer: layerCall, Why: "an executor runs calls; it does not decide or propose them"},
	{Dir: "internal/identity", Layer: layerIdentity, Why: "identity authenticates members; policy decides their permissions"},
	{Dir: "internal/vault", Layer: layerVault, Why: "the vault declares its own interfaces for policy, the store and the keys"},
	{Dir: "internal/egress", Layer: layerEgress, Why: "rules for hosts are the same for every program that connects"},
	{Dir: "internal/evidence", Layer: layerEvidence, Why: "the journal stores bytes and attest signs statements; neither depends on their origin"},
	{Dir: "internal/core", Layer: layerCore, Why: "the vocabulary of all packages imports nothing above it"},
	{Dir: "gen", Layer: layerWire, Only: []string{"internal/core/rpc"}, Why: "it is generated from the protos alone, and its unary methods share the code of core/rpc"},

	{Dir: "internal/cli/calls/ask", Layer: layerCLI, Never: families, Why: "all commands share the input and display of a call, and the prompt for an approval"},
	{Dir: "internal/cli/calls/desktop", Layer: layerCLI, Only: []string{"internal/core", "internal/cli/printer"}, Why: "desktop notifications have no access to a gateway, so that they cannot answer an approval"},
	{Dir: "internal/cli/setup/install", Layer: layerCLI, Never: families, Why: "one package plans, records and removes the changes to the settings of agents for all commands"},
	{Dir: "internal/cli/setup/service", Layer: layerCLI, Never: families, Why: "the service manager's start of palyrad is independent of the other setup steps"},
	{Dir: "internal/cli/setup/takeover", Layer: layerCLI, Never: families, Why: "moving servers from an agent's configuration to the gateway is independent of the command's input and output"},
	{Dir: "internal/cli/things/vaultmove", Layer: layerCLI, Never: families, Why: "moving secrets from a configuration to the vault is independent of the command's input and output"},
	{Dir: "internal/cli/browser", Layer: layerCLI, Never: families, Why: "all commands open or print a link in the same way"},
	{Dir: "internal/cli/witness", Layer: layerCLI, Never: families, Why: "one package stores the observed checkpoints and keys of gateways for all commands"},
	{Dir: "internal/cli/client", Layer: layerCLI, Never: families, Why: "all commands connect through this package, so it does not depend on one of them"},
	{Dir: "internal/cli/printer", Layer: layerCLI, Only: []string{"internal/cli/command", "internal/core"}, Why: "the printer has no access to a gateway, so that its output does not depend on which gateway is connected"},
	{Dir: "internal/cli/command", Layer: layerCLI, Only: []string{"internal/core"}, Why: "all commands are built from this package, so it does not depend on one of them"},

	{Dir: "internal/surface/hook/client", Layer: layerSurface, Only: none, Why: "it starts before every call of an agent, and every linked package delays the call"},
	{Dir: "internal/surface/notify", Layer: layerSurface, Never: protocols, Why: "notices are derived from the journal, so that writing an event never waits for a receiver"},
	{Dir: "internal/surface/console", Layer: layerSurface, Never: protocols, Why: "access to the console is independent of the API that the console uses"},

	{Dir: "internal/call/dispatch", Layer: layerCall, Never: []string{"internal/call/approval"}, Why: "dispatch requires a permit; it does not decide"},
	{Dir: "internal/call/decision", Layer: layerCall, Only: []string{"internal/call/approval", "internal/call/policy", "internal/core"}, Why: "a decision is a pure function of verdict, answer and budget, which returns a record and a permit"},
	{Dir: "internal/call/policy", Layer: layerCall, Only: []string{"internal/call/policy/finding", "internal/call/policy/internal", "internal/core"}, Why: "policy does not depend on approvals, on records or on explanations of its decisions"},
	{Dir: "internal/call/policy/internal", Layer: layerCall, Only: []string{"internal/call/policy/finding", "internal/call/policy/internal", "internal/core"}, Why: "the parts of policy do not depend on packages that read policies"},
	{Dir: "internal/call/policy/finding", Layer: layerCall, Only: []string{"internal/core"}, Why: "a finding is a value"},
	{Dir: "internal/call/policy/explain", Layer: layerCall, Never: []string{"internal/call/policy/lint", "internal/call/policy/policytests"}, Why: "an explanation reads policies and does not decide calls"},
	{Dir: "internal/call/policy/lint", Layer: layerCall, Never: []string{"internal/call/policy/explain", "internal/call/policy/policytests"}, Why: "a linter reads policies and reports warnings; the policy engine finds the errors that prevent loading"},
	{Dir: "internal/call/policy/policytests", Layer: layerCall, Why: "a policy test reports why it failed, and does not decide calls"},
	{Dir: "internal/call/policy/profile", Layer: layerCall, Only: []string{"internal/call/policy", "internal/core"}, Why: "a profile is a policy text for operators to start with"},
	{Dir: "internal/call/approval", Layer: layerCall, Only: []string{"internal/call/approval/internal", "internal/identity/passkey", "internal/core"}, Why: "approval declares its own interfaces for its store and its evaluator"},
	{Dir: "internal/call/approval/internal", Layer: layerCall, Only: none, Why: "the parts of approval do not depend on other packages"},
	{Dir: "internal/call/session", Layer: layerCall, Only: []string{"internal/core"}, Why: "a session counts the calls of callers; policy interprets the counts"},
	{Dir: "internal/exec/program/command", Layer: layerCall, Only: []string{"internal/exec/workspace", "internal/core"}, Why: "the interpretation of a command line does not depend on the backend that runs it"},
	{Dir: "internal/exec/skill/workshop", Layer: layerCall, Only: []string{"internal/exec/skill", "internal/exec/wasm/module", "internal/core"}, Why: "the code that starts compilers for authors of skills is not part of palyrad"},
	{Dir: "internal/exec/upstream/declared", Layer: layerCall, Never: []string{"internal/exec/upstream"}, Why: "the declaration of an upstream server is data for stores and surfaces; it does not start or dial a server"},
	{Dir: "internal/vault/kek", Layer: layerVault, Only: []string{"internal/vault/aead", "internal/vault/kek", "internal/vault/keyring", "internal/vault/passphrase", "internal/core"}, Why: "the backends wrap keys; they do not depend on secrets or on their users"},
	{Dir: "internal/identity/passkey", Layer: layerIdentity, Only: []string{"internal/core"}, Why: "the gateway and every reader of its journal verify passkey signatures, without other data of the gateway"},
	{Dir: "internal/identity/pairing/spake2plus", Layer: layerIdentity, Only: none, Why: "the exchange derives a key from a PIN; it does not depend on devices, the network or a store"},
	{Dir: "internal/evidence/journal", Layer: layerEvidence, Only: []string{"internal/core"}, Why: "the journal stores bytes and does not depend on the packages that write events"},
	{Dir: "internal/evidence/attest", Layer: layerEvidence, Never: []string{"internal/evidence/journal"}, Why: "attest signs statements and does not depend on their storage"},

	{Dir: "internal/core/access", Layer: layerCore, Only: []string{"internal/core/lazyregexp", "internal/core/reason"}, Why: whyLeaf},
	{Dir: "internal/core/canonical", Layer: layerCore, Only: []string{"internal/core/text"}, Why: whyLeaf},
	{Dir: "internal/core/reason", Layer: layerCore, Only: none, Why: whyLeaf},
	{Dir: "internal/core/limit", Layer: layerCore, Only: none, Why: "a leaf: limits count by name, and do not interpret the names"},
	{Dir: "internal/core/tool", Layer: layerCore, Never: []string{"internal/core/config", "internal/core/event", "internal/core/statedir"}, Why: "every stage of a call imports these types, so they must not add dependencies"},

	{Dir: "scripts/plainenglish", Layer: layerMain, Only: []string{"internal/core/lazyregexp"}, Why: "it reads source and text files, and imports none of the packages"},
	{Dir: "scripts/protoc-gen-rpc", Layer: layerMain, Only: none, Why: "it generates code from descriptors, and runs none of it"},
	{Dir: "scripts/reference", Layer: layerMain, Why: "it describes the tables of all packages"},
	{Dir: "scripts/weight", Layer: layerMain, Only: none, Why: "it reads linked programs"},
	{Dir: "internal/archtest", Layer: layerMain, Only: none, Why: "it reads source files and imports none of the packages"},
	{Dir: "test", Layer: layerMain, Why: "end-to-end, attack, fault and bench tests run the whole system"},
}, apart(layerCLI, families, whyCommands, "internal/store"), apart(layerSurface, protocols, whyProtocol))

// apart returns rooms that may not import each other.
func apart(layer int, dirs []string, why string, never ...string) []Room {
	rooms := make([]Room, len(dirs))
	for i, dir := range dirs {
		rooms[i] = Room{Dir: dir, Layer: layer, Never: slices.Concat(slices.DeleteFunc(slices.Clone(dirs), func(d string) bool { return d == dir }), never), Why: why}
	}
	return rooms
}

// room returns the room with the longest folder that contains dir.
func room(dir string) (Room, bool) {
	var best Room
	found := false
	for _, r := range Rooms {
		if within(dir, r.Dir) && len(r.Dir) >= len(best.Dir) {
			best, found = r, true
		}
	}
	return best, found
}

// CheckRooms finds packages outside all rooms.
func CheckRooms(t *Tree) []Finding {
	var out []Finding
	for _, p := range t.Sorted() {
		if _, ok := room(p.Dir); !ok {
			out = append(out, Finding{p.Dir, "this package is not in a room: add it to archtest.Rooms, CONTRIBUTING.md and RATIONALE.md"})
		}
	}
	return out
}

// CheckDirections finds imports upward, sideways, or beyond the permitted imports of a room. Tests
// may import any package.
func CheckDirections(t *Tree) []Finding {
	var out []Finding
	for _, p := range t.Sorted() {
		from, ok := room(p.Dir)
		if !ok || testSupport(p.Dir) {
			continue
		}
		for _, imported := range p.Imports() {
			dir, isOwn := own(imported)
			if !isOwn || within(dir, from.Dir) && sameRoom(dir, from) && !testSupport(dir) {
				continue
			}
			if fault := judge(from, dir); fault != "" {
				out = append(out, Finding{p.Dir, fmt.Sprintf("imports %s, %s; %s", dir, fault, from.Why)})
			}
		}
	}
	return out
}

func sameRoom(dir string, r Room) bool {
	to, ok := room(dir)
	return ok && to.Dir == r.Dir
}

// judge returns the fault of an import of dir by a room, or "".
func judge(from Room, dir string) string {
	to, ok := room(dir)
	switch {
	case !ok:
		return "which is not in a room"
	case testSupport(dir):
		return "which only tests may import"
	case within(dir, "gen") && !inAny(from.Dir, wireRooms):
		return "but only " + strings.Join(wireRooms, ", ") + " use the wire format, so that a change of the API affects only these packages"
	case from.Only != nil:
		if !inAny(dir, from.Only) {
			return "which is not in the Only list of its room"
		}
	case slices.Contains(from.Never, to.Dir):
		return "which is in the Never list of its room"
	case to.Layer > from.Layer:
		return "which is in a higher layer"
	case to.Layer == from.Layer && top(to.Dir) != top(from.Dir):
		return "which is in the same layer"
	}
	return ""
}

// top returns the first two elements of a directory. All rooms below them have one layer.
func top(dir string) string {
	parts := strings.SplitN(dir, "/", 3)
	return strings.Join(parts[:min(2, len(parts))], "/")
}

// wireRooms may import the generated code.
var wireRooms = []string{"internal/surface/api", "internal/gateway/presencehost", "internal/cli", "test"}

// testSupport reports whether dir is a helper package for tests: a room of its own, or a package
// such as internal/call/approval/approvaltest, which is named after its parent.
func testSupport(dir string) bool {
	return slices.Contains(testRooms, dir) || path.Base(dir) == path.Base(path.Dir(dir))+"test"
}

// testRooms are the packages that tests of many rooms share.
var testRooms = []string{"internal/gateway/gatewaytest", "internal/core/must", "internal/core/needs", "test/process"}

func inAny(dir string, list []string) bool {
	for _, base := range list {
		if within(dir, base) {
			return true
		}
	}
	return false
}
