package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// programsVariable names the directory of the programs that "make build" linked, for the
// tests that drive them.
const programsVariable = "TEST_PALYRA_PROGRAMS"

// longVariable is set for tests that take minutes.
const longVariable = "TEST_PALYRA_LONG"

// garbageCollection is the value of GOGC unless the caller sets one. With more heap between
// two collections, the tests of internal/surface/api take a fifth less processor time.
const garbageCollection = "400"

// goFlags are the flags and environment of one go test command. Every tier compiles with
// -trimpath and with cgo off, as "make build" does, so that the build cache serves all tiers
// and all checkouts. The race detector and the attacks require cgo.
type goFlags struct {
	race, short, long, programs bool
	// cgo enables cgo without the race detector.
	cgo bool
	// run is a regular expression of tests.
	run   string
	count int
	// variables are the environment variables of the tier.
	variables []string
	// parallel is the number of parallel tests of a package, 0 for one per processor.
	parallel int
}

// unwatched are the packages that the race detector does not watch, because watching them
// doubles the time of the tests of internal/gateway. Each package only computes on data that
// one goroutine passes to it. encoding/json and other packages that access the structures of
// their callers stay watched. So do packages that synchronize by atomic variables, because the
// detector would miss the synchronization and report false races.
var unwatched = []string{
	"modernc.org/...", // SQLite, translated from C, with memory that the detector does not track
	"compress/...", "crypto/internal/fips140/...", "golang.org/x/crypto/argon2", "golang.org/x/crypto/blake2b",
	"math/big", "regexp/...", "strconv", "unicode/...",
	module + "/test/leaks", // searches every byte of a gateway's files for keys
}

// arguments returns the words after "go test".
func (f goFlags) arguments() []string {
	words := []string{"-tags", "palyrainit", "-trimpath"}
	if f.race {
		words = append(words, "-race")
		for _, pattern := range unwatched {
			words = append(words, "-gcflags="+pattern+"=-race=false")
		}
	}
	if f.short {
		words = append(words, "-short")
	}
	if f.count > 0 {
		words = append(words, fmt.Sprintf("-count=%d", f.count))
	}
	if f.parallel > 0 {
		words = append(words, fmt.Sprintf("-parallel=%d", f.parallel))
	}
	if f.run != "" {
		words = append(words, "-run", f.run)
	}
	return words
}

// environment returns the variables that differ from the caller's.
func (f goFlags) environment() []string {
	variables := []string{"CGO_ENABLED=0"}
	if f.race || f.cgo {
		variables = []string{"CGO_ENABLED=1"}
	}
	variables = append(variables, "GOGC="+cmp.Or(os.Getenv("GOGC"), garbageCollection))
	if f.long {
		variables = append(variables, longVariable+"=1")
	}
	if f.programs {
		directory, err := filepath.Abs("bin")
		if err == nil {
			variables = append(variables, programsVariable+"="+directory)
		}
	}
	return append(variables, f.variables...)
}

// reproduce returns a command line that runs one test again; "" is the whole package.
func (f goFlags) reproduce(pkg, test string) string {
	f.count, f.parallel = 1, 0
	f.run = pattern(test)
	line := []string{}
	for _, variable := range f.environment() {
		line = append(line, shellQuote(strings.ReplaceAll(variable, "="+workingDirectory(), "=$PWD")))
	}
	line = append(line, "go", "test")
	for _, word := range f.arguments() {
		line = append(line, shellQuote(word))
	}
	return strings.Join(append(line, "./"+strings.TrimPrefix(pkg, module+"/")), " ")
}

func workingDirectory() string {
	dir, err := os.Getwd()
	if err != nil {
		return "."
	}
	return dir
}

// pattern matches exactly one test or subtest, "TestA/sub" as ^TestA$/^sub$.
func pattern(test string) string {
	if test == "" {
		return ""
	}
	var parts []string
	for part := range strings.SplitSeq(test, "/") {
		parts = append(parts, "^"+quoteMeta(part)+"$")
	}
	return strings.Join(parts, "/")
}

// quoteMeta quotes a part of a test's name. The go command splits the pattern at slashes
// outside brackets, so that a bracket has to be quoted as well.
func quoteMeta(s string) string {
	var b strings.Builder
	for _, r := range s {
		if strings.ContainsRune(`\.+*?()|[]{}^$`, r) {
			b.WriteRune('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// shellQuote quotes a word for a POSIX shell if necessary. The shell expands $PWD.
func shellQuote(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_=./,:@%+", r)
	}
	rest := strings.Replace(word, "=$PWD", "", 1)
	if word != "" && !slices.ContainsFunc([]rune(rest), func(r rune) bool { return !plain(r) }) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
