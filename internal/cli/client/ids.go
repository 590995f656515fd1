package client

import (
	"slices"
	"strings"

	"palyra/internal/cli/command"
	"palyra/internal/core/lazyregexp"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
)

const (
	// idLength is the length of a ULID.
	idLength = 26
	// shortestPrefix is the shortest prefix of an id that is looked up.
	shortestPrefix = 6
)

var idForm = lazyregexp.New(`^[0-9A-Z]+$`)

// IsID reports whether a word has the form of an id or its prefix, in any case.
func IsID(word string) bool {
	return len(word) >= shortestPrefix && len(word) <= idLength && idForm.MatchString(strings.ToUpper(word))
}

// findID completes an id from its prefix, in any case. known lists the existing ids; it is called
// only for a prefix.
func findID(kind, given string, known func() ([]string, error)) (string, error) {
	id := strings.ToUpper(strings.TrimSpace(given))
	if !IsID(id) {
		return "", command.Usage("%q is not the id of any %s", given, kind).
			WithRemedy("Specify its %d letters and digits, or at least the first %d.", idLength, shortestPrefix)
	}
	if len(id) == idLength {
		return id, nil
	}
	all, err := known()
	if err != nil {
		return "", err
	}
	var found []string
	for _, one := range all {
		if strings.HasPrefix(one, id) && !slices.Contains(found, one) {
			found = append(found, one)
		}
	}
	switch len(found) {
	case 0:
		return "", reason.Errorf(reason.NotFound, "no %s has an id that begins with %s", kind, id)
	case 1:
		return found[0], nil
	}
	return "", command.Usage("%s of an id: %s begin with it", id, text.Plural(len(found), kind)).
		WithRemedy("Specify more characters; the ids are %s.", strings.Join(found[:min(len(found), 5)], ", "))
}

// FindListed is findID for the ids of a list.
func FindListed[T any](kind, given string, page Pages[T], ids ...func(T) string) (string, error) {
	return findID(kind, given, func() ([]string, error) {
		list, _, err := Collect(0, page)
		var all []string
		for _, v := range list {
			for _, id := range ids {
				all = append(all, id(v))
			}
		}
		return all, err
	})
}
