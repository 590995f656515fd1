// Package profile has sets of policies to start from, with their tests.
package profile

import (
	"embed"
	"io/fs"

	"palyra/internal/call/policy"
)

//go:embed profiles
var profileFiles embed.FS

// Profile is a set of policies to start from, with its tests.
type Profile struct {
	Name string
	// About says in plain words what it is for.
	About string
	Files []policy.Source
}

// All returns the embedded profiles.
func All() []Profile {
	return []Profile{
		{"laptop", "A developer alone with an agent: reading is free, writing and the network ask, " +
			"a few harmless programs run unattended, files that look like secrets or have other names ask.", filesOf("laptop")},
		{"ci", "A pipeline with nobody to ask: listed tools and programs run unattended in the " +
			"sandbox, everything else is denied at once; files that look like secrets are not read.", filesOf("ci")},
		{"locked", "A team: two people approve what may destroy something, each time anew; no " +
			"grants, no interpreters, only listed hosts; two read files that look like secrets.", filesOf("locked")},
	}
}

func filesOf(profile string) []policy.Source {
	dir := "profiles/" + profile
	entries, err := fs.ReadDir(profileFiles, dir)
	if err != nil {
		panic("policy: embedded profiles: " + err.Error())
	}
	files := make([]policy.Source, 0, len(entries))
	for _, e := range entries {
		text, err := profileFiles.ReadFile(dir + "/" + e.Name())
		if err != nil {
			panic("policy: embedded profiles: " + err.Error())
		}
		files = append(files, policy.Source{Name: e.Name(), Text: string(text)})
	}
	return files
}
