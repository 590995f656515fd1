package backup

import (
	"bytes"
	"fmt"
	"strings"

	"filippo.io/age"

	"palyra/internal/core/reason"
	"palyra/internal/core/statedir/keyfile"
)

// shortestPassphrase is the minimum length of a passphrase in bytes, because a backup can be
// attacked offline without limit.
const shortestPassphrase = 16

// mostWork bounds the work factor that an archive can require before the passphrase is tried.
// The work is 2 to this power, with proportional memory: 1 GiB for 20. Backups use age's 18.
const mostWork = 20

// Recipients returns the recipients of a backup: the given public keys, or a passphrase from a
// private file.
func Recipients(public []string, passphraseFile string) ([]age.Recipient, error) {
	if (len(public) == 0) == (passphraseFile == "") {
		return nil, reason.Errorf(reason.InvalidInput, "specify either recipients or a passphrase").
			WithRemedy("Use --recipient age1... (created by age-keygen), or --passphrase-file FILE.")
	}
	if passphraseFile != "" {
		text, err := passphrase(passphraseFile)
		if err != nil {
			return nil, err
		}
		one, err := age.NewScryptRecipient(text)
		return []age.Recipient{one}, err
	}
	var list []age.Recipient
	for _, text := range public {
		parsed, err := age.ParseRecipients(strings.NewReader(text))
		if err != nil {
			return nil, reason.Errorf(reason.InvalidInput, "--recipient: %w", err).WithRemedy("Specify the public key that age-keygen prints; it begins with age1.")
		}
		list = append(list, parsed...)
	}
	return list, nil
}

// Identities returns the identities that decrypt a backup: those in a private file of age-keygen,
// or a passphrase from a file.
func Identities(identityFile, passphraseFile string) ([]age.Identity, error) {
	if (identityFile == "") == (passphraseFile == "") {
		return nil, reason.Errorf(reason.InvalidInput, "specify either an identity or a passphrase").
			WithRemedy("Use --identity FILE, or --passphrase-file FILE.")
	}
	if passphraseFile != "" {
		text, err := passphrase(passphraseFile)
		if err != nil {
			return nil, err
		}
		one, err := age.NewScryptIdentity(text)
		if err != nil {
			return nil, err
		}
		one.SetMaxWorkFactor(mostWork)
		return []age.Identity{one}, nil
	}
	text, err := private("identity", identityFile)
	if err != nil {
		return nil, err
	}
	list, err := age.ParseIdentities(bytes.NewReader(text))
	if err != nil {
		// The cause may quote the file.
		return nil, reason.Errorf(reason.InvalidInput, "%s does not contain an identity of age-keygen", identityFile).
			WithRemedy("Specify the file that age-keygen wrote; it contains AGE-SECRET-KEY-1...")
	}
	return list, nil
}

func passphrase(path string) (string, error) {
	text, err := private("passphrase", path)
	if err != nil {
		return "", err
	}
	line := strings.TrimRight(string(text), "\r\n")
	if len(line) < shortestPassphrase || strings.ContainsAny(line, "\r\n") {
		return "", reason.Errorf(reason.InvalidInput, "the passphrase is not one line of at least %d bytes", shortestPassphrase).
			WithRemedy("Write a longer one to %s, or use --recipient or --identity with a key of age-keygen.", path)
	}
	return line, nil
}

// private reads a file that is accessible to its owner only.
func private(what, path string) ([]byte, error) {
	text, err := keyfile.Read(path)
	if err != nil && reason.Of(err) == reason.Internal { // an error of the file system
		return nil, reason.Errorf(reason.InvalidInput, "reading the %s: %w", what, err).WithRemedy("Specify a readable file.")
	}
	if err != nil {
		return nil, fmt.Errorf("reading the %s: %w", what, err)
	}
	return text, nil
}
