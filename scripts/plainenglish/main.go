// Command plainenglish counts phrases that make technical English hard to read, per 10,000
// words, and fails if a rate exceeds its bound. See CONTRIBUTING.md, "Language".
//
//	go run ./scripts/plainenglish [-list PHRASE] [-text KIND] [-files] [DIR]
//
// It reads four kinds of text: Go comments, Go string literals that contain a space (messages,
// help, prompts), Markdown, and the TypeScript of the console. It skips tests, and generated
// and vendored files.
package main

import (
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"palyra/internal/core/lazyregexp"
)

// kinds are the kinds of text.
var kinds = []string{"comments", "strings", "docs", "web"}

// phrase is a phrase and the highest rate that is allowed, per 10,000 words.
type phrase struct {
	name    string
	pattern *lazyregexp.Regexp
	bound   float64
}

// skipped are directories without text of this project.
var skipped = lazyregexp.New(`/(gen|vendor|node_modules|third_party|\.git|testdata|bin|\.tools|dist)(/|$)`)

var (
	comment = lazyregexp.New(`(?:^|\s)//(.*)`)
	literal = lazyregexp.New("\"((?:[^\"\\\\]|\\\\.)*)\"|`([^`]*)`")
	webText = lazyregexp.New("^\\s*(//|\\*|/\\*)|['\"`>][^'\"`<]* [^'\"`<]*['\"`<]")
)

// line is one text and its place.
type line struct {
	kind, path string
	number     int
	text       string
}

func main() {
	list := flag.String("list", "", "print the places of one phrase")
	kind := flag.String("text", "", "with -list: only comments, strings, docs or web")
	files := flag.Bool("files", false, "print the files with the most phrases")
	flag.Parse()
	root := "."
	if flag.NArg() > 0 {
		root = flag.Arg(0)
	}
	lines, err := read(root)
	if err != nil {
		fmt.Fprintln(os.Stderr, "plainenglish:", err)
		os.Exit(2)
	}
	if *list != "" {
		printPlaces(os.Stdout, lines, *list, *kind)
		return
	}
	if *files {
		printFiles(os.Stdout, lines)
	}
	if above := report(os.Stdout, lines); len(above) > 0 {
		fmt.Fprintf(os.Stderr, "plainenglish: above the bound: %s\nnext: Rewrite the sentences that `go run ./scripts/plainenglish -list PHRASE` prints.\n", strings.Join(above, "; "))
		os.Exit(1)
	}
}

// read returns the texts of a checkout.
func read(root string) (lines []line, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && skipped.MatchString("/"+filepath.ToSlash(path)+"/"):
			return filepath.SkipDir
		case d.IsDir():
			return nil
		}
		lines, err = appendFile(lines, path)
		return err
	})
	return lines, err
}

// appendFile appends the texts of a file.
func appendFile(lines []line, path string) ([]line, error) {
	isGo := strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go")
	isDoc := strings.HasSuffix(path, ".md")
	isWeb := (strings.HasSuffix(path, ".ts") || strings.HasSuffix(path, ".tsx")) && strings.Contains("/"+filepath.ToSlash(path), "/web/") &&
		!strings.Contains(path, ".spec.") && !strings.Contains(path, ".test.")
	if !isGo && !isDoc && !isWeb {
		return lines, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return lines, err
	}
	if isGo && strings.Contains(string(text[:min(len(text), 500)]), "DO NOT EDIT") {
		return lines, nil
	}
	for i, s := range strings.Split(string(text), "\n") {
		switch {
		case isGo:
			lines = appendGo(lines, path, i+1, s)
		case isDoc:
			lines = append(lines, line{"docs", path, i + 1, s})
		case webText.MatchString(s):
			lines = append(lines, line{"web", path, i + 1, s})
		}
	}
	return lines, nil
}

// appendGo appends the comment and the string literals of a line of Go.
func appendGo(lines []line, path string, number int, s string) []line {
	if m := comment.FindStringSubmatch(s); m != nil {
		content := m[1]
		if !strings.HasPrefix(content, "go:") && !strings.HasPrefix(content, "nolint") && !strings.HasPrefix(content, "line ") {
			lines = append(lines, line{"comments", path, number, content})
			s = strings.TrimSuffix(s, m[0])
		}
	}
	for _, m := range literal.FindAllStringSubmatch(s, -1) {
		if text := m[1] + m[2]; strings.Contains(text, " ") {
			lines = append(lines, line{"strings", path, number, text})
		}
	}
	return lines
}

func printPlaces(w io.Writer, lines []line, name, kind string) {
	for _, p := range phrases {
		if !strings.Contains(p.name, strings.ToLower(name)) {
			continue
		}
		for _, l := range lines {
			if (kind == "" || kind == l.kind) && p.count(strings.ToLower(l.text)) > 0 {
				fmt.Fprintf(w, "%s:%d: %s\n", l.path, l.number, strings.TrimSpace(l.text))
			}
		}
	}
}

// printFiles prints the 40 files with the most phrases.
func printFiles(w io.Writer, lines []line) {
	counts := map[string]int{}
	for _, l := range lines {
		for _, p := range phrases {
			counts[l.path] += p.count(strings.ToLower(l.text))
		}
	}
	paths := slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return counts[b] - counts[a] })
	for _, path := range paths[:min(40, len(paths))] {
		fmt.Fprintf(w, "%6d phrases  %s\n", counts[path], path)
	}
}

// report prints the rates, and returns the rates that exceed their bounds.
func report(w io.Writer, lines []line) (above []string) {
	words, hits := map[string]int{}, map[string]map[string]int{}
	for _, l := range lines {
		words[l.kind] += len(strings.Fields(l.text))
		low := strings.ToLower(l.text)
		for _, p := range phrases {
			if n := p.count(low); n > 0 {
				if hits[p.name] == nil {
					hits[p.name] = map[string]int{}
				}
				hits[p.name][l.kind] += n
			}
		}
	}
	fmt.Fprintf(w, "%-36s", "per 10,000 words")
	for _, kind := range kinds {
		fmt.Fprintf(w, "%10s", kind)
	}
	fmt.Fprintf(w, "%9s\n", "bound")
	for _, p := range phrases {
		fmt.Fprintf(w, "%-36s", p.name)
		for _, kind := range kinds {
			rate := 1e4 * float64(hits[p.name][kind]) / float64(max(1, words[kind]))
			fmt.Fprintf(w, "%10.1f", rate)
			if words[kind] > 2000 && rate > p.bound {
				above = append(above, fmt.Sprintf("%q in %s (%.1f)", p.name, kind, rate))
			}
		}
		fmt.Fprintf(w, "%9.1f\n", p.bound)
	}
	return above
}
