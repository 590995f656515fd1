package policy

import "palyra/internal/tool"

// didYouMean returns the help for a name, or "".
func didYouMean(name string, candidates []string) string {
	if s := tool.Nearest(name, candidates); s != "" && s != name {
		return "did you mean " + s + "?"
	}
	return ""
}
