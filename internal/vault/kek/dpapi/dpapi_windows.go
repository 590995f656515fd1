package dpapi

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Protect encrypts a text for the user of this process. Decryption needs the same about.
func Protect(text, about []byte) ([]byte, error) {
	var out windows.DataBlob
	if err := windows.CryptProtectData(blob(text), nil, blob(about), 0, nil, windows.CRYPTPROTECT_UI_FORBIDDEN, &out); err != nil {
		return nil, err
	}
	return taken(&out)
}

// Unprotect decrypts a text of Protect.
func Unprotect(protected, about []byte) ([]byte, error) {
	if len(protected) == 0 {
		return nil, errors.New("the text is empty")
	}
	var out windows.DataBlob
	if err := windows.CryptUnprotectData(blob(protected), nil, blob(about), 0, nil, windows.CRYPTPROTECT_UI_FORBIDDEN, &out); err != nil {
		return nil, err
	}
	return taken(&out)
}

func blob(text []byte) *windows.DataBlob {
	if len(text) == 0 {
		return &windows.DataBlob{}
	}
	return &windows.DataBlob{Size: uint32(len(text)), Data: &text[0]} //nolint:gosec // the texts are small
}

// taken copies a buffer that Windows allocated, and frees it.
func taken(b *windows.DataBlob) ([]byte, error) {
	theirs := unsafe.Slice(b.Data, b.Size)
	ours := append([]byte(nil), theirs...)
	clear(theirs)
	_, err := windows.LocalFree(windows.Handle(unsafe.Pointer(b.Data)))
	return ours, err
}
