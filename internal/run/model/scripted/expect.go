package scripted

import (
	"fmt"
	"regexp"

	"palyra/internal/core/text"
	"palyra/internal/run/model"
)

// expectation is a condition on the conversation so far: on the latest text of
// the user, or on one of the latest results.
type expectation struct {
	Message string `yaml:"message"`
	// Result is the number of the result, from 1.
	Result  int    `yaml:"result"`
	Matches string `yaml:"matches"`
	Lacks   string `yaml:"lacks"`
	Failed  *bool  `yaml:"failed"`

	message, matches, lacks *regexp.Regexp
}

// choose selects the turns for a conversation.
func (s *script) choose(conversation []model.Message) ([]*turn, bool, error) {
	first := ""
	for _, m := range conversation {
		if m.Role == model.User && m.Text != "" {
			first = m.Text
			break
		}
	}
	for _, c := range s.Conversations {
		if c.when.MatchString(first) {
			return c.Turns, c.Repeat, nil
		}
	}
	if len(s.Turns) == 0 {
		return nil, false, fmt.Errorf("no conversation matches the first message %q", shorten(first))
	}
	return s.Turns, s.Repeat, nil
}

// check returns the violated part of the condition.
func (e *expectation) check(conversation []model.Message) error {
	if e.message != nil {
		if last := lastText(conversation); !e.message.MatchString(last) {
			return fmt.Errorf("the message should match %q, but is %q", e.message, shorten(last))
		}
		return nil
	}
	results := lastResults(conversation)
	if e.Result > len(results) {
		return fmt.Errorf("result %d is missing; there are %d", e.Result, len(results))
	}
	result := results[e.Result-1]
	switch {
	case e.matches != nil && !e.matches.MatchString(result.Text):
		return fmt.Errorf("result %d should match %q, but is %q", e.Result, e.matches, shorten(result.Text))
	case e.lacks != nil && e.lacks.MatchString(result.Text):
		return fmt.Errorf("result %d should not match %q, but is %q", e.Result, e.lacks, shorten(result.Text))
	case e.Failed != nil && *e.Failed && !result.Failed:
		return fmt.Errorf("result %d should be a failure, but is %q", e.Result, shorten(result.Text))
	case e.Failed != nil && !*e.Failed && result.Failed:
		return fmt.Errorf("result %d should not be a failure, but is %q", e.Result, shorten(result.Text))
	}
	return nil
}

func lastText(conversation []model.Message) string {
	for i := len(conversation) - 1; i >= 0; i-- {
		if m := conversation[i]; m.Role == model.User && m.Text != "" {
			return m.Text
		}
	}
	return ""
}

// lastResults returns the results in the user's last message.
func lastResults(conversation []model.Message) []model.Result {
	if len(conversation) == 0 {
		return nil
	}
	return conversation[len(conversation)-1].Results
}

// shorten shortens text for an error message.
func shorten(content string) string { return text.Ellipsis(content, 200) }
