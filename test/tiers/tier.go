package main

import (
	"fmt"
	"slices"
	"time"
)

// suite is the command that runs a tier.
type suite int

const (
	// quick tiers belong to "make quick", core tiers to "make test", long tiers to
	// "make test-all".
	quick suite = iota
	core
	long
)

// tier is a set of tests with the same needs and flags.
type tier struct {
	name  string
	about string
	suite suite
	// needs are the prerequisites of the tier.
	needs []need
	// processors and memory (in GiB) are the highest usage; 0 processors means all.
	processors, memory int
	// beside is the number of additional parallel packages per processor, for packages that wait
	// most of the time.
	beside int
	// budget is the expected time on two processors. A slower tier is named in the summary, and
	// does not fail.
	budget time.Duration

	// in selects the packages of a tier of Go tests, which run with flags.
	in    func(pkg) bool
	flags goFlags
	// affectedOnly leaves out packages that the change does not affect, unless packages are
	// chosen by name.
	affectedOnly bool
	// remaining leaves out packages that an earlier tier of the run includes with the race
	// detector.
	remaining bool
	// command is the command line of a tier without Go tests, which runs only if no packages are
	// selected; variables are added to its environment.
	command   []string
	variables []string
	// packages are the packages of the whole tier after the choice of -pkg.
	packages []pkg
}

// The folders whose tests drive programs: the programs of "make build", or the test binary itself
// for the scripts of the CLI.
var programFolders = []string{"cmd/palyra", "test/agents", "test/attack", "test/bench", "test/conformance", "test/e2e", "test/fault", "test/honest", "test/host", "test/upgrade", "test/wasm/spec"}

func drivesPrograms(p pkg) bool {
	return slices.ContainsFunc(programFolders, p.within)
}

// foreign are the packages whose tests need root, a network, a browser or a program that comes with
// neither Go nor git. "make quick" leaves them out. A single such test in another package checks
// this itself, with package needs.
var foreign = map[string]string{
	"test":                               "runs the programs in sandboxes",
	"internal/exec/sandbox/bubblewrap":   "starts bubblewrap",
	"internal/exec/sandbox/process":      "starts the launcher in user namespaces",
	"internal/exec/sandbox/cgroup":       "makes control groups",
	"internal/exec/sandbox/jail":         "starts sandboxes",
	"internal/exec/wasm":                 "starts the WASM worker in bubblewrap",
	"internal/exec/sandbox/disk":         "makes mounts",
	"internal/exec/workspace/overlay":    "mounts overlays",
	"cmd/palyra-wasm":                    "requires cgo",
	"cmd/palyra":                         "runs the scripts of the CLI against a daemon with sandboxes",
	"internal/identity/tpm":              "starts swtpm",
	"internal/vault/keyring":             "starts a keyring daemon",
	"internal/exec/sandbox/seatbelt":     "starts programs that stand in for macOS tools",
	"internal/exec/sandbox/cgroup/scope": "starts a D-Bus daemon",
}

// needsRaceDetector reports whether a package is concurrent and runs in the test process.
func needsRaceDetector(p pkg) bool { return isConcurrent(p) && !drivesPrograms(p) }

func isForeign(p pkg) bool {
	for folder := range foreign {
		if p.within(folder) && !p.within("test/tiers") {
			return true
		}
	}
	return false
}

