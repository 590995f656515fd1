package command

import (
	"slices"
	"strings"
)

// sedOptions are the options of sed without a value, and sedLetters their letters.
var sedOptions = []string{"--quiet", "--silent", "--regexp-extended", "--null-data", "--zero-terminated", "--separate", "--unbuffered", "--posix", "--debug"}

const sedLetters = "nErsuz"

// innerOfSed parses the scripts of sed. A script can run commands and write files with the commands
// e and w, and with these flags of s. Only the most common forms of harmless scripts are
// recognized; all others are unknown.
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
		if len(operands) == 0 || operands[0] == "" { // some seds parse it as the value of -i
			return Inner{Unknown: true}
		}
		scripts = operands[:1]
	}
	// A backslash at the end of a script continues it in the next one.
	return Inner{Unknown: !plainSed(strings.Join(scripts, "\n"))}
}

// plainSed reports whether a script has only commands that neither run nor write anything.
func plainSed(script string) bool {
	const separators = " \t\n;}"
	rest := strings.TrimLeft(script, separators)
	for rest != "" {
		after, ok := plainSedCommand(rest)
		if !ok {
			return false
		}
		block := rest[len(rest)-len(after)-1] == '{'
		if after != "" && !block && strings.IndexByte(separators, after[0]) < 0 {
			return false
		}
		rest = strings.TrimLeft(after, separators)
	}
	return true
}

// plainSedCommand returns the rest after the first command of a script and its addresses.
func plainSedCommand(text string) (rest string, ok bool) {
	rest, ok = sedAddress(text)
	if second, two := strings.CutPrefix(rest, ","); ok && two {
		rest, ok = sedAddress(strings.TrimPrefix(second, "+"))
	}
	rest = strings.TrimLeft(strings.TrimPrefix(strings.TrimLeft(rest, " "), "!"), " ")
	switch {
	case !ok || rest == "":
		return "", false
	case strings.IndexByte("pdDgGhHnNxqQ=lPz{", rest[0]) >= 0:
		return rest[1:], true
	case rest[0] == 's' && len(rest) > 1 && strings.IndexByte("/|,#@:!%_", rest[1]) >= 0:
		delimiter := rest[1]
		if rest, ok = sedExpression(rest[2:], delimiter, true); ok {
			rest, ok = sedExpression(rest, delimiter, false)
		}
		return strings.TrimLeft(rest, "gpiI0123456789"), ok
	}
	return "", false
}

// sedAddress returns the rest after an optional address: a number, $ or /expression/.
func sedAddress(text string) (rest string, ok bool) {
	const digits = "0123456789"
	switch {
	case strings.HasPrefix(text, "$"):
		return text[1:], true
	case strings.HasPrefix(text, "/"):
		rest, ok = sedExpression(text[1:], '/', true)
		return strings.TrimPrefix(rest, "I"), ok
	}
	rest = strings.TrimLeft(text, digits)
	if step, is := strings.CutPrefix(rest, "~"); is && len(rest) < len(text) {
		rest = strings.TrimLeft(step, digits)
	}
	return rest, true
}

// sedExpression returns the rest after an expression. A delimiter in brackets is uncertain,
// because not every sed treats it as a part of the expression.
func sedExpression(text string, delimiter byte, brackets bool) (rest string, ok bool) {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == delimiter:
			return text[i+1:], true
		case c == '\n', c == '\\' && (i+1 == len(text) || text[i+1] == '\n'):
			return "", false
		case c == '\\':
			i++
		case c == '[' && brackets:
			length, ok := sedBrackets(text[i+1:], delimiter)
			if !ok {
				return "", false
			}
			i += length
		}
	}
	return "", false
}

// sedBrackets returns the length from after [ to ], if that part contains neither the delimiter
// nor a backslash.
func sedBrackets(text string, delimiter byte) (length int, ok bool) {
	inner := strings.TrimPrefix(strings.TrimPrefix(text, "^"), "]")
	before := len(text) - len(inner)
	end := strings.IndexByte(inner, ']')
	if end < 0 || strings.IndexByte(inner[:end], delimiter) >= 0 || strings.ContainsAny(inner[:end], "\\\n") {
		return 0, false
	}
	return before + end + 1, true
}
