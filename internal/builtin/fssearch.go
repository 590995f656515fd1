package builtin

import (
	"bytes"
	"context"
	"errors"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"

	"palyra/internal/reason"
	"palyra/internal/tool"
	"palyra/internal/workspace"
	"palyra/internal/workspace/unified"
)

const (
	fsSearchName = "fs.search"
	// Bounds of one search.
	searchMatches   = 100
	searchFileBytes = 8 << 20
	searchBytes     = 256 << 20
	searchFiles     = 50_000
	// searchLine is how much of a line is returned, in bytes.
	searchLine = 500
)

// fsSearch looks for lines.
type fsSearch struct{ files }

type searchInput struct {
	target
	Pattern         string `json:"pattern"`
	Literal         bool   `json:"literal"`
	CaseInsensitive bool   `json:"case_insensitive"`
	Glob            string `json:"glob"`
	MaxMatches      int    `json:"max_matches"`
	ContextLines    int    `json:"context_lines"`
	Hidden          bool   `json:"hidden"`
}

type searchMatch struct {
	Path string `json:"path"`
	// Line counts from 1, Column in bytes from 1.
	Line   int      `json:"line"`
	Column int      `json:"column"`
	Text   string   `json:"text"`
	Before []string `json:"before,omitempty"`
	After  []string `json:"after,omitempty"`
}

type searchResult struct {
	Workspace string        `json:"workspace"`
	Path      string        `json:"path"`
	Matches   []searchMatch `json:"matches"`
	// FilesSearched and FilesSkipped count files; skipped ones are binary, too
	// large or cannot be read.
	FilesSearched int  `json:"files_searched"`
	FilesSkipped  int  `json:"files_skipped"`
	Truncated     bool `json:"truncated"`
}

func (fsSearch) Descriptor() tool.Descriptor {
	return tool.Descriptor{
		Name: fsSearchName, Title: "Search in files",
		Description: "Find lines in the files of a workspace. The pattern is a regular expression in RE2 syntax, matched within one line, or literal text. " +
			"Leaves out .git directories, binary files, files over 8 MiB and symbolic links; results come in the order of paths.",
		InputSchema: schema(`"pattern"`,
			`"pattern": {"type": "string", "minLength": 1, "maxLength": 1000, "description": "RE2 regular expression, or literal text when literal is true."}`,
			`"literal": {"type": "boolean", "description": "Take the pattern literally. Default false."}`,
			`"case_insensitive": {"type": "boolean", "description": "Ignore case. Default false."}`,
			`"path": {"type": "string", "maxLength": 4096, "description": "File or directory to search, relative to the workspace. Default: all of it."}`,
			workspaceProperty,
			`"glob": {"type": "string", "maxLength": 256, "description": "Only files whose name, or whole path when the glob has a slash, matches, such as *.go or docs/*.md."}`,
			`"max_matches": {"type": "integer", "minimum": 1, "maximum": 1000, "description": "Most matching lines to return. Default 100."}`,
			`"context_lines": {"type": "integer", "minimum": 0, "maximum": 10, "description": "Lines to return before and after each match. Default 0."}`,
			`"hidden": {"type": "boolean", "description": "Also search names that begin with a dot. Default false."}`,
		),
		Capabilities: []tool.Capability{tool.FilesystemRead}, Executor: tool.Builtin, ReadOnly: true,
	}
}

func (t fsSearch) Plan(_ context.Context, p tool.Proposal) (tool.Plan, error) {
	in, err := decode[searchInput](p.Input)
	if err != nil {
		return tool.Plan{}, err
	}
	if _, err := in.compile(); err != nil {
		return tool.Plan{}, err
	}
	return t.look(fsSearchName, "Search", in.target, riskRead)
}

func (in searchInput) compile() (*regexp.Regexp, error) {
	if _, err := path.Match(in.Glob, ""); err != nil {
		return nil, reason.Errorf(reason.InvalidInput, "input at /glob: %w", err).WithField("pointer", "/glob")
	}
	pattern := in.Pattern
	if in.Literal {
		pattern = regexp.QuoteMeta(pattern)
	}
	if in.CaseInsensitive {
		pattern = "(?i)" + pattern
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, reason.Errorf(reason.InvalidInput, "input at /pattern: %w", err).
			WithRemedy("Use RE2 syntax (no look-around, no back-references), or set literal to true.").WithField("pointer", "/pattern")
	}
	return re, nil
}

