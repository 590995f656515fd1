package sandbox

import (
	"slices"
	"strings"

	"palyra/internal/lazyregexp"
)

// sedOptions are the options of sed without a value, and sedLetters their letters.
var sedOptions = []string{"--quiet", "--silent", "--regexp-extended", "--null-data", "--zero-terminated", "--separate", "--unbuffered", "--posix", "--debug"}

const sedLetters = "nErsuz"

// innerOfSed reads the scripts of sed, which can run commands and write files: e, w, and
// s with such a flag. Only scripts of the commonest forms are certain.
func innerOfSed(args []string) Inner {
	var scripts, operands []string
	named := false
	for i := 0; i < len(args); i++ {
		word := args[i]
		switch {
		case word == "--sandbox":
			return Inner{} // sed refuses such scripts
		case word == "--":
			operands = append(operands, args[i+1:]...)
			i = len(args)
		case operand(word) || word == "":
			operands = append(operands, word)
		case strings.HasPrefix(word, "--expression="):
			_, script, _ := strings.Cut(word, "=")
			scripts, named = append(scripts, script), true
		case word == "--in-place", strings.HasPrefix(word, "--in-place="), slices.Contains(sedOptions, word):
		case word == "--version", word == "--help":
			return Inner{}
		case strings.HasPrefix(word, "--"):
			return Inner{Unknown: true}
		default:
			rest := strings.TrimLeft(word[1:], sedLetters)
			switch {
			case rest == "", strings.HasPrefix(rest, "i"):
			case rest == "e" && i+1 < len(args):
				i++
				scripts, named = append(scripts, args[i]), true
			case strings.HasPrefix(rest, "e"):
				scripts, named = append(scripts, rest[1:]), true
			default:
				return Inner{Unknown: true}
			}
		}
	}
	if !named {
		if len(operands) == 0 || operands[0] == "" { // the value of -i, to some sed
			return Inner{Unknown: true}
		}
		scripts = operands[:1]
	}
	// A script goes on in the next one after a backslash at its end.
	return Inner{Unknown: !plainSed(strings.Join(scripts, "\n"))}
}

// sedCommand matches one command that neither runs nor writes anything.
var sedCommand = lazyregexp.New(sedPattern())

// sedPattern writes the expression. A delimiter in brackets is no match: not every sed
// takes it for a part of the expression.
func sedPattern() string {
	body := func(delimiter string) string {
		return `(?:\\[^\n]|\[\^?\]?[^\]\\\n` + delimiter + `]*\]|[^\\\n\[` + delimiter + `])*`
	}
	address := `(?:[0-9]+(?:~[0-9]+)?|\$|/` + body("/") + `/I?)`
	commands := `[pdDgGhHnNxqQ=lPz{]`
	for _, d := range []string{"/", `\|`, ",", "#", "@", ":", "!", "%", "_"} {
		commands += "|s" + d + body(d) + d + `(?:\\[^\n]|[^\\\n` + d + `])*` + d + `[gpiI0-9]*`
	}
	return `^(?:` + address + `(?:,\+?` + address + `)?)?\s*!?\s*(?:` + commands + `)`
}

// plainSed reports whether a script has such commands alone.
func plainSed(script string) bool {
	const separators = " \t\n;}"
	for rest := strings.TrimLeft(script, separators); rest != ""; {
		at := sedCommand.FindStringIndex(rest)
		if at == nil {
			return false
		}
		command := rest[:at[1]]
		rest = rest[at[1]:]
		if rest != "" && !strings.HasSuffix(command, "{") && strings.IndexByte(separators, rest[0]) < 0 {
			return false
		}
		rest = strings.TrimLeft(rest, separators)
	}
	return true
}