// tiers is the table of all tiers, in the order in which they start.
var tiers = []tier{
	{
		name: "quick", suite: quick, memory: 3, budget: 3 * time.Minute,
		about: "every package, without the tests that need root, a network, a browser or a foreign program",
		needs: []need{goCommand, gitCommand},
		in:    func(p pkg) bool { return !isForeign(p) && !requiresCgo(p) },
		flags: goFlags{short: true}, beside: 1, // internal/gateway takes 90 s and is idle for half of it
	},
	{
		name: "race", suite: core, memory: 6, budget: 4 * time.Minute,
		about: "concurrent packages (race.txt) that the change affects, or that are chosen, with the race detector",
		needs: unitNeeds,
		in:    needsRaceDetector, affectedOnly: true,
		flags: goFlags{race: true, programs: true}, variables: []string{factsTime},
	},
	{
		name: "web", suite: core, processors: 1, memory: 1, budget: time.Minute,
		about:   "the console's own tests",
		needs:   []need{console},
		command: []string{".tools/node/bin/npm", "--prefix", "web", "run", "--silent", "test"}, variables: []string{pinnedNode},
	},
	{
		name: "packaging", suite: core, processors: 1, memory: 1, budget: time.Minute,
		about:   "the tools that list what is linked and make the packages",
		needs:   []need{goCommand},
		command: []string{"make", "--no-print-directory", "test-packaging"},
	},
	{
		name: browserTier, suite: core, processors: 1, memory: 2, budget: 5 * time.Minute,
		about:   "the console in Chromium against palyrad",
		needs:   browserNeeds,
		command: append(slices.Clone(playwright), "--grep-invert", "@matrix"), variables: []string{pinnedNode},
	},
	{
		name: "programs", suite: core, processors: 1, memory: 4, budget: 4 * time.Minute,
		about: "the programs as processes, end to end",
		needs: slices.Concat(sandboxNeeds, []need{console, typescript, grpcurl, specification, pip, systemNode, ipRoute, mounts, curlCommand, wgetCommand, openssl, dbus, keyring, swtpm, tmux, quickTools}),
		in: func(p pkg) bool {
			return drivesPrograms(p) && !p.within("test/agents") && !p.within("test/conformance") && !p.within("test/attack") && !p.within("test/fault") && !p.within("test/wasm")
		},
		// Ten tests wait 30 s for an approval to expire, the shortest time that a policy can set.
		flags: goFlags{programs: true, parallel: 6},
	},
	{
		name: "unit", suite: core, memory: 4, budget: 5 * time.Minute,
		about: "the packages that are not in the tier race, without the race detector",
		needs: unitNeeds,
		in:    func(p pkg) bool { return !drivesPrograms(p) && !requiresCgo(p) }, remaining: true,
		flags: goFlags{programs: true}, variables: []string{factsTime},
	},
	{
		name: "attack", suite: core, memory: 4, budget: 3 * time.Minute,
		about: "every attack of the catalogue, once, each with its control",
		needs: slices.Concat(sandboxNeeds, []need{ipRoute, openssl, systemNode, oddPrograms}),
		in:    func(p pkg) bool { return p.within("test/attack") || p.within("cmd/palyra-wasm") }, remaining: true,
		// The tier attack-matrix has the race detector.
		flags: goFlags{cgo: true, programs: true}, variables: []string{attackMatrix},
	},
	{
		// This tier has 18 tests, and takes 190 s and 90 s of processor time.
		name: "browser-matrix", suite: long, processors: 1, memory: 2, budget: 4 * time.Minute,
		about:   "every screen of the console in both themes and as wide as a phone",
		needs:   browserNeeds,
		command: append(slices.Clone(playwright), "--grep", "@matrix"), variables: []string{pinnedNode},
	},
	{
		name: "attack-matrix", suite: long, memory: 6, budget: 5 * time.Minute,
		about: "every attack against each wall alone, as root and as an ordinary user, with the race detector",
		needs: slices.Concat(sandboxNeeds, []need{ipRoute, openssl, systemNode, oddPrograms}),
		in:    func(p pkg) bool { return p.within("test/attack") },
		flags: goFlags{race: true, programs: true, long: true}, variables: []string{attackMatrix},
	},
	{
		name: "kills", suite: long, memory: 4, budget: 5 * time.Minute,
		about: "the daemon, a backup and an overlay killed at each step",
		needs: slices.Concat(sandboxNeeds, []need{mounts, keyring, dbus}),
		in: func(p pkg) bool {
			return p.within("internal/gateway") || p.within("internal/ops/backup") || p.within("internal/exec/workspace/overlay")
		},
		flags: goFlags{programs: true, long: true, run: "Kill|Crash|Disk|Damage|Flip|Load|Descriptors|Vault|Tamper|Reserve"},
	},
	{
		// This tier takes 178 s and as much processor time in parallel with other tiers, too much for
		// make test.
		name: "faults", suite: long, memory: 4, budget: 5 * time.Minute,
		about: "the programs killed, on full, slow and failing disks, with damaged files",
		needs: slices.Concat(sandboxNeeds, []need{mounts, keyring, dbus}),
		in:    func(p pkg) bool { return p.within("test/fault") },
		flags: goFlags{programs: true, long: true},
	},
	{
		name: "honest", suite: long, memory: 6, budget: 5 * time.Minute,
		about: "the tools of a developer's day in the sandbox, as root and as an ordinary user",
		needs: slices.Concat(sandboxNeeds, []need{pip, systemNode, quickTools, dailyTools, chromium, fonts}),
		in:    func(p pkg) bool { return p.within("test/honest") },
		flags: goFlags{programs: true, long: true, parallel: 2},
	},
	{
		// This tier takes 240 s, and 130 s of processor time.
		name: "guests", suite: long, memory: 4, budget: 5 * time.Minute,
		about: "WASM guests in the real worker: the tests of the WebAssembly specification, the largest module, every answer, the limits on emulated arm64",
		needs: slices.Concat(sandboxNeeds, []need{arm64}),
		in:    func(p pkg) bool { return p.within("test/wasm") },
		flags: goFlags{cgo: true, programs: true, long: true},
	},
	raceShard(1), raceShard(2), raceShard(3),
	{
		name: "upgrade", suite: long, memory: 3, budget: 5 * time.Minute,
		about:   "today's palyrad on the state of an older release with 20,000 events, made for the run",
		needs:   slices.Concat(sandboxNeeds, []need{history}),
		command: []string{"make", "--no-print-directory", "upgrade", "EVENTS=20000"},
	},
	{
		name: "fuzz", suite: long, memory: 3, budget: 5 * time.Minute,
		about:   "fuzz targets for 5 seconds each, beginning at another one for each commit",
		needs:   []need{goCommand, gitCommand},
		command: []string{"bin/tiers", "fuzz", "-each", "5s", "-within", "4m"},
	},
	{
		name: "conformance", suite: long, memory: 2, budget: 5 * time.Minute,
		about:   "the official conformance suite of MCP, directly and through the gateway",
		needs:   slices.Concat(sandboxNeeds, []need{ipRoute, console}),
		command: []string{"make", "--no-print-directory", "conformance"},
	},
	{
		name: "scripts-race", suite: long, memory: 4, budget: 5 * time.Minute,
		about: "the scripts of the CLI against a daemon, with the race detector",
		needs: slices.Concat(sandboxNeeds, []need{openssl, tmux}),
		in:    func(p pkg) bool { return p.ImportPath == module+"/cmd/palyra" },
		flags: goFlags{race: true, programs: true, long: true},
	},
	{
		name: "soak", suite: long, memory: 4, budget: 4 * time.Minute,
		about: "calls of every tool for two minutes while the workspace changes between their stages, with the race detector",
		needs: sandboxNeeds,
		in:    func(p pkg) bool { return p.within("test/facts") },
		flags: goFlags{race: true, programs: true, long: true}, variables: []string{"TEST_PALYRA_FACTS_TIME=2m"},
	},
	{
		name: "runs", suite: long, memory: 4, budget: 5 * time.Minute,
		about: "5,000 programs in sandboxes, four at a time and a tenth of them hostile, as root and as an ordinary user",
		needs: sandboxNeeds,
		in:    func(p pkg) bool { return p.within("test/attack") },
		flags: goFlags{programs: true, run: "TestHonestRuns"}, variables: []string{"TEST_PALYRA_ATTACK_RUNS=5000"},
	},
}

