// Package canonical reads JSON strictly and writes it in RFC 8785 form (JSON Canonicalization
// Scheme), the only form over which digests are computed.
//
// Text that two parsers could read differently is refused, not repaired: duplicate keys,
// invalid UTF-8, lone surrogates, NUL characters, numbers that a double cannot hold exactly,
// and nesting beyond MaxDepth.
package canonical

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"palyra/internal/core/text"
)

// Limits on what JSON accepts.
const (
	// MaxDepth is the deepest nesting of objects and arrays.
	MaxDepth = 64
	// MaxSize is the largest text in bytes: 1 MiB, the limit of a tool's input.
	MaxSize = 1 << 20
)

// The errors of refused texts, for errors.Is.
var (
	ErrSyntax       = errors.New("not valid JSON")
	ErrTooLarge     = errors.New("JSON text is larger than 1 MiB")
	ErrTooDeep      = fmt.Errorf("JSON is nested deeper than %d levels", MaxDepth)
	ErrDuplicateKey = errors.New("duplicate object key")
	ErrUTF8         = errors.New("invalid UTF-8 or lone surrogate")
	ErrNUL          = errors.New("NUL character in a string")
	ErrNumber       = errors.New("number cannot be represented exactly as a double")
)

// JSON returns the RFC 8785 form of one JSON value of at most MaxSize bytes. The error gives
// the position of the defect and wraps one of the package's errors.
func JSON(text []byte) ([]byte, error) {
	if len(text) > MaxSize {
		return nil, fmt.Errorf("%w: %d bytes", ErrTooLarge, len(text))
	}
	if plain(text) {
		return bytes.Clone(text), nil
	}
	if out, ok := rewrite(text); ok {
		return out, nil
	}
	if err := check(text); err != nil {
		return nil, err
	}
	value := jsontext.Value(bytes.Clone(text))
	if err := value.Canonicalize(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSyntax, err)
	}
	return value, nil
}

// Marshal encodes a Go value and returns its RFC 8785 form. It is for values that the gateway
// creates, and has no size limit.
func Marshal(v any) ([]byte, error) {
	var out []byte
	if inOnePass(v, func(text []byte) { out = bytes.Clone(text) }) {
		return out, nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", v, err)
	}
	if out, ok := rewrite(text); ok {
		return out, nil
	}
	value := jsontext.Value(text)
	if err := value.Canonicalize(); err != nil {
		return nil, fmt.Errorf("canonical form of %T: %w", v, err)
	}
	return value, nil
}

// Digest returns "sha256:" and the lower-case hex SHA-256 of text.
func Digest(text []byte) string {
	const scheme = "sha256:"
	var digest [len(scheme) + 2*sha256.Size]byte
	sum := sha256.Sum256(text)
	hex.Encode(digest[copy(digest[:], scheme):], sum[:])
	return string(digest[:])
}

// DigestOf returns the Digest of Marshal(v).
func DigestOf(v any) (string, error) {
	var digest string
	if inOnePass(v, func(text []byte) { digest = Digest(text) }) {
		return digest, nil
	}
	text, err := Marshal(v)
	if err != nil {
		return "", err
	}
	return Digest(text), nil
}

func check(text []byte) error {
	dec := jsontext.NewDecoder(bytes.NewReader(text))
	for {
		tok, err := dec.ReadToken()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return syntaxError(err)
		}
		if dec.StackDepth() > MaxDepth {
			return fmt.Errorf("%w at byte %d", ErrTooDeep, dec.InputOffset())
		}
		if err := checkToken(tok); err != nil {
			return fmt.Errorf("%w at %s (byte %d)", err, pointer(dec), dec.InputOffset())
		}
		if dec.StackDepth() == 0 {
			return trailing(dec)
		}
	}
	return fmt.Errorf("%w: empty text", ErrSyntax)
}

func checkToken(tok jsontext.Token) error {
	switch tok.Kind() {
	case '"':
		if strings.ContainsRune(tok.String(), 0) {
			return ErrNUL
		}
	case '0':
		if !roundTrips(tok.String()) {
			return fmt.Errorf("%w: %s (send it as a string)", ErrNumber, text.Ellipsis(tok.String(), 80))
		}
	}
	return nil
}

func trailing(dec *jsontext.Decoder) error {
	_, err := dec.ReadToken()
	if errors.Is(err, io.EOF) {
		return nil
	}
	return fmt.Errorf("%w: text after the value at byte %d", ErrSyntax, dec.InputOffset())
}

func pointer(dec *jsontext.Decoder) string {
	if p := dec.StackPointer(); p != "" {
		return text.Ellipsis(string(p), 80)
	}
	return "the top level"
}

func syntaxError(err error) error {
	kind := ErrSyntax
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		kind = ErrDuplicateKey
	case strings.Contains(err.Error(), "UTF-8"), strings.Contains(err.Error(), "surrogate"):
		kind = ErrUTF8
	}
	return fmt.Errorf("%w: %s", kind, strings.TrimPrefix(err.Error(), "jsontext: "))
}

// roundTrips reports whether the decimal text has exactly the value that the nearest double
// prints as: 0.1 and 1e2 do, 9007199254740993 and 1e400 do not.
func roundTrips(text string) bool {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return false
	}
	return normalDecimal(text) == normalDecimal(strconv.FormatFloat(f, 'e', -1, 64))
}

// normalDecimal writes a JSON number as its digits without leading or
// trailing zeros, and the power of ten of the last digit.
func normalDecimal(text string) string {
	text = strings.ToLower(text)
	mantissa, exponent, _ := strings.Cut(text, "e")
	power := 0
	if exponent != "" {
		n, err := strconv.Atoi(exponent)
		if err != nil {
			return text
		}
		power = n
	}
	sign := ""
	if strings.HasPrefix(mantissa, "-") {
		sign, mantissa = "-", mantissa[1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	power -= len(fraction)
	trimmed := strings.TrimRight(digits, "0")
	power += len(digits) - len(trimmed)
	if trimmed == "" {
		return "0"
	}
	return sign + trimmed + "e" + strconv.Itoa(power)
}
