package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	sumsName     = "SHA256SUMS"
	programsName = "SHA256SUMS.programs"
)

// digestOf returns the SHA-256 of a file in hexadecimal digits.
func digestOf(name string) (string, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

// isSigned reports whether a file is made after the lists: a list, a signature, a public key or the
// provenance.
func isSigned(name string) bool {
	for _, list := range []string{sumsName, programsName} {
		if name == list || name == list+".sig" || name == list+".minisig" {
			return true
		}
	}
	return name == ecdsaPublic || name == minisignPublic || strings.HasSuffix(name, ".intoto.jsonl")
}

// writeSums writes both lists in the format of sha256sum: of the artifacts, and of the programs in
// them, by which `palyra version --verify` recognizes the program that runs.
func writeSums(o options) error {
	found, err := os.ReadDir(o.out)
	if err != nil {
		return err
	}
	var artifacts []string
	for _, e := range found {
		if !isSigned(e.Name()) {
			artifacts = append(artifacts, e.Name())
		}
	}
	var staged []string
	for _, p := range platforms {
		for _, name := range programs(p) {
			staged = append(staged, folder(p)+"/"+name)
		}
	}
	if err := writeList(filepath.Join(o.out, programsName), o.stage, staged); err != nil {
		return err
	}
	return writeList(filepath.Join(o.out, sumsName), o.out, append(artifacts, programsName))
}

func writeList(name, folder string, files []string) error {
	slices.Sort(files)
	var out bytes.Buffer
	for _, file := range files {
		digest, err := digestOf(filepath.Join(folder, filepath.FromSlash(file)))
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "%s  %s\n", digest, file)
	}
	return writeFile(name, out.Bytes(), 0o644)
}

// A sum is a line of a list.
type sum struct{ digest, name string }

var sumLine = regexp.MustCompile(`^([0-9a-f]{64})  ([A-Za-z0-9][A-Za-z0-9._~+-]*)$`)

// readSums parses SHA256SUMS.
func readSums(data []byte) ([]sum, error) {
	var sums []sum
	seen := make(map[string]bool)
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		m := sumLine.FindStringSubmatch(lines.Text())
		if m == nil || seen[m[2]] {
			return nil, fmt.Errorf("%s: %q is not a line of a list, or names a file twice", sumsName, lines.Text())
		}
		seen[m[2]] = true
		sums = append(sums, sum{digest: m[1], name: m[2]})
	}
	if len(sums) == 0 {
		return nil, fmt.Errorf("%s is empty", sumsName)
	}
	return sums, lines.Err()
}

// list prints name, size and digest of what is in the folder.
func list(_ context.Context, o options) error {
	found, err := os.ReadDir(o.out)
	if err != nil {
		return err
	}
	for _, e := range found {
		info, err := e.Info()
		if err != nil {
			return err
		}
		digest, err := digestOf(filepath.Join(o.out, e.Name()))
		if err != nil {
			return err
		}
		fmt.Printf("%-52s %12d  %s\n", e.Name(), info.Size(), digest)
	}
	return nil
}

// verify checks the signatures with the public keys, and then every artifact of the list.
func verify(_ context.Context, o options) error {
	if err := o.keys.verify(o.out); err != nil {
		return err
	}
	data, err := os.ReadFile(filepath.Join(o.out, sumsName))
	if err != nil {
		return err
	}
	sums, err := readSums(data)
	if err != nil {
		return err
	}
	var problems []error
	listed := make(map[string]bool)
	for _, s := range sums {
		listed[s.name] = true
		digest, err := digestOf(filepath.Join(o.out, s.name))
		if err != nil {
			problems = append(problems, err)
		} else if digest != s.digest {
			problems = append(problems, fmt.Errorf("%s has the digest %s, and %s lists %s: download it again", s.name, digest, sumsName, s.digest))
		}
	}
	found, err := os.ReadDir(o.out)
	problems = append(problems, err)
	for _, e := range found {
		if !isSigned(e.Name()) && !listed[e.Name()] {
			problems = append(problems, fmt.Errorf("%s is not in %s: it does not belong to the release", e.Name(), sumsName))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	fmt.Printf("%d artifacts have the digests of the signed list\n", len(sums))
	return nil
}
