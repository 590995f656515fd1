package scripted

import (
	"encoding/json"
	"fmt"
	"regexp"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"palyra/internal/core/strictyaml"
	"palyra/internal/run/model"
)

// Bounds on the nesting of a script: brackets, and columns of lists.
const (
	maxBrackets = 1000
	maxColumn   = 2000
)

// script is the file. Its top-level turns are for conversations that no `when` selects.
type script struct {
	Turns         []*turn        `yaml:"turns"`
	Repeat        bool           `yaml:"repeat"`
	Conversations []conversation `yaml:"conversations"`
}

type conversation struct {
	// When is matched against the first message of the user.
	When   string  `yaml:"when"`
	Turns  []*turn `yaml:"turns"`
	Repeat bool    `yaml:"repeat"`

	when *regexp.Regexp
}

type turn struct {
	Expect []*expectation `yaml:"expect"`
	Text   string         `yaml:"text"`
	Calls  []*call        `yaml:"calls"`
	Usage  usage          `yaml:"usage"`
	Stop   model.Stop     `yaml:"stop"`
	Delay  time.Duration  `yaml:"delay"`
	Error  failure        `yaml:"error"`

	line int
}

// call has its input as a mapping or, for invalid JSON, as raw text.
type call struct {
	Tool  string         `yaml:"tool"`
	Input map[string]any `yaml:"input"`
	Raw   *string        `yaml:"raw"`

	json []byte
}

type usage struct {
	Input  int64 `yaml:"input"`
	Output int64 `yaml:"output"`
}

type failure struct {
	// Unavailable is how many attempts fail.
	Unavailable int    `yaml:"unavailable"`
	Rejected    string `yaml:"rejected"`
}

// parse parses a script. Its errors contain line and column.
func parse(text []byte) (*script, error) {
	root, err := strictyaml.Parse(text, strictyaml.Options{Brackets: maxBrackets, Indented: maxColumn})
	if err != nil {
		return nil, err
	}
	var s script
	if root != nil {
		if err := strictyaml.Decode(root, &s); err != nil {
			return nil, err
		}
	}
	c := &checker{root: root}
	c.script(&s)
	return &s, c.err
}

// checker finds faults that the types do not exclude, and records the first.
type checker struct {
	root *yaml.Node
	err  error
}

func (c *checker) script(s *script) {
	if len(s.Turns) == 0 && len(s.Conversations) == 0 {
		c.find("$", "the script has no turns")
	}
	c.turns("$.turns", s.Turns)
	for i := range s.Conversations {
		conversation, where := &s.Conversations[i], fmt.Sprintf("$.conversations[%d]", i)
		if conversation.When == "" {
			c.find(where, "when is required; it selects the conversation")
		}
		if len(conversation.Turns) == 0 {
			c.find(where, "the conversation has no turns")
		}
		conversation.when = c.pattern(where+".when", conversation.When)
		c.turns(where+".turns", conversation.Turns)
	}
}

func (c *checker) turns(path string, turns []*turn) {
	for i, t := range turns {
		where := fmt.Sprintf("%s[%d]", path, i)
		if t == nil {
			c.find(path, "turn %d is empty", i+1)
			return
		}
		t.line, _ = c.position(where)
		c.turn(where, t)
	}
}

func (c *checker) turn(where string, t *turn) {
	says := t.Text != "" || len(t.Calls) > 0
	switch {
	case !says && t.Error == (failure{}):
		c.find(where, "the turn has no text, calls or error")
	case t.Error.Rejected != "" && (says || t.Error.Unavailable > 0):
		c.find(where+".error", "a rejected turn must have no other fields")
	case t.Error.Unavailable < 0 || t.Usage.Input < 0 || t.Usage.Output < 0 || t.Delay < 0:
		c.find(where, "a number is negative")
	case t.Stop != "" && t.Stop != model.MaxTokens && t.Stop != model.Refusal:
		c.find(where+".stop", "stop is %q; use %s or %s, or omit it", t.Stop, model.MaxTokens, model.Refusal)
	}
	for i, call := range t.Calls {
		c.call(fmt.Sprintf("%s.calls[%d]", where, i), call)
	}
	for i, e := range t.Expect {
		c.expectation(fmt.Sprintf("%s.expect[%d]", where, i), e)
	}
}

func (c *checker) call(where string, call *call) {
	switch {
	case call == nil || call.Tool == "":
		c.find(where, "the call has no tool")
	case call.Input != nil && call.Raw != nil:
		c.find(where, "the call has both input and raw")
	case call.Raw != nil:
		call.json = []byte(*call.Raw)
	case call.Input != nil:
		text, err := json.Marshal(call.Input)
		if err != nil {
			c.find(where+".input", "converting the input to JSON: %v", err)
		}
		call.json = text
	}
}

func (c *checker) expectation(where string, e *expectation) {
	if e == nil || (e.Message == "") == (e.Result == 0) || e.Result < 0 {
		c.find(where, "a condition requires either message or result, which counts from 1")
		return
	}
	if e.Message != "" && (e.Matches != "" || e.Lacks != "" || e.Failed != nil) {
		c.find(where, "matches, lacks and failed apply only to results")
	}
	e.message = c.pattern(where+".message", e.Message)
	e.matches = c.pattern(where+".matches", e.Matches)
	e.lacks = c.pattern(where+".lacks", e.Lacks)
}

// pattern compiles an expression, nil for "".
func (c *checker) pattern(where, text string) *regexp.Regexp {
	if text == "" {
		return nil
	}
	re, err := regexp.Compile(text)
	if err != nil {
		c.find(where, "%v", err)
	}
	return re
}

func (c *checker) find(where, format string, args ...any) {
	if c.err != nil {
		return
	}
	line, column := c.position(where)
	c.err = fmt.Errorf("line %d, column %d: %s", line, column, fmt.Sprintf(format, args...))
}

// position returns where a path of the file begins, 1 and 1 if the file does not contain it. A
// mapping without brackets begins at the colon of its first key.
func (c *checker) position(where string) (line, column int) {
	n := strictyaml.At(c.root, where)
	if n == nil {
		return 1, 1
	}
	if n.Kind == yaml.MappingNode && n.Style&yaml.FlowStyle == 0 && len(n.Content) > 0 {
		key := n.Content[0]
		return key.Line, key.Column + utf8.RuneCountInString(key.Value)
	}
	return n.Line, n.Column
}
