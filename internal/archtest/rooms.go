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
	// Layer orders the rooms: imports go from a higher layer to a lower one. Within the
	// directory that has the layer, packages import each other without a cycle.
	Layer int
	// Only, when not nil, lists all directories that this one may import. What is below one of
	// them may be imported too.
	Only []string
	// Never lists directories that this one may not import, though its layer would allow it.
	Never []string
	// Why is the reason that a broken rule prints.
	Why string
}

// none is an Only list that allows nothing.
var none = []string{}

// The layers, in the order in which a call passes them, from the outside in.
const (
	layerMain = 100 - 5*iota
	layerGateway
	layerCLI
	layerStore
	layerSurface
	layerOps
	layerRun
	layerAgent
	layerCall // exec stands beside it
	layerIdentity
	layerVault
	layerEgress
	layerEvidence
	layerCore
	layerWire
)

const (
	whyCommands = "a family of commands knows no other: what two share is a package of its own, or belongs to the printer or the client"
	whyProtocol = "a protocol knows no other: what two share is in call or in surface/resume"
	whyLeaf     = "a leaf: every package may import it"
)

// families are the packages of commands; no one of them imports another.
var families = []string{
	"internal/cli/calls", "internal/cli/evidence", "internal/cli/people", "internal/cli/policy", "internal/cli/runs",
	"internal/cli/setup", "internal/cli/things", "internal/cli/tui",
}

// protocols are the directories of what callers speak; no one of them imports another.
var protocols = []string{"internal/surface/api", "internal/surface/authzen", "internal/surface/hook", "internal/surface/mcp"}

