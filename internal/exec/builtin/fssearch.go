package builtin

import (
	"bytes"
	"context"
	"errors"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"

	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/core/tool"
	"palyra/internal/core/unified"
	"palyra/internal/exec/workspace"
)

const (
	fsSearchName = "fs.search"
	// Limits of one search.
	searchMatches   = 100
	searchFileBytes = 8 << 20
	searchBytes     = 256 << 20
	searchFiles     = 50_000
	// searchLine is the length of a line in a result, in bytes.
	searchLine = 500
)

// fsSearch searches for lines.
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
	// FilesSearched and FilesSkipped count files; skipped files are binary, too large or
	// unreadable.
	FilesSearched int `json:"files_searched"`
	FilesSkipped  int `json:"files_skipped"`
	// LeftOut counts the files that policy hides from the caller. It does not depend on the
	// pattern, so it discloses nothing about their content.
	LeftOut   int  `json:"left_out"`
	Truncated bool `json:"truncated"`
}

func (fsSearch) Descriptor() tool.Descriptor {
	return tool.Descriptor{
		Name: fsSearchName, Title: "Search in files",
		Description: "Find lines in the files of a workspace. The pattern is a regular expression in RE2 syntax, matched within one line, or literal text. " +
			"Leaves out .git directories, binary files, files over 8 MiB and symbolic links; results come in the order of paths. Files that policy does not let you read are left out and counted in left_out.",
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
	_, s, err := t.see(p)
	return s.planned(err)
}

func (t fsSearch) see(p tool.Proposal) (searchInput, *seen, error) {
	in, err := decode[searchInput](p.Input)
	if err != nil {
		return in, nil, err
	}
	if _, err := in.compile(); err != nil {
		return in, nil, err
	}
	s, err := t.files.see(fsSearchName, "Search", in.target, riskRead)
	return in, s, err
}

// Prepare opens the path once more; the files below it are checked one by one.
func (t fsSearch) Prepare(_ context.Context, p tool.Proposal) (tool.Prepared, error) {
	in, s, err := t.see(p)
	if err != nil {
		return tool.Prepared{}, err
	}
	return s.prepared(t.version, func(ctx context.Context, c tool.Call) (any, error) { return s.search(ctx, c, in) }), nil
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

func (s *seen) search(ctx context.Context, c tool.Call, in searchInput) (searchResult, error) {
	if s.handle == nil {
		return searchResult{}, s.missing
	}
	re, err := in.compile()
	if err != nil {
		return searchResult{}, err
	}
	one := &search{
		seen: s, in: in, re: re, most: in.MaxMatches, found: finder{call: c, root: s.root, risk: riskRead},
		result: searchResult{Workspace: s.root.Name(), Path: s.plan.Facts.Path, Matches: []searchMatch{}},
	}
	if one.most == 0 {
		one.most = searchMatches
	}
	err = one.run(ctx)
	return one.result, err
}

// search is one search in progress.
type search struct {
	*seen
	in     searchInput
	re     *regexp.Regexp
	most   int
	found  finder
	bytes  int64
	result searchResult
}

// run checks access to all candidate files first and then searches the readable ones. The number
// of omitted files therefore does not depend on the matches.
func (s *search) run(ctx context.Context) error {
	candidates, err := s.candidates(ctx)
	if err != nil {
		return err
	}
	for _, info := range candidates {
		if err := s.file(ctx, info); err != nil {
			return ignoreStop(err)
		}
	}
	return nil
}

// candidates returns the readable files: the named file, or the files below the named directory.
func (s *search) candidates(ctx context.Context) ([]workspace.Info, error) {
	var list []workspace.Info
	add := func(info workspace.Info) error {
		if len(list)+s.result.LeftOut == searchFiles {
			s.result.Truncated = true
			return workspace.ErrStop
		}
		if s.may(info) {
			list = append(list, info)
		} else {
			s.result.LeftOut++
		}
		return ctx.Err()
	}
	if top := s.handle.Info(); top.Kind == workspace.File {
		return list, ignoreStop(add(top))
	}
	err := s.root.Walk(ctx, s.result.Path, func(info workspace.Info) error {
		name := info.Name()
		if name == ".git" || !s.in.Hidden && strings.HasPrefix(name, ".") {
			return workspace.ErrSkipDir
		}
		if info.Kind != workspace.File || !s.wanted(info) {
			return nil
		}
		return add(info)
	})
	return list, err
}

func (s *search) may(info workspace.Info) bool { return s.found.mayUse(info) && s.found.mayRead(info) }

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
	if s.bytes+info.Size > searchBytes {
		s.result.Truncated = true
		return workspace.ErrStop
	}
	if info.Size > searchFileBytes {
		s.result.FilesSkipped++
		return nil
	}
	content, err := s.open(ctx, info)
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

// open reads a checked file: the file that the call names, which is open already, or a file found
// below it. If the file was replaced since, or its number of hard links changed, policy decides
// again before it is read. If its path now leads elsewhere, it is not read.
func (s *search) open(ctx context.Context, judged workspace.Info) (workspace.Content, error) {
	if s.handle.Info().Kind == workspace.File {
		return s.handle.Read(ctx, 0, searchFileBytes)
	}
	found, err := s.root.Open(judged.Path)
	if err != nil {
		return workspace.Content{}, err
	}
	defer found.Close()
	now := found.Info()
	if now.Path != judged.Path || (now.Identity != judged.Identity || now.Links != judged.Links) && !s.may(now) {
		return workspace.Content{}, errNotJudged
	}
	return found.Read(ctx, 0, searchFileBytes)
}

// errNotJudged reports that a checked file was replaced by another one.
var errNotJudged = errors.New("the file was replaced after the access check")

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

// lineText formats a line for a result: truncated, with invalid UTF-8 replaced.
func lineText(line []byte) string {
	content := string(bytes.TrimSuffix(line, []byte("\r")))
	content = strings.ToValidUTF8(strings.ReplaceAll(content, "\x00", "\ufffd"), "\ufffd")
	return text.Ellipsis(content, searchLine)
}
