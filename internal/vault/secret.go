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

// Bounds of secrets.
const (
	// MaxValue is the largest value in bytes.
	MaxValue = 64 << 10
	// KeptVersions is how many values of a secret are kept, the newest included.
	KeptVersions = 5
	// maxNote is the longest note in bytes, maxHosts the most hosts of one secret.
	maxNote  = 500
	maxHosts = 32
	// defaultHeader is where a secret with hosts travels if nobody says.
	defaultHeader = "Authorization"
)

// Past says when a version was made, and by whom.
type Past struct {
	Version int              `json:"version"`
	At      time.Time        `json:"at"`
	By      access.Principal `json:"by"`
}

// Secret is what is known of a secret beside its value. Times are in UTC.
type Secret struct {
	Ref Ref
	// Version is the newest one, counted from 1.
	Version              int
	CreatedAt, UpdatedAt time.Time
	// LastUsed is zero before the first use, ExpiresAt for one that does not expire.
	LastUsed, ExpiresAt time.Time
	Note                string
	// Hosts are host rules with a port, the only ones that may get the value, in
	// Header. Without any it goes nowhere.
	Hosts  []string
	Header string
	// Env is the variable in which a program finds the placeholder of a secret with
	// hosts. A program gets one without hosts as it is, once somebody approved that: in
	// the variable Env, or in the file File, whose path Env then has.
	Env, File string
	// Versions are those that are kept, oldest first.
	Versions []Past
	// Holder is the owner of the agent, or the id of the publisher's key of the skill, at
	// the time of the last put; "" for every other scope.
	Holder string
	// Ended is why the secret is not lent any more; nil for all others. Lists leave its
	// metadata out.
	Ended *reason.Error
	// Unreadable is why the secret cannot be opened, in lists; nil for all others.
	// Nothing else but Ref is known then.
	Unreadable *reason.Error
}

// Expired reports whether the secret ended before a time.
func (s Secret) Expired(now time.Time) bool { return !s.ExpiresAt.IsZero() && !now.Before(s.ExpiresAt) }

// Metadata is what somebody sets beside a value; nil leaves it as it is.
type Metadata struct {
	Note *string
	// Expires is when the secret ends; the zero time is never.
	Expires *time.Time
	Hosts   *[]string
	Header  *string
	Env     *string
	File    *string
}

// apply returns m with what is set.
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

// checkMetadata says what is wrong with metadata that somebody asks for.
func checkMetadata(m Secret, now time.Time) error {
	switch {
	case len(m.Note) > maxNote || !utf8.ValidString(m.Note) || strings.ContainsFunc(m.Note, unicode.IsControl):
		return reason.Errorf(reason.InvalidInput, "a note is one line of at most %d bytes", maxNote)
	case m.Expired(now):
		return reason.Errorf(reason.InvalidInput, "the secret %s would have expired at %s", m.Ref, m.ExpiresAt.Format(time.RFC3339)).
			WithRemedy("Say until when it holds, with --expires.")
	case len(m.Hosts) > maxHosts:
		return reason.Errorf(reason.InvalidInput, "%d hosts are too many; the limit is %d", len(m.Hosts), maxHosts)
	case m.File != "" && (!fileForm.MatchString(m.File) || config.Dots(m.File)):
		return reason.Errorf(reason.InvalidInput, "%q is no name of a file", m.File).WithRemedy("Use 1 to 128 of a-z, A-Z, 0-9, '.', '_' and '-', and not '.' or '..' alone.")
	}
	if wrong := config.CheckPlaces(config.Secret{Hosts: m.Hosts, Header: m.Header, Env: m.Env}); len(wrong) > 0 {
		return reason.Errorf(reason.InvalidInput, "%s %s", wrong[0].Key, wrong[0].Message).WithRemedy("%s.", wrong[0].Remedy)
	}
	return nil
}

// checkValue says what is wrong with a value, and never what it is.
func checkValue(m Secret, value []byte) error {
	switch {
	case len(value) == 0:
		return reason.Errorf(reason.InvalidInput, "the value is empty")
	case len(value) > MaxValue:
		return reason.Errorf(reason.InputTooLarge, "the value has more than %d bytes", MaxValue)
	case len(m.Hosts) == 0:
		return nil
	}
	if problem := config.UnfitForHeader(value); problem != "" {
		return reason.Errorf(reason.InvalidInput, "the value of %s cannot travel in the header %s: it %s", m.Ref, m.Header, problem).
			WithRemedy("Give it a value that a header can hold, or no hosts.")
	}
	return nil
}

// unreadable names the secret that cannot be opened, and not what it holds.
func unreadable(r Ref, err error) *reason.Error {
	return reason.Errorf(reason.SecretUnreadable, "the secret %s cannot be read: %w", r, err)
}

// keyTrouble is the error of a key that could not be had, with the name of the secret.
func keyTrouble(r Ref, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	var known *reason.Error
	if errors.As(err, &known) {
		named := *known
		named.Message = fmt.Sprintf("the secret %s cannot be read: %s", r, known.Message)
		return &named
	}
	return unreadable(r, err)
}
