package takeover

import (
	"slices"
	"strings"

	"palyra/internal/core/lazyregexp"
)

var (
	// secretName matches the names of variables with secret values.
	secretName = lazyregexp.New(`(?i)(key|token|secret|passw|pwd|credential|auth|cookie|(^|_)pat($|_)|(^|_)pass($|_)|dsn|connection)`)
	// plainEver matches values that are not secret under any name: numbers, and yes or no.
	plainEver = lazyregexp.New(`^([-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?|(?i:true|false|yes|no|on|off|null)|)$`)
	// plainValue matches values that are not secret: words and lists of them, numbers with a unit,
	// versions, paths, and URLs without a user.
	plainValue = lazyregexp.New(`^([A-Za-z][A-Za-z_-]{0,30}(,[A-Za-z][A-Za-z_-]{0,30})*|[0-9]{1,12}(\.[0-9]{1,6}){0,3}[A-Za-z%]{0,3}|/[^\s@]*|https?://[^\s@?#]*)$`)
	// plainSetting matches displays of X, hosts with a port, locales, encodings and time zones.
	plainSetting = lazyregexp.New(`^((localhost|127\.0\.0\.1|\[::1\]|unix)?:[0-9]{1,5}(\.[0-9])?|[A-Za-z]{2,3}_[A-Z]{2}(\.[A-Za-z0-9-]{1,10})?|(?i:utf-?8)|[A-Z][A-Za-z_]{1,20}/[A-Z][A-Za-z_]{1,20})$`)
	// option matches a word of a list of options, such as NODE_OPTIONS.
	option = lazyregexp.New(`^(--[A-Za-z][A-Za-z0-9.-]{0,40}|-X[a-z]{2}[0-9]{1,6}[kKmMgG]?|-D[A-Za-z][A-Za-z.-]{0,40}|-[A-Za-z]{1,12})$`)
)

// isSecret reports whether a variable contains a secret; ambiguous values count as secrets.
func isSecret(name, value string) bool {
	if plainEver.MatchString(value) {
		return false
	}
	return secretName.MatchString(name) || !isPlain(value) && !plainOptions(value)
}

func isPlain(value string) bool {
	return plainEver.MatchString(value) || plainValue.MatchString(value) || plainSetting.MatchString(value)
}

// plainOptions reports whether a value is a list of options with plain values.
func plainOptions(value string) bool {
	words := strings.Fields(value)
	return len(words) > 0 && strings.HasPrefix(words[0], "-") && !slices.ContainsFunc(words, func(word string) bool {
		name, given, _ := strings.Cut(word, "=")
		if !strings.HasPrefix(word, "-") {
			return !isPlain(word)
		}
		return secretName.MatchString(name) || !option.MatchString(name) || !isPlain(given)
	})
}
