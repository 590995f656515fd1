package tpm

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/google/go-tpm/tpm2"

	"palyra/internal/core/reason"
)

// BlockType is the PEM type of a blob.
const BlockType = "TPM KEY"

// parentHeader is the header that identifies the storage root key: in hex, the number of the
// digest algorithm and the digest of its public area (TPM 2.0 Part 1, 16).
const parentHeader = "Parent"

// blob is the stored form of a key or a secret. The private part is encrypted and authenticated
// with the storage root key; the authentication also covers the public part.
type blob struct {
	parent  []byte
	public  tpm2.TPM2BPublic
	private tpm2.TPM2BPrivate
}

func (b blob) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{
		Type: BlockType, Headers: map[string]string{parentHeader: hex.EncodeToString(b.parent)},
		Bytes: append(tpm2.Marshal(b.public), tpm2.Marshal(b.private)...),
	})
}

// parse parses a blob. The blob must match the template: a key that was not created inside the
// TPM, or that may leave it, is refused.
func parse(text []byte, template tpm2.TPMTPublic) (blob, error) {
	b, err := parseBlock(text)
	if err == nil {
		err = b.isOf(template)
	}
	if err != nil {
		return blob{}, reason.Errorf(reason.ConfigInvalid, "reading a blob of a TPM: %w", err).
			WithRemedy("Restore the file from a backup of the state directory.")
	}
	return b, nil
}

func parseBlock(text []byte) (b blob, err error) {
	block, rest := pem.Decode(text)
	if block == nil || block.Type != BlockType || len(bytes.TrimSpace(rest)) > 0 {
		return b, fmt.Errorf("it is not one PEM block %q", BlockType)
	}
	if b.parent, err = hex.DecodeString(block.Headers[parentHeader]); err != nil || len(b.parent) == 0 {
		return b, errors.New("it does not name its storage root key")
	}
	public, rest, err := sized(block.Bytes)
	if err != nil {
		return b, err
	}
	private, rest, err := sized(rest)
	if err != nil || len(rest) > 0 {
		return b, errors.Join(err, errors.New("it is not one public and one private part"))
	}
	b.public, b.private = tpm2.BytesAs2B[tpm2.TPMTPublic](public), tpm2.TPM2BPrivate{Buffer: private}
	return b, nil
}

// sized splits off a buffer with a length prefix (TPM2B).
func sized(data []byte) (buffer, rest []byte, err error) {
	if len(data) < 2 || len(data)-2 < int(binary.BigEndian.Uint16(data)) {
		return nil, nil, errors.New("it is cut off")
	}
	end := 2 + int(binary.BigEndian.Uint16(data))
	return data[2:end], data[end:], nil
}

func (b *blob) isOf(template tpm2.TPMTPublic) error {
	public, err := b.public.Contents()
	if err != nil {
		return err
	}
	is := *public
	is.Unique = template.Unique // which key it is
	if !bytes.Equal(tpm2.Marshal(is), tpm2.Marshal(template)) {
		return errors.New("it is not of the required kind")
	}
	return nil
}
