package workshop

import (
	"encoding/binary"

	"palyra/internal/core/reason"
)

// headerSize is the magic number and the version of a module.
const headerSize = 8

// section is one section of a module.
type section struct {
	id byte
	// whole includes the id and the size; body does not.
	whole, body []byte
}

// sections splits a module into sections without parsing their content.
func sections(module []byte) ([]section, error) {
	if len(module) < headerSize || string(module[:4]) != "\x00asm" {
		return nil, reason.Errorf(reason.InvalidInput, "it is not a WebAssembly module").WithRemedy("Build it for wasm32: GOOS=wasip1 GOARCH=wasm, or --target=wasm32.")
	}
	var out []section
	for at := headerSize; at < len(module); {
		size, n := binary.Uvarint(module[at+1:])
		begin := at + 1 + n
		if n <= 0 || size > uint64(len(module)-begin) {
			return nil, reason.Errorf(reason.InvalidInput, "the module is malformed at byte %d: a section does not fit", at)
		}
		end := begin + int(size)
		out = append(out, section{module[at], module[at:end], module[begin:end]})
		at = end
	}
	return out, nil
}

// strip removes custom sections: names, debug information and producer data. Engines do not need
// them to run a module.
func strip(module []byte) ([]byte, error) {
	parts, err := sections(module)
	if err != nil {
		return nil, err
	}
	out := append([]byte(nil), module[:headerSize]...)
	for _, s := range parts {
		if s.id != 0 {
			out = append(out, s.whole...)
		}
	}
	return out, nil
}
