package web

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"

	"palyra/internal/core/lazyregexp"
	"palyra/internal/egress"
)

// mostField is the maximum length of a field name with its value, and of a header line of a part,
// that is held back until it is judged.
const mostField = 4 << 10

// guardForm makes the body of a request that may be a form end with a refusal before a field that
// names a method outside of the rules. The host never receives such a field.
func (b *bridge) guardForm(r *http.Request, t egress.Target) error {
	rules, inspected := b.front.Inspect(t)
	if !inspected || len(rules.Methods) == 0 || r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	kind := strings.ToLower(strings.Join(r.Header["Content-Type"], ","))
	var judge fieldJudge
	switch {
	case strings.Contains(kind, "multipart"):
		judge = &partJudge{}
	case strings.Contains(kind, "urlencoded"):
		judge = &pairJudge{rules: rules}
	default:
		return nil
	}
	if len(r.Header["Content-Encoding"]) > 0 {
		return refused(t, egress.ReasonMethod, "A form with a Content-Encoding could name another method. Send it without one.")
	}
	r.Body = &guardedForm{ReadCloser: r.Body, judge: judge, refuse: func() error {
		b.front.Refuse(t, egress.ReasonMethod)
		no := refused(t, egress.ReasonMethod, "The form field _method names a method. Allowed: %s.", egress.Named(rules.Methods))
		no.recorded = true
		return no
	}}
	return nil
}

// fieldJudge judges a form as its bytes arrive.
type fieldJudge interface {
	// judge returns how many of the held bytes may be passed on. It returns false if the form is
	// refused. last reports that no more bytes follow.
	judge(held []byte, last bool) (pass int, ok bool)
}

// guardedForm is the body of a form. It passes on only judged bytes.
type guardedForm struct {
	io.ReadCloser
	judge  fieldJudge
	refuse func() error

	held, passed []byte
	err          error
}

func (g *guardedForm) Read(p []byte) (int, error) {
	for len(g.passed) == 0 && g.err == nil && len(p) > 0 {
		g.fill()
	}
	n := copy(p, g.passed)
	g.passed = g.passed[n:]
	if len(g.passed) == 0 && g.err != nil {
		return n, g.err
	}
	return n, nil
}

// fill reads more bytes and judges them.
func (g *guardedForm) fill() {
	var block [mostField]byte
	n, err := g.ReadCloser.Read(block[:])
	g.held = append(g.held, block[:n]...)
	last := errors.Is(err, io.EOF)
	g.err = err
	for len(g.held) > 0 {
		pass, ok := g.judge.judge(g.held, last)
		if !ok {
			g.held, g.err = nil, g.refuse()
			return
		}
		if pass == 0 {
			return
		}
		g.passed = append(g.passed, g.held[:pass]...)
		g.held = g.held[pass:]
	}
}

// pairJudge judges application/x-www-form-urlencoded.
type pairJudge struct {
	rules egress.Inspection
	// harmless reports that the rest of the current field needs no judgement.
	harmless bool
}

func (j *pairJudge) judge(held []byte, last bool) (int, bool) {
	end := bytes.IndexFunc(held, isSeparator)
	if j.harmless {
		j.harmless = end < 0
		return passed(held, end), true
	}
	if end < 0 && !last {
		key, _, isWhole := strings.Cut(string(held), "=")
		if j.harmless = isWhole && !isMethodField(key) || !isWhole && !beginsMethodField(key); j.harmless {
			return len(held), true
		}
		return 0, len(held) < mostField
	}
	pair := held
	if end >= 0 {
		pair = held[:end]
	}
	return passed(held, end), permitsField(j.rules, string(pair))
}

// passed returns the length of the bytes up to and including the one at end, or of all.
func passed(held []byte, end int) int {
	if end < 0 {
		return len(held)
	}
	return end + 1
}

// partJudge judges multipart/form-data by the lines that name the fields, wherever they are in the
// body: servers disagree about where a part begins. It refuses the field _method, because the
// value follows later.
type partJudge struct {
	harmless bool
	// folded reports that the current line may continue a line that names a field. blank counts
	// the empty lines since that line: the two ends of CRLF enclose one.
	folded bool
	blank  int
}

// disposition begins the line that names the field of a part (RFC 7578 section 4.2).
const disposition = "content-disposition"

// fieldName finds the names of fields in such a line, with the forms of RFC 2231.
var fieldName = lazyregexp.New(`(?i)(?:^|[^a-z])name([*0-9]*)\s*=\s*"?(?:[a-z0-9-]*'[a-z0-9-]*')?([^";]*)`)

func (j *partJudge) judge(held []byte, last bool) (int, bool) {
	end := bytes.IndexAny(held, "\r\n")
	if j.harmless {
		j.harmless = end < 0
		return passed(held, end), true
	}
	if end < 0 && !last {
		if j.harmless = !j.mayName(held); j.harmless {
			return len(held), true
		}
		return 0, len(held) < mostField
	}
	line := held
	if end >= 0 {
		line = held[:end]
	}
	names := j.names(line)
	switch {
	case names:
		j.folded, j.blank = true, 0
	case len(line) == 0 && j.blank == 0:
		j.blank++
	default:
		j.folded = false
	}
	return passed(held, end), !names || !namesMethod(line)
}

// mayName reports whether a line that begins with these bytes may name a field.
func (j *partJudge) mayName(begin []byte) bool {
	n := min(len(begin), len(disposition))
	return j.names(begin) || strings.EqualFold(string(begin[:n]), disposition[:n])
}

func (j *partJudge) names(line []byte) bool {
	return len(line) >= len(disposition) && strings.EqualFold(string(line[:len(disposition)]), disposition) ||
		j.folded && len(line) > 0 && (line[0] == ' ' || line[0] == '\t')
}

// namesMethod reports whether a line names the field _method. A name in several pieces could be
// that as well.
func namesMethod(line []byte) bool {
	for _, m := range fieldName.FindAllStringSubmatch(strings.ReplaceAll(string(line), `\`, ""), -1) {
		if strings.ContainsAny(m[1], "0123456789") || isMethodField(strings.Trim(m[2], "'")) {
			return true
		}
	}
	return false
}
