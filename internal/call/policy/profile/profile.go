// Package profile provides initial sets of policies, with tests.
//
// Key files below node_modules, vendor, .venv, site-packages and .cargo/registry are readable.
// They are test data of public packages, and prompts about them would train users to approve. A
// .env file is not part of a package and is protected there, too. The directories target and
// .cargo are excluded only from the rule about hard links. Builds copy an application's keys
// into target, and .cargo has the credentials of its registries. A user who can link a file of
// the machine into node_modules can have it read. A sandboxed program cannot, because a link
// does not cross its mounts.
package profile

import (
	"embed"
	"io/fs"

	"palyra/internal/call/policy"
)

//go:embed profiles
var profileFiles embed.FS

// Profile is an initial set of policies, with its tests.
type Profile struct {
	Name string
	// About describes its purpose.
	About string
}

// All returns the embedded profiles.
func All() []Profile {
	return []Profile{
		{"laptop", "A developer alone with an agent: reading is free, writing and the network ask, " +
			"a few harmless programs run unattended, files that look like secrets or have other names ask."},
		{"ci", "A pipeline without people to ask: listed tools and programs run unattended in the " +
			"sandbox, everything else is denied at once; files that look like secrets are not read."},
		{"locked", "A team: two people approve each call that may destroy something; no " +
			"grants, no interpreters, only listed hosts; two read files that look like secrets."},
	}
}

// Files returns the policies of the profile, and their tests.
func (p Profile) Files() []policy.Source {
	dir := "profiles/" + p.Name
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
