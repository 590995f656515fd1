package audit

import (
	"slices"
	"time"

	"palyra/internal/call"
)

// mostFiles limits the files that are listed for one kind of look. A look is a call that was
// evaluated or explained but not made.
const mostFiles = 20

// lookKind groups looks by caller, subject and tool.
type lookKind struct{ by, as, tool string }

// looks counts the looks of one kind.
type looks struct {
	count       int
	files       []string
	omitted     int
	first, last time.Time
}

// looked is the payload of event.Looked.
type looked struct {
	By           string    `json:"by"`
	As           string    `json:"as,omitempty"`
	Tool         string    `json:"tool"`
	Count        int       `json:"count"`
	Files        []string  `json:"files,omitempty"`
	FilesOmitted int       `json:"files_omitted,omitempty"`
	First        time.Time `json:"first"`
	Last         time.Time `json:"last"`
}

// Looked counts a call that was evaluated or explained but not made.
func (a *Auditor) Looked(l call.Look) {
	key := lookKind{by: l.By.String(), tool: l.Tool}
	if l.As != l.By {
		key.as = l.As.String()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now().UTC()
	seen := a.looks[key]
	if seen == nil && len(a.looks) >= mostKinds {
		key = lookKind{by: key.by, tool: "others"}
		seen = a.looks[key]
	}
	if seen == nil {
		seen = &looks{first: now}
		a.looks[key] = seen
	}
	seen.count, seen.last = seen.count+1, now
	for _, file := range l.Files {
		switch {
		case slices.Contains(seen.files, file):
		case len(seen.files) < mostFiles:
			seen.files = append(seen.files, file)
		default:
			seen.omitted++
		}
	}
}

func (l *looks) payload(k lookKind) looked {
	return looked{By: k.by, As: k.as, Tool: k.tool, Count: l.count, Files: l.files, FilesOmitted: l.omitted, First: l.first, Last: l.last}
}
