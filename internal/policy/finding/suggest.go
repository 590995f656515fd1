package finding

import "palyra/internal/nearest"

// DidYouMean returns the help for a name, or "".
func DidYouMean(name string, candidates []string) string {
	if s := nearest.Of(name, candidates); s != "" && s != name {
		return "did you mean " + s + "?"
	}
	return ""
}
