package policy

import "palyra/internal/nearest"

// didYouMean returns the help for a name, or "".
func didYouMean(name string, candidates []string) string {
	if s := nearest.Of(name, candidates); s != "" && s != name {
		return "did you mean " + s + "?"
	}
	return ""
}