// Rooms is the map: one rule for each directory below internal, and one for each package that
// may know less than its directory. A package that is in none of them fails the build.
var Rooms = slices.Concat([]Room{
	{Dir: "cmd/palyrad", Layer: layerMain, Only: []string{"internal/gateway", "internal/core/config", "internal/core/version", "internal/core/reason"}, Why: "the main function of the daemon reads flags and calls gateway.Run; code beyond that could not be tested"},
	{Dir: "cmd/palyra", Layer: layerMain, Only: []string{"internal/cli", "internal/core/version"}, Why: "the main function of the CLI only calls cli, so that testscript can run the same code"},
	{Dir: "cmd/palyra-hook", Layer: layerMain, Only: []string{"internal/surface/hook/client"}, Why: "it starts before every call of an agent, which waits for all that it links"},
	{Dir: "cmd/palyra-wasm", Layer: layerMain, Only: []string{"internal/exec/wasm/module", "internal/exec/wasm/wire"}, Why: "the worker counts as hostile; it knows the messages that it exchanges with palyrad and nothing else of it"},
	{Dir: "cmd/palyra-init", Layer: layerMain, Only: []string{"internal/exec/sandbox/inside"}, Why: "the helper runs inside the sandbox; all that it links is attack surface"},

	{Dir: "internal/gateway", Layer: layerGateway, Why: "it builds and runs the daemon, and is the one package that knows all others"},
	{Dir: "internal/gateway/presencehost", Layer: layerGateway, Why: "the word of the gateway's host goes to the palyrad that runs over the API, and to the state directory of one that does not"},
	{Dir: "internal/cli", Layer: layerCLI, Why: "the CLI is a client: every API client can do what it can do"},
	{Dir: "internal/store", Layer: layerStore, Why: "stores implement the interfaces of the packages below; these do not know them"},
	{Dir: "internal/surface", Layer: layerSurface, Why: "a protocol proposes calls to the pipeline and does not reach around it"},
	{Dir: "internal/ops", Layer: layerOps, Why: "what operators do to an installation decides no call"},
	{Dir: "internal/run", Layer: layerRun, Why: "the model loop sends every tool call through the pipeline; surfaces and stores serve it"},
	{Dir: "internal/agent", Layer: layerAgent, Why: "the settings of other vendors' agents are found, edited and watched without a call"},
	{Dir: "internal/call", Layer: layerCall, Why: "who and what may happen is decided without knowing what runs it"},
	{Dir: "internal/exec", Layer: layerCall, Why: "an executor runs the call that it is given, and neither decides nor proposes one"},
	{Dir: "internal/identity", Layer: layerIdentity, Why: "identity says who somebody is; what they may do is for policy"},
	{Dir: "internal/vault", Layer: layerVault, Why: "the vault knows policy, the store and the keys as interfaces of its own"},
	{Dir: "internal/egress", Layer: layerEgress, Why: "rules for hosts are the same for every program that connects"},
	{Dir: "internal/evidence", Layer: layerEvidence, Why: "the journal keeps bytes and attest signs statements; neither knows how they came about"},
	{Dir: "internal/core", Layer: layerCore, Why: "the vocabulary of all packages imports nothing above it"},
	{Dir: "gen", Layer: layerWire, Only: none, Why: "it is generated from the protos alone"},

	{Dir: "internal/cli/calls/ask", Layer: layerCLI, Never: families, Why: "how a call is typed and shown, and how a person answers an approval, is the same in every command"},
	{Dir: "internal/cli/calls/desktop", Layer: layerCLI, Only: []string{"internal/core", "internal/cli/printer"}, Why: "what tells the desktop of a call knows no gateway, so that it cannot answer"},
	{Dir: "internal/cli/setup/install", Layer: layerCLI, Never: families, Why: "what is written into the settings of agents is planned, noted and removed in one place for every command"},
	{Dir: "internal/cli/setup/service", Layer: layerCLI, Never: families, Why: "the start of palyrad by a service manager is apart from what else is set up"},
	{Dir: "internal/cli/setup/takeover", Layer: layerCLI, Never: families, Why: "servers leave the configuration of an agent for the gateway apart from how that is typed and shown"},
	{Dir: "internal/cli/things/moving", Layer: layerCLI, Never: families, Why: "secrets leave a configuration for the vault apart from how that is typed and shown"},
	{Dir: "internal/cli/browser", Layer: layerCLI, Never: families, Why: "a link is shown to a person in one way for every command"},
	{Dir: "internal/cli/witness", Layer: layerCLI, Never: families, Why: "what was seen of a gateway is remembered in one place for every command"},
	{Dir: "internal/cli/client", Layer: layerCLI, Never: families, Why: "the one way to the gateway knows no command"},
	{Dir: "internal/cli/printer", Layer: layerCLI, Only: []string{"internal/cli/command", "internal/core"}, Why: "what prints knows no gateway, so that its output does not depend on the gateway that is asked"},
	{Dir: "internal/cli/command", Layer: layerCLI, Only: []string{"internal/core"}, Why: "what every command is built of knows none of them"},

	{Dir: "internal/surface/hook/client", Layer: layerSurface, Only: none, Why: "it starts before every call of an agent, which waits for all that it links"},
	{Dir: "internal/surface/notify", Layer: layerSurface, Never: protocols, Why: "notices are read off the journal, so that nothing that is recorded waits for a receiver"},
	{Dir: "internal/surface/console", Layer: layerSurface, Never: protocols, Why: "who may open the console is apart from the API that is served to it"},

	{Dir: "internal/call/dispatch", Layer: layerCall, Never: []string{"internal/call/approval"}, Why: "dispatch takes permits; it does not judge"},
	{Dir: "internal/call/decision", Layer: layerCall, Only: []string{"internal/call/approval", "internal/call/policy", "internal/core"}, Why: "a decision is pure: verdict, answer and budget in, record and permit out"},
	{Dir: "internal/call/policy", Layer: layerCall, Only: []string{"internal/call/policy/finding", "internal/call/policy/internal", "internal/call/policy/cedarschema", "internal/core"}, Why: "policy knows neither who answers questions nor who writes records, and decides without knowing that it is explained"},
	{Dir: "internal/call/policy/internal", Layer: layerCall, Only: []string{"internal/call/policy/finding", "internal/call/policy/internal", "internal/core"}, Why: "the parts of policy know no reader of it"},
	{Dir: "internal/call/policy/finding", Layer: layerCall, Only: []string{"internal/core"}, Why: "a finding is a value"},
	{Dir: "internal/call/policy/explain", Layer: layerCall, Never: []string{"internal/call/policy/lint", "internal/call/policy/policytests"}, Why: "an explanation reads policies and decides nothing"},
	{Dir: "internal/call/policy/lint", Layer: layerCall, Never: []string{"internal/call/policy/explain", "internal/call/policy/policytests"}, Why: "a warning reads policies; what keeps a set from loading is found by the part that decides"},
	{Dir: "internal/call/policy/policytests", Layer: layerCall, Why: "a test of policies says why it failed, and decides nothing"},
	{Dir: "internal/call/policy/profile", Layer: layerCall, Only: []string{"internal/call/policy", "internal/core"}, Why: "a profile is text to start from"},
	{Dir: "internal/call/approval", Layer: layerCall, Only: []string{"internal/identity/passkey", "internal/core"}, Why: "approval knows its store and its evaluator as interfaces of its own"},
	{Dir: "internal/call/session", Layer: layerCall, Only: []string{"internal/core"}, Why: "a session counts what callers did; what that means is for policy"},
	{Dir: "internal/exec/skill/workshop", Layer: layerCall, Only: []string{"internal/exec/skill", "internal/exec/wasm/module", "internal/core"}, Why: "what starts compilers for an author of skills is no part of palyrad"},
	{Dir: "internal/exec/upstream/declared", Layer: layerCall, Never: []string{"internal/exec/upstream"}, Why: "the declaration of an upstream server is data, which stores keep and surfaces show; it starts and dials nothing"},
	{Dir: "internal/vault/kek", Layer: layerVault, Only: []string{"internal/vault/aead", "internal/vault/kek", "internal/vault/keyring", "internal/vault/passphrase", "internal/core"}, Why: "what wraps keys knows neither secrets nor who asks for them"},
	{Dir: "internal/identity/passkey", Layer: layerIdentity, Only: []string{"internal/core"}, Why: "what a passkey signed is checked by the gateway and by every reader of its journal, with nothing else at hand"},
	{Dir: "internal/identity/pairing/spake2plus", Layer: layerIdentity, Only: none, Why: "what turns a PIN into a key knows no devices, no network and no store"},
	{Dir: "internal/evidence/journal", Layer: layerEvidence, Only: []string{"internal/core"}, Why: "the journal knows bytes, not domains"},
	{Dir: "internal/evidence/attest", Layer: layerEvidence, Never: []string{"internal/evidence/journal"}, Why: "attest signs statements; it does not know where they are kept"},

	{Dir: "internal/core/access", Layer: layerCore, Only: []string{"internal/core/lazyregexp", "internal/core/reason"}, Why: whyLeaf},
	{Dir: "internal/core/canonical", Layer: layerCore, Only: []string{"internal/core/text"}, Why: whyLeaf},
	{Dir: "internal/core/reason", Layer: layerCore, Only: none, Why: whyLeaf},
	{Dir: "internal/core/limit", Layer: layerCore, Only: none, Why: "a leaf: limits count by names, and do not know what they mean"},
	{Dir: "internal/core/tool", Layer: layerCore, Never: []string{"internal/core/config", "internal/core/event", "internal/core/statedir"}, Why: "the vocabulary of a call, shared by every stage, must drag nothing in"},

	{Dir: "internal/archtest", Layer: layerMain, Only: none, Why: "it reads sources and imports none of them"},
	{Dir: "test", Layer: layerMain, Why: "end-to-end, attack, fault and bench tests drive the whole"},
}, apart(layerCLI, families, whyCommands), apart(layerSurface, protocols, whyProtocol))

