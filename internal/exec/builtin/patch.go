package builtin

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"palyra/internal/core/lazyregexp"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
)

// Limits of one patch.
const (
	patchFiles = 200
	patchHunks = 5000
)

// filePatch is the change of one file in a unified diff.
type filePatch struct {
	// oldPath is "" for a new file, newPath for a deleted one; they differ for a rename.
	oldPath, newPath string
	executable       *bool
	hunks            []patchHunk
}

type patchHunk struct {
	// line is the line number of the hunk's header in the patch, from 1.
	line int
	// oldStart counts from 1; with oldCount 0 it is the line after which the
	// hunk adds.
	oldStart, oldCount, newCount int
	ops                          []patchLine
}

type patchLine struct {
	kind byte // ' ', '-' or '+'
	text string
}

// parsePatch parses a unified diff as git writes it, or a plain one with "---" and "+++" lines.
// It refuses anything ambiguous or unsupported: binary patches, copies, symbolic links, text
// between files, counts that do not match.
func parsePatch(text string) ([]filePatch, error) {
	p := &patchParser{lines: strings.SplitAfter(text, "\n")}
	if p.lines[len(p.lines)-1] == "" {
		p.lines = p.lines[:len(p.lines)-1]
	}
	p.skipPreamble()
	var files []filePatch
	hunks := 0
	for !p.ended() {
		f, err := p.file()
		if err != nil {
			return nil, err
		}
		files = append(files, f)
		hunks += len(f.hunks)
		if len(files) > patchFiles || hunks > patchHunks {
			return nil, reason.Errorf(reason.InputTooLarge, "the patch changes more than %d files or has more than %d hunks", patchFiles, patchHunks)
		}
	}
	if len(files) == 0 {
		return nil, p.bad("it has no file header (diff --git, or --- and +++)")
	}
	return files, nil
}

type patchParser struct {
	lines []string
	at    int
}

// line returns the current line without its end, "" at the end of the patch.
func (p *patchParser) line() string {
	if p.at >= len(p.lines) {
		return ""
	}
	return strings.TrimSuffix(p.lines[p.at], "\n")
}

func (p *patchParser) bad(format string, args ...any) error {
	return reason.Errorf(reason.InvalidInput, "patch line %d: %s", min(p.at, len(p.lines))+1, fmt.Sprintf(format, args...)).
		WithField("pointer", "/patch")
}

func (p *patchParser) skipPreamble() {
	for p.at < len(p.lines) && !p.atFile() {
		p.at++
	}
}

func (p *patchParser) atFile() bool {
	return strings.HasPrefix(p.line(), "diff --git ") ||
		strings.HasPrefix(p.line(), "--- ") && p.at+1 < len(p.lines) && strings.HasPrefix(p.lines[p.at+1], "+++ ")
}

// ended skips blank lines and the signature that git format-patch adds.
func (p *patchParser) ended() bool {
	for p.at < len(p.lines) && strings.TrimSpace(p.line()) == "" {
		p.at++
	}
	return p.at >= len(p.lines) || p.line() == "-- "
}

func (p *patchParser) file() (filePatch, error) {
	var h patchHeader
	if strings.HasPrefix(p.line(), "diff --git ") {
		h.git = p.line()
		p.at++
		if err := p.extended(&h); err != nil {
			return filePatch{}, err
		}
	}
	if strings.HasPrefix(p.line(), "--- ") {
		if err := p.names(&h); err != nil {
			return filePatch{}, err
		}
	} else if h.git == "" {
		return filePatch{}, p.bad("expected the header of a file or a hunk, found %s", quoteLine(p.line()))
	}
	f, err := h.patch(p)
	if err != nil {
		return filePatch{}, err
	}
	for strings.HasPrefix(p.line(), "@@ ") {
		hunk, err := p.hunk()
		if err != nil {
			return filePatch{}, err
		}
		f.hunks = append(f.hunks, hunk)
	}
	return f, f.check(p)
}

// patchHeader is the header of a file, before its hunks.
type patchHeader struct {
	git                  string // the line diff --git
	old, new             string // from --- and +++
	named                bool   // the lines --- and +++ exist
	renameFrom, renameTo string
	created, deleted     bool
	mode                 string
}

