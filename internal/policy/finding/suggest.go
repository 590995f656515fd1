package finding

import "palyra/internal/tool"

// DidYouMean returns the help for a name, or "".
func DidYouMean(name string, candidates []string) string {
	if s := tool.Nearest(name, candidates); s != "" && s != name {
		return "did you mean " + s + "?"
	}
	return ""
}
