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
	// Result is which of the results, from 1.
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
		return nil, false, fmt.Errorf("no conversation is for a first message such as %q", shown(first))
	}
	return s.Turns, s.Repeat, nil
}

// check says what of the condition does not hold.
func (e *expectation) check(conversation []model.Message) error {
	if e.message != nil {
		if said := lastText(conversation); !e.message.MatchString(said) {
			return fmt.Errorf("the message should match %q, and is %q", e.message, shown(said))
		}
		return nil
	}
	results := lastResults(conversation)
	if e.Result > len(results) {
		return fmt.Errorf("there should be a result %d, and there are %d", e.Result, len(results))
	}
	result := results[e.Result-1]
	switch {
	case e.matches != nil && !e.matches.MatchString(result.Text):
		return fmt.Errorf("result %d should match %q, and is %q", e.Result, e.matches, shown(result.Text))
	case e.lacks != nil && e.lacks.MatchString(result.Text):
		return fmt.Errorf("result %d should not match %q, and is %q", e.Result, e.lacks, shown(result.Text))
	case e.Failed != nil && *e.Failed && !result.Failed:
		return fmt.Errorf("result %d should be a failure, and is %q", e.Result, shown(result.Text))
	case e.Failed != nil && !*e.Failed && result.Failed:
		return fmt.Errorf("result %d should be no failure, and is %q", e.Result, shown(result.Text))
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

// lastResults are those of the user's last message.
func lastResults(conversation []model.Message) []model.Result {
	if len(conversation) == 0 {
		return nil
	}
	return conversation[len(conversation)-1].Results
}

// shown clips what a message repeats.
func shown(content string) string { return text.Ellipsis(content, 200) }