// extended reads git's extended header lines.
func (p *patchParser) extended(h *patchHeader) error {
	for ; p.at < len(p.lines); p.at++ {
		word, rest := p.extendedLine()
		var err error
		switch word {
		case "new file mode ":
			h.created, h.mode = true, rest
		case "deleted file mode ":
			h.deleted = true
			err = p.checkMode(rest)
		case "old mode ":
			err = p.checkMode(rest)
		case "new mode ":
			h.mode = rest
		case "rename from ":
			h.renameFrom, err = p.unquote(rest)
		case "rename to ":
			h.renameTo, err = p.unquote(rest)
		case "index ", "similarity index ", "dissimilarity index ":
		case "copy from ", "copy to ":
			return p.bad("copies are not supported; write the new file with all its lines")
		case "GIT binary patch", "Binary files ":
			return p.bad("binary patches are not supported; use fs.write with content_base64")
		default:
			return nil
		}
		if err == nil && h.mode != "" {
			err = p.checkMode(h.mode)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *patchParser) extendedLine() (word, rest string) {
	for _, word := range []string{
		"new file mode ", "deleted file mode ", "old mode ", "new mode ", "rename from ", "rename to ", "index ",
		"similarity index ", "dissimilarity index ", "copy from ", "copy to ", "GIT binary patch", "Binary files ",
	} {
		if rest, ok := strings.CutPrefix(p.line(), word); ok {
			return word, rest
		}
	}
	return "", ""
}

func (p *patchParser) checkMode(mode string) error {
	if mode != "100644" && mode != "100755" {
		return p.bad("file mode %s is not supported; only regular files are (100644, 100755)", quoteLine(mode))
	}
	return nil
}

func (p *patchParser) names(h *patchHeader) error {
	old := strings.TrimPrefix(p.line(), "--- ")
	p.at++
	if !strings.HasPrefix(p.line(), "+++ ") {
		return p.bad("expected a line that begins with +++")
	}
	now := strings.TrimPrefix(p.line(), "+++ ")
	var err error
	if h.old, err = p.unquote(old); err == nil {
		h.new, err = p.unquote(now)
	}
	h.named = true
	p.at++
	return err
}

// unquote parses a name: in quotes with C escapes, or plain up to a tab, after which diff writes
// a time.
func (p *patchParser) unquote(s string) (string, error) {
	s = strings.TrimSuffix(s, "\r")
	if strings.HasPrefix(s, `"`) {
		quoted, err := strconv.QuotedPrefix(s)
		if err != nil {
			return "", p.bad("the quoted name is not complete")
		}
		name, err := strconv.Unquote(quoted)
		if err != nil || !utf8.ValidString(name) {
			return "", p.bad("the quoted name cannot be read")
		}
		return name, nil
	}
	name, _, _ := strings.Cut(s, "\t")
	if name == "" {
		return "", p.bad("the name of the file is empty")
	}
	return name, nil
}

const devNull = "/dev/null"

// patch determines the file that the header names.
func (h patchHeader) patch(p *patchParser) (filePatch, error) {
	f := filePatch{}
	if h.mode != "" {
		executable := h.mode == "100755"
		f.executable = &executable
	}
	switch {
	case h.renameFrom != "" && h.renameTo != "":
		f.oldPath, f.newPath = h.renameFrom, h.renameTo
		if h.named && (stripped(h.old, "a/") != f.oldPath || stripped(h.new, "b/") != f.newPath) {
			return f, p.bad("the names after --- and +++ differ from the names of the rename")
		}
	case h.named:
		f.oldPath, f.newPath = h.strip()
	default:
		name, ok := sameName(strings.TrimPrefix(h.git, "diff --git "))
		if !ok {
			return f, p.bad("the header does not identify the file; add --- and +++ lines")
		}
		f.oldPath, f.newPath = name, name
		if h.created {
			f.oldPath = ""
		}
		if h.deleted {
			f.newPath = ""
		}
	}
	return f, h.agree(p, f)
}

func (h patchHeader) agree(p *patchParser, f filePatch) error {
	switch {
	case f.oldPath == "" && f.newPath == "":
		return p.bad("both names are %s", devNull)
	case h.created && f.oldPath != "", h.deleted && f.newPath != "":
		return p.bad("the mode lines and the names disagree on whether the file is created or deleted")
	case f.oldPath != "" && f.newPath != "" && f.oldPath != f.newPath && h.renameFrom == "":
		return p.bad("the names differ (%s, %s) but rename lines are missing", quoteLine(f.oldPath), quoteLine(f.newPath))
	}
	return nil
}

// strip removes the prefixes a/ and b/ if both names have them.
func (h patchHeader) strip() (old, now string) {
	old, now = h.old, h.new
	prefixed := (old == devNull || strings.HasPrefix(old, "a/")) && (now == devNull || strings.HasPrefix(now, "b/"))
	if prefixed {
		old, now = stripped(old, "a/"), stripped(now, "b/")
	}
	if old == devNull {
		old = ""
	}
	if now == devNull {
		now = ""
	}
	return old, now
}

func stripped(name, prefix string) string { return strings.TrimPrefix(name, prefix) }

// sameName parses "a/NAME b/NAME", where NAME may contain spaces.
func sameName(s string) (string, bool) {
	half := len(s) / 2
	if len(s) < 7 || len(s)%2 == 0 || s[half] != ' ' {
		return "", false
	}
	old, ok1 := strings.CutPrefix(s[:half], "a/")
	now, ok2 := strings.CutPrefix(s[half+1:], "b/")
	return old, ok1 && ok2 && old == now
}

var hunkForm = lazyregexp.New(`^@@ -([0-9]{1,9})(?:,([0-9]{1,9}))? \+([0-9]{1,9})(?:,([0-9]{1,9}))? @@`)

func (p *patchParser) hunk() (patchHunk, error) {
	m := hunkForm.FindStringSubmatch(p.line())
	if m == nil {
		return patchHunk{}, p.bad("expected a hunk header such as @@ -1,3 +1,4 @@")
	}
	h := patchHunk{line: p.at + 1, oldStart: number(m[1], 0), oldCount: number(m[2], 1), newCount: number(m[4], 1)}
	p.at++
	olds, news := h.oldCount, h.newCount
	for olds > 0 || news > 0 {
		if p.at >= len(p.lines) {
			return h, p.bad("the hunk of line %d ends too early: %d old and %d new lines are missing", h.line, olds, news)
		}
		op, err := p.op()
		if err != nil {
			return h, err
		}
		if op.kind != '+' {
			olds--
		}
		if op.kind != '-' {
			news--
		}
		if olds < 0 || news < 0 {
			return h, p.bad("the hunk of line %d has more lines than its header says", h.line)
		}
		h.ops = append(h.ops, op)
	}
	if len(h.ops) > 0 && (strings.HasPrefix(p.line(), "+") || strings.HasPrefix(p.line(), " ")) {
		return h, p.bad("the hunk of line %d has more lines than its header says", h.line)
	}
	return h, nil
}

func number(s string, missing int) int {
	if s == "" {
		return missing
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		return missing
	}
	return n
}

// op reads one line of a hunk, and the marker after it for a missing line end.
func (p *patchParser) op() (patchLine, error) {
	line := p.lines[p.at]
	kind, text := byte(' '), line
	switch {
	case line == "\n", line == "\r\n":
		// An editor removed the blank of an empty context line.
	case line[0] == ' ', line[0] == '-', line[0] == '+':
		kind, text = line[0], line[1:]
	default:
		return patchLine{}, p.bad("a line of a hunk must begin with a blank, + or -, found %s", quoteLine(p.line()))
	}
	if !strings.HasSuffix(text, "\n") {
		// The patch itself lacks its last line end.
		text += "\n"
	}
	p.at++
	if strings.HasPrefix(p.line(), `\ `) {
		text = strings.TrimSuffix(text, "\n")
		p.at++
	}
	return patchLine{kind, text}, nil
}

// check refuses patches that do nothing or contradict themselves.
func (f filePatch) check(p *patchParser) error {
	creates, deletes := f.oldPath == "", f.newPath == ""
	for _, h := range f.hunks {
		if creates && h.oldCount > 0 {
			return p.bad("%s is created, so its hunk cannot have old lines", quoteLine(f.newPath))
		}
		if deletes && h.newCount > 0 {
			return p.bad("%s is deleted, so its hunk cannot have new lines", quoteLine(f.oldPath))
		}
	}
	if len(f.hunks) == 0 && f.oldPath == f.newPath && f.executable == nil {
		return p.bad("nothing is changed in %s", quoteLine(f.oldPath))
	}
	return nil
}

func quoteLine(s string) string { return strconv.QuoteToASCII(text.Ellipsis(s, 80)) }
