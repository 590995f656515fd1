package linked

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// Text is a licence or notice file of a module or package.
type Text struct {
	// Name is the path of the file in its module or package, with slashes.
	Name string
	// Licence is an SPDX expression, "" for a file that states no licence, such as NOTICE.
	Licence string
	Body    string
}

var (
	licenceFile = regexp.MustCompile(`(?i)licen[sc]e|^copying|^copyright`)
	noticeFile  = regexp.MustCompile(`(?i)^(notice|patents)`)
)

// leastCoverage is the percentage of a licence file that must be text of known licences. The rest
// is a list of authors or a sentence that introduces the text.
const leastCoverage = 75

// known has the licence files that licensecheck cannot identify and that were read by a person,
// by their SHA-256. The value is "" for a file that does not apply to linked code.
var known = map[string]string{
	// The dedication of SQLite to the public domain.
	"8438c9c89b849131ead81d5435cb97fcf052df5b0b286dda8a2d4c29e6cb3fd0": "blessing",
	// musl in modernc.org/libc: mostly a list of authors, and the parts with other notices.
	"f9bc4423732350eb0b3f7ed7e91d530298476f8fec0c6c427a1c04ade22655af": "BSD-2-Clause AND BSD-3-Clause AND MIT",
	// The origin of a picture in modernc.org/memory.
	"5ae5bee3072a841376451b48d8cfcec7188e10543926d5870828d36c8a750dc5": "",
}

// licence returns the licence files of a module that apply to linked packages, and the SPDX
// expression of all of them. The files are those of the directories of the packages and of their
// parents up to the directory of the module.
func licence(name, dir string, packages map[string]bool) ([]Text, string, error) {
	directories := map[string]bool{dir: true}
	for p := range packages {
		for ; strings.HasPrefix(p, dir+string(filepath.Separator)); p = filepath.Dir(p) {
			directories[p] = true
		}
	}
	var texts []Text
	for directory := range directories {
		found, err := read(dir, directory)
		if err != nil {
			return nil, "", fmt.Errorf("finding the licence of %s: %w", name, err)
		}
		texts = append(texts, found...)
	}
	slices.SortFunc(texts, func(a, b Text) int { return strings.Compare(a.Name, b.Name) })
	expression := join(texts)
	if expression == "" {
		return nil, "", fmt.Errorf("%s has no licence file in %s", name, dir)
	}
	return texts, expression, nil
}

// read returns the licence and notice files of one directory. Their names are relative to base.
func read(base, directory string) ([]Text, error) {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return nil, err
	}
	var texts []Text
	for _, entry := range entries {
		isLicence := licenceFile.MatchString(entry.Name())
		if !entry.Type().IsRegular() || strings.HasSuffix(entry.Name(), ".go") || !isLicence && !noticeFile.MatchString(entry.Name()) {
			continue
		}
		file := filepath.Join(directory, entry.Name())
		body, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		name, err := filepath.Rel(base, file)
		if err != nil {
			return nil, err
		}
		text := Text{Name: filepath.ToSlash(name), Body: string(body)}
		if isLicence {
			if text.Licence, err = identify(body); err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
		}
		texts = append(texts, text)
	}
	return texts, nil
}

// identify returns the SPDX expression of the licences in a file. A link to a licence counts only
// if the file has no text of one.
func identify(body []byte) (string, error) {
	digest := sha256.Sum256(body)
	if id, ok := known[hex.EncodeToString(digest[:])]; ok {
		return id, nil
	}
	coverage := licensecheck.Scan(body)
	ids := map[bool][]string{}
	for _, match := range coverage.Match {
		ids[match.IsURL] = append(ids[match.IsURL], match.ID)
	}
	if len(ids[false]) == 0 || coverage.Percent < leastCoverage {
		return "", fmt.Errorf("the licence is not identified (%.0f%% of the file is the text of a known licence); replace the dependency, or read the file and add its SHA-256 %x to known in packaging/linked/licence.go", coverage.Percent, digest)
	}
	return conjunction(ids[false]), nil
}

// join returns the conjunction of the licences of several files.
func join(texts []Text) string {
	var ids []string
	for _, text := range texts {
		if text.Licence != "" {
			ids = append(ids, strings.Split(text.Licence, " AND ")...)
		}
	}
	return conjunction(ids)
}

func conjunction(ids []string) string {
	slices.Sort(ids)
	return strings.Join(slices.Compact(ids), " AND ")
}
