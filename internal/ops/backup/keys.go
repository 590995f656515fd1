package backup

import (
	"bytes"
	"fmt"
	"strings"

	"filippo.io/age"

	"palyra/internal/core/reason"
	"palyra/internal/core/statedir/keyfile"
)

// shortestPassphrase is in bytes: a backup can be guessed at for ever.
const shortestPassphrase = 16

// mostWork bounds what an archive has its reader do before the passphrase is tried: 2 to
// this power, of which each doubling is one of memory; 20 is 1 GiB. Backups are made with
// age's 18.
const mostWork = 20

// Recipients are for whom a backup is encrypted: the public keys that are given, or
// a passphrase from a private file.
func Recipients(public []string, passphraseFile string) ([]age.Recipient, error) {
	if (len(public) == 0) == (passphraseFile == "") {
		return nil, reason.Errorf(reason.InvalidInput, "say for whom the backup is encrypted, in one way").
			WithRemedy("Give --recipient age1... (made by age-keygen), or --passphrase-file FILE.")
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
			return nil, reason.Errorf(reason.InvalidInput, "--recipient: %w", err).WithRemedy("Give the public key that age-keygen shows; it begins with age1.")
		}
		list = append(list, parsed...)
	}
	return list, nil
}

// Identities decrypt a backup: those in a private file as age-keygen writes it, or a
// passphrase from one.
func Identities(identityFile, passphraseFile string) ([]age.Identity, error) {
	if (identityFile == "") == (passphraseFile == "") {
		return nil, reason.Errorf(reason.InvalidInput, "say what decrypts the backup, in one way").
			WithRemedy("Give --identity FILE, or --passphrase-file FILE.")
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
		return nil, reason.Errorf(reason.InvalidInput, "%s holds no identity as age-keygen writes it", identityFile).
			WithRemedy("Name the file that age-keygen wrote, with AGE-SECRET-KEY-1... in it.")
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
			WithRemedy("Write a longer one into %s, or use --recipient or --identity with a key of age-keygen.", path)
	}
	return line, nil
}

// private reads a file that nobody else may use.
func private(what, path string) ([]byte, error) {
	text, err := keyfile.Read(path)
	if err != nil && reason.Of(err) == reason.Internal { // the file system's own
		return nil, reason.Errorf(reason.InvalidInput, "reading the %s: %w", what, err).WithRemedy("Name a file that you may read.")
	}
	if err != nil {
		return nil, fmt.Errorf("reading the %s: %w", what, err)
	}
	return text, nil
}