// apart are rooms that may not import each other.
func apart(layer int, dirs []string, why string) []Room {
	rooms := make([]Room, len(dirs))
	for i, dir := range dirs {
		rooms[i] = Room{Dir: dir, Layer: layer, Never: slices.DeleteFunc(slices.Clone(dirs), func(d string) bool { return d == dir }), Why: why}
	}
	return rooms
}

// room returns the room with the longest folder that holds dir.
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

// CheckRooms finds packages that stand nowhere on the map.
func CheckRooms(t *Tree) []Finding {
	var out []Finding
	for _, p := range t.Sorted() {
		if _, ok := room(p.Dir); !ok {
			out = append(out, Finding{p.Dir, "this package is in no room: say where it belongs, in archtest.Rooms, CONTRIBUTING.md and RATIONALE.md"})
		}
	}
	return out
}

// CheckDirections finds imports that go up, sideways, or beyond what a room
// may know. Tests may import what they need.
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
			if say := judge(from, dir); say != "" {
				out = append(out, Finding{p.Dir, fmt.Sprintf("imports %s, %s; %s", dir, say, from.Why)})
			}
		}
	}
	return out
}

func sameRoom(dir string, r Room) bool {
	to, ok := room(dir)
	return ok && to.Dir == r.Dir
}

// judge returns what is wrong with an import of dir by a room, or "".
func judge(from Room, dir string) string {
	to, ok := room(dir)
	switch {
	case !ok:
		return "which is in no room"
	case testSupport(dir):
		return "which only tests may import"
	case within(dir, "gen") && !inAny(from.Dir, wireRooms):
		return "but only " + strings.Join(wireRooms, ", ") + " speak the wire format, so that a change of the API stops there"
	case from.Only != nil:
		if !inAny(dir, from.Only) {
			return "which is not on its list"
		}
	case slices.Contains(from.Never, to.Dir):
		return "which it may not know"
	case to.Layer > from.Layer:
		return "which stands above it"
	case to.Layer == from.Layer && top(to.Dir) != top(from.Dir):
		return "which stands beside it"
	}
	return ""
}

// top returns the first two parts of a directory, which the map has one layer for.
func top(dir string) string {
	parts := strings.SplitN(dir, "/", 3)
	return strings.Join(parts[:min(2, len(parts))], "/")
}

// wireRooms may import the generated code.
var wireRooms = []string{"internal/surface/api", "internal/gateway/presencehost", "internal/cli", "test"}

// testSupport reports whether dir is a helper package for tests: a room of its
// own, or such as internal/call/approval/approvaltest, named for the package that
// holds it.
func testSupport(dir string) bool {
	return slices.Contains(testRooms, dir) || path.Base(dir) == path.Base(path.Dir(dir))+"test"
}

// testRooms are what tests of many rooms share.
var testRooms = []string{"internal/gateway/gatewaytest", "internal/core/must", "internal/core/needs", "test/process"}

func inAny(dir string, list []string) bool {
	for _, base := range list {
		if within(dir, base) {
			return true
		}
	}
	return false
}
