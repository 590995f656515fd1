package vault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"palyra/internal/core/access"
	"palyra/internal/core/config"
	"palyra/internal/core/reason"
)

// Limits of secrets.
const (
	// MaxValue is the largest value in bytes.
	MaxValue = 64 << 10
	// KeptVersions is how many values of a secret are stored, including the newest.
	KeptVersions = 5
	// maxNote is the longest note in bytes, maxHosts the maximum number of hosts of a secret.
	maxNote  = 500
	maxHosts = 32
	// defaultHeader is the default header of a secret with hosts.
	defaultHeader = "Authorization"
)

// Past records when and by whom a version was put.
type Past struct {
	Version int              `json:"version"`
	At      time.Time        `json:"at"`
	By      access.Principal `json:"by"`
}

// Secret is the metadata of a secret. Times are in UTC.
type Secret struct {
	Ref Ref
	// Version is the newest version, counted from 1.
	Version              int
	CreatedAt, UpdatedAt time.Time
	// LastUsed is zero before the first use, ExpiresAt for a secret that does not expire.
	LastUsed, ExpiresAt time.Time
	Note                string
	// Hosts are host rules with a port, the only hosts that may receive the value, in Header.
	// Without hosts, the value is sent nowhere.
	Hosts  []string
	Header string
	// Env is the variable that gives a program the placeholder of a secret with hosts. A secret
	// without hosts is passed to a program by value, after approval: in the variable Env, or in the
	// file File, whose path Env then contains.
	Env, File string
	// Versions are the stored versions, oldest first.
	Versions []Past
	// Holder is the owner of the agent, or the id of the publisher's key of the skill, at the time
	// of the last put. It is "" for every other scope.
	Holder string
	// Ended is the reason why the secret must not be lent, or nil. Lists omit the metadata of an
	// ended secret.
	Ended *reason.Error
	// Unreadable is, in lists, the reason why the secret cannot be decrypted; nil otherwise. If it
	// is set, only Ref is known.
	Unreadable *reason.Error
}

// Expired reports whether the secret has expired at a time.
func (s Secret) Expired(now time.Time) bool { return !s.ExpiresAt.IsZero() && !now.Before(s.ExpiresAt) }

// past returns a stored version; 0 is the newest.
func (s Secret) past(version int) (Past, error) {
	for _, p := range s.Versions {
		if p.Version == version || version == 0 && p.Version == s.Version {
			return p, nil
		}
	}
	return Past{}, reason.Errorf(reason.NotFound, "version %[2]d of the secret %[1]s does not exist", s.Ref, version).
		WithRemedy("List the versions with `palyra vault history %s`.", s.Ref)
}

func expired(m Secret) error {
	return reason.Errorf(reason.SecretExpired, "the secret %s expired at %s", m.Ref, m.ExpiresAt.Format(time.RFC3339)).
		WithRemedy("Put a new value: `palyra vault put %s --expires DURATION`.", m.Ref)
}

// Metadata contains the metadata to set; nil members are unchanged.
type Metadata struct {
	Note *string
	// Expires is when the secret expires; the zero time means never.
	Expires *time.Time
	Hosts   *[]string
	Header  *string
	Env     *string
	File    *string
}

// apply returns m with the changes of set.
func (set Metadata) apply(m Secret) Secret {
	m.Note = or(set.Note, m.Note)
	m.ExpiresAt = or(set.Expires, m.ExpiresAt).UTC().Truncate(time.Microsecond)
	if set.Hosts != nil {
		m.Hosts = slices.Clone(*set.Hosts)
	}
	m.Header = or(set.Header, m.Header)
	m.Env, m.File = or(set.Env, m.Env), or(set.File, m.File)
	if len(m.Hosts) > 0 && m.Header == "" {
		m.Header = defaultHeader
	}
	return m
}

func or[T any](set *T, old T) T {
	if set != nil {
		return *set
	}
	return old
}

// checkMetadata validates requested metadata.
func checkMetadata(m Secret, now time.Time) error {
	switch {
	case len(m.Note) > maxNote || !utf8.ValidString(m.Note) || strings.ContainsFunc(m.Note, unicode.IsControl):
		return reason.Errorf(reason.InvalidInput, "a note must be one line of at most %d bytes", maxNote)
	case m.Expired(now):
		return reason.Errorf(reason.InvalidInput, "the secret %s would have expired at %s", m.Ref, m.ExpiresAt.Format(time.RFC3339)).
			WithRemedy("Set another time with --expires.")
	case len(m.Hosts) > maxHosts:
		return reason.Errorf(reason.InvalidInput, "%d hosts are too many; the limit is %d", len(m.Hosts), maxHosts)
	case m.File != "" && (!fileForm.MatchString(m.File) || config.Dots(m.File)):
		return reason.Errorf(reason.InvalidInput, "%q is not a valid file name", m.File).WithRemedy("Use 1 to 128 of a-z, A-Z, 0-9, '.', '_' and '-', and not '.' or '..' alone.")
	}
	if wrong := config.CheckPlaces(config.Secret{Hosts: m.Hosts, Header: m.Header, Env: m.Env}); len(wrong) > 0 {
		return reason.Errorf(reason.InvalidInput, "%s %s", wrong[0].Key, wrong[0].Message).WithRemedy("%s.", wrong[0].Remedy)
	}
	return nil
}

// checkValue validates a value. Its error does not contain the value.
func checkValue(m Secret, value []byte) error {
	switch {
	case len(value) == 0:
		return reason.Errorf(reason.InvalidInput, "the value is empty")
	case len(value) > MaxValue:
		return reason.Errorf(reason.InputTooLarge, "the value is larger than %d bytes", MaxValue)
	case len(m.Hosts) == 0:
		return nil
	}
	if problem := config.UnfitForHeader(value); problem != "" {
		return reason.Errorf(reason.InvalidInput, "the value of %s cannot be sent in the header %s: it %s", m.Ref, m.Header, problem).
			WithRemedy("Use a value that is valid in a header, or remove the hosts.")
	}
	return nil
}

// unreadable returns the error of a secret that cannot be decrypted, without its content.
func unreadable(r Ref, err error) *reason.Error {
	return reason.Errorf(reason.SecretUnreadable, "reading the secret %s: %w", r, err)
}

// keyTrouble adds the name of the secret to the error of an unavailable key.
func keyTrouble(r Ref, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	var known *reason.Error
	if errors.As(err, &known) {
		named := *known
		named.Message = fmt.Sprintf("reading the secret %s: %s", r, known.Message)
		return &named
	}
	return unreadable(r, err)
}
