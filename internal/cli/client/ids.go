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
	// idLength is that of a ULID.
	idLength = 26
	// shortestPrefix is how much of an id is enough to look it up.
	shortestPrefix = 6
)

var idForm = lazyregexp.New(`^[0-9A-Z]+$`)

// IsID reports whether a word has the form of an id, or of the beginning of one, in any case.
func IsID(word string) bool {
	return len(word) >= shortestPrefix && len(word) <= idLength && idForm.MatchString(strings.ToUpper(word))
}

// findID completes an id of which a person gave the beginning, in any case.
// known lists the ids there are; it is asked only when part of the id is left
// away.
func findID(kind, given string, known func() ([]string, error)) (string, error) {
	id := strings.ToUpper(strings.TrimSpace(given))
	if !IsID(id) {
		return "", command.Usage("%q is not the id of any %s", given, kind).
			WithRemedy("Give its %d letters and digits, or at least the first %d.", idLength, shortestPrefix)
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
		return "", reason.Errorf(reason.NotFound, "there is no %s whose id begins with %s", kind, id)
	case 1:
		return found[0], nil
	}
	return "", command.Usage("%s of an id: %s begin with it", id, text.Plural(len(found), kind)).
		WithRemedy("Give more of it; they are %s.", strings.Join(found[:min(len(found), 5)], ", "))
}

// FindListed is findID among the ids of a list.
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
