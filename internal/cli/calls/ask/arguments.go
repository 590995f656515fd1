package ask

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"palyra/internal/core/lazyregexp"
	"palyra/internal/core/text"
)

// Summary returns the input of a call for a list: the command line of a program, as displayed for
// approval, and other members as key=value.
func Summary(input []byte) string {
	var members map[string]json.RawMessage
	var argv []string
	if json.Unmarshal(input, &members) != nil || json.Unmarshal(members["argv"], &argv) != nil || len(argv) == 0 {
		return Arguments(input)
	}
	line := text.ShellQuote(argv)
	delete(members, "argv")
	if rest := joined(members); rest != "" {
		line += " (" + rest + ")"
	}
	return line
}

// Arguments returns the input of a call as key=value.
func Arguments(input []byte) string {
	var members map[string]json.RawMessage
	if json.Unmarshal(input, &members) != nil {
		return string(input)
	}
	return joined(members)
}

func joined(members map[string]json.RawMessage) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(members)) {
		parts = append(parts, name+"="+argumentValue(members[name]))
	}
	return strings.Join(parts, " ")
}

var plainWord = lazyregexp.New(`^[A-Za-z0-9_./:@%+,-]+$`)

// argumentValue removes the quotes of a string that does not need them.
func argumentValue(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil && plainWord.MatchString(text) {
		return text
	}
	return string(raw)
}
