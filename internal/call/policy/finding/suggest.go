package finding

import "palyra/internal/core/text"

// DidYouMean returns the help for a misspelt name, or "".
func DidYouMean(name string, candidates []string) string {
	if s := text.Nearest(name, candidates); s != "" && s != name {
		return "did you mean " + s + "?"
	}
	return ""
}
