package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// The types of an in-toto statement with SLSA provenance in an envelope.
// https://github.com/in-toto/attestation/tree/main/spec/v1, https://slsa.dev/spec/v1.0/provenance,
// https://github.com/secure-systems-lab/dsse
const (
	statementType = "application/vnd.in-toto+json"
	statementID   = "https://in-toto.io/Statement/v1"
	predicateID   = "https://slsa.dev/provenance/v1"
	buildType     = "https://palyra.dev/build/make-packages/v1"
)

type digests struct {
	SHA256 string `json:"sha256,omitempty"`
	Commit string `json:"gitCommit,omitempty"`
}

type resource struct {
	Name   string  `json:"name"`
	Digest digests `json:"digest"`
}

type statement struct {
	Type          string     `json:"_type"`
	Subject       []resource `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     predicate  `json:"predicate"`
}

type predicate struct {
	BuildDefinition struct {
		BuildType            string            `json:"buildType"`
		ExternalParameters   map[string]string `json:"externalParameters"`
		InternalParameters   map[string]string `json:"internalParameters"`
		ResolvedDependencies []resource        `json:"resolvedDependencies"`
	} `json:"buildDefinition"`
	RunDetails struct {
		Builder struct {
			ID string `json:"id"`
		} `json:"builder"`
		Metadata struct {
			StartedOn string `json:"startedOn"`
		} `json:"metadata"`
	} `json:"runDetails"`
}

type envelope struct {
	PayloadType string              `json:"payloadType"`
	Payload     []byte              `json:"payload"`
	Signatures  []envelopeSignature `json:"signatures"`
}

type envelopeSignature struct {
	KeyID     string `json:"keyid"`
	Signature []byte `json:"sig"`
}

// preAuthentication is what is signed of an envelope: PAE of the DSSE specification.
func preAuthentication(payloadType string, payload []byte) []byte {
	return fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(payloadType), payloadType, len(payload), payload)
}

// provenance returns the signed envelope with the statement of how the artifacts of SHA256SUMS were
// made. The time in it is that of the commit, so that the same commit gives the same bytes.
func provenance(o options, rel release, s *signer) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(o.out, sumsName))
	if err != nil {
		return nil, err
	}
	sums, err := readSums(data)
	if err != nil {
		return nil, err
	}
	text := statement{Type: statementID, PredicateType: predicateID}
	for _, sum := range sums {
		text.Subject = append(text.Subject, resource{Name: sum.name, Digest: digests{SHA256: sum.digest}})
	}
	build := &text.Predicate.BuildDefinition
	build.BuildType = buildType
	build.ExternalParameters = map[string]string{"target": "packages", "version": rel.version}
	build.InternalParameters = map[string]string{"go": runtime.Version(), "SOURCE_DATE_EPOCH": fmt.Sprint(rel.date.Unix())}
	build.ResolvedDependencies = []resource{{Name: "palyra", Digest: digests{Commit: rel.commit}}}
	// What was downloaded is pinned by these files.
	for _, lock := range []string{"go.sum", "packaging/go.sum", "packaging/linux/debian.lock", "scripts/node/package-lock.json", "web/package-lock.json"} {
		digest, err := digestOf(filepath.Join(o.root, lock))
		if err != nil {
			return nil, err
		}
		build.ResolvedDependencies = append(build.ResolvedDependencies, resource{Name: lock, Digest: digests{SHA256: digest}})
	}
	text.Predicate.RunDetails.Builder.ID = builderID(o.builder)
	text.Predicate.RunDetails.Metadata.StartedOn = rel.date.Format(time.RFC3339)
	payload, err := json.Marshal(text)
	if err != nil {
		return nil, err
	}
	signature, err := s.signECDSA(preAuthentication(statementType, payload))
	if err != nil {
		return nil, err
	}
	line, err := json.Marshal(envelope{PayloadType: statementType, Payload: payload, Signatures: []envelopeSignature{{Signature: signature}}})
	return append(line, '\n'), err
}

// builderID returns the URI of a builder, which the specification requires.
func builderID(builder string) string {
	if builder == "" {
		builder = "unknown"
	}
	if strings.Contains(builder, "://") {
		return builder
	}
	return "urn:palyra:builder:" + strings.ReplaceAll(builder, " ", "-")
}
