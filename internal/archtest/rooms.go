package archtest

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Room is a folder of the map in CONTRIBUTING.md. A folder below it belongs
// to it unless it is listed itself.
type Room struct {
	Dir string
	// Layer orders the rooms: imports go from a higher layer to a lower one.
	Layer int
	// Only, when not nil, lists all rooms that this one may import.
	Only []string
	// Also lists rooms beside this one that it may import.
	Also []string
	// Divided rooms have a room of its own for each folder below them, so that a
	// new one has to say where it stands.
	Divided bool
	// Why is the reason that a broken rule prints.
	Why string
}

// none is an Only list that allows nothing.
var none = []string{}

// The layers, from what runs everything to what knows nothing.
const (
	layerMain = 100 - 10*iota
	layerWiring
	layerSurface
	layerRun
	layerPipeline
	layerDispatch
	layerDecision
	layerStage
	layerWords
	layerGround
	layerLeaf
)

// The layers inside the CLI, from the families of commands to what each command
// is built of. All stand between what runs everything and the surfaces.
const (
	layerCommands = layerWiring - 1 - iota
	layerNouns
	layerClient
	layerPrinter
	layerCommand
)

const whyCommands = "a family of commands knows no other: what two share is a noun of its own, or belongs to the printer or the client"

// Rooms is the map. A package that is in none of them fails the build.
var Rooms = []Room{
	{Dir: "cmd/palyrad", Layer: layerMain, Only: []string{"internal/gateway", "internal/core/config", "internal/core/version", "internal/core/reason"}, Why: "the daemon's main reads flags and calls daemon.Run; what it did beyond that could not be tested"},
	{Dir: "cmd/palyra", Layer: layerMain, Only: []string{"internal/cli", "internal/core/version"}, Why: "the CLI's main only calls cli, so that testscript can run the same code"},
	{Dir: "cmd/palyra-hook", Layer: layerMain, Only: []string{"internal/surface/hook/client"}, Why: "it starts before every call of an agent, and whatever it links it waits for"},
	{Dir: "cmd/palyra-wasm", Layer: layerMain, Only: []string{"internal/wasm"}, Why: "the worker counts as hostile; it knows what it says to palyrad and nothing of it"},
	{Dir: "cmd/palyra-init", Layer: layerMain, Only: []string{"internal/exec/sandbox"}, Why: "the helper runs inside the sandbox; all that it links is attack surface"},

	{Dir: "internal/gateway", Layer: layerWiring, Why: "the one package that knows all rooms"},
	{Dir: "internal/cli", Layer: layerWiring, Divided: true, Why: "the CLI is a client: what it can do, every API client can do"},
	{Dir: "internal/cli/calls", Layer: layerCommands, Why: whyCommands},
	{Dir: "internal/cli/calls", Layer: layerCommands, Why: whyCommands},
	{Dir: "internal/cli/setup", Layer: layerCommands, Why: whyCommands},
	{Dir: "internal/cli/setup", Layer: layerCommands, Why: whyCommands},
	{Dir: "internal/cli/setup", Layer: layerCommands, Why: whyCommands},
	{Dir: "internal/cli/evidence", Layer: layerCommands, Why: whyCommands},
	{Dir: "internal/cli/people", Layer: layerCommands, Why: whyCommands},
	{Dir: "internal/cli/things", Layer: layerCommands, Why: whyCommands},
	{Dir: "internal/cli/things", Layer: layerCommands, Why: whyCommands},
	{Dir: "internal/cli/people", Layer: layerCommands, Why: whyCommands},
	{Dir: "internal/cli/people", Layer: layerCommands, Why: whyCommands},
	{Dir: "internal/cli/policy", Layer: layerCommands, Why: whyCommands},
	{Dir: "internal/cli/people", Layer: layerCommands, Why: whyCommands},
	{Dir: "internal/cli/runs", Layer: layerCommands, Why: whyCommands},
	{Dir: "internal/cli/people", Layer: layerCommands, Why: whyCommands},
	{Dir: "internal/cli/people", Layer: layerCommands, Why: whyCommands},
	{Dir: "internal/cli/people", Layer: layerCommands, Why: whyCommands},
	{Dir: "internal/cli/calls", Layer: layerCommands, Why: whyCommands},
	{Dir: "internal/cli/things", Layer: layerCommands, Why: whyCommands},
	{Dir: "internal/cli/people", Layer: layerCommands, Why: whyCommands},
	{Dir: "internal/cli/tui", Layer: layerCommands, Why: whyCommands},
	{Dir: "internal/cli/things", Layer: layerCommands, Why: whyCommands},
	{Dir: "internal/cli/things", Layer: layerCommands, Why: whyCommands},
	{Dir: "internal/cli/calls", Layer: layerCommands, Why: whyCommands},
	{Dir: "internal/cli/calls/ask", Layer: layerNouns, Why: "how a call is typed and shown is the same in every command that has one"},
	{Dir: "internal/cli/calls/ask", Layer: layerNouns, Why: "how a person answers an approval is the same in every command that waits for one"},
	{Dir: "internal/cli/browser", Layer: layerNouns, Why: "a link that is good for whoever has it is shown to the person in one way, whatever it leads to"},
	{Dir: "internal/cli/browser", Layer: layerNouns, Why: "the browser of a login comes back to one kind of listener, whoever the login is at"},
	{Dir: "internal/cli/setup/takeover", Layer: layerNouns, Why: "what leaves the configuration of an agent for the gateway is taken and put back apart from how that is typed and shown"},
	{Dir: "internal/cli/witness", Layer: layerNouns, Why: "what was seen of a gateway is remembered in one place, whichever command saw it"},
	{Dir: "internal/cli/setup/install", Layer: layerNouns, Why: "what is written into the settings of agents is planned, noted and taken back in one place, whichever command asks"},
	{Dir: "internal/cli/setup/service", Layer: layerNouns, Why: "how palyrad is started for a person is apart from what else is set up with it"},
	{Dir: "internal/cli/things/moving", Layer: layerNouns, Why: "what leaves a configuration for the vault is moved, undone and finished apart from how that is typed and shown"},
	{Dir: "internal/cli/calls/desktop", Layer: layerNouns, Only: []string{"internal/core/bus", "internal/core/text", "internal/cli/printer"}, Why: "what tells the desktop of a call knows no gateway, so that it cannot answer"},
	{Dir: "internal/cli/client", Layer: layerClient, Why: "the one way to the gateway knows no command"},
	{Dir: "internal/cli/printer", Layer: layerPrinter, Only: []string{"internal/cli/command", "internal/core/lazyregexp", "internal/core/text", "internal/core/progress", "internal/core/reason"}, Why: "what prints knows no gateway, so that what it prints does not depend on who is asked"},
	{Dir: "internal/cli/command", Layer: layerCommand, Only: []string{"internal/core/lazyregexp", "internal/core/text", "internal/core/reason"}, Why: "what every command is built of knows none of them"},

	{Dir: "internal/surface/api", Layer: layerSurface, Why: "a surface proposes calls to the pipeline and does not reach around it"},
	{Dir: "internal/surface/api/dualcontrol", Layer: layerSurface, Also: []string{"internal/surface/api"}, Why: "what stands between the handlers and the rooms knows both, and daemon alone puts it there"},
	{Dir: "internal/surface/mcp", Layer: layerSurface, Why: "MCP clients propose calls to the pipeline like those of every surface; the API guards what they send"},
	{Dir: "internal/gateway/doctor", Layer: layerSurface, Why: "the doctor looks at the parts that it is handed, and opens no store and no sandbox of its own"},
	{Dir: "internal/run", Layer: layerRun, Why: "the model loop sends every tool call through the pipeline; surfaces and stores serve it"},
	{Dir: "internal/surface/hook/client", Layer: layerLeaf, Only: none, Why: "it starts before every call of an agent, and whatever it links that agent waits for"},
	{Dir: "internal/surface/hook", Layer: layerRun, Also: []string{"internal/surface/resume"}, Why: "what agents run themselves is proposed to the pipeline like any other call; how it is served is the surface's business"},
	{Dir: "internal/surface/resume", Layer: layerRun, Why: "a call that its client leaves goes on behind the pipeline, whichever surface the client came by"},
	{Dir: "internal/call/policyadmin", Layer: layerRun, Why: "loading policies and reading what they judged decides nothing; stores and surfaces serve it"},
	{Dir: "internal/mcp", Layer: layerRun, Divided: true, Why: "what MCP is to the gateway is several things, and each has to say where it stands"},
	{Dir: "internal/exec/upstream/declared", Layer: layerStage, Also: []string{"internal/vault", "internal/exec/sandbox"}, Why: "what upstream servers are is data, which stores keep and surfaces show; it starts and dials nothing"},
	{Dir: "internal/exec/upstream/oauth", Layer: layerRun, Also: []string{"internal/identity/login"}, Why: "the gateway is a client of authorization servers here as in login, and asks them by the same rules; what comes of it goes to the vault and to the upstream server alone"},
	{Dir: "internal/exec/upstream/packages", Layer: layerRun, Why: "installing a package is a call that runs a program: an executor beside that of upstream servers, which know it as the place where their programs are"},
	{Dir: "internal/exec/upstream", Layer: layerRun, Also: []string{"internal/exec/upstream/oauth"}, Why: "an upstream server is an executor: dispatch gets its tools from the daemon, and runs them by a permit"},
	{Dir: "internal/ops/changesets", Layer: layerRun, Why: "what commits did is listed and taken back without a call"},
	{Dir: "internal/identity/login", Layer: layerRun, Why: "the identity provider is asked in one place, and what it says arrives at the members as a person with roles"},
	{Dir: "internal/surface/console", Layer: layerRun, Also: []string{"internal/identity/login"}, Why: "who is let into the console, and what a browser may do there, is apart from the API that is served to it"},
	{Dir: "internal/ops/audit", Layer: layerRun, Why: "who was refused is written to the journal alone"},
	{Dir: "internal/ops/quota", Layer: layerRun, Why: "what principals leave behind is told to it by the store, which it knows as an interface"},
	{Dir: "internal/ops/telemetry", Layer: layerRun, Why: "metrics are read off the journal; nothing reports to them"},
	{Dir: "internal/surface/notify", Layer: layerRun, Why: "notices are read off the journal, so that nothing that is recorded waits for a receiver; votes from elsewhere are cast at the desk like every other"},
	{Dir: "internal/surface/notify/targets", Layer: layerRun, Also: []string{"internal/surface/notify", "internal/identity/login"}, Why: "what the configuration names is built in one place, with the rules by which it is reached"},
	{Dir: "internal/ops/keyadmin", Layer: layerRun, Also: []string{"internal/ops/journalkey"}, Why: "the gateway's own keys are listed and replaced in one way, whoever asks"},
	{Dir: "internal/ops/backup", Layer: layerRun, Why: "what a backup holds and how it is judged is one matter; stores are copied and verified by what it is handed"},
	{Dir: "internal/ops/vaultkey", Layer: layerRun, Why: "the vault's key knows no journal, and the journal no vault; here one remembers the other"},
	{Dir: "internal/ops/journalkey", Layer: layerRun, Why: "the journal knows keys and the authority certifies them; neither knows the other"},
	{Dir: "internal/store/sqlite/tending", Layer: layerGround, Only: []string{"internal/core/reason"}, Why: "when the store is tended is apart from how"},
	{Dir: "internal/store/sqlite/walbatch", Layer: layerGround, Why: "how SQLite writes files knows nothing of what is in them"},
	{Dir: "internal/store/sqlite/deliveries", Layer: layerSurface, Also: []string{"internal/store/sqlite"}, Why: "what is owed to receivers is kept beside the records of calls, which know nothing of it"},
	{Dir: "internal/store/sqlite/guestdata", Layer: layerSurface, Also: []string{"internal/store/sqlite"}, Why: "what guests store is theirs, and no record of a call knows of it"},
	{Dir: "internal/store/sqlite", Layer: layerSurface, Why: "stores implement the interfaces of the rooms; the rooms do not know them"},

	{Dir: "internal/call", Layer: layerPipeline, Why: "the one place where the stages meet, in order"},
	{Dir: "internal/call/record", Layer: layerDispatch, Why: "what a call's events say is read in one place: by the pipeline that wrote them, runs, stores and the CLI"},
	{Dir: "internal/call/dispatch", Layer: layerDispatch, Why: "dispatch takes permits; it does not judge"},
	{Dir: "internal/call/dualcontrol", Layer: layerDecision, Why: "who answers for a change of the gateway stands in code, beside the pipeline and below all that changes something"},
	{Dir: "internal/call/decision", Layer: layerDecision, Why: "a decision is pure: verdict, answer and budget in, record and permit out"},

	{Dir: "internal/call/policy", Layer: layerStage, Why: "policy does not know who asks humans or who writes records"},
	{Dir: "internal/call/policy/explain", Layer: layerDecision, Why: "an explanation reads policies; the part that decides does not know that it is explained"},
	{Dir: "internal/call/policy/lint", Layer: layerDecision, Why: "a warning reads policies; what keeps a set from loading is found by the part that decides"},
	{Dir: "internal/call/policy/policytests", Layer: layerDecision, Also: []string{"internal/call/policy/explain", "internal/call/policy/lint"}, Why: "a test of policies says what is wrong with them and why it failed, and decides nothing"},
	{Dir: "internal/call/policy/profile", Layer: layerDecision, Why: "a profile is text to start from"},
	{Dir: "internal/call/approval", Layer: layerStage, Why: "approval knows its store and its evaluator as interfaces of its own"},
	{Dir: "internal/call/session", Layer: layerStage, Why: "a session counts what callers did; what that means is policy's business"},
	{Dir: "internal/exec/skill", Layer: layerStage, Also: []string{"internal/exec/wasm/guest"}, Why: "a package is read, signed and audited in one way, by palyrad that installs it and by those who make it; it runs nothing and trusts nobody"},
	{Dir: "internal/exec/skill/registry", Layer: layerDecision, Why: "what is installed and may run is known in one place, which runs nothing; stores, surfaces and the catalog of tools serve it"},
	{Dir: "internal/exec/skill/catalog", Layer: layerDecision, Why: "a skill's tool knows what a call is and what its guest may use; what runs guests, and what lends and stores, is handed to it"},
	{Dir: "internal/exec/skill/workshop", Layer: layerDecision, Only: []string{"internal/core/canonical", "internal/core/reason", "internal/exec/skill", "internal/wasm"}, Why: "what starts compilers at somebody's desk is nothing that palyrad has"},
	{Dir: "internal/evidence/attest", Layer: layerStage, Why: "attest signs statements; it does not know how they came about"},
	{Dir: "internal/evidence/journal", Layer: layerStage, Why: "the journal knows bytes, not domains"},
	{Dir: "internal/identity", Layer: layerStage, Why: "identity issues certificates; what they permit is policy's business"},
	{Dir: "internal/identity/pairing", Layer: layerStage, Also: []string{"internal/identity"}, Why: "a pairing is an exchange of messages, on whatever wire; who is asked and what is issued is told to it"},
	{Dir: "internal/identity/token", Layer: layerStage, Why: "a token says who calls; what that permits is policy's business"},
	{Dir: "internal/vault", Layer: layerStage, Why: "the vault knows policy, the store and the keys as interfaces of its own"},
	{Dir: "internal/exec/program/lend", Layer: layerStage, Also: []string{"internal/vault"}, Why: "lending turns the vault's secrets into what tools use by placeholders or give to programs; tools know no vault"},
	{Dir: "internal/run/model", Layer: layerStage, Why: "a provider turns messages into deltas; it runs no tools"},
	{Dir: "internal/exec/sandbox", Layer: layerStage, Why: "the vocabulary of isolation does not know its backends"},
	{Dir: "internal/exec/sandbox/process", Layer: layerStage, Also: []string{"internal/exec/sandbox"}, Why: "a backend knows the vocabulary and no other backend"},
	{Dir: "internal/exec/sandbox/bubblewrap", Layer: layerStage, Also: []string{"internal/exec/sandbox"}, Why: "a backend knows the vocabulary and no other backend"},
	{Dir: "internal/exec/sandbox/seatbelt", Layer: layerStage, Also: []string{"internal/exec/sandbox"}, Why: "a backend knows the vocabulary and no other backend"},
	{Dir: "internal/exec/sandbox/jobobject", Layer: layerStage, Also: []string{"internal/exec/sandbox"}, Why: "a backend knows the vocabulary and no other backend"},
	{Dir: "internal/wasm", Layer: layerGround, Why: "what a module is made of and what a worker is told are bytes; nothing here runs anything"},
	{Dir: "internal/exec/wasm/guest", Layer: layerStage, Also: []string{"internal/wasm"}, Why: "what a call of a guest is, is known by who plans it and by who runs it, and these do not know each other"},
	{Dir: "internal/exec/wasm", Layer: layerStage, Also: []string{"internal/exec/sandbox", "internal/wasm", "internal/exec/wasm/guest"}, Why: "Tier A runs its worker in the sandbox that it is handed"},
	{Dir: "internal/exec/sandbox/ladder", Layer: layerDispatch, Why: "the order of the backends knows them all, and is known to daemon alone"},
	{Dir: "internal/exec/sandbox/exec", Layer: layerDispatch, Why: "a program without a gateway runs in the sandbox that it is handed"},
	{Dir: "internal/exec/program/committing", Layer: layerStage, Why: "what a program changed goes to the commit gate in one way, whichever tool ran it"},
	{Dir: "internal/exec/program/injecting", Layer: layerStage, Also: []string{"internal/exec/sandbox", "internal/exec/program/committing"}, Why: "a secret gets into a program, and is kept out of what that leaves, in one way, whichever tool runs it"},
	{Dir: "internal/exec/builtin", Layer: layerStage, Also: []string{"internal/exec/sandbox", "internal/exec/program/committing", "internal/exec/program/injecting"}, Why: "a builtin tool knows what a call is, not who decided it"},

	{Dir: "internal/vault/kek", Layer: layerWords, Only: []string{"internal/vault/aead", "internal/core/canonical", "internal/core/statedir/keyfile", "internal/vault/keyring", "internal/vault/passphrase", "internal/core/reason", "internal/core/statedir"}, Why: "what wraps keys knows neither secrets nor who asks for them; the vault, and what is encrypted at rest, stand on it"},
	{Dir: "internal/agent/watch", Layer: layerWords, Only: []string{"internal/core/access", "internal/agent/files", "internal/core/canonical", "internal/core/event", "internal/agent/edit/jsonc", "internal/core/reason", "internal/core/tomledit"}, Why: "what stands in the settings of agents is read and told of; what that means is a person's to say"},
	{Dir: "internal/core/tool", Layer: layerWords, Only: []string{"internal/core/access", "internal/core/canonical", "internal/core/text", "internal/core/encoded", "internal/core/lazyregexp", "internal/core/text", "internal/core/reason"}, Why: "the vocabulary of a call, shared by every stage, must drag nothing in"},
	{Dir: "internal/egress", Layer: layerWords, Also: []string{"internal/core/tool"}, Why: "host rules are the same whoever fetches"},

	{Dir: "internal/exec/workspace", Layer: layerGround, Only: []string{"internal/core/canonical", "internal/core/text", "internal/core/lazyregexp", "internal/core/text", "internal/core/reason"}, Why: "files inside a declared root, whoever opens them"},
	{Dir: "internal/ops/socket", Layer: layerGround, Only: []string{"internal/core/reason"}, Why: "what a service manager hands over is taken in one place, once"},
	{Dir: "internal/agent/files", Layer: layerGround, Only: []string{"internal/exec/workspace"}, Why: "where agents keep settings is one table, for those who write them and those who guard them"},
	{Dir: "internal/agent/edit", Layer: layerGround, Only: []string{"internal/core/statedir/keyfile", "internal/core/reason"}, Why: "a file of somebody else is replaced in one way, whatever it holds"},
	{Dir: "internal/core/config", Layer: layerGround, Only: []string{"internal/core/access", "internal/core/text", "internal/core/dnsname", "internal/core/lazyregexp", "internal/core/text", "internal/core/reason", "internal/core/tomledit"}, Why: "the file and its checks; the stages of a call get plain values from daemon"},
	{Dir: "internal/core/statedir", Layer: layerGround, Only: []string{"internal/core/filelock", "internal/core/reason"}, Why: "where things lie in the state directory, whoever opens them"},
	{Dir: "internal/vault/keyring", Layer: layerGround, Only: []string{"internal/core/bus", "internal/core/reason"}, Why: "a keyring keeps bytes, whatever they are the key of"},
	{Dir: "internal/core/statedir/keyfile", Layer: layerGround, Only: []string{"internal/core/reason"}, Why: "a private file is guarded in one way, whatever it holds"},
	{Dir: "internal/ops/localsocket", Layer: layerGround, Only: []string{"internal/core/reason", "internal/core/trusted"}, Why: "whose process connects is the kernel's word; what that permits is policy's business"},
	{Dir: "internal/core/page", Layer: layerGround, Only: []string{"internal/core/reason"}, Why: "pages are the same whatever is listed"},
	{Dir: "internal/core/bus", Layer: layerGround, Only: none, Why: "a bus is connected to in one way, whoever is asked over it"},
	{Dir: "internal/core/strictyaml", Layer: layerGround, Only: none, Why: "a leaf: YAML is as strict whatever it says"},
	{Dir: "internal/vault/atrest", Layer: layerGround, Only: []string{"internal/vault/aead", "internal/core/reason"}, Why: "what seals a value knows where it stands, and no tables; the vault is an interface of its own"},
	{Dir: "internal/core/limit", Layer: layerGround, Only: none, Why: "a leaf: sums of bytes know keys, not principals"},
	{Dir: "internal/identity/passkey", Layer: layerGround, Only: []string{"internal/core/access", "internal/core/canonical", "internal/core/reason"}, Why: "a leaf: what a passkey signed is checked by the gateway and by whoever reads its journal, with nothing else at hand"},
	{Dir: "internal/core/provenance", Layer: layerGround, Only: []string{"internal/core/access", "internal/core/event"}, Why: "a leaf: who made whom knows neither votes nor certificates"},
	{Dir: "internal/core/limit", Layer: layerGround, Only: none, Why: "a leaf: whose turn it is depends on names, not on what they wait for"},
	{Dir: "internal/core/limit", Layer: layerGround, Only: none, Why: "a leaf: token buckets know keys, not principals"},

	{Dir: "internal/core/access", Layer: layerLeaf, Only: []string{"internal/core/lazyregexp", "internal/core/reason"}, Why: "a leaf: every room may import it"},
	{Dir: "internal/core/reason", Layer: layerLeaf, Only: none, Why: "a leaf: every room may import it"},
	{Dir: "internal/core/event", Layer: layerLeaf, Only: []string{"internal/core/canonical"}, Why: "a leaf: every room may import it"},
	{Dir: "internal/core/canonical", Layer: layerLeaf, Only: []string{"internal/core/text"}, Why: "a leaf: every room may import it"},
	{Dir: "internal/vault/aead", Layer: layerLeaf, Only: none, Why: "a leaf: whatever is stored under a key is so in one form"},
	{Dir: "internal/evidence/dsse", Layer: layerLeaf, Only: none, Why: "a leaf: whatever is signed is so in one form, and read as strictly"},
	{Dir: "internal/core/encoded", Layer: layerLeaf, Only: none, Why: "a leaf: whoever looks for secrets reads encodings the same way"},
	{Dir: "internal/core/text", Layer: layerLeaf, Only: none, Why: "a leaf: every room may import it"},
	{Dir: "internal/core/text", Layer: layerLeaf, Only: none, Why: "a leaf: every room may import it"},
	{Dir: "internal/core/text", Layer: layerLeaf, Only: []string{"internal/core/lazyregexp"}, Why: "a leaf: what policies compare, questions show and lists have is one line"},
	{Dir: "internal/exec/program/shellwords", Layer: layerLeaf, Only: none, Why: "a leaf: what a text says in a shell's language is the same whoever runs it; what that means for policy is said above"},
	{Dir: "internal/core/dnsname", Layer: layerLeaf, Only: none, Why: "a leaf: every room may import it"},
	{Dir: "internal/core/trusted", Layer: layerLeaf, Only: []string{"internal/core/reason"}, Why: "a leaf: whose file the gateway obeys is asked in one way, whatever it says"},
	{Dir: "internal/core/filelock", Layer: layerLeaf, Only: none, Why: "a leaf: a file is locked in one way, whoever needs it"},
	{Dir: "internal/core/lazyregexp", Layer: layerLeaf, Only: none, Why: "a leaf: every room may import it"},
	{Dir: "internal/core/manpage", Layer: layerLeaf, Only: none, Why: "a leaf: every room may import it"},
	{Dir: "internal/identity/pairing/spake2plus", Layer: layerLeaf, Only: none, Why: "a leaf: what turns a PIN into a key knows no devices, no network and no store"},
	{Dir: "internal/vault/passphrase", Layer: layerLeaf, Only: []string{"internal/core/reason"}, Why: "a leaf: what is under a passphrase has one form, whatever it is"},
	{Dir: "internal/agent/edit/jsonc", Layer: layerLeaf, Only: none, Why: "a leaf: JSON with comments is edited the same way whatever it says"},
	{Dir: "internal/core/tomledit", Layer: layerLeaf, Only: none, Why: "a leaf: TOML is edited the same way whatever it says"},
	{Dir: "internal/core/wirename", Layer: layerLeaf, Only: none, Why: "what tools are called on the wire is the same for models and for MCP clients"},
	{Dir: "internal/core/text", Layer: layerLeaf, Only: none, Why: "a leaf: every room may import it"},
	{Dir: "internal/core/progress", Layer: layerLeaf, Only: none, Why: "a leaf: every room may import it"},
	{Dir: "internal/core/version", Layer: layerLeaf, Only: none, Why: "a leaf: every room may import it"},
	{Dir: "gen", Layer: layerLeaf, Only: none, Why: "generated from the protos alone"},

	{Dir: "internal/gateway/gatewaytest", Layer: layerMain, Why: "the world of tests builds the stages of a call, and only tests may stand on it"},
	{Dir: "internal/core/needs", Layer: layerLeaf, Only: none, Why: "a leaf: tests of every room may import it, and nothing else may"},
	{Dir: "internal/core/must", Layer: layerLeaf, Only: none, Why: "a leaf: tests of every room may import it, and nothing else may"},

	{Dir: "internal/archtest", Layer: layerMain, Only: none, Why: "it reads sources and imports none of them"},
	{Dir: "test", Layer: layerMain, Why: "end-to-end, attack, fault and bench tests drive the whole"},
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
		r, ok := room(p.Dir)
		if !ok || r.Divided && r.Dir != p.Dir && !testSupport(p.Dir) {
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
			if !isOwn || within(dir, from.Dir) && sameRoom(dir, from) {
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
		if !slices.Contains(from.Only, to.Dir) {
			return "which is not on its list"
		}
	case slices.Contains(from.Also, to.Dir):
	case to.Layer == from.Layer:
		return "which stands beside it"
	case to.Layer > from.Layer:
		return "which stands above it"
	}
	return ""
}

// wireRooms may import the generated code.
var wireRooms = []string{"internal/surface/api", "internal/cli", "test"}

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
