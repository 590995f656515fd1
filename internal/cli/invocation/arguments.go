package invocation

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"palyra/internal/lazyregexp"
)

// Summary is the input of a call in a list: the command line of a program, and what
// else is given, as key=value.
func Summary(input []byte) string {
	var members map[string]json.RawMessage
	var argv []string
	if json.Unmarshal(input, &members) != nil || json.Unmarshal(members["argv"], &argv) != nil {
		return Arguments(input)
	}
	words := make([]string, len(argv))
	for i, word := range argv {
		words[i] = word
		if !plainWord.MatchString(word) {
			words[i] = quoted(word)
		}
	}
	delete(members, "argv")
	if rest := joined(members); rest != "" {
		words = append(words, "("+rest+")")
	}
	return strings.Join(words, " ")
}

func quoted(word string) string {
	text, err := json.Marshal(word)
	if err != nil {
		return word
	}
	return string(text)
}

// Arguments is the input of a call as key=value.
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

// argumentValue leaves the quotes off a string that needs none.
func argumentValue(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil && plainWord.MatchString(text) {
		return text
	}
	return string(raw)
}