// sandboxNeeds are the needs of tests that run programs in sandboxes.
var sandboxNeeds = []need{goCommand, gitCommand, cCompiler, programs, bubblewrap, python, strace, seccompHeader, utilLinux, userNamespaces, diskSpace, loopback}

// unitNeeds are the needs of packages that drive no programs of Palyra.
var unitNeeds = slices.Concat(sandboxNeeds, []need{pip, systemNode, ipRoute, mounts, curlCommand, wgetCommand, openssl, dbus, keyring, swtpm, tmux})

// factsTime sets how long test/facts makes calls.
const factsTime = "TEST_PALYRA_FACTS_TIME=10s"

// raceShards is the number of tiers that share the concurrent packages. With the race
// detector they take 20 minutes of processor time, too much for make test.
const raceShards = 3

// raceShard returns the tier of one share; shares are numbered from 1.
func raceShard(number int) tier {
	return tier{
		name: fmt.Sprintf("race-%d", number), suite: long, memory: 6, budget: 5 * time.Minute,
		about: fmt.Sprintf("share %d of %d of the concurrent packages (race.txt), with the race detector", number, raceShards),
		needs: unitNeeds,
		in:    func(p pkg) bool { return needsRaceDetector(p) && shardOf(p) == number },
		flags: goFlags{race: true, programs: true, parallel: 4}, variables: []string{factsTime},
	}
}

// browserNeeds are the needs of tests that drive the console in Chromium.
var browserNeeds = []need{console, programs, chromium, fonts, bubblewrap, python, userNamespaces, diskSpace, loopback}

// playwright drives the console in Chromium; further arguments select tests.
var playwright = []string{".tools/node/bin/npm", "--prefix", "web", "run", "--silent", "test:browser", "--"}

// pinnedNode puts the Node of scripts/node before the Node of the system in PATH.
const pinnedNode = "PATH=$PWD/.tools/node/bin:$PATH"

// attackMatrix names the file for the outcome of each attack; $PWD is the root of the repository.
const attackMatrix = "TEST_PALYRA_ATTACK_MATRIX=$PWD/bin/attack-matrix.txt"

// tiersOf returns the tiers of a suite.
func tiersOf(s suite) []tier {
	var chosen []tier
	for _, t := range tiers {
		if t.suite == s {
			chosen = append(chosen, t)
		}
	}
	return chosen
}

func tierNames() []string {
	var names []string
	for _, t := range tiers {
		names = append(names, t.name)
	}
	return names
}

// checkTiers returns an error when two tiers have the same name.
func checkTiers() error {
	names := tierNames()
	slices.Sort(names)
	if unique := slices.Compact(slices.Clone(names)); len(unique) != len(names) {
		return fmt.Errorf("two tiers have the same name: %v", names)
	}
	return nil
}