func (t fsSearch) Run(ctx context.Context, c tool.Call) tool.Report {
	report := begin(t.version)
	result, err := t.search(ctx, c)
	if err != nil {
		return fail(ctx, report, err)
	}
	return succeed(report, result)
}

func (t fsSearch) search(ctx context.Context, c tool.Call) (searchResult, error) {
	in, err := decode[searchInput](c.Proposal.Input)
	if err != nil {
		return searchResult{}, err
	}
	re, err := in.compile()
	if err != nil {
		return searchResult{}, err
	}
	root, err := t.set.Open(in.Workspace)
	if err != nil {
		return searchResult{}, err
	}
	defer root.Close()
	s := &search{root: root, in: in, re: re, most: in.MaxMatches}
	if s.most == 0 {
		s.most = searchMatches
	}
	s.result = searchResult{Workspace: root.Name(), Path: c.Plan.Facts.Path, Matches: []searchMatch{}}
	err = s.run(ctx, c.Plan.Facts.Path)
	return s.result, err
}

// search is one search under way.
type search struct {
	root   *workspace.Root
	in     searchInput
	re     *regexp.Regexp
	most   int
	bytes  int64
	result searchResult
}

// run searches one file, or everything below a directory.
func (s *search) run(ctx context.Context, top string) error {
	info, err := s.root.Stat(top)
	if err != nil {
		return err
	}
	if info.Kind == workspace.File {
		return ignoreStop(s.file(ctx, info))
	}
	return s.root.Walk(ctx, top, func(info workspace.Info) error {
		name := info.Name()
		if name == ".git" || !s.in.Hidden && strings.HasPrefix(name, ".") {
			return workspace.ErrSkipDir
		}
		if info.Kind != workspace.File || !s.wanted(info) {
			return nil
		}
		return s.file(ctx, info)
	})
}

func ignoreStop(err error) error {
	if errors.Is(err, workspace.ErrStop) {
		return nil
	}
	return err
}

func (s *search) wanted(info workspace.Info) bool {
	if s.in.Glob == "" {
		return true
	}
	name := info.Name()
	if strings.Contains(s.in.Glob, "/") {
		name = info.Path
	}
	ok, err := path.Match(s.in.Glob, name)
	return err == nil && ok
}

func (s *search) file(ctx context.Context, info workspace.Info) error {
	if s.result.FilesSearched >= searchFiles || s.bytes+info.Size > searchBytes {
		s.result.Truncated = true
		return workspace.ErrStop
	}
	if info.Size > searchFileBytes {
		s.result.FilesSkipped++
		return nil
	}
	content, err := s.root.ReadFile(ctx, info.Path, 0, searchFileBytes)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	readable := err == nil && !unified.Binary(content.Data) && utf8.ValidString(info.Path)
	if !readable {
		s.result.FilesSkipped++
		return nil
	}
	s.result.FilesSearched++
	s.bytes += int64(len(content.Data))
	return s.lines(ctx, info.Path, content.Data)
}

func (s *search) lines(ctx context.Context, name string, data []byte) error {
	lines := bytes.Split(data, []byte("\n"))
	if n := len(lines); len(lines[n-1]) == 0 {
		lines = lines[:n-1]
	}
	for i, line := range lines {
		if i%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		at := s.re.FindIndex(bytes.TrimSuffix(line, []byte("\r")))
		if at == nil {
			continue
		}
		if len(s.result.Matches) == s.most {
			s.result.Truncated = true
			return workspace.ErrStop
		}
		s.result.Matches = append(s.result.Matches, searchMatch{
			Path: name, Line: i + 1, Column: at[0] + 1, Text: lineText(line),
			Before: around(lines, i-s.in.ContextLines, i), After: around(lines, i+1, i+1+s.in.ContextLines),
		})
	}
	return nil
}

func around(lines [][]byte, from, to int) []string {
	var out []string
	for i := max(from, 0); i < min(to, len(lines)); i++ {
		out = append(out, lineText(lines[i]))
	}
	return out
}

// lineText is a line as a result shows it: clipped, and with what is not text
// replaced.
func lineText(line []byte) string {
	text := string(bytes.TrimSuffix(line, []byte("\r")))
	text = strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", "\ufffd"), "\ufffd")
	return shown(text, searchLine)
}
